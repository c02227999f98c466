"""A writer shows in a notebook what it would write."""

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


def test_a_rewrite_shows_what_happens_to_each_operator(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 2.0)], "key long, value double")
    writer = SavepointWriter.from_existing_savepoint(spark, str(DEMO), {"uids": UIDS})
    assert [row[1] for row in rows(writer)] == ["files copied"] * 3
    writer.with_operator("loyal", OperatorBootstrap().value_state("total", frame))
    writer.drop_state("orders-per-customer", "profile").with_parallelism("orders-per-customer", 4)
    writer.rename_state("orders-per-customer", "spent-per-product", "spent")
    writer.change_operator_identifier("orders-from-kafka", "source").remove_operator("revenue-per-product")
    assert sorted(rows(writer)) == [
        ["loyal", "new", "total", "default"],
        [
            "orders-per-customer",
            "rewritten",
            "profile dropped, spent-per-product renamed to spent, rescaled from 2 of 128",
            "4 of 128",
        ],
        ["revenue-per-product", "removed", "–", "–"],
        ["source", "files copied", "renamed from orders-from-kafka", "2 of 128"],
    ]


def test_another_format_rewrites_keyed_state_only(spark: SparkSession) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, str(DEMO), {"uids": UIDS}).with_format("native-rocksdb")
    plans = {row[0]: row[1] for row in rows(writer)}
    assert plans == {
        "orders-per-customer": "rewritten",
        "revenue-per-product": "rewritten",
        "orders-from-kafka": "files copied",
    }
    assert "native-rocksdb" in writer._repr_html_()


def test_a_new_savepoint(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 2.0)], "key long, value double")
    writer = SavepointWriter.new_savepoint(spark, max_parallelism=64)
    writer.with_operator(HOSTILE, OperatorBootstrap().value_state("total", frame))
    html = writer._repr_html_()
    assert "<script" not in html and "new" in html and "64" in html
