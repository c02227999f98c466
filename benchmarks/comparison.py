"""Measure `diff` and a change feed: keys per second and the peak memory of a process that compares two snapshots.

python -m benchmarks.comparison make KEYS DIR      # writes DIR/earlier and DIR/later, which differ in 1 % of their keys
python -m benchmarks.comparison measure DIR        # compares them in new processes
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_ROUNDS = 3
_CHANGED = 100
"""One in so many keys differs: of six of these, four have another value, one is added, one is removed."""


def make(keys: int, folder: Path) -> None:
    """Write two canonical savepoints of one value state: POJOs of a string, a long and a double."""
    from pyspark.sql import functions as F

    from benchmarks.writing import rows_of, session, state_of
    from stateproc import SavepointWriter

    spark = session()
    key = F.col("key")
    number = F.floor(key / _CHANGED) % 6
    is_chosen = key % _CHANGED == 0
    rows = rows_of(spark, "value", keys)
    earlier = rows.where(~(is_chosen & (number == 4)))
    changed = F.col("value").withField("amount", F.when(is_chosen, -1.0).otherwise(F.col("value.amount")))
    later = rows.where(~(is_chosen & (number == 5))).withColumn("value", changed)
    for name, content in (("earlier", earlier), ("later", later)):
        writer = SavepointWriter.new_savepoint(spark).with_operator("big", state_of("value", content))
        writer.with_parallelism("big", 2).write(folder / name)
    spark.stop()


def compare(folder: Path) -> None:
    """Compare the two savepoints in this process, and print what it took."""
    import stateproc

    begin = time.perf_counter()
    counts = stateproc.open(str(folder / "earlier")).diff(stateproc.open(str(folder / "later"))).counts
    print(json.dumps({"keys": counts.left, "changed": counts.changed, **_figures(counts.left, begin)}))


def follow(folder: Path, keys: int) -> None:
    """Read the changes between the two savepoints in this process, and print what it took."""
    import stateproc

    begin = time.perf_counter()
    (counts,) = stateproc.changes(str(folder / "earlier"), str(folder / "later"), "big").counts()
    changed = counts.inserted + counts.updated + counts.deleted
    print(json.dumps({"keys": keys, "changed": changed, **_figures(keys, begin)}))


def _figures(keys: int, begin: float) -> dict[str, float]:
    seconds, usage = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": seconds,
        "keys per second": keys / seconds,
        "peak, MB": usage.ru_maxrss / 1024,
        "CPU seconds": usage.ru_utime + usage.ru_stime,
    }


def measure(folder: Path) -> dict[str, Any]:
    """Compare in new processes; return the fastest run of each."""
    diff = _fastest("compare", str(folder))
    return {"diff": diff, "changes": _fastest("follow", str(folder), str(diff["keys"]))}


def _fastest(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.comparison", *arguments]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(_ROUNDS)]
    fastest: dict[str, Any] = min(runs, key=lambda run: float(run["seconds"]))
    return {**fastest, "peak, MB": max(run["peak, MB"] for run in runs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("keys", type=int)
    making.add_argument("folder", type=Path)
    for name in ("measure", "compare", "follow"):
        commands.add_parser(name).add_argument("folder", type=Path)
    commands.choices["follow"].add_argument("keys", type=int)
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.keys, arguments.folder)
    elif arguments.command == "compare":
        compare(arguments.folder)
    elif arguments.command == "follow":
        follow(arguments.folder, arguments.keys)
    else:
        print(json.dumps(measure(arguments.folder), indent=2))


if __name__ == "__main__":
    main()
