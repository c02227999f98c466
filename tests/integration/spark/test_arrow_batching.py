"""Arrow batches from Spark to Python: slicing of large rows, restored settings, and a single evaluation."""

from __future__ import annotations

import itertools
import threading
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
from stateproc.errors import InvalidEntries
from stateproc.writers.spark import execution
from stateproc.writers.spark import row_batches as arrow_batching
from stateproc.writers.spark.row_batches import (
    ARROW_SETTINGS,
    ROW_BYTES,
    SLICE,
    batches_limited,
    coalesced,
    is_bounded,
    reassembled,
    sliced,
)

N = 9_000


@pytest.fixture
def settings_of_writes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str | None]]:
    """Record the session's Arrow settings during each write."""
    seen: list[dict[str, str | None]] = []
    inner = execution.save

    def save(entries: DataFrame, *arguments: Any) -> Any:
        seen.append(settings(entries.sparkSession))
        return inner(entries, *arguments)

    monkeypatch.setattr(execution, "save", save)
    return seen


def settings(spark: SparkSession) -> dict[str, str | None]:
    return {name: spark.conf.get(name, None) for name in ARROW_SETTINGS}


UNSET = dict.fromkeys(ARROW_SETTINGS)


def people(spark: SparkSession, large: int = -1, size: int = 0) -> DataFrame:
    """Return rows with two strings; those of key ``large`` have ``size`` bytes in total."""
    # The length depends on the row, so that Spark does not make a literal of the string, in every text of the plan.
    length = F.when(F.col("id") == large, F.lit(size - 5)).otherwise(0)
    one = F.when(F.col("id") == large, F.repeat(F.lit("x"), length)).otherwise(F.concat(F.lit("name "), F.col("id")))
    other = F.when(F.col("id") == large, F.lit("é é")).when(F.col("id") % 7 != 0, F.lit("y"))
    value = F.struct(one.alias("name"), other.alias("note"), (F.col("id") * 2).alias("number"))
    return spark.range(N, numPartitions=3).select(F.col("id").alias("key"), value.alias("value"))


def write(target: Path, frame: DataFrame) -> None:
    spark = frame.sparkSession
    state = OperatorBootstrap().value_state("name", frame)
    SavepointWriter.new_savepoint(spark).with_operator("op", state).with_parallelism("op", 2).write(target)


def assert_written(target: Path, frame: DataFrame) -> None:
    """Check that each row is stored once and that all files belong to the snapshot."""
    table = stateproc.open(target).state("op", "name").to_arrow()
    assert sorted(table.column("key").to_pylist()) == list(range(N))
    found = {row["key"]: tuple(row["value"].values()) for row in table.to_pylist()}
    assert found == {row.key: tuple(row.value) for row in frame.collect()}
    assert len(list(target.iterdir())) == 1 + 2


@pytest.mark.parametrize(
    ("large", "size"), [(-1, 0), (0, ROW_BYTES), (0, ROW_BYTES + 1), (4_567, 10_000_000), (N - 1, ROW_BYTES + 1)]
)
def test_rows_including_a_large_one_are_written(
    spark: SparkSession, tmp_path: Path, settings_of_writes: list[Any], large: int, size: int
) -> None:
    frame = people(spark, large, size)
    write(tmp_path / "s", frame)
    assert settings_of_writes == [ARROW_SETTINGS]
    assert_written(tmp_path / "s", frame)
    assert settings(spark) == UNSET


def counting(frame: DataFrame, counter: Any) -> DataFrame:
    """Return the same rows after Python has counted them."""

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counter.add(batch.num_rows)
            yield batch

    return frame.mapInArrow(counted, frame.schema)


@pytest.mark.parametrize("large", [-1, 4_567])
def test_a_dataframe_is_evaluated_once(spark: SparkSession, tmp_path: Path, large: int) -> None:
    """It is evaluated once for all states of all operators, including large rows."""
    counter = spark.sparkContext.accumulator(0)
    frame = counting(people(spark, large, 3 << 20), counter).withColumn("seen", F.col("value.number"))
    one = OperatorBootstrap().value_state("name", frame).value_state("number", frame, "seen")
    two = OperatorBootstrap().value_state("again", frame, "seen").operator_list_state("all", frame, "seen")
    writer = SavepointWriter.new_savepoint(spark).with_operator("one", one).with_operator("two", two)
    written = stateproc.open(writer.write(tmp_path / "s"))
    assert counter.value == N
    for operator, state in (("one", "name"), ("one", "number"), ("two", "again"), ("two", "all")):
        assert written.state(operator, state).to_arrow().num_rows == N


