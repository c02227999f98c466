"""`attach`: a view for every state, operator and metadata table of a snapshot."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import stateproc
from stateproc.errors import InvalidOption, MissingFile
from stateproc.spark.views import numbered_names
from tests.helpers.cases import case_snapshots
from tests.helpers.paths import FIXTURES

DEMO = str(FIXTURES / "1.20" / "demo" / "snapshot")
UIDS = ["orders-per-customer", "orders-from-kafka", "revenue-per-product"]


def test_every_state_and_operator_has_a_view(spark: SparkSession) -> None:
    views = stateproc.attach(spark, DEMO, uids=UIDS)
    assert views.names == [
        "savepoint_states", "savepoint_operators", "savepoint_files", "savepoint_coordinators",
        "orders_per_customer", "orders_per_customer__profile", "orders_per_customer__spent_per_product",
        "orders_per_customer__event_timers", "orders_per_customer__processing_timers",
        "orders_from_kafka__SourceReaderState",
        "revenue_per_product", "revenue_per_product__window_contents",
        "revenue_per_product__event_timers", "revenue_per_product__processing_timers",
    ]  # fmt: skip
    assert views.problems == {}
    counts = {name: spark.table(name).count() for name in views.names}
    assert counts["orders_per_customer"] == counts["orders_per_customer__event_timers"] == 300
    assert counts["revenue_per_product"] == 55
    assert counts["orders_from_kafka__SourceReaderState"] == 5
    [row] = spark.sql(
        "SELECT p.value.name FROM orders_per_customer__profile p"
        " JOIN orders_per_customer__event_timers t USING (key) WHERE key = 42"
    ).collect()
    assert row.name == "customer № 42"
    printed = repr(views)
    assert printed.splitlines()[0] == f"14 views of {DEMO}"
    assert "orders_from_kafka__SourceReaderState    subtask, topic, partition, starting_offset" in printed
    assert "<td>orders_per_customer</td>" in views._repr_html_()


def test_without_uids_views_are_named_by_the_operators_hash(spark: SparkSession) -> None:
    views = stateproc.attach(spark, DEMO)
    assert "op_25afd583__profile" in views.names
    assert spark.table("op_25afd583__profile").count() == 300


def test_options_that_select_states_are_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match="option uid does not go with attach"):
        stateproc.attach(spark, DEMO, uid="orders-from-kafka")


def test_attach_works_twice_and_in_another_session(spark: SparkSession) -> None:
    """`attach` registers the source, which must not conflict with the one that Spark has discovered."""
    other = spark.newSession()
    stateproc.attach(other, DEMO)
    stateproc.attach(other, DEMO)
    assert other.table("savepoint_files").count() == 7


def test_a_wrong_path_is_refused(spark: SparkSession) -> None:
    with pytest.raises(MissingFile):
        stateproc.attach(spark, "/nowhere/at/all")


def test_view_names_need_no_quotes_and_are_unique() -> None:
    names = ["my op: Über (1)", "My Op -> ber 1", "25e3", "状态", "_状_", "other"]
    assert numbered_names(names) == ["my_op_ber_1_2", "My_Op_ber_1_1", "op_25e3", "state_2", "state_1", "other"]


def test_names_that_differ_by_case_only_are_numbered_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    path = next(item.path for item in case_snapshots() if item.case == "names-by-case")
    session = spark.newSession()
    with pytest.warns(stateproc.AmbiguousNamesWarning, match="caseSensitive"):
        views = stateproc.attach(session, path, uids=["src", "orders", "Orders"], cache=str(tmp_path))
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in str(views).splitlines()}
    assert shown["orders_2__count_2"] == "key_group, key, value (operator 'orders', state 'count')"
    assert not {"orders", "orders__count", "orders__legacy"} & {name.lower() for name in views.names}
    found = {
        name: session.sql(f"SELECT value FROM {name} WHERE key = 3").first()[0]
        for name in ("orders_2__count_2", "orders_2__Count_1", "Orders_1__count_2", "Orders_1__Count_1")
    }
    assert found == {
        "orders_2__count_2": 3,
        "orders_2__Count_1": 1003,
        "Orders_1__count_2": 100003,
        "Orders_1__Count_1": 101003,
    }
    legacy = "SELECT value.id, value.ID, value.inner.x FROM orders_2__legacy WHERE value.id = 3"
    with pytest.raises(AnalysisException, match="AMBIGUOUS"):
        session.sql(legacy)
    session.conf.set("spark.sql.caseSensitive", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("error", stateproc.AmbiguousNamesWarning)
        stateproc.attach(session, path, uids=["src", "orders", "Orders"], cache=str(tmp_path))
    assert [tuple(row) for row in session.sql(legacy).collect()] == [(3, 503, 3)]
