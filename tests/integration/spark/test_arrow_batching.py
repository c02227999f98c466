"""Rows handed to Python without Spark's limit of bytes, and large ones among them: the same savepoint either way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.writers.spark import arrow_batching as handing_over
from stateproc.writers.spark import execution
from stateproc.writers.spark.arrow_batching import BATCH_ROWS, ROW_BYTES, together

N = 9_000
SETTINGS = ("spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """Of each try to write: whether it was without a limit, and whether it wrote all."""
    tries: list[tuple[bool, bool]] = []
    inner = execution.save

    def save(entries: DataFrame, *arguments: Any) -> bool:
        done = inner(entries, *arguments)
        properties = [entries.sparkSession.sparkContext.getLocalProperty(name) for name in SETTINGS]
        tries.append((properties == [str(2**31 - 1), str(BATCH_ROWS)], done))
        return done

    monkeypatch.setattr(execution, "save", save)
    return tries


def people(spark: SparkSession, large: int = -1, size: int = 0) -> DataFrame:
    """Rows of two strings; that of key ``large`` has ``size`` bytes in these."""
    one = F.when(F.col("id") == large, F.repeat(F.lit("x"), size - 5)).otherwise(F.concat(F.lit("name "), F.col("id")))
    other = F.when(F.col("id") == large, F.lit("é é")).when(F.col("id") % 7 != 0, F.lit("y"))
    value = F.struct(one.alias("name"), other.alias("note"), (F.col("id") * 2).alias("number"))
    return spark.range(N, numPartitions=3).select(F.col("id").alias("key"), value.alias("value"))


def write(target: Path, frame: DataFrame) -> None:
    spark = frame.sparkSession
    state = OperatorBootstrap().value_state("name", frame)
    SavepointWriter.new_savepoint(spark).with_operator("op", state).with_parallelism("op", 2).write(target)


def assert_written(target: Path, frame: DataFrame) -> None:
    """Each row once, and no file but the snapshot's."""
    table = stateproc.open(target).state("op", "name").to_arrow()
    assert sorted(table.column("key").to_pylist()) == list(range(N))
    found = {row["key"]: tuple(row["value"].values()) for row in table.to_pylist()}
    assert found == {row.key: tuple(row.value) for row in frame.collect()}
    assert len(list(target.iterdir())) == 1 + 2


@pytest.mark.parametrize(
    ("large", "size", "tries"),
    [
        (-1, 0, [(True, True)]),
        (0, ROW_BYTES, [(True, True)]),
        (0, ROW_BYTES + 1, [(True, False), (False, True)]),
        (4_567, 3 << 20, [(True, False), (False, True)]),
        (N - 1, ROW_BYTES + 1, [(True, False), (False, True)]),
    ],
)
def test_rows_with_a_large_one(
    spark: SparkSession, tmp_path: Path, saved: list[tuple[bool, bool]], large: int, size: int, tries: list[Any]
) -> None:
    frame = people(spark, large, size)
    write(tmp_path / "s", frame)
    assert saved == tries
    assert_written(tmp_path / "s", frame)
    assert [spark.sparkContext.getLocalProperty(name) for name in SETTINGS] == [None, None]


def with_python(frame: DataFrame) -> DataFrame:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return frame.mapInArrow(same, frame.schema)


@pytest.mark.parametrize("way", ["python", "list", "map", "names that differ in case", *SETTINGS])
def test_rows_that_go_with_the_limit(
    spark: SparkSession, tmp_path: Path, saved: list[tuple[bool, bool]], way: str
) -> None:
    """Others hand rows to Python in the job, or bytes are not easily told, or the session has limits of its own."""
    frame = people(spark)
    if way == "python":
        frame = with_python(frame)
    elif way == "list":
        frame = frame.withColumn("value", F.array("value.number"))
    elif way == "map":
        frame = frame.withColumn("value", F.create_map(F.lit("a"), "value.number"))
    elif way == "names that differ in case":
        frame = frame.withColumn("value", F.struct(F.lit("x").alias("a"), F.repeat(F.lit("y"), ROW_BYTES).alias("A")))
    else:
        spark.conf.set(way, spark.conf.get(way))
    try:
        write(tmp_path / "s", frame)
    finally:
        for name in SETTINGS:
            spark.conf.unset(name)
    assert [limited for limited, _ in saved] == [False]
    assert stateproc.open(tmp_path / "s").state("op", "name").to_arrow().num_rows == N


def test_a_write_that_fails_leaves_no_property(spark: SparkSession, tmp_path: Path) -> None:
    twice = people(spark).union(people(spark))
    with pytest.raises(PythonException, match="DuplicateKey"):
        write(tmp_path / "s", twice)
    assert [spark.sparkContext.getLocalProperty(name) for name in SETTINGS] == [None, None]
    assert not (tmp_path / "s" / "_metadata").exists()


def test_batches_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing_over, "_TOGETHER", 100)
    edges = [0, 3, 12, 13, 53, 54, 55]
    batches = [pa.RecordBatch.from_pydict({"n": pa.array(range(*pair))}) for pair in itertools.pairwise(edges)]
    found = list(together(batches))
    assert [batch.num_rows for batch in found] == [12, 1, 40, 2]
    assert [n for batch in found for n in batch.column("n").to_pylist()] == list(range(55))
    assert [batch.num_rows for batch in together(batches[2:3])] == [1]
    assert list(together([])) == []
