"""A writer with DataFrames shows in a notebook what it would write; DataFrames are not evaluated."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from stateproc import OperatorBootstrap, SavepointWriter
from tests.helpers.page_reports import HOSTILE
from tests.helpers.paths import DEMO

UIDS = ["orders-from-kafka", "orders-per-customer", "revenue-per-product"]


def rows(writer: SavepointWriter) -> list[list[str]]:
    """The text of the cells of each row."""
    found = re.findall(r"<tr>(.*?)</tr>", writer._repr_html_(), re.DOTALL)
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row)] for row in found[1:]]


def test_added_and_replaced_operators_and_states_are_shown(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 2.0)], "key long, value double").selectExpr("raise_error('read') key", "value")
    frame = frame.selectExpr("cast(key as long) key", "value")
    writer = SavepointWriter.from_existing_savepoint(spark, str(DEMO), {"uids": UIDS})
    writer.with_operator("loyal", OperatorBootstrap().value_state("total", frame)).with_parallelism("loyal", 3)
    writer.with_operator("revenue-per-product", OperatorBootstrap().value_state("sum", frame))
    writer.with_states("orders-per-customer", lambda op: op.value_state("more", frame).value_state("profile", frame))
    shown = {row[0]: row[1:] for row in rows(writer)}
    assert shown["loyal"] == ["added", "–", "3 of 128", "–"]
    assert shown["total value"] == ["added", "–", "", ""]
    assert shown["revenue-per-product"][0] == "replaced"
    assert shown["orders-per-customer"][:2] == ["changed", "–"]
    assert shown["more value"] == ["added", "from rows", "", ""]
    assert shown["profile value"] == ["replaced", "from rows", "", ""]
    assert shown["spent-per-product map"] == ["carried over", "entries copied", "", ""]
    assert shown["orders-from-kafka"][0] == "carried over"


def test_a_new_savepoint(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 2.0)], "key long, value double")
    writer = SavepointWriter.new_savepoint(spark, max_parallelism=64)
    writer.with_operator(HOSTILE, OperatorBootstrap().value_state("total", frame))
    html = writer._repr_html_()
    assert "<script" not in html and "new" in html and " of 64" in html
    assert repr(writer).startswith("Plan of a new savepoint, for Flink 1.20\n  added ")
