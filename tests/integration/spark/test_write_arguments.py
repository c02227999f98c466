"""Validation of the arguments of bootstraps and writers before the write, and of rows during it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType

import stateproc
from stateproc import InvalidOption, OperatorBootstrap, SavepointWriter, types

AddState = Callable[[OperatorBootstrap, DataFrame], object]
ONE = "select 1L key, 2L value"


def written(spark: SparkSession, tmp_path: Path, state: OperatorBootstrap) -> Any:
    path = (
        SavepointWriter.new_savepoint(spark).with_operator("op", state).with_parallelism("op", 2).write(tmp_path / "s")
    )
    return stateproc.open(path).operator("op")


@pytest.mark.parametrize("type_", [types.INT, "Integer", pa.int32(), IntegerType()], ids=str)
def test_a_type_is_specified_as_flink_type_text_arrow_or_spark_type(
    spark: SparkSession, tmp_path: Path, type_: Any
) -> None:
    operator = written(spark, tmp_path, OperatorBootstrap().value_state("s", spark.sql(ONE), type=type_))
    assert operator.state("s").value_type == "Integer"
    assert operator.state("s").to_arrow()["value"].to_pylist() == [2]


@pytest.mark.parametrize("type_", [int, 5, ["Long"]], ids=str)
def test_values_that_are_not_types_are_refused(spark: SparkSession, type_: Any) -> None:
    with pytest.raises(InvalidOption, match="is no type"):
        OperatorBootstrap().value_state("s", spark.sql(ONE), type=type_)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("interval '1' year", "interval year has no Flink type"),
        ("make_interval(1)", "interval has no Flink type"),
        ("array(parse_json('1'))", "array<variant> has no Flink type"),
        ("null", "type null has no Flink type"),
    ],
)
def test_columns_without_a_default_type_are_refused(spark: SparkSession, column: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        OperatorBootstrap().value_state("s", spark.sql(f"select 1L key, {column} value"))


@pytest.mark.parametrize(
    ("add_state", "message"),
    [
        (lambda op, rows: op.event_time_timers(rows, "text"), "'text' is string, where a timer's time is"),
        (lambda op, rows: op.event_time_timers(rows, "day"), "'day' is date"),
        (lambda op, rows: op.processing_time_timers(rows, "half"), "'half' is double"),
        (lambda op, rows: op.value_state("s", rows, last_access="text"), "where the last access is"),
        (lambda op, rows: op.list_state("s", rows, "days", last_access="days"), "'days' is array<date>"),
        (lambda op, rows: op.value_state("s", rows, last_access="times"), "'times' is array<bigint>"),
        (lambda op, rows: op.operator_list_state("s", rows, subtask="half"), "where a subtask is a whole number"),
        (lambda op, rows: op.value_state("s", rows, "twice"), "two columns are called 'twice'"),
        (lambda op, rows: op.value_state("s", rows, namespace_type=types.LONG), "namespaces of the type Long"),
        (lambda op, rows: op.value_state(5, rows), "called by text, and not by 5"),
        (lambda op, rows: op.broadcast_state(None, rows, map_key="key", map_value="value"), "not by None"),
        (lambda op, rows: op.value_state("s", rows.collect()), "a list, and no DataFrame of Spark or Arrow data"),
    ],
)
def test_columns_of_unsuitable_types_are_refused(spark: SparkSession, add_state: AddState, message: str) -> None:
    rows = spark.sql(
        "select 1L key, 2L value, 'x' text, date'2020-01-01' day, 0.5D half, array(date'2020-01-01') days, "
        "array(1L) times, 1 twice, 2 twice"
    )
    with pytest.raises(InvalidOption, match=message) as raised:
        add_state(OperatorBootstrap(), rows)
    assert raised.value.advice


def test_arrow_data_is_for_the_local_engine(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"key": [1], "value": [2]})
    with pytest.raises(InvalidOption, match="which Spark does not read"):
        written(spark, tmp_path, OperatorBootstrap().value_state("s", table))
    state = OperatorBootstrap().value_state("s", spark.createDataFrame(table))
    with pytest.raises(InvalidOption, match="DataFrames of Spark"):
        SavepointWriter.new_savepoint(None).with_operator("op", state).write(tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("hash_", "message"),
    [("'x'", "where a hash code is a whole number"), ("shiftleft(1L, 40)", "int64 does not fit int32")],
)
def test_hash_codes_that_are_not_ints_are_refused(
    spark: SparkSession, tmp_path: Path, hash_: str, message: str
) -> None:
    rows = spark.sql(f"select cast('a' as binary) key, 1L value, {hash_} code")
    with pytest.raises(Exception, match=message):
        written(spark, tmp_path, OperatorBootstrap(hash_column="code").value_state("s", rows))


def test_a_duplicate_key_of_a_broadcast_state_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("select id % 3 map_key, id map_value from range(4)")
    with pytest.raises(Exception, match=r"DuplicateKey.*\n?.*key bytes 0000000000000000\)") as raised:
        written(spark, tmp_path, OperatorBootstrap().broadcast_state("rules", rows))
    assert "state 'rules'" in str(raised.value)


def test_operator_state_of_structs_is_written(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("select struct(id as a, 'x' as b) map_key, array(struct(id as n)) map_value from range(2)")
    state = OperatorBootstrap().operator_list_state("pairs", rows, "map_key").broadcast_state("rules", rows)
    operator = written(spark, tmp_path, state)
    pairs = [{"f0": n, "f1": "x"} for n in range(2)]
    assert sorted(operator.state("pairs").to_arrow()["value"].to_pylist(), key=str) == pairs
    rules = operator.state("rules").to_arrow().to_pylist()
    assert [(row["map_key"], row["map_value"]) for row in rules] == [(pair, [{"f0": pair["f0"]}]) for pair in pairs]


def test_a_null_map_key_is_written_and_reported_when_maps_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """The keys of Flink's MapState may be null if their serializer can write null."""
    rows = spark.sql("select id key, if(id = 1, null, 'a') k, 2L v from range(3)")
    operator = written(spark, tmp_path, OperatorBootstrap().map_state("s", rows, map_key="k", map_value="v"))
    with pytest.raises(stateproc.UnsupportedSnapshot, match="a map has a null key") as raised:
        operator.state("s").to_arrow()
    assert "flatten" in str(raised.value)
    flat = operator.state("s").to_arrow(flatten=True).to_pylist()
    assert sorted((row["key"], row["map_key"]) for row in flat if row["key"] != 1) == [(0, "a"), (2, "a")]
    assert [row["map_key"] for row in flat if row["key"] == 1] == [None]


