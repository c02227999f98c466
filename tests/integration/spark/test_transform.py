"""Transformation of states as rows: types that are kept, and changes of types, keys and time to live."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc import InvalidOption, OperatorBootstrap, SavepointWriter
from stateproc.keygroups.ranges import key_group_of_hash

POINT = "Pojo com.acme.Point {x: Long, y: Long}"


@pytest.fixture(scope="module")
def source(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = spark.range(5).select(
        F.col("id").alias("key"),
        F.struct(F.col("id").alias("x"), F.lit(None).cast("long").alias("y")).alias("point"),
        F.create_map(F.col("id").cast("string"), F.struct(F.col("id").alias("x"), F.col("id").alias("y"))).alias("map"),
    )
    rows = rows.withColumn("list", F.array("point"))
    state = (
        OperatorBootstrap()
        .value_state("point", rows, "point", type=POINT)
        .list_state("list", rows, "list", element_type=POINT)
        .map_state("map", rows, "map", map_key_type="BigInteger", map_value_type=POINT)
    )
    path = tmp_path_factory.mktemp("transforming") / "source"
    return SavepointWriter.new_savepoint(spark).with_operator("op", state).with_parallelism("op", 2).write(path)


def point(text: str) -> Any:
    return F.struct(F.col(text).alias("x"), F.lit(7).cast("long").alias("y"))


def test_types_are_kept_whatever_the_nullability_of_columns(spark: SparkSession, source: str, tmp_path: Path) -> None:
    """A column without nulls keeps its type, and new values of a map keep the type of its keys."""
    writer = SavepointWriter.from_existing_savepoint(spark, source)
    writer.transform_state("op", "point", lambda rows: rows.withColumn("value", point("key")))
    writer.transform_state("op", "list", lambda rows: rows.withColumn("value", F.array(point("key"))))
    writer.transform_state(
        "op", "map", lambda rows: rows.withColumn("value", F.transform_values("value", lambda _, item: item.x))
    )
    operator = stateproc.open(writer.write(tmp_path / "s")).operator("op")
    types = {state.name: state.value_type for state in operator.keyed_states}
    before = {state.name: state.value_type for state in stateproc.open(source).operator("op").keyed_states}
    assert types == {"point": before["point"], "list": before["list"], "map": "Map<BigInteger, Long>"}
    assert before["point"] == "Pojo Point"
    rows = operator.state("list").to_arrow().to_pylist()
    assert sorted((row["key"], row["value"]) for row in rows) == [(n, [{"x": n, "y": 7}]) for n in range(5)]
    rows = operator.state("map").to_arrow().to_pylist()
    assert sorted((row["key"], row["value"]) for row in rows) == [(n, [(str(n), n)]) for n in range(5)]


def test_keys_are_replaced_by_keys_of_another_type(spark: SparkSession, source: str, tmp_path: Path) -> None:
    """The rows of its states replace the operator."""
    rows = spark.read.format("savepoint").option("uid", "op").option("state", "point").load(source)
    named = OperatorBootstrap().value_state("point", rows.withColumn("key", F.concat(F.lit("k"), "key")), type=POINT)
    writer = SavepointWriter.from_existing_savepoint(spark, source).with_operator("op", named)
    operator = stateproc.open(writer.write(tmp_path / "s")).operator("op")
    found = operator.state("point").to_arrow(keys=["k3"]).to_pylist()
    assert [(row["key"], row["value"]) for row in found] == [("k3", {"x": 3, "y": None})]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda rows: None, "the function gave a NoneType"),
        (lambda rows: rows.toPandas(), "the function gave a DataFrame"),
        (lambda rows: rows.drop("value"), "no column 'value'"),
    ],
)
def test_functions_without_a_valid_dataframe_are_refused(
    spark: SparkSession, source: str, function: Any, message: str
) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, source)
    with pytest.raises(InvalidOption, match=message):
        writer.transform_state("op", "point", function)


def test_a_map_state_without_maps_is_refused(spark: SparkSession, source: str, tmp_path: Path) -> None:
    def lengths(rows: DataFrame) -> DataFrame:
        return rows.withColumn("value", F.size("value"))

    writer = SavepointWriter.from_existing_savepoint(spark, source).transform_state("op", "map", lengths)
    with pytest.raises(InvalidOption, match="'value' is int, where a map state needs a map"):
        writer.write(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_relative_path_is_resolved_in_the_callers_process(
    spark: SparkSession, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads in processes with other working directories."""
    monkeypatch.chdir(Path(source).parent)
    writer = SavepointWriter.from_existing_savepoint(spark, Path(source).name)
    writer.transform_state("op", "point", lambda rows: rows.where("key < 2"))
    monkeypatch.chdir(tmp_path)
    assert writer.write("made") == "made"
    assert stateproc.open(tmp_path / "made").state("op", "point").to_arrow().num_rows == 2


