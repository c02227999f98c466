"""Measure writing of savepoints: rate and memory of bootstraps and rewrites, and a rewrite beside a copy of its files.

python -m benchmarks.writing bootstrap KEYS     # rates, CPU time, memory for values, lists and maps (or --kind)
python -m benchmarks.writing memory SAVEPOINT   # the peak memory of Python workers that write, beside its bound
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
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import Usage, usage

_TYPE = "Pojo fixtures.Big$Customer {amount: Double, name: String, visits: Long}"
KINDS = ("value", "list", "map")
WORKER_MB = 400
"""The most memory that a Python worker may use while it writes."""
REWRITES: dict[str, Callable[[Any], Any]] = {
    "another max parallelism": lambda writer: writer.with_max_parallelism(256),
    "another max parallelism, one subtask": lambda writer: writer.with_max_parallelism(256).with_parallelism("big", 1),
    "another format": lambda writer: writer.with_format("native-rocksdb"),
}
_ROUNDS = 5


def session() -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    made = builder.config("spark.driver.memory", "3g").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def rows_of(spark: Any, kind: str, keys: int) -> Any:
    """The rows of a state, computed while they are written, with about 50 bytes of key and value.

    A POJO of String, long, double as in SpaWrite.java; a list of five longs; a map of two longs, which are two entries.
    """
    from pyspark.sql import functions as F

    key = F.col("id")
    name = F.concat(F.lit("customer-"), F.lpad(key.cast("string"), 11, "0"))
    values = {
        "value": F.struct((key * 0.5).alias("amount"), name.alias("name"), (key * 3).alias("visits")),
        "list": F.array(*(key * n for n in range(1, 6))),
        "map": F.map_from_arrays(F.array(F.lit("visits"), F.lit("amount")), F.array(key * 3, key * 5)),
    }
    return spark.range(keys).select(key.alias("key"), values[kind].alias("value"))


def state_of(kind: str, rows: Any) -> Any:
    """The bootstrap of a state of this kind."""
    from stateproc import OperatorBootstrap

    state = OperatorBootstrap()
    if kind == "value":
        return state.value_state("profile", rows, type=_TYPE)
    return state.list_state("profile", rows) if kind == "list" else state.map_state("profile", rows)


def bootstrap(keys: int, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
    """Write a state of each kind, in turns, so that they meet the same conditions."""
    from stateproc import SavepointWriter

    spark = session()
    target = Path(tempfile.mkdtemp()) / "savepoint"

    def write(kind: str, n: int) -> tuple[float, Usage]:
        shutil.rmtree(target, ignore_errors=True)
        state = state_of(kind, rows_of(spark, kind, n))
        with usage(spark) as used:
            begin = time.perf_counter()
            SavepointWriter.new_savepoint(spark).with_operator("big", state).with_parallelism("big", 2).write(target)
            seconds = time.perf_counter() - begin
        return seconds, used

    for kind in kinds:
        write(kind, 100_000)
    few = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs: dict[str, list[tuple[float, Usage]]] = {kind: [] for kind in kinds}
    sizes: dict[str, int] = {}
    for _ in range(_ROUNDS):
        for kind in kinds:
            runs[kind].append(write(kind, keys))
            sizes[kind] = sum(file.stat().st_size for file in target.iterdir())
    many = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # A session's own settings stay: these are Spark's defaults.
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", "64MB")
    limited = {kind: min(write(kind, keys)[0] for _ in range(_ROUNDS)) for kind in kinds}
    spark.stop()
    figures = {kind: _figures(keys, sizes[kind], runs[kind], limited[kind]) for kind in kinds}
    return {
        **figures[kinds[0]], **{kind: figures[kind] for kind in kinds[1:]},
        "driver's Python, MB after 100,000 rows": few / 1024, "driver's Python, MB after all": many / 1024,
    }  # fmt: skip


def _figures(keys: int, size: int, runs: Sequence[tuple[float, Usage]], limited: float) -> dict[str, float]:
    seconds, millions = min(seconds for seconds, _ in runs), keys / 1e6
    return {
        "rows": keys, "seconds": seconds, "rows per second": keys / seconds, "MB per second": size / seconds / 1e6,
        "stored bytes per row": size / keys,
        "CPU seconds of the JVM per million rows": min(used.jvm_seconds for _, used in runs) / millions,
        "CPU seconds of Python workers per million rows": min(used.worker_seconds for _, used in runs) / millions,
        "rows per second with Spark's limit of bytes per batch": keys / limited,
        "peak of a Python worker, MB": max(used.peak_mb for _, used in runs),
        "of it anonymous, MB": max(used.anonymous_mb for _, used in runs),
    }  # fmt: skip


def memory(path: str) -> dict[str, Any]:
    """Rehash a savepoint to another max parallelism, and write as many rows anew: peaks of a Python worker."""
    import stateproc
    from stateproc import SavepointWriter

    state = stateproc.open(path).state("big", "profile")
    keys = sum(batch.num_rows for batch in state.batches())
    spark = session()
    target = Path(tempfile.mkdtemp())
    found: dict[str, Any] = {"keys": keys, "bound, MB": WORKER_MB}

    def peak(what: str, writer: Any) -> None:
        with usage(spark) as used:
            writer.write(target / "savepoint", mode="overwrite")
        found[f"{what}, peak of a Python worker, MB"] = used.peak_mb
        found[f"{what}, of it anonymous, MB"] = used.anonymous_mb

    for kind in KINDS:
        bootstrap = state_of(kind, rows_of(spark, kind, keys))
        peak(f"writing {kind}", SavepointWriter.new_savepoint(spark).with_operator("big", bootstrap))
    for name, change in REWRITES.items():
        peak(name, change(SavepointWriter.from_existing_savepoint(spark, path, {"uids": "big"})))
    spark.stop()
    shutil.rmtree(target)
    worst = max(value for name, value in found.items() if name.endswith("worker, MB"))
    return {**found, "within the bound": worst <= WORKER_MB}


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
    parser.add_argument("what", choices=["bootstrap", "carry", "memory"])
    parser.add_argument("of")
    parser.add_argument("--kind", choices=KINDS, action="append", help="of the state of bootstrap; all by default")
    given = parser.parse_args()
    if given.what == "bootstrap":
        figures = bootstrap(int(given.of), given.kind or KINDS)
    else:
        figures = carry(given.of) if given.what == "carry" else memory(given.of)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
