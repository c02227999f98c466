"""Rows with large lists and maps are followed by empty rows, which bound the bytes of a batch of Arrow rows."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.writers.spark import execution
from stateproc.writers.spark.row_batches import ARROW_SETTINGS, PADDING, ROW_BYTES, can_be_padded, padded, unpadded

COLUMNS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "longs": ("array<bigint>", lambda n: [None, *range(n // 8)]),
    "decimals": ("array<decimal(38, 2)>", lambda n: [Decimal("1.50")] * (n // 16)),
    "texts": ("array<string>", lambda n: [None, "é" * (n // 2), "x"]),
    "blobs": ("array<binary>", lambda n: [None, b"\xff" * n]),
    "structs": ("array<struct<a: string, b: bigint>>", lambda n: [None, {"a": "x" * n, "b": None}]),
    "lists": ("array<array<string>>", lambda n: [None, [], ["x" * n, None]]),
    "map": ("map<string, array<bigint>>", lambda n: [("a", [1] * (n // 8)), ("b", None), ("c", [])]),
    "text": ("string", lambda n: "x" * n),
}
SIZES = [1, 10, 20, 3 * ROW_BYTES + 8, 1, ROW_BYTES - 1, 10 * ROW_BYTES]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_row_is_followed_by_its_share_of_empty_rows(spark: SparkSession, column: str) -> None:
    kind, content = COLUMNS[column]
    rows = [(k, None if k == 1 else content(n), None) for k, n in enumerate(SIZES)]
    given = [(k, dict(value) if column == "map" and value else value, other) for k, value, other in rows]
    frame = spark.createDataFrame(given, f"k int, value {kind}, other array<int>").coalesce(1)
    table = padded(frame).toArrow().combine_chunks()
    assert table.column_names == ["k", "value", "other", PADDING]

    numbers, empty = table["k"].to_pylist(), table[PADDING].to_pylist()
    for k, n in enumerate(SIZES):
        row = numbers.index(k)
        padding = numbers.count(k) - 1
        assert empty[row : row + 1 + padding] == [False] + [True] * padding
        assert table["value"].slice(row + 1, padding).null_count == padding
        # Longs and decimals are counted with as many bytes as any value of fixed width has.
        assert n // ROW_BYTES <= padding <= 2 * n // ROW_BYTES + 1
        assert (padding > 0) == (n >= ROW_BYTES - 1 and not (n < ROW_BYTES and column in ("text", "decimals")))

    batches = table.to_batches(max_chunksize=2)
    assert [tuple(row.values()) for batch in unpadded(batches) for row in batch.to_pylist()] == rows


def test_batches_without_padding_pass_as_they_are(spark: SparkSession) -> None:
    batches = spark.range(3).toArrow().to_batches()
    assert list(unpadded(batches)) == batches


def test_arrays_of_maps_cannot_be_padded(spark: SparkSession) -> None:
    frame = spark.range(1).withColumn("many", F.array(F.create_map("id", "id")))
    assert can_be_padded(frame.select(F.array("id").alias("ids")).schema) and not can_be_padded(frame.schema)


@pytest.mark.parametrize("large", [-1, 777])
def test_lists_and_maps_are_written_without_the_byte_limit_of_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    """The DataFrame is evaluated once, and its large rows arrive whole."""
    settings: list[dict[str, str | None]] = []
    save = execution.save

    def recorded(entries: DataFrame, *arguments: Any) -> Any:
        settings.append({name: entries.sparkSession.conf.get(name, None) for name in ARROW_SETTINGS})
        return save(entries, *arguments)

    monkeypatch.setattr(execution, "save", recorded)
    counter = spark.sparkContext.accumulator(0)

    def counted(batches: Any) -> Any:
        for batch in batches:
            counter.add(batch.num_rows)
            yield batch

    n, items = 1_000, 200_000
    ids = spark.range(n, numPartitions=2)
    rows = ids.mapInArrow(counted, ids.schema).select(
        F.col("id").alias("key"),
        F.sequence(F.lit(1), F.when(F.col("id") == large, items).otherwise(2)).alias("list"),
        F.map_from_arrays(F.array(F.lit("a"), F.lit("b")), F.array("id", F.col("id") + 1)).alias("map"),
        F.when(F.col("id") % 2 == 0, F.array(F.struct(F.col("id").cast("string").alias("f0")))).alias("structs"),
    )
    state = OperatorBootstrap().list_state("list", rows, "list").map_state("map", rows, "map")
    state.list_state("structs", rows, "structs")
    SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "s")

    assert settings == [ARROW_SETTINGS] and counter.value == n
    written = stateproc.open(tmp_path / "s").operator("op")
    lists = {row["key"]: row["value"] for row in written.state("list").to_arrow().to_pylist()}
    assert lists == {k: list(range(1, items + 1)) if k == large else [1, 2] for k in range(n)}
    maps = {row["key"]: dict(row["value"]) for row in written.state("map").to_arrow().to_pylist()}
    assert maps == {k: {"a": k, "b": k + 1} for k in range(n)}
    structs = {row["key"]: row["value"] for row in written.state("structs").to_arrow().to_pylist()}
    assert structs == {k: [{"f0": str(k)}] for k in range(0, n, 2)}
