"""The option ``plan``: the names of a query's columns in DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import InvalidOption
from tests.helpers.paths import FIXTURES
from tests.helpers.planned_states import orders
from tests.unit.query_plans.test_node_states import CHANGING, call, calling

JOB = FIXTURES / "1.20" / "plan-plain"


def test_states_have_the_columns_of_the_query(spark: SparkSession) -> None:
    reader = spark.read.format("savepoint").option("plan", str(JOB / "plan.json")).option("uid", "6_group-aggregate")
    found = reader.option("state", "accState").load(str(JOB / "snapshot"))
    rows = found.where("key.product = 'tea'").select("key.customer", "value.total", "value.ids").collect()
    expected: dict[int, list[float]] = {}
    for order in orders():
        if order["product"] == "tea":
            expected.setdefault(order["customer"], []).append(order["amount"])
    assert sorted(map(tuple, rows)) == sorted((key, sum(found), len(found)) for key, found in expected.items())


def test_windows_are_timestamps(spark: SparkSession) -> None:
    reader = spark.read.format("savepoint").option("plan", (JOB / "plan.json").read_text())
    found = reader.option("uid", "183_window-aggregate").option("state", "window-aggs").load(str(JOB / "snapshot"))
    starts = found.select("namespace.window_start").distinct().collect()
    assert [str(row.window_start) for row in starts] == ["2024-01-01 00:02:00"]


def filled(spark: SparkSession, plan: Any, queries: dict[str, str], folder: Path) -> Any:
    """An operator that is written from DataFrames, as it is read with the plan."""
    rows = {name: spark.sql(text) for name, text in queries.items()}
    writer = SavepointWriter.new_savepoint(spark).with_operator(
        CHANGING, OperatorBootstrap.from_plan(plan, CHANGING, rows)
    )
    writer.write(folder / "filled")
    return stateproc.open(folder / "filled", plan=plan).operator(CHANGING)


ARRAYS = [
    ("ROW<`a` INT>", "array(named_struct('a', 1), null)", [{"f0": 1}, None]),
    ("MAP<INT, INT>", "array(map(1, 2))", [[(1, 2)]]),
    ("MULTISET<INT>", "array(map(1, 2))", [[(1, 2)]]),
    ("DATE", "array(DATE '1969-12-31', null)", [-1, None]),
    ("VARCHAR(2147483647)", "array('\\0', '', null)", ["\0", "", None]),
    ("ROW<`a` INT>", "null", []),
    ("ROW<`a` INT>", "array(null)", [None]),
    ("DATE", "CAST(array() AS ARRAY<DATE>)", []),
    ("DATE", "array()", []),
    ("MAP<INT, INT>", "array(null)", [None]),
]


@pytest.mark.parametrize(("column", "array", "wanted"), ARRAYS)
def test_arrays_are_filled_with_values_of_any_type(
    spark: SparkSession, tmp_path: Path, column: str, array: str, wanted: list[Any]
) -> None:
    plan = calling(call("ARRAY_AGG", 1), column=None if column.startswith("VARCHAR") else column)
    text = f"SELECT 'Rome' AS city, {array} AS array_agg_name, 1L AS row_count"
    (row,) = filled(spark, plan, {"accState": text}, tmp_path).state("accState").to_arrow().to_pylist()
    assert row["value"]["array_agg_name"] == {"list": wanted, "retractList": []}


FIRSTS = {
    "accState": "SELECT 'Rome' AS city, 'a' AS first_value_city, 2L AS row_count",
    "agg0$valueToOrderMap": "SELECT 'Rome' AS city, {} AS count",
    "agg0$orderToValueMap": "SELECT 'Rome' AS city, array('Rome', 'Rome') AS city_1",
}


@pytest.mark.parametrize("count", ["0.0D", "2.5D", "-1.0D", "0BD", "2.5BD", "double('nan')", "null", "3000000000L"])
def test_a_number_of_rows_is_a_whole_number(spark: SparkSession, tmp_path: Path, count: str) -> None:
    queries = {name: text.format(count) for name, text in FIRSTS.items()}
    with pytest.raises(PySparkException, match=r"'count' cannot be|CAST_OVERFLOW|CAST_INVALID"):
        filled(spark, calling(call("FIRST_VALUE", 2)), queries, tmp_path)


@pytest.mark.parametrize("count", ["2.0D", "2BD", "2L", "2"])
def test_arrays_of_a_column_of_the_group(spark: SparkSession, tmp_path: Path, count: str) -> None:
    queries = {name: text.format(count) for name, text in FIRSTS.items()}
    made = filled(spark, calling(call("FIRST_VALUE", 2)), queries, tmp_path)
    assert [row["value"] for row in made.state("agg0$valueToOrderMap").to_arrow().to_pylist()] == [[("Rome", [0, 0])]]
    assert [row["value"] for row in made.state("agg0$orderToValueMap").to_arrow().to_pylist()] == [
        [(0, ["Rome", "Rome"])]
    ]


def test_columns_of_arrays_are_arrays_or_null(spark: SparkSession, tmp_path: Path) -> None:
    key, plan = "SELECT 'Rome' AS city, ", calling(call("LISTAGG", 1))
    queries = {"accState": key + "1L AS row_count", "agg0$list": key + "null AS name"}
    assert filled(spark, plan, queries, tmp_path).state("agg0$list").to_arrow().num_rows == 0
    with pytest.raises(InvalidOption, match="'name' is string, where an array of the values is needed"):
        filled(spark, plan, queries | {"agg0$list": key + "'a' AS name"}, tmp_path / "text")
    queries["agg0$list"] = key + "array() AS name"
    assert filled(spark, plan, queries, tmp_path / "nothing").state("agg0$list").to_arrow().num_rows == 0
