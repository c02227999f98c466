"""Writing savepoints from DataFrames and reading them: every kind of state, and refused rows and arguments."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc import InvalidOption, NotFound, OperatorBootstrap, SavepointWriter

ROWS = 300


@pytest.fixture(scope="module")
def people(spark: SparkSession) -> DataFrame:
    """Return rows in an order that differs from the order in files."""
    return spark.range(ROWS).select(
        F.col("id").alias("key"),
        F.concat(F.lit("név-"), F.col("id")).alias("value"),
        F.transform(F.sequence(F.lit(0), F.col("id") % 4), lambda n: n + F.col("id")).alias("numbers"),
        F.map_from_arrays(F.array(F.lit("a"), F.lit("b")), F.array(F.col("id"), F.lit(None))).alias("labels"),
        F.timestamp_millis(F.col("id") * 1000).alias("at"),
    )


def rows(path: Any, state: str, columns: tuple[str, ...] = ("key", "value")) -> list[Any]:
    """Return the state's rows sorted by key."""
    table = stateproc.open(path).operator("op").state(state).to_arrow()
    return sorted(zip(*(table.column(name).to_pylist() for name in columns), strict=True), key=lambda row: str(row[0]))


def by_key(pairs: Any) -> list[Any]:
    return sorted(pairs, key=lambda row: str(row[0]))


@pytest.mark.parametrize("max_parallelism", [128, 1024])
@pytest.mark.parametrize("compressed", [False, True])
def test_keyed_states_of_every_kind(
    spark: SparkSession, people: DataFrame, tmp_path: Path, max_parallelism: int, compressed: bool
) -> None:
    state = (
        OperatorBootstrap()
        .value_state("name", people)
        .list_state("numbers", people, "numbers")
        .map_state("labels", people, "labels")
        .reducing_state("least", people, "key")
        .aggregating_state("sum", people.withColumn("n", F.col("key") + 1), "n", ttl=True, last_access="at")
        .event_time_timers(people, "at")
        .processing_time_timers(people, "at", service="cleanup")
    )
    writer = SavepointWriter.new_savepoint(spark, max_parallelism).with_operator("op", state)
    written = writer.with_parallelism("op", 3).with_compression(compressed).write(tmp_path / "s")
    assert written == str(tmp_path / "s")
    assert rows(written, "name") == by_key((k, f"név-{k}") for k in range(ROWS))
    assert rows(written, "numbers") == by_key((k, [k + n for n in range(k % 4 + 1)]) for k in range(ROWS))
    assert rows(written, "labels") == by_key((k, [("a", k), ("b", None)]) for k in range(ROWS))
    assert rows(written, "least") == by_key((k, k) for k in range(ROWS))
    expected = [(k, k + 1, datetime.fromtimestamp(k, timezone.utc)) for k in range(ROWS)]
    assert rows(written, "sum", ("key", "value", "last_access")) == by_key(expected)
    operator = stateproc.open(written).operator("op")
    assert operator.max_parallelism == max_parallelism and operator.parallelism == 3
    for kind, service in (("event", "user-timers"), ("processing", "cleanup")):
        timers = operator.timers(kind).to_arrow().select(["key", "timestamp", "service"]).to_pylist()
        assert sorted((row["key"], row["timestamp"], row["service"]) for row in timers) == [
            (k, 1000 * k, service) for k in range(ROWS)
        ]


def test_operator_states(spark: SparkSession, people: DataFrame, tmp_path: Path) -> None:
    few = people.limit(7).coalesce(1).withColumn("whose", (F.col("key") % 2).cast("int"))
    state = (
        OperatorBootstrap()
        .operator_list_state("elements", few)
        .operator_list_state("placed", few, subtask="whose")
        .union_list_state("all", few, "key")
        .broadcast_state("rules", few, map_key="key", map_value="value")
    )
    path = (
        SavepointWriter.new_savepoint(spark).with_operator("op", state).with_parallelism("op", 2).write(tmp_path / "s")
    )
    operator = stateproc.open(path).operator("op")
    found = {item.name: item.to_arrow().to_pylist() for item in operator.operator_states}
    assert sorted(row["value"] for row in found["elements"]) == sorted(f"név-{k}" for k in range(7))
    assert [(row["subtask"], row["value"]) for row in found["placed"]] == [
        (k % 2, f"név-{k}") for k in (0, 2, 4, 6, 1, 3, 5)
    ]
    assert sorted(row["value"] for row in found["all"]) == list(range(7))
    assert {(row["map_key"], row["map_value"]) for row in found["rules"]} == {(k, f"név-{k}") for k in range(7)}


def test_nulls_and_empty_collections_are_not_written(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [("a", None, [], {}), ("b", 1, [1], {"x": 1}), ("c", 2, None, None)],
        "key string, value int, list array<int>, map map<string, int>",
    )
    state = OperatorBootstrap().value_state("v", frame).list_state("l", frame, "list").map_state("m", frame, "map")
    path = SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "s")
    assert rows(path, "v") == [("b", 1), ("c", 2)]
    assert rows(path, "l") == [("b", [1])]
    assert rows(path, "m") == [("b", [("x", 1)])]


