"""The option ``plan``: the names of a query's columns in DataFrames."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.helpers.paths import FIXTURES
from tests.helpers.planned_states import orders

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