def test_invalid_arguments_of_a_writer_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    any_: Any = spark.sql(ONE)
    state = OperatorBootstrap().value_state("s", any_)
    new = SavepointWriter.new_savepoint
    wrong: list[tuple[Callable[[Any], object], Any, str]] = [
        (lambda it: new(spark, it), "128", "max parallelism '128'"),
        (lambda it: new(spark).with_operator("op", it), any_, "state of operator 'op' is a DataFrame"),
        (lambda it: new(spark).with_operator(it, state), 5, "called by text, and not by 5"),
        (lambda it: new(spark).with_flink_version(it), 1.2, "version 1.2 cannot be written"),
        (lambda it: new(spark).with_operator("op", state).write(it), None, "the path None"),
        (lambda it: new(spark).with_operator("op", state).with_parallelism("op", it).write(tmp_path / "x"), "2",
         "parallelism '2' of operator op"),
    ]  # fmt: skip
    for call, value, message in wrong:
        with pytest.raises(InvalidOption, match=message):
            call(value)
    path = new(spark).with_operator("op", state).write(tmp_path / "y")
    existing = SavepointWriter.from_existing_savepoint(spark, path)
    with pytest.raises(InvalidOption, match="a time to live of 5"):
        existing.purge_expired("op", "s", 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="the last access datetime"):
        existing.enable_ttl("op", "s", datetime.now())  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="the path 5"):
        SavepointWriter.from_existing_savepoint(spark, 5)  # type: ignore[arg-type]
    options = {"verify": False, "uids": ["op"], "splitBytes": 1 << 20}
    again = SavepointWriter.from_existing_savepoint(spark, path, options)
    assert again.transform_state("op", "s", lambda rows: rows) is again
    assert existing.purge_expired("op", "s", timedelta(days=1)) is existing


@pytest.mark.parametrize(
    "function",
    [lambda keys: keys.to_pylist(), lambda keys: keys.slice(1), lambda keys: pa.nulls(len(keys), pa.int32())],
)
def test_a_hash_function_without_a_valid_result_is_refused(spark: SparkSession, tmp_path: Path, function: Any) -> None:
    rows = spark.sql("select id key, id value from range(5)")
    state = OperatorBootstrap().value_state("s", rows)
    path = SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "s")
    writer = SavepointWriter.from_existing_savepoint(spark, path).with_hash_function("op", function)
    with pytest.raises(Exception, match="the hash function gave no hash codes"):
        writer.with_max_parallelism(64).write(tmp_path / "t")


def test_an_in_memory_path_is_refused(spark: SparkSession) -> None:
    state = OperatorBootstrap().value_state("s", spark.sql(ONE))
    with pytest.raises(InvalidOption, match="memory of one process"):
        SavepointWriter.new_savepoint(spark).with_operator("op", state).write("memory://bucket")


def test_unused_columns_may_have_any_type_that_spark_can_send(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql(
        "select 1L key, make_dt_interval(1) days, 2L value, parse_json('1') any, null nothing, "
        "struct(interval '1' month m) inside, interval '1' year years"
    )
    sink = rows.drop("years").write.format("savepoint").option("uid", "op").option("state", "s")
    sink.mode("append").save(str(tmp_path / "plain"))
    state = OperatorBootstrap().value_state("s", rows)
    SavepointWriter.new_savepoint(spark).with_operator("op", state).write(tmp_path / "builder")
    for name in ("plain", "builder"):
        (row,) = stateproc.open(tmp_path / name).state("op", "s").to_arrow().to_pylist()
        assert (row["key"], row["value"]) == (1, 2)


def test_a_column_that_spark_cannot_send_is_named(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("select 1L key, 2L value, interval '1-2' year to month years")
    sink = rows.write.format("savepoint").option("uid", "op").option("state", "s").mode("append")
    with pytest.raises(Exception, match=r"'years' is interval year to month, which .*\n?.*df\.drop\('years'\)"):
        sink.save(str(tmp_path / "plain"))
    assert not (tmp_path / "plain").exists()