def test_two_changes_of_a_time_to_live_are_refused(spark: SparkSession, source: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, source).enable_ttl("op", "point")
    with pytest.raises(InvalidOption, match="changed twice") as raised:
        writer.disable_ttl("op", "point")
    assert "a second write" in str(raised.value)


KEY = "Pojo com.acme.Point {x: Long, day: LocalDate}"


def hash_function() -> Callable[[pa.Array], pa.Array]:
    """Return the hashCode of a user class, as a closure that is pickled by value for Spark's workers."""

    def codes(keys: pa.Array) -> pa.Array:
        # Days are text, both in rows and in entries that are carried over.
        days = pc.cast(pc.struct_field(keys, "day"), pa.date32()).cast(pa.int32())
        return pc.add(pc.multiply(pc.cast(pc.struct_field(keys, "x"), pa.int32()), 31), days)

    return codes


def in_the_groups_of_their_hashes(path: str, state: str) -> list[int]:
    """Return x of the keys, after a check that the rows are in the key groups where Flink searches them."""
    found = []
    opened = stateproc.open(path)
    for row in opened.state("op", state).to_arrow().to_pylist():
        code = row["key"]["x"] * 31 + (row["key"]["day"] - date(1970, 1, 1)).days
        groups = key_group_of_hash(np.array([code], np.int32), opened.operator("op").max_parallelism)
        assert groups.tolist() == [row["key_group"]]
        found.append(row["key"]["x"])
    return sorted(found)


def test_a_hash_function_is_applied_to_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(40).selectExpr(
        "named_struct('day', date_from_unix_date(cast(id as int)), 'x', id) key", "map(id, id, id + 1, id) value",
        "cast(id * 31 + id as int) code",
    )  # fmt: skip
    keys = {"key_type": KEY, "hash_column": "code"}
    state = OperatorBootstrap(**keys).map_state("kept", rows).map_state("changed", rows).map_state("moved", rows)
    path = SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "s")
    further = F.col("key").withField("x", F.col("key.x") + 1000)

    def writer() -> SavepointWriter:
        return SavepointWriter.from_existing_savepoint(spark, path).with_hash_function("op", hash_function())

    def change(writer: SavepointWriter) -> SavepointWriter:
        """Change keys, the order of columns, and timers."""
        writer.transform_state("op", "changed", lambda rows: rows.withColumn("key", further))
        writer.with_states("op", lambda op: op.value_state("new", rows.select(further.alias("key"), "code"), "code"))
        moments = rows.withColumn("at", F.col("code").cast("long"))
        return writer.with_states("op", lambda op: op.event_time_timers(moments, "at"))

    same = change(writer()).write(tmp_path / "same")
    others = change(writer()).with_max_parallelism(1000).write(tmp_path / "others")
    for made in (same, others):
        assert in_the_groups_of_their_hashes(made, "changed") == list(range(1000, 1040))
        assert in_the_groups_of_their_hashes(made, "new") == list(range(1000, 1040))
        assert in_the_groups_of_their_hashes(made, "moved") == list(range(40))
        assert in_the_groups_of_their_hashes(made, "event timers") == list(range(40))
    with pytest.raises(InvalidOption, match=r"the hashCode of keys of the type .* is unknown"):
        SavepointWriter.from_existing_savepoint(spark, path).with_states(
            "op", lambda op: op.value_state("new", rows, "code")
        ).write(tmp_path / "t")
