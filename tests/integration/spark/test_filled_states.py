"""DataFrames of Spark fill the same state as Arrow data: windows, what DISTINCT has seen, JSON, joins by time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from tests.unit.query_plans.test_filled_temporal_joins import AS_OF, rates
from tests.unit.query_plans.test_filled_temporal_joins import given as given_as_of
from tests.unit.query_plans.test_filled_temporal_joins import orders as ordered
from tests.unit.query_plans.test_filled_timed_joins import BY_CLOCK, LEFT, NEAR, OF_ANY_KEY, RIGHT, joined_as, orders
from tests.unit.query_plans.test_filled_timed_joins import payments as paid
from tests.unit.query_plans.test_filled_timed_joins import watermark as at
from tests.unit.query_plans.test_node_states import CHANGING, PLAN, call, calling
from tests.unit.query_plans.test_states_of_distinct import ADDED, SEEN, accumulators, of_added, of_changes
from tests.unit.query_plans.test_states_of_windows import OF_TABLE, SESSION, TUMBLE, given, hopping

KINDS = ["+I", "-D", None, "+U", "+I", "-D"]
SESSIONS = [("tea", "00:00", "01:30"), ("mate", "01:00", "02:00"), ("tea", "01:30:00.001", "02:45")]
ENDS = [("tea", "00:30"), ("tea", "02:00"), ("mate", "02:30"), ("mate", "03:00")]


def panes() -> dict[str, pa.Table]:
    rows = given(ENDS, "01:30")
    return rows | {"window-aggs": rows["window-aggs"].rename_columns({"window_end": "slice_end"})}


def seen(uid: str, key: str, column: str, values: list[Any], plan: Any) -> dict[str, pa.Table]:
    group = "Rome" if uid == CHANGING else 1
    rows = pa.table({key: [group] * len(values), column: values} | SEEN)
    return {"accState": accumulators(plan, uid), "distinctAcc_0": rows}


OBJECTS = calling(call("JSON_OBJECTAGG_NULL_ON_NULL", 1, 0) | {"name": "all"})
FILLED: dict[str, tuple[Any, str, dict[str, pa.Table]]] = {
    "sessions": (PLAN, SESSION, given(SESSIONS, "01:30")),
    "sessions of a table": (PLAN, OF_TABLE, given(SESSIONS, "01:29", customer=[1, 2, 1])),
    "hours": (PLAN, TUMBLE, given([("tea", "02:00"), ("mate", "01:00")], "01:00")),
    "panes": (hopping(), TUMBLE, panes()),
    "bits": (
        of_added([0, -1], ["dear", "all"]),
        ADDED,
        seen(ADDED, "customer", "amount", [1.5, 2.5, 3.5, None], of_added([0, -1], ["dear", "all"])),
    ),
    "numbers": (
        of_changes([0, -1], ["dear", "all"]),
        CHANGING,
        seen(CHANGING, "city", "name", ["a", "b", "c", None], of_changes([0, -1], ["dear", "all"])),
    ),
    "json": (
        OBJECTS,
        CHANGING,
        {
            "accState": pa.table({"city": ["Rome"], "row_count": [2]}),
            "agg0$map": pa.table({"city": ["Rome"] * 2, "name": ["a", "b"], "all": ["1", None]}),
        },
    ),
    "near in time": (
        joined_as("FULL"),
        NEAR,
        {
            LEFT: orders((1, 1000), (1, 2000), (2, 1), (3, 0), joined=False),
            RIGHT: paid((1, 51000), (1, 60000), (4, 5), joined=True),
            "watermark": at(60001),
        },
    ),
    "as of a time": (
        PLAN,
        AS_OF,
        given_as_of(
            ordered(("tea", 10, 0), ("tea", 25, 1), (None, 30, 7), ("mate", 5, 0)),
            rates(("tea", 1), ("tea", 20), ("tea", 10), ("mate", 30), ("rum", 0), ("rum", 9), row_kind=KINDS),
            19,
        ),
    ),
    "near by the clock": (PLAN, BY_CLOCK, OF_ANY_KEY),
}


def fill(session: SparkSession | None, plan: Any, uid: str, rows: dict[str, pa.Table], target: Path) -> dict[str, Any]:
    """State → its rows."""
    frames = rows if session is None else {name: session.createDataFrame(table) for name, table in rows.items()}
    writer = SavepointWriter.new_savepoint(session, 4)
    writer.with_operator(uid, OperatorBootstrap.from_plan(plan, uid, frames)).write(target)
    operator = stateproc.open(target, row_kind=True).operator(uid)
    found = {}
    for state in operator.states:
        lines = state.to_arrow().drop_columns(["subtask"] if "subtask" in state.to_arrow().column_names else [])
        found[state.name] = sorted(map(repr, lines.to_pylist()))
    return found


@pytest.mark.parametrize("case", FILLED)
def test_rows_of_spark_fill_the_same(case: str, spark: SparkSession, tmp_path: Path) -> None:
    plan, uid, rows = FILLED[case]
    arrow = fill(None, plan, uid, rows, tmp_path / "arrow")
    assert any(arrow.values())
    assert fill(spark, plan, uid, rows, tmp_path / "spark") == arrow


@pytest.mark.parametrize(
    ("uid", "windows", "text"),
    [
        (TUMBLE, [("tea", "02:00:01")], "no end of a window of the query.*1704074401000"),
        (TUMBLE, [("tea", None), ("tea", "02:00")], "no end of a window of the query.*null"),
        (SESSION, [("tea", "02:00", "02:59")], "null or shorter than the gap"),
        (SESSION, [("tea", "02:00", "03:00"), ("tea", "03:00", "04:00")], "overlap or touch"),
    ],
)
def test_windows_that_a_query_does_not_have_are_refused(
    uid: str, windows: list[Any], text: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=text):
        fill(spark, PLAN, uid, given(windows), tmp_path / "spark")
