"""How fast savepoints are written, beside named references of the same run.

python -m benchmarks.writing bootstrap KEYS     # rows per second, driver memory with fewer and with more rows
python -m benchmarks.writing carry SAVEPOINT    # a rewrite that touches no value, beside a copy of the files
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import time
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
    """Value state Long → POJO of String, long, double, made while it is written, as SpaWrite.java does."""
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
    seconds = min(write(keys) for _ in range(5))
    many = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = sum(file.stat().st_size for file in target.iterdir())
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
    unlimited = min(write(keys) for _ in range(5))
    spark.stop()
    return {
        "rows": keys, "seconds": seconds, "rows per second": keys / seconds, "MB per second": size / seconds / 1e6,
        "rows per second, batches without a limit of bytes": keys / unlimited,
        "driver's Python, MB after 100,000 rows": few / 1024, "driver's Python, MB after all": many / 1024,
    }  # fmt: skip


def carry(path: str) -> dict[str, float]:
    """A copy that touches no value, with another uid, beside a plain copy of the directory (both to disk)."""
    from stateproc import SavepointWriter

    spark = session()
    spark.range(1).count()
    place = Path(tempfile.mkdtemp())

    def plain() -> float:
        shutil.rmtree(place / "plain", ignore_errors=True)
        begin = time.perf_counter()
        shutil.copytree(path, place / "plain")
        for file in (place / "plain").iterdir():
            with open(file, "rb") as opened:
                os.fsync(opened.fileno())
        return time.perf_counter() - begin

    def rewritten() -> float:
        shutil.rmtree(place / "rewritten", ignore_errors=True)
        begin = time.perf_counter()
        writer = SavepointWriter.from_existing_savepoint(spark, path, {"uids": "big"})
        writer.change_operator_identifier("big", "other").write(place / "rewritten")
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
