"""All benchmarks, one after another: ``make bench`` or ``python -m benchmarks [--keys N] [--without-flink]``.

The snapshots (a canonical savepoint, an incremental RocksDB checkpoint) are made by real Flink once and kept in the
cache ($STATEPROC_CACHE, default ~/.cache/stateproc).
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

ROOT = Path(__file__).parent.parent
CACHE = Path(os.environ.get("STATEPROC_CACHE", Path.home() / ".cache" / "stateproc"))


def snapshot(keys: int, *, incremental: bool) -> Path:
    """The big savepoint, or incremental checkpoint, of ``keys`` keys; made if it is not there."""
    out = CACHE / (f"big-incremental-{keys}" if incremental else f"big-{keys}")
    pattern = "**/chk-*/_metadata" if incremental else "**/savepoint-*/_metadata"
    found = sorted(out.glob(pattern))
    if not found:
        make = [sys.executable, str(ROOT / "tests/flink/make_fixtures.py"), "--big", str(keys), "--out", str(out)]
        subprocess.run([*make, "--incremental"] if incremental else make, check=True)
        found = sorted(out.glob(pattern))
    return found[0].parent


def bench(*arguments: str) -> dict[str, Any]:
    """One benchmark in a process of its own."""
    command = [sys.executable, str(ROOT / "benchmarks/bench.py"), *arguments]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(out[out.index("{") :]))


def state_processor(path: Path, backend: str, *more: str) -> dict[str, Any]:
    """Flink's State Processor API on the same files, two slots."""
    command = [sys.executable, str(ROOT / "benchmarks/flink/run_spa.py"), str(path), "--backend", backend, *more]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(re.findall(r"\{.*\}", out, re.DOTALL)[-1]))


def bootstrap(keys: int, backends: Sequence[str]) -> dict[str, Any]:
    """A state of ``keys`` keys written, by us and by the State Processor API under these backends."""
    command = [sys.executable, str(ROOT / "benchmarks/writing.py"), "bootstrap", str(keys)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures = dict(json.loads(out[out.index("{") :]))
    for backend in backends:
        with tempfile.TemporaryDirectory() as directory:
            spa = state_processor(Path(directory) / "savepoint", backend, "--write", str(keys))
        ratio = figures["rows per second"] / spa["rows_per_second"]
        figures[f"state processor api, {backend}"] = {**spa, "times as fast here": ratio}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--without-flink", action="store_true", help="leave the State Processor API out")
    arguments = parser.parse_args()
    figures = {"codec": bench("codec")}
    for name, backend in (("savepoint", "hashmap"), ("incremental checkpoint", "rocksdb")):
        path = snapshot(arguments.keys, incremental=backend == "rocksdb")
        figures[name] = {kind: bench(kind, str(path)) for kind in ("spark", "memory", "lookup")}
        if not arguments.without_flink:
            spa = state_processor(path, backend)
            ratio = figures[name]["spark"]["rows per second"] / spa["rows_per_second"]
            figures[name]["state processor api"] = {**spa, "times as fast here": ratio}
    figures["bootstrap"] = bootstrap(arguments.keys, () if arguments.without_flink else ("hashmap", "rocksdb"))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
