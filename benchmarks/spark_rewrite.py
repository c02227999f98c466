"""Measure large snapshots rewritten by Spark's tasks, in one session with two slots.

    python -m benchmarks.spark_rewrite              # 5 million keys; a minute
    python -m benchmarks.spark_rewrite --rounds 5

Of each change the seconds of every round, and keys per second of the fastest; the first round of all starts the Python
workers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.__main__ import CACHE, snapshot
from benchmarks.local_rewrite import CHANGES, bootstrapped
from stateproc import SavepointWriter


def measured(spark: SparkSession, change: str, source: Path, rounds: int) -> list[float]:
    """Return the seconds of each write."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            writer = SavepointWriter.from_existing_savepoint(spark, str(source))
            CHANGES[change](writer)
            found.append(round(writer.write(f"{folder}/s").report.seconds["total"], 2))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    spark = SparkSession.builder.master("local[2]").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    figures = {}
    for change in CHANGES:
        source = bootstrapped(arguments.keys) if change == "purge half" else snapshot(arguments.keys, "canonical")
        seconds = measured(spark, change, source, arguments.rounds)
        figures[change] = {"seconds": seconds, "M keys per second": round(arguments.keys / min(seconds) / 1e6, 2)}
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
