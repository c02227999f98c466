"""Change feeds of savepoints that were written for it: operator states, offsets, times, other max parallelisms."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import DataFrame, SparkSession

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.feed.state_feed import StateFeed
from tests.helpers.change_feeds import apply_feed, rows_of

UID = "customers"
KEYS = 400


@pytest.fixture(scope="module")
def pair(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two savepoints: the later one has another max parallelism, parallelism and format."""
    folder = tmp_path_factory.mktemp("pair")
    early = written(spark, folder / "early", 0, 128, 2, "canonical")
    return early, written(spark, folder / "late", 1, 96, 3, "native-rocksdb")


def written(
    spark: SparkSession,
    path: Path,
    round: int,
    max_parallelism: int,
    parallelism: int,
    form: Literal["canonical", "native-rocksdb"],
) -> str:
    states = (
        OperatorBootstrap(key_type=types.LONG)
        .value_state("seen", moments(spark, round), type=types.INSTANT)
        .list_state("items", items(spark, round), "items")
        .operator_list_state("buffered", elements(spark, [1, 2, 2, 3] if round == 0 else [2, 3, 4, 4]), "value")
        .union_list_state("known", elements(spark, [1, 2]), "value")
        .broadcast_state("rules", rules(spark, {"max": 10 + round, "min": 1, f"of {round}": 5}))
    )
    if round == 0:
        states = states.value_state("gone", moments(spark, 0), type=types.INSTANT)
    writer = SavepointWriter.new_savepoint(spark, max_parallelism).with_operator(UID, states)
    writer.with_operator("source", OperatorBootstrap().kafka_source(offsets(spark, round)))
    return str(writer.with_parallelism(UID, parallelism).with_format(form).write(path))


def moments(spark: SparkSession, round: int) -> DataFrame:
    """Key n was seen in second n; every tenth one second later in the second round, where twenty keys are others."""
    first = 20 * round
    rows = [
        (key, dt.datetime.fromtimestamp(key + (round if key % 10 == 0 else 0), dt.timezone.utc))
        for key in range(first, first + KEYS)
    ]
    return spark.createDataFrame(rows, "key long, value timestamp")


def items(spark: SparkSession, round: int) -> DataFrame:
    rows = [(key, [f"item {n}" for n in range(1 + key % 3 + (round if key % 5 == 0 else 0))]) for key in range(50)]
    return spark.createDataFrame(rows, "key long, items array<string>")


def elements(spark: SparkSession, values: list[int]) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], "value long")


def rules(spark: SparkSession, values: dict[str, int]) -> DataFrame:
    return spark.createDataFrame(list(values.items()), "map_key string, map_value int")


def offsets(spark: SparkSession, round: int) -> DataFrame:
    rows = [("orders", partition, 100 * partition + (7 * round if partition else 0)) for partition in range(2 + round)]
    return spark.createDataFrame(rows, "topic string, partition int, offset long")


def changed(pair: tuple[str, str], state: str, *columns: str, uid: str = UID, **options: Any) -> list[tuple[Any, ...]]:
    """The type of each change and some columns, sorted."""
    table = stateproc.changes(*pair, uid, state, **options).to_arrow(columns=["_change_type", *columns])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_elements_of_operator_state_are_changes_whichever_subtask_has_them(pair: tuple[str, str]) -> None:
    assert changed(pair, "buffered", "value") == [("delete", 1), ("delete", 2), ("insert", 4), ("insert", 4)]
    assert changed(pair, "known", "value") == []


def test_broadcast_state_changes_by_its_keys(pair: tuple[str, str]) -> None:
    assert changed(pair, "rules", "map_key", "map_value") == [
        ("delete", "of 0", 5),
        ("insert", "of 1", 5),
        ("update_postimage", "max", 11),
        ("update_preimage", "max", 10),
    ]


def test_kafka_offsets_change_by_partition(pair: tuple[str, str]) -> None:
    assert changed(pair, "SourceReaderState", "topic", "partition", "starting_offset", uid="source") == [
        ("insert", "orders", 2, 207),
        ("update_postimage", "orders", 1, 107),
        ("update_preimage", "orders", 1, 100),
    ]
    raw = stateproc.changes(*pair, "source", "SourceReaderState", raw=True).to_arrow()
    assert {row["_change_type"] for row in raw.to_pylist()} == {"delete", "insert"}
    assert {type(row["value"]) for row in raw.to_pylist()} == {bytes}


@pytest.mark.parametrize("temporal", ["micros", "exact"])
def test_values_change_between_other_max_parallelisms(pair: tuple[str, str], temporal: str) -> None:
    left, right = (stateproc.open(path, temporal=temporal) for path in pair)
    feed = stateproc.changes(left, right, UID, "seen")
    table = feed.to_arrow()
    assert table.schema.field("value").type == right[UID]["seen"].schema().field("value").type
    assert apply_feed(rows_of(left[UID]["seen"]), table) == rows_of(right[UID]["seen"])
    assert [(item.inserted, item.updated, item.deleted) for item in feed.counts()] == [(20, 38, 20)]


def test_keys_are_found_in_both_whatever_their_key_groups(pair: tuple[str, str]) -> None:
    feed = stateproc.changes(*pair, UID, "seen")
    times = {"update_preimage": 50, "update_postimage": 51}
    for options in ({"where": "key = 50"}, {"keys": [50], "where": "key IN (50, 51)"}):
        rows = feed.to_arrow(columns=["_change_type", "value"], **options).to_pylist()
        assert {row["_change_type"]: row["value"].timestamp() for row in rows} == times
    groups = feed.key_groups_of([50])
    assert groups is not None
    few = feed.splits(keys=[50], key_groups=groups)
    assert sum(split.bytes for split in few) < sum(split.bytes for split in feed.splits())
    rows = feed.to_arrow(key_groups=range(40)).to_pylist()
    expected = [row for row in feed.to_arrow().to_pylist() if row["key_group"] < 40]
    assert sorted(map(repr, rows)) == sorted(map(repr, expected)) and rows


def test_appended_elements_are_inserted(pair: tuple[str, str]) -> None:
    rows = changed(pair, "items", "key", "list_index", "list_element", list_changes="appended")
    assert rows == [("insert", key, n, f"item {n}") for key in range(0, 50, 5) for n in [1 + key % 3]]


def test_a_state_that_is_gone_is_deleted(pair: tuple[str, str]) -> None:
    feed = stateproc.changes(*pair, UID, "gone")
    assert [(item.inserted, item.updated, item.deleted) for item in feed.counts()] == [(0, 0, KEYS)]
    assert feed.schema().names == ["key_group", "key", "value", "_change_type", "_commit_version", "_commit_timestamp"]


def test_spark_reads_what_python_reads(spark: SparkSession, pair: tuple[str, str]) -> None:
    """The partitions of Spark are pickled; filters skip key groups of both snapshots."""
    reader = spark.read.format("savepoint").option("readChangeFeed", "true").option("startingSnapshot", pair[0])
    for state in ("seen", "rules"):
        rows = reader.option("uid", UID).option("state", state).load(pair[1]).toArrow().to_pylist()
        feed: StateFeed = stateproc.changes(*pair, UID, state)
        assert sorted(map(repr, rows)) == sorted(map(repr, feed.to_arrow().to_pylist()))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = reader.option("uid", UID).option("state", "seen").load(pair[1]).where("key = 50").collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert sorted(row["_change_type"] for row in found) == ["update_postimage", "update_preimage"]
