"""Fuzz the readers, led by coverage: ``make fuzz``, or ``python -m tests.fuzz [--seconds N] [TARGET …]``.

Each target runs in a child process, because libFuzzer ends a process at a crash, and after five seconds in one input;
it is started again until its time is over. Inputs begin with what Flink and connectors wrote and with those of
``tests/vectors/fuzzing.tar.xz``, which earlier runs found to reach more; ``--keep`` adds the new ones of this run.
Findings are files in ``.cache/fuzzing/<target>/findings``: an input, and beside it in ``.txt`` what came of it;
``--check FILE TARGET`` reads one again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.corpus import ARCHIVE, archived, write_archive
from tests.helpers.damage.mutations import MUTATIONS
from tests.helpers.paths import ROOT

FOLDER = ROOT / ".cache" / "fuzzing"
NAMES = (
    "metadata", "headers", "canonical", "heap", "operator-state", "timers", "rocksdb", "changelog", "serializers",
    "values", "kryo", "avro", "row-data", "java-objects", "connectors", "jobs", "conditions", "plans",
)  # fmt: skip
"""The targets: their module is imported by children only, where it is instrumented."""
MOST_INPUT = 1 << 17
MOST_KEPT = 1 << 12
"""Larger inputs are not kept: the archive is part of the repository."""
SECONDS, MOST_BYTES = 5, 256 << 20
"""What one input may take."""
_MOST_CRASHES = 20


@dataclass(frozen=True)
class Result:
    """What came of a target: executions, edges of the program that they reached, findings."""

    name: str
    executions: int
    coverage: int
    findings: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, or read one input again; return 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="per target")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    parser.add_argument("--checked", action="store_true", help="kernels are plain Python over checked memory: slow")
    parser.add_argument("--keep", action="store_true", help=f"add what reaches more to {ARCHIVE.name}")
    parser.add_argument("--child", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument(
        "--compare", action="store_true", help="read the archived inputs with compiled and with plain kernels"
    )
    parser.add_argument("--check", type=Path, help="read this input again; needs one target")
    parser.add_argument("targets", nargs="*", help="of: " + ", ".join(NAMES))
    given = parser.parse_args(arguments)
    if unknown := set(given.targets) - set(NAMES):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if given.child:
        return _child(given.child, given.seconds, is_checked=given.checked)
    if given.check:
        from tests.fuzz.targets import TARGETS

        problem = TARGETS[given.targets[0]].problem(given.check.read_bytes())
        print(problem or "no finding")
        return int(problem is not None)
    known = archived()
    if given.compare:
        return _compare(known, given.targets or NAMES)
    with ThreadPoolExecutor(given.jobs) as pool:
        runs = pool.map(
            lambda name: _run(name, given.seconds, known.get(name, ()), given.checked), given.targets or NAMES
        )
        results = list(runs)
    print(f"\n{'target':<16}{'executions':>12}{'coverage':>10}{'findings':>10}")
    for result in results:
        print(f"{result.name:<16}{result.executions:>12,}{result.coverage:>10,}{result.findings:>10}")
    print(f"{'all':<16}{sum(result.executions for result in results):>12,}")
    if given.keep:
        write_archive({name: [*known.get(name, ()), *_grown(name, known.get(name, ()))] for name in NAMES})
    return int(any(result.findings or not result.coverage for result in results))


def _compare(known: Mapping[str, Sequence[bytes]], names: Sequence[str]) -> int:
    """Print the inputs of which compiled kernels and plain Python over checked memory make something else."""
    different = 0
    for name in names:
        fast = _outcomes(name, known.get(name, ()))
        with checked():
            slow = _outcomes(name, known.get(name, ()))
        pairs = list(zip(fast, slow, strict=True))
        for number, (one, two) in enumerate(pairs):
            if one != two:
                different += 1
                print(f"{name} {number}:\n  compiled: {one[:1000]}\n  plain:    {two[:1000]}", flush=True)
        print(f"{name}: {len(pairs)} inputs compared", flush=True)
    return int(different > 0)


def _outcomes(name: str, inputs: Sequence[bytes]) -> list[str]:
    from tests.fuzz.targets import TARGETS

    return [TARGETS[name].shown(data) for data in inputs]


@contextmanager
def checked() -> Iterator[None]:
    """Run kernels as plain Python over checked memory."""
    from tests.helpers.damage.checked_kernels import checked_kernels
    from tests.helpers.damage.checked_reader_kernels import checked_reader_kernels

    with checked_kernels(), checked_reader_kernels():
        yield


def _run(name: str, seconds: int, known: Sequence[bytes], checked: bool) -> Result:
    """Fuzz one target."""
    folder = FOLDER / name
    for part in ("seeds", "corpus", "findings"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for data in known:
        (folder / "seeds" / _digest(data)).write_bytes(data)
    before = set((folder / "findings").iterdir())
    stop, executions, coverage, died = time.monotonic() + seconds, 0, 0, 0
    while (left := int(stop - time.monotonic())) > 0 and died < _MOST_CRASHES:
        command = [sys.executable, "-m", "tests.fuzz", "--child", name, "--seconds", str(left)]
        with (folder / "log").open("wb") as log:
            line = [*command, *(["--checked"] if checked else [])]
            status = subprocess.run(line, stdout=log, stderr=log, check=False, cwd=ROOT).returncode
        text = (folder / "log").read_text(errors="replace")
        executions += max((int(number) for number in re.findall(r"^#(\d+)", text, re.MULTILINE)), default=0)
        coverage = max([coverage, *(int(number) for number in re.findall(r" cov: (\d+)", text))])
        if status == 0:
            break
        died += 1
        print(f"{name}: the process ended with status {status}\n{text[-2000:]}", flush=True)
        if "INITED" not in text:
            break
    inputs = {path for path in (folder / "findings").iterdir() if path.suffix != ".txt"} - before
    print(f"{name}: {executions:,} executions, coverage {coverage:,}, {len(inputs)} findings", flush=True)
    for path in sorted(inputs):
        note = path.with_suffix(".txt")
        print(f"  {path.relative_to(ROOT)}\n{note.read_text(errors='replace') if note.exists() else ''}", flush=True)
    return Result(name, executions, coverage, len(inputs) + died)


def _child(name: str, seconds: int, *, is_checked: bool) -> int:
    """Fuzz one target in this process; libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["stateproc"]):
        from tests.fuzz.targets import TARGETS

        target, folder = TARGETS[name], FOLDER / name
        seeds = tuple(target.inputs())
        for data in seeds:
            target.problem(data)  # Imports and loads what is loaded once: memory is compared with the idle process.
    for data in seeds:
        (folder / "seeds" / _digest(data)).write_bytes(data)
    others = [data[2:] for data in seeds]
    peak, seen = [_peak()], set[str]()

    def run(data: bytes) -> None:
        problem = target.problem(data)
        if _peak() - peak[0] > MOST_BYTES:
            problem = problem or f"allocated {(_peak() - peak[0]) >> 20} MiB"
            peak[0] = _peak()
        if problem is not None and (origin := _origin(problem)) not in seen:
            seen.add(origin)
            path = folder / "findings" / _digest(origin.encode())
            path.write_bytes(data)
            path.with_suffix(".txt").write_text(problem)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.3 or len(data) < 3:
            return bytes(atheris.Mutate(data, most))
        if target.damaged is not None and rng.random() < 0.7:
            return (data[:2] + target.damaged(rng, data[2:], others))[:most]
        part = bytearray(data[2:])
        for _ in range(rng.choice((1, 1, 2, 3))):
            if part:
                rng.choice(MUTATIONS)(rng, part)
        return (data[:2] + bytes(part))[:most]

    options = [
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS * (20 if is_checked else 1)}",
        f"-max_len={MOST_INPUT}",
        "-rss_limit_mb=4096",
        f"-artifact_prefix={folder}/findings/",
    ]
    atheris.Setup([sys.argv[0], *options, str(folder / "corpus"), str(folder / "seeds")], run, custom_mutator=mutate)
    with checked() if is_checked else nullcontext():
        atheris.Fuzz()
    return 0


def _grown(name: str, known: Sequence[bytes]) -> list[bytes]:
    """Return the small inputs that reached more in this run and in those before."""
    found = sorted((FOLDER / name / "corpus").iterdir(), key=lambda path: (path.stat().st_size, path.name))
    texts = [path.read_bytes() for path in found if path.stat().st_size <= MOST_KEPT]
    return [text for text in texts if text not in set(known)]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _origin(problem: str) -> str:
    """Where an exception was raised, so that one fault is one finding."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', problem)
    return str(lines[-1]) if lines else re.sub(r"\d+", "", problem)[:200]


if __name__ == "__main__":
    sys.exit(main())