@pytest.mark.parametrize("column", ["list of maps", "names that differ in case"])
def test_columns_of_unbounded_size_keep_the_byte_limit_of_batches(
    spark: SparkSession, tmp_path: Path, settings_of_writes: list[Any], column: str
) -> None:
    frame = people(spark)
    if column == "list of maps":
        frame = frame.withColumn("value", F.array(F.create_map(F.lit("a"), "value.number")))
    else:
        frame = frame.withColumn("value", F.struct(F.lit("x").alias("a"), F.repeat(F.lit("y"), ROW_BYTES).alias("A")))
    write(tmp_path / "s", frame)
    assert settings_of_writes == [UNSET]
    assert stateproc.open(tmp_path / "s").state("op", "name").to_arrow().num_rows == N


@pytest.mark.parametrize("name", list(ARROW_SETTINGS))
def test_explicit_session_settings_are_kept(
    spark: SparkSession, tmp_path: Path, settings_of_writes: list[Any], name: str
) -> None:
    spark.conf.set(name, "1000")
    try:
        frame = people(spark, 4_567, 3 << 20)
        write(tmp_path / "s", frame)
        assert settings_of_writes == [{**UNSET, name: "1000"}] == [settings(spark)]
        assert_written(tmp_path / "s", frame)
    finally:
        spark.conf.unset(name)


def test_a_write_that_fails_restores_the_settings(spark: SparkSession, tmp_path: Path) -> None:
    twice = people(spark).union(people(spark))
    with pytest.raises(PythonException, match="DuplicateKey"):
        write(tmp_path / "s", twice)
    assert settings(spark) == UNSET
    assert not (tmp_path / "s" / "_metadata").exists()


def test_concurrent_writes_share_the_settings(spark: SparkSession) -> None:
    """The last one restores them; a write that needs the byte limit waits for writes without it."""
    order: list[str] = []

    def limited() -> None:
        with batches_limited(spark, by_rows=False):
            order.append(f"limited {settings(spark) == UNSET}")

    thread = threading.Thread(target=limited)
    with batches_limited(spark, by_rows=True):
        with batches_limited(spark, by_rows=True):
            assert settings(spark) == ARROW_SETTINGS
        assert settings(spark) == ARROW_SETTINGS
        thread.start()
        thread.join(0.2)
        order.append("by rows")
    thread.join()
    assert order == ["by rows", "limited True"]
    assert settings(spark) == UNSET


def test_large_rows_are_sliced_and_reassembled(spark: SparkSession) -> None:
    sizes = [0, 1, ROW_BYTES - 1, ROW_BYTES, ROW_BYTES + 1, 5 * ROW_BYTES, 1_000_000]
    rows = [
        (k, None if k % 5 == 4 else "é" * (size // 2), None if k % 3 == 2 else bytes([k % 256]) * (size - size // 2))
        for k, size in enumerate(size for size in sizes for _ in range(5))
    ]
    frame = spark.createDataFrame(rows, "k int, text string, data binary").coalesce(1)
    assert is_bounded(frame.schema) and not is_bounded(frame.select(F.array("k")).schema)
    parts = sliced(frame)
    assert parts.selectExpr(f"max(octet_length({SLICE}))").first()[0] == ROW_BYTES
    assert (
        parts.selectExpr("max(ifnull(octet_length(text), 0) + ifnull(octet_length(data), 0))").first()[0] == ROW_BYTES
    )
    batches = pa.Table.from_batches(parts.toArrow().to_batches()).to_batches(max_chunksize=7)
    assert [tuple(row.values()) for batch in reassembled(batches) for row in batch.to_pylist()] == rows
    for damaged in (batches[:-1], [batches[-1].slice(1)]):
        with pytest.raises(InvalidEntries):
            list(reassembled(damaged))


def test_small_batches_are_concatenated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_batching, "_ENCODED_BYTES", 100)
    edges = [0, 3, 12, 13, 53, 54, 55]
    batches = [pa.RecordBatch.from_pydict({"n": pa.array(range(*pair))}) for pair in itertools.pairwise(edges)]
    found = list(coalesced(batches))
    assert [batch.num_rows for batch in found] == [12, 1, 40, 2]
    assert [n for batch in found for n in batch.column("n").to_pylist()] == list(range(55))
    assert [batch.num_rows for batch in coalesced(batches[2:3])] == [1]
    assert list(coalesced([])) == []
