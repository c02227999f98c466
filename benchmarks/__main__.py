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


def state_processor(path: Path, backend: str) -> dict[str, Any]:
    """Flink's State Processor API on the same files, two slots."""
    command = [sys.executable, str(ROOT / "benchmarks/flink/run_spa.py"), str(path), "--backend", backend]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(re.findall(r"\{.*\}", out, re.DOTALL)[-1]))


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
            figures[name]["state processor api"] = state_processor(path, backend)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
