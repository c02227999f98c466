"""Have real Flink write the fixtures (see README.md).

Run as `python -m tests.helpers.flink.make_fixtures [--release R] [--case C]`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.helpers.fixture_archives import SUFFIX, pack
from tests.helpers.flink.cases import CHANGELOG, FILES, INCREMENTAL, JOBS, RELEASES, ROCKSDB_TIMERS, Case, cases
from tests.helpers.flink.chains import Chain, Stage, chains
from tests.helpers.flink.compilation import JAVA, fixtures_path
from tests.helpers.flink.jars import line_number
from tests.helpers.flink.publication import publish, written
from tests.helpers.paths import FIXTURE_ARCHIVES
from tests.helpers.quick_java import QUICK_JAVA

RUN_ROOT = Path("/tmp/stateproc-fixtures")
"""Where Flink writes; fixed, because absolute URIs inside the snapshots name it."""


def backend_options(case: Case, release: str) -> list[tuple[str, str]]:
    """The options that choose the state backend, whose names changed in 1.13 and 2.0."""
    name = case.backend
    if name == "hashmap" and line_number(release) < (1, 13):
        name = "filesystem"
    return [("state.backend" if line_number(release) < (2, 0) else "state.backend.type", name)]


def plan_lines(case: Case, release: str) -> list[str]:
    """The case as lines of the plan that `fixtures.Runner` reads: one, or one for each stage of a chain."""
    stages = case.stages if isinstance(case, Chain) else [Stage(case.parallelism, case.snapshot)]
    return [_plan_line(case, stage, release) for stage in stages]


def _plan_line(case: Case, stage: Stage, release: str) -> str:
    fields = [case.name, *JOBS[case.job], stage.steps, str(stage.parallelism), str(case.max_parallelism)]
    options = [*backend_options(case, release), *case.options, *stage.options]
    return "\t".join([*fields, str(case.compression).lower(), *(f"{key}={value}" for key, value in options)])


def write(release: str, wanted: list[Case], root: Path, class_path: str) -> list[Case]:
    """Runs cases in one JVM, each in a folder of its own in `root`; returns those that worked."""
    for case in wanted:
        shutil.rmtree(root / case.name, ignore_errors=True)
    root.mkdir(parents=True, exist_ok=True)
    plan = root / "plan.tsv"
    plan.write_text("\n".join(line for case in wanted for line in plan_lines(case, release)) + "\n")
    subprocess.run([*JAVA, *QUICK_JAVA, "-cp", class_path, "fixtures.Runner", str(plan), str(root)], check=False)
    return [case for case in wanted if written(case, root / case.name)]


def run(release: str, wanted: list[Case]) -> list[str]:
    """Has the cases written and publishes those that worked; returns the names of the others."""
    root = RUN_ROOT / release
    done = write(release, wanted, root, fixtures_path(release))
    for case in done:
        home = FIXTURE_ARCHIVES / release / case.name
        if home.is_dir():
            publish(case, release, root / case.name, home)
            continue
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory) / case.name
            publish(case, release, root / case.name, folder)
            pack(folder, home.with_name(case.name + SUFFIX))
    return [case.name for case in wanted if case not in done]


BIG = {
    "canonical": Case("big", "", "hashmap", "canonical", options=FILES),
    "incremental": Case("big", "", "rocksdb", "checkpoint", options=FILES + INCREMENTAL + ROCKSDB_TIMERS),
    "heap": Case("big", "", "hashmap", "checkpoint", options=FILES),
    "changelog": Case("big", "", "hashmap", "checkpoint", options=FILES + CHANGELOG),
}
"""Formats of the snapshot of many keys: a canonical savepoint; checkpoints of RocksDB, of the heap, and of a changelog
that contains every change."""


def write_big(release: str, keys: int, out: Path, form: str = "canonical") -> None:
    """Writes one value state with `keys` keys to `out`, not to the repository, in one of the formats of `BIG`."""
    case = BIG[form]
    root = out.resolve()
    shutil.rmtree(root / "big", ignore_errors=True)
    root.mkdir(parents=True, exist_ok=True)
    plan = root / "plan.tsv"
    plan.write_text("\n".join(plan_lines(case, release)) + "\n")
    memory = f"-Xmx{2 + keys // 1_000_000}g"
    limits = [f"-Dfixtures.keys={keys}", "-Dfixtures.limit=1800000"]
    command = [*JAVA, memory, *limits, "-cp", fixtures_path(release), "fixtures.Runner", str(plan), str(root)]
    subprocess.run(command, check=True)
    print((root / "big" / "snapshot.path").read_text().strip())


def main() -> int:
    """Parses the arguments and runs; the exit code is 1 when a case failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", action="append", choices=list(RELEASES), help="default: all")
    parser.add_argument("--case", action="append", help="default: all cases of the release")
    parser.add_argument("--big", type=int, metavar="KEYS", help="write this many keys to --out")
    parser.add_argument("--format", choices=list(BIG), default="canonical", help="with --big")
    parser.add_argument("--incremental", action="store_const", dest="format", const="incremental")
    parser.add_argument("--out", type=Path, help="where --big writes")
    arguments = parser.parse_args()
    if arguments.big is not None:
        if arguments.out is None:
            parser.error("--big needs --out")
        release = (arguments.release or ["1.20"])[0]
        write_big(release, arguments.big, arguments.out, arguments.format)
        return 0
    failed = []
    for release in arguments.release or list(RELEASES):
        every = [*cases(release), *chains(release)]
        wanted = [case for case in every if not arguments.case or case.name in arguments.case]
        failed += [f"{release}/{name}" for name in run(release, wanted)]
    print("failed:" if failed else "all written", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
