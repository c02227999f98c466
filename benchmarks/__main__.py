"""Run all benchmarks, one after another: ``make bench`` or ``python -m benchmarks [--keys N] [--without-flink]``.

The snapshots (a canonical savepoint; checkpoints of RocksDB, of the heap and of a changelog) are made by real Flink
once and kept in the cache ($STATEPROC_CACHE, default ~/.cache/stateproc). ``--threads`` runs the comparison of threads
only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def state_processor(ours: dict[str, Any], path: Path, backend: str, *more: str) -> dict[str, Any]:
    """Run Flink's State Processor API on the same files with two slots; ``ours``: the figures to compare with."""
    command = [sys.executable, "-m", "benchmarks.flink.run_spa", str(path.resolve()), "--backend", backend, *more]
    out = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    found = dict(json.loads(re.findall(r"\{.*\}", out, re.DOTALL)[-1]))
    return {**found, "times as fast here": ours["rows per second"] / found["rows_per_second"]}


def bootstrap(keys: int, backends: Sequence[str]) -> dict[str, Any]:
    """Write a state of ``keys`` keys with this project and with the State Processor API under these backends."""
    figures = bench("writing", "bootstrap", str(keys))
    for backend in backends:
        with tempfile.TemporaryDirectory() as directory:
            spa = state_processor(figures, Path(directory) / "savepoint", backend, "--write", str(keys))
        figures[f"state processor api, {backend}"] = spa
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--without-flink", action="store_true", help="leave the State Processor API out")
    parser.add_argument("--threads", action="store_true", help="compare one thread with several, and nothing else")
    arguments = parser.parse_args()
    threads = {form: bench("threads", str(snapshot(arguments.keys, form))) for form in FORMATS}
    if arguments.threads:
        print(json.dumps(threads, indent=2))
        return
    figures: dict[str, Any] = {"start-up": bench("start_up"), "threads": threads, "codec": bench("bench", "codec")}
    figures["codec, numba"] = bench("bench", "codec", kernels="numba")
    for name, backend in (("savepoint", "hashmap"), ("incremental checkpoint", "rocksdb")):
        path = snapshot(arguments.keys, "incremental" if backend == "rocksdb" else "canonical")
        figures[name] = {kind: bench("bench", kind, str(path)) for kind in ("spark", "memory", "lookup")}
        if not arguments.without_flink:
            figures[name]["state processor api"] = state_processor(figures[name]["spark"], path, backend)
    figures["many files"] = bench("many_files")
    figures["carry-over"] = bench("writing", "carry", str(snapshot(arguments.keys, "canonical")))
    figures["memory of writing"] = bench("writing", "memory", str(snapshot(arguments.keys, "canonical")))
    figures["bootstrap"] = bootstrap(arguments.keys, () if arguments.without_flink else ("hashmap", "rocksdb"))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
