"""Measure writing of savepoints: rate and memory of a bootstrap, and a rewrite compared with a copy of its files.

python -m benchmarks.writing bootstrap KEYS     # rows per second, memory of the driver and of Python workers
python -m benchmarks.writing carry SAVEPOINT    # a rewrite that changes no value, compared with a copy of the files
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TYPE = "Pojo fixtures.Big$Customer {amount: Double, name: String, visits: Long}"


def session() -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    made = builder.config("spark.driver.memory", "3g").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def bootstrap(keys: int) -> dict[str, float]:
    """Write a value state Long → POJO of String, long, double, computed while it is written as in SpaWrite.java."""
    from pyspark.sql import functions as F

    from stateproc import OperatorBootstrap, SavepointWriter

    spark = session()
    target = Path(tempfile.mkdtemp()) / "savepoint"

    def write(n: int) -> float:
        shutil.rmtree(target, ignore_errors=True)
        rows = spark.range(n).select(
            F.col("id").alias("key"),
            F.struct(
                (F.col("id") * 0.5).alias("amount"),
                F.concat(F.lit("customer-"), F.lpad(F.col("id").cast("string"), 11, "0")).alias("name"),
                (F.col("id") * 3).alias("visits"),
            ).alias("value"),
        )
        state = OperatorBootstrap().value_state("profile", rows, type=_TYPE)
        begin = time.perf_counter()
        SavepointWriter.new_savepoint(spark).with_operator("big", state).with_parallelism("big", 2).write(target)
        return time.perf_counter() - begin

    write(100_000)
    few = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with worker_memory() as workers:
        seconds = min(write(keys) for _ in range(5))
    many = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = sum(file.stat().st_size for file in target.iterdir())
    # A session's own settings stay: these are Spark's defaults.
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", "64MB")
    limited = min(write(keys) for _ in range(5))
    spark.stop()
    return {
        "rows": keys, "seconds": seconds, "rows per second": keys / seconds, "MB per second": size / seconds / 1e6,
        "rows per second with Spark's limit of bytes per batch": keys / limited,
        "driver's Python, MB after 100,000 rows": few / 1024, "driver's Python, MB after all": many / 1024,
        "peak of a Python worker, MB": workers["rss"] / 1024, "of it anonymous, MB": workers["anonymous"] / 1024,
    }  # fmt: skip


@contextmanager
def worker_memory() -> Iterator[dict[str, int]]:
    """Sample the memory of Spark's Python workers on this machine: the peaks of one of them, in KB."""
    peaks = {"rss": 0, "anonymous": 0}
    done = threading.Event()

    def sample() -> None:
        while not done.wait(0.02):
            for status in _worker_statuses():
                peaks["rss"] = max(peaks["rss"], int(status.get("VmRSS", "0 kB").split()[0]))
                peaks["anonymous"] = max(peaks["anonymous"], int(status.get("RssAnon", "0 kB").split()[0]))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


def _worker_statuses() -> Iterator[dict[str, str]]:
    """/proc/PID/status of the processes that run pyspark.daemon, of which workers are forks."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                lines = (process / "status").read_text().splitlines()
                yield {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        except OSError:  # the process has ended
            continue


def carry(path: str) -> dict[str, float]:
    """Rewrite a savepoint with another uid and no other change; compare with a copy of the directory, both to disk."""
    from stateproc import SavepointWriter

    spark = session()
    spark.range(1).count()
    target = Path(tempfile.mkdtemp())

    def plain() -> float:
        shutil.rmtree(target / "plain", ignore_errors=True)
        begin = time.perf_counter()
        shutil.copytree(path, target / "plain")
        for file in (target / "plain").iterdir():
            with open(file, "rb") as opened:
                os.fsync(opened.fileno())
        return time.perf_counter() - begin

    def rewritten() -> float:
        shutil.rmtree(target / "rewritten", ignore_errors=True)
        begin = time.perf_counter()
        writer = SavepointWriter.from_existing_savepoint(spark, path, {"uids": "big"})
        writer.change_operator_identifier("big", "other").write(target / "rewritten")
        return time.perf_counter() - begin

    times = [(plain(), rewritten()) for _ in range(4)][1:]
    size = sum(file.stat().st_size for file in Path(path).iterdir())
    spark.stop()
    copied, carried = (min(pair[index] for pair in times) for index in (0, 1))
    return {
        "MB": size / 1e6, "copy, MB per second": size / copied / 1e6, "rewrite, MB per second": size / carried / 1e6,
        "of the speed of a copy": copied / carried,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bootstrap", "carry"])
    parser.add_argument("of")
    given = parser.parse_args()
    print(json.dumps(bootstrap(int(given.of)) if given.what == "bootstrap" else carry(given.of), indent=2))


if __name__ == "__main__":
    main()
