"""Compare reading with one thread and with several: rate, peak memory, and the time to the first rows.

python -m benchmarks.threads SNAPSHOT [--threads N]     # of tests.helpers.flink.make_fixtures --big KEYS --out DIR
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import stateproc
from stateproc.cli.filtered_scan import FilteredScan
from stateproc.snapshot.parallel_scan import available_cores
from stateproc.snapshot.state import State

_UID, _STATE = "big", "profile"
_ROUNDS = 7
_LIMIT = 10

_PEAK = """
import sys
from benchmarks.threads import opened
state, threads = opened(sys.argv[1]), int(sys.argv[2])
if sys.argv[3] == "table":
    rows = state.to_arrow(threads=threads).num_rows
else:
    rows = sum(batch.num_rows for batch in state.batches(threads=threads))
# Not ru_maxrss, which begins with the memory of the process that started this one.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def opened(path: str) -> State:
    """Open the state. A changelog does not contain the type of its keys; elsewhere it is ignored."""
    return stateproc.open(path, uids=[_UID], key_type="Long").state(_UID, _STATE)


def rates(path: str, threads: int) -> dict[str, float]:
    """Read the whole table by one thread and by several, in turns, and compare the medians."""
    state = opened(path)
    table = state.to_arrow()
    rows, size = table.num_rows, table.nbytes
    del table
    seconds: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(_ROUNDS):
        for number, found in seconds.items():
            found.append(_seconds(lambda number=number: state.to_arrow(threads=number)))  # type: ignore[misc]
    one, several = (statistics.median(found) for found in seconds.values())
    return {
        "rows": rows,
        "table, MB": size / 1e6,
        "one thread, rows per second": rows / one,
        f"{threads} threads, rows per second": rows / several,
        "times as fast": one / several,
    }


def peaks(path: str, threads: int) -> dict[str, float]:
    """Measure the peak memory of processes that read everything, into a table and batch by batch."""
    found = {}
    for what in ("table", "batches"):
        for number in (1, threads):
            command = [sys.executable, "-c", _PEAK, path, str(number), what]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found[f"{what}, {number} threads, peak MB"] = int(out) / 1024
    return found


def first_rows(path: str) -> dict[str, float]:
    """Compare opening the state, up to its splits, with opening it and reading the first rows."""

    def opening() -> FilteredScan:
        return FilteredScan(opened(path))

    def reading() -> None:
        rows = (row for batch in opening().batches(lambda _: None) for row in batch.slice(0, _LIMIT).to_pylist())
        assert len(list(islice(rows, _LIMIT))) == _LIMIT

    reading()
    without, with_rows = (statistics.median(_seconds(action) for _ in range(_ROUNDS)) for action in (opening, reading))
    return {
        "opening, seconds": without,
        f"opening and {_LIMIT} rows, seconds": with_rows,
        "times the time of opening": with_rows / without,
    }


def _seconds(action: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--threads", type=int, default=max(2, available_cores()))
    given = parser.parse_args()
    figures = {**rates(given.path, given.threads), **peaks(given.path, given.threads), **first_rows(given.path)}
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
