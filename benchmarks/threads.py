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
from functools import partial
from typing import Any

import stateproc
from stateproc.model.parallel_scan import available_cores
from stateproc.model.state import State

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

_FIRST_READ = """
import sys
from functools import partial
from benchmarks.threads import opened, seconds_of
state = opened(sys.argv[1])
state.to_arrow(key_groups=[0], threads=1)  # Loads the libraries, and takes little of the memory of a whole read.
print(seconds_of(partial(state.to_arrow, threads=int(sys.argv[2]))))
"""

_OPEN = """
import sys
from benchmarks.threads import opened
from stateproc.model.state import FilteredScan
FilteredScan(opened(sys.argv[1]))
"""


def opened(path: str) -> State:
    """Open the state. A changelog does not contain the type of its keys; elsewhere it is ignored."""
    return stateproc.open(path, uids=[_UID], key_type="Long").state(_UID, _STATE)


def rates(path: str, threads: int) -> dict[str, float]:
    """Read the whole table by one thread and by several, in turns, and compare the medians.

    All reads run in one process, so that they reuse memory that earlier reads have returned; see :func:`first_reads`.
    """
    state = opened(path)
    table = state.to_arrow()
    rows, size = table.num_rows, table.nbytes
    del table
    seconds: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(_ROUNDS):
        for number, found in seconds.items():
            found.append(seconds_of(partial(state.to_arrow, threads=number)))
    one, several = (statistics.median(found) for found in seconds.values())
    return {
        "rows": rows,
        "table, MB": size / 1e6,
        "one thread, rows per second": rows / one,
        f"{threads} threads, rows per second": rows / several,
        "times as fast": one / several,
    }


def first_reads(path: str, threads: int) -> dict[str, float]:
    """Read the whole table once in each of several processes, in turns: all memory comes fresh from the kernel."""
    seconds: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(_ROUNDS):
        for number, found in seconds.items():
            found.append(float(_run([sys.executable, "-c", _FIRST_READ, path, str(number)])))
    one, several = (statistics.median(found) for found in seconds.values())
    return {
        "first read, one thread, seconds": one,
        f"first read, {threads} threads, seconds": several,
        "first read, times as fast": one / several,
    }


def peaks(path: str, threads: int) -> dict[str, float]:
    """Measure the peak memory of processes that read everything, into a table and batch by batch."""
    found = {}
    for what in ("table", "batches"):
        for number in (1, threads):
            command = [sys.executable, "-c", _PEAK, path, str(number), what]
            found[f"{what}, {number} threads, peak MB"] = int(_run(command)) / 1024
    return found


def first_rows(path: str) -> dict[str, float]:
    """Compare two processes: one opens the state, up to its splits; ``stateproc read --limit 10`` also prints rows."""
    read = [sys.executable, "-m", "stateproc", "read", path, "--uids", _UID, "--uid", _UID, "--state", _STATE]
    read += ["--key-type", "Long", "--limit", str(_LIMIT), "--format", "jsonl"]
    commands = ([sys.executable, "-c", _OPEN, path], read)
    assert len(_run(read).splitlines()) == _LIMIT
    seconds: list[list[float]] = [[], []]
    for _ in range(_ROUNDS):
        for command, found in zip(commands, seconds, strict=True):
            found.append(seconds_of(partial(_run, command)))
    opening, reading = map(statistics.median, seconds)
    return {
        "opening, seconds": opening,
        f"reading {_LIMIT} rows, seconds": reading,
        "times the time of opening": reading / opening,
    }


def _run(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def seconds_of(action: Callable[[], Any]) -> float:
    """Return the wall-clock time of an action."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--threads", type=int, default=max(2, available_cores()))
    given = parser.parse_args()
    figures = {**rates(given.path, given.threads), **first_reads(given.path, given.threads)}
    figures |= {**peaks(given.path, given.threads), **first_rows(given.path)}
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
