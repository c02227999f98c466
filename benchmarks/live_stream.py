"""The delay of a copy in Delta against a running job: `python -m benchmarks.live_stream [--seconds 300] [--kills 5]`.

A job of real Flink checkpoints every second and is restored from a savepoint half-way; two streams copy a value state
and a map state, and are killed with their JVM. The copies must be equal to the job's last savepoint.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tests.helpers.live_copies import LiveCopyRun, copy_live_job
from tests.helpers.spark.live_copy import STATES


def main() -> None:
    """Run the job and print the figures as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--claim", action="store_true", help="the restored job owns the savepoint")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stateproc-") as folder:
        began = time.monotonic()
        job = {"retained": 1000, "keys": given.keys, "rate": given.rate}
        run = copy_live_job(Path(folder), seconds=given.seconds, kills=given.kills, claim=given.claim, **job)
        taken = time.monotonic() - began
    report(run, taken)


def report(run: LiveCopyRun, seconds: float) -> None:
    """Print what happened and how long rows took from a checkpoint's completion to the table."""
    print(f"{seconds:.0f} s, {len(run.checkpoints)} checkpoints, streams killed {run.kills} times, job restored once")
    print("| state | batches | rows | equal | s a batch, median | s delay, median | most |")
    print("|---|---|---|---|---|---|---|")
    for state in STATES:
        batches = [item for item in run.batches if item["state"] == state]
        taken = statistics.median(item["ended"] - item["began"] for item in batches)
        delays = lags(run, state)
        rows, equal = len(run.copied[state]), run.copied[state] == run.expected[state]
        print(
            f"| {state} | {len(batches)} | {rows} | {equal} | {taken:.1f} | {statistics.median(delays):.1f} | "
            f"{max(delays):.1f} |"
        )


def lags(run: LiveCopyRun, state: str) -> list[float]:
    """Return the seconds from the completion of each checkpoint to the end of the batch with which it was merged."""
    completed = {item.number: item.millis / 1000 for item in run.checkpoints}
    found = []
    for batch in run.batches:
        if batch["state"] == state:
            found += [batch["ended"] - completed[number] for number in batch["checkpoints"] if number in completed]
    return found


if __name__ == "__main__":
    main()
