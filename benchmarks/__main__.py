"""Run all benchmarks, one after another: ``make bench`` or ``python -m benchmarks [--keys N] [--without-flink]``.

Each figure is printed when it is measured, with the wanted one beside it where there is one, and all of them again as a
table at the end; ``--json`` prints them as JSON instead of the table.

The snapshots (a canonical savepoint; checkpoints of RocksDB, of the heap and of a changelog) are made by real Flink
once and kept in the cache ($STATEPROC_CACHE, default ~/.cache/stateproc). ``--threads`` runs the comparison of threads
only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.flink.run_spa import RELEASES
from benchmarks.start_up import LIMITS

ROOT = Path(__file__).resolve().parent.parent
FORMATS = ("canonical", "incremental", "heap", "changelog")
CACHE = Path(os.environ.get("STATEPROC_CACHE", Path.home() / ".cache" / "stateproc"))


def snapshot(keys: int, form: str) -> Path:
    """Return a snapshot of ``keys`` keys in a format of ``make_fixtures --big``, written by Flink if not cached."""
    is_canonical = form == "canonical"
    out = CACHE / (f"big-{keys}" if is_canonical else f"big-{form}-{keys}")
    pattern = "**/savepoint-*/_metadata" if is_canonical else "**/chk-*/_metadata"
    found = sorted(out.glob(pattern))
    if not found:
        make = [sys.executable, "-m", "tests.helpers.flink.make_fixtures", "--big", str(keys)]
        make += ["--out", str(out.resolve()), "--format", form]
        subprocess.run(make, check=True, cwd=ROOT)
        found = sorted(out.glob(pattern))
    return found[0].parent


def bench(module: str, *arguments: str, kernels: str = "") -> dict[str, Any]:
    """Run one benchmark in a process of its own; ``kernels``: ``numba`` instead of the library."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    environment = {**os.environ, "STATEPROC_KERNELS": kernels}
    out = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment).stdout
    return dict(json.loads(out[out.index("{") :]))


def state_processor(ours: dict[str, Any], path: Path, release: str, backend: str, *more: str) -> dict[str, Any]:
    """Run a Flink release's State Processor API on the same files with two slots; ``ours``: the figures to compare
    with."""
    command = [sys.executable, "-m", "benchmarks.flink.run_spa", str(path.resolve())]
    command += ["--release", release, "--backend", backend, *more]
    out = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    found = dict(json.loads(re.findall(r"\{.*\}", out, re.DOTALL)[-1]))
    return {**found, "times as fast here": ours["rows per second"] / found["rows_per_second"]}


def bootstrap(keys: int, backends: Sequence[str]) -> dict[str, Any]:
    """Write a state of ``keys`` keys with this project and with the State Processor API under these backends."""
    figures = bench("writing", "bootstrap", str(keys))
    ours = dict(figures)
    for release, backend in itertools.product(RELEASES, backends):
        with tempfile.TemporaryDirectory() as directory:
            spa = state_processor(ours, Path(directory) / "savepoint", release, backend, "--write", str(keys))
        figures[f"state processor api {release}, {backend}"] = spa
    return figures


RUNS = ("first", "second")
WANTED: dict[str, tuple[str, float]] = {
    "of the rate of prebuilt batches": (">=", 0.9),
    "of the state's bytes": ("<=", 0.05),
    "reading, MB": ("<=", 200),
    **{f"state processor api {release}, times as fast here": (">=", 20) for release in RELEASES},
    **{f"{command[0]}, {run}, CPU seconds": ("<=", limits[0]) for command, limits in LIMITS.items() for run in RUNS},
    **{f"{command[0]}, {run}, megabytes": ("<=", limits[1]) for command, limits in LIMITS.items() for run in RUNS},
}
"""What figures whose names end so are to be."""


class Report(dict[str, Any]):
    """Figures by benchmark, each shown on stderr as it is added."""

    def __setitem__(self, name: str, found: Any) -> None:
        super().__setitem__(name, found)
        for line in lines_of(name, found):
            print(line, file=sys.stderr, flush=True)


def lines_of(name: str, found: Any) -> list[str]:
    """Return a line per figure: its name, the figure, and what it is to be."""
    if isinstance(found, dict):
        return [line for key, value in found.items() for line in lines_of(f"{name}, {key}", value)]
    shown = str(found)
    if isinstance(found, int | float):
        shown = f"{found:,.0f}" if isinstance(found, int) or abs(found) >= 1000 else f"{found:.3g}"
    wanted = next((rule for ending, rule in WANTED.items() if name.endswith(ending)), None)
    if wanted is None or not isinstance(found, int | float):
        return [f"{name:<70} {shown:>14}"]
    sign, bound = wanted
    is_met = found >= bound if sign == ">=" else found <= bound
    return [f"{name:<70} {shown:>14}   wanted {sign} {bound:g}{'' if is_met else '   MISSED'}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--without-flink", action="store_true", help="leave the State Processor API out")
    parser.add_argument("--threads", action="store_true", help="compare one thread with several, and nothing else")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON at the end")
    arguments = parser.parse_args()
    figures = Report()
    for form in FORMATS:
        figures[f"threads, {form}"] = bench("threads", str(snapshot(arguments.keys, form)))
    if not arguments.threads:
        measure(figures, arguments.keys, with_flink=not arguments.without_flink)
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print("\n".join(line for name, found in figures.items() for line in lines_of(name, found)))


def measure(figures: Report, keys: int, *, with_flink: bool) -> None:
    """Add the figures of all benchmarks but that of threads."""
    figures["start-up"] = bench("start_up")
    figures["codec"] = bench("bench", "codec")
    figures["codec, numba"] = bench("bench", "codec", kernels="numba")
    for name, backend in (("savepoint", "hashmap"), ("incremental checkpoint", "rocksdb")):
        path = snapshot(keys, "incremental" if backend == "rocksdb" else "canonical")
        for kind in ("spark", "memory", "lookup"):
            figures[f"{name}, {kind}"] = bench("bench", kind, str(path))
        for release in RELEASES if with_flink else ():
            api = state_processor(figures[f"{name}, spark"], path, release, backend)
            figures[f"{name}, state processor api {release}"] = api
    figures["many files"] = bench("many_files")
    figures["carry-over"] = bench("writing", "carry", str(snapshot(keys, "canonical")))
    figures["memory of writing"] = bench("writing", "memory", str(snapshot(keys, "canonical")))
    figures["bootstrap"] = bootstrap(keys, ("hashmap", "rocksdb") if with_flink else ())


if __name__ == "__main__":
    main()