@pytest.mark.parametrize(
    ("rows_", "message"),
    [
        ([(None, 1)], "a null, which a key has no bytes for"),
        ([(1, 1), (2, 2), (1, 3)], "two entries with the same key"),
    ],
)
def test_invalid_rows_are_refused_and_shown(spark: SparkSession, tmp_path: Path, rows_: Any, message: str) -> None:
    state = OperatorBootstrap().value_state("v", spark.createDataFrame(rows_, "key long, value int"))
    with pytest.raises(Exception, match=message) as caught:
        SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "s")
    assert "state 'v'" in str(caught.value)
    assert not (tmp_path / "s").exists()


def test_structs_in_structs_with_nulls_at_every_level(spark: SparkSession, tmp_path: Path) -> None:
    """Structs are sent as columns of their fields; nulls at every level have to be preserved."""
    schema = (
        "key struct<tenant: string not null, id: bigint not null> not null, "
        "value struct<Name: string, inner: struct<n: bigint, deep: struct<x: double, y: array<struct<a: int>>>>, "
        "`odd.name`: struct<b: boolean>, same: struct<a: int, A: int>, last: int>"
    )
    # The session distinguishes names that differ in case.
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        same, whole = (1, None), (1.5, [(1,), (None,)])
        values = [
            ("n", (1, whole), (True,), same, 1),
            (None, None, None, None, None),
            ("", (None, None), (None,), (None, 2), -1),
            ("ü", (3, (None, None)), (False,), same, 2),
            ("z", (3, (0.0, [])), (False,), same, None),
            None,
        ]
        frame = spark.createDataFrame([((f"t{k}", k), value) for k, value in enumerate(values)], schema)
        state = OperatorBootstrap(hash="Objects.hash").value_state("v", frame)
        written = SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "s")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    table = stateproc.open(written).operator("op").state("v").to_arrow()
    found = {
        key["f1"]: plain(value) for key, value in zip(*table.select(["key", "value"]).to_pydict().values(), strict=True)
    }
    assert found == {k: value for k, value in enumerate(values) if value is not None}


def plain(value: Any) -> Any:
    """Convert structs to tuples of their fields."""
    if isinstance(value, dict):
        return tuple(plain(part) for part in value.values())
    return [plain(item) for item in value] if isinstance(value, list) else value


def test_a_snapshot_is_overwritten_only_in_mode_overwrite(
    spark: SparkSession, people: DataFrame, tmp_path: Path
) -> None:
    def write(frame: DataFrame, mode: Any) -> None:
        state = OperatorBootstrap().value_state("v", frame)
        SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "s", mode)

    write(people, "error")
    with pytest.raises(InvalidOption, match="a snapshot is here already"):
        write(people.limit(1), "error")
    assert len(rows(tmp_path / "s", "v")) == ROWS
    write(people.limit(1), "overwrite")
    assert len(rows(tmp_path / "s", "v")) == 1


def test_arguments_are_checked_before_the_write(spark: SparkSession, people: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="valu"):
        OperatorBootstrap().value_state("v", people, "valu")
    with pytest.raises(InvalidOption, match="array"):
        OperatorBootstrap().list_state("v", people)
    with pytest.raises(InvalidOption, match="no operators"):
        SavepointWriter.new_savepoint(spark).write(tmp_path / "s")
    with pytest.raises(InvalidOption, match="hashCode"):
        pojo = people.select(F.struct("key").alias("key"), "value")
        state = OperatorBootstrap(key_type="Pojo com.acme.Key {key: Long}").value_state("v", pojo)
        SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "s")
    with pytest.raises(InvalidOption, match="two states"):
        state = OperatorBootstrap().value_state("v", people).value_state("v", people)
        SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_one_state_is_written_by_the_data_source(spark: SparkSession, people: DataFrame, tmp_path: Path) -> None:
    """``df.write.format("savepoint")`` accepts rows in any partitioning."""
    path = str(tmp_path / "s")
    writing = people.repartition(5).write.format("savepoint").option("uid", "op").option("state", "v")
    writing.option("parallelism", 3).mode("append").save(path)
    assert rows(path, "v") == by_key((k, f"név-{k}") for k in range(ROWS))
    read = spark.read.format("savepoint").option("uid", "op").option("state", "v").load(path)
    again = str(tmp_path / "again")
    read.write.format("savepoint").option("uid", "op").option("state", "v").mode("overwrite").save(again)
    assert rows(again, "v") == rows(path, "v")
    with pytest.raises(Exception, match="a snapshot is here already"):
        writing.mode("append").save(path)


def test_operator_state_is_written_by_the_data_source(spark: SparkSession, people: DataFrame, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    few = people.limit(5).select(F.col("key").alias("value"))
    options = {"uid": "op", "state": "e", "stateKind": "union", "parallelism": "2"}
    few.write.format("savepoint").options(**options).mode("append").save(path)
    found = stateproc.open(path).operator("op").state("e").to_arrow().column("value").to_pylist()
    assert sorted(found) == list(range(5))
