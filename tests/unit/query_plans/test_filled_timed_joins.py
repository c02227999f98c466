"""State of interval joins that is filled from rows: which rows are kept, and when the operator looks through them.

That it is what real Flink wrote is shown in test_node_states.py, that Flink goes on with it in
tests/integration/flink/test_filled_queries.py.
"""

from __future__ import annotations

import copy
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import InvalidRows, NotFound, SnapshotError, UnsupportedSnapshot
from tests.helpers.planned_states import planned_job

READS_EVERY_MODE = False
NEAR, BY_CLOCK = "95_interval-join", "106_interval-join"
"""Payments 10 seconds before an order up to a minute after it; and within an hour, by processing time."""
Json = dict[str, Any]
PLAN = planned_job("1.20", "plain").path / "plan.json"
STAMP = pa.timestamp("ms")
LEFT, RIGHT = "IntervalJoinLeftCache", "IntervalJoinRightCache"


def at(time: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(milliseconds=time)


def orders(*rows: tuple[int | None, int | None], **more: Any) -> pa.Table:
    """Keys and times of rows."""
    row = pa.struct([("id", pa.int64()), ("ts", STAMP), *((name, pa.bool_()) for name in more)])
    kept = [[{"id": key, "ts": None if time is None else at(time), **more}] for key, time in rows]
    columns = pa.array([key for key, _ in rows], pa.int64()), pa.array([time for _, time in rows], STAMP)
    return pa.table([*columns, pa.array(kept, pa.list_(row))], ["id", "ts", "rows"])


def payments(*rows: tuple[int | None, int], **more: Any) -> pa.Table:
    row = pa.struct(
        [("order_id", pa.int64()), ("payer", pa.string()), ("ts", STAMP), *((name, pa.bool_()) for name in more)]
    )
    kept = [[{"order_id": key, "payer": "é", "ts": at(time), **more}] for key, time in rows]
    columns = pa.array([key for key, _ in rows], pa.int64()), pa.array([time for _, time in rows], STAMP)
    return pa.table([*columns, pa.array(kept, pa.list_(row))], ["order_id", "ts", "rows"])


def watermark(time: int | None) -> pa.Table:
    return pa.table({"watermark": pa.array([time], pa.int64())})


def joined_as(kind: str) -> Json:
    """The plan with a join of another type."""
    made: Json = copy.deepcopy(json.loads(PLAN.read_text()))
    (node,) = [one for one in made["nodes"] if one["id"] == int(NEAR.split("_")[0])]
    node["intervalJoinSpec"]["joinSpec"]["joinType"] = kind
    return made


def filled(rows: Json, folder: Path, uid: str = NEAR, plan: Any = PLAN) -> Any:
    writer = SavepointWriter.new_savepoint(None).with_operator(uid, OperatorBootstrap.from_plan(plan, uid, rows))
    writer.write(folder / "filled")
    return stateproc.open(folder / "filled", plan=plan).operator(uid)


def cache(operator: Any, state: str) -> list[tuple[Any, int, list[bool]]]:
    rows = operator.state(state).to_arrow(flatten=True).to_pylist()
    found = [(*row["key"].values(), row["map_key"], [one["joined"] for one in row["map_value"]]) for row in rows]
    return sorted(found, key=repr)


def timers(operator: Any, kind: str = "event") -> list[tuple[Any, int]]:
    rows = operator.state(f"_timer_state/{kind}_user-timers").to_arrow().to_pylist()
    return sorted(((*row["key"].values(), row["timestamp"]) for row in rows), key=repr)


def times(operator: Any, side: str) -> Json:
    rows = operator.state(f"IntervalJoin{side}TimerState").to_arrow().to_pylist()
    return {next(iter(row["key"].values())): row["value"] for row in rows}


@pytest.mark.parametrize(
    ("now", "left", "right"),
    [
        (None, [1000, 2000], [1000, 60000]),
        (-5, [1000, 2000], [1000, 60000]),
        # An order may get a partner until a minute after its time, a payment until 10 seconds after it.
        (11000, [1000, 2000], [1000, 60000]),
        (11001, [1000, 2000], [60000]),
        (61000, [1000, 2000], [60000]),
        (61001, [2000], [60000]),
        (10**15, [], []),
    ],
)
def test_rows_are_kept_that_may_still_get_a_partner(
    now: int | None, left: list[int], right: list[int], tmp_path: Path
) -> None:
    rows = {LEFT: orders((1, 2000), (1, 1000)), RIGHT: payments((1, 1000), (1, 60000)), "watermark": watermark(now)}
    made = filled(rows, tmp_path)
    assert [time for _, time, _ in cache(made, LEFT)] == left and [time for _, time, _ in cache(made, RIGHT)] == right
    # The state that is called by the other side has the time of the rows of this one: that of the first, once.
    due = [[time + 60001 for time in left[:1]], [time + 10001 for time in right[:1]]]
    assert [list(times(made, side).values()) for side in ("Right", "Left")] == due
    assert timers(made) == sorted({(1, time) for one in due for time in one})


def test_one_time_of_both_sides_is_one_timer(tmp_path: Path) -> None:
    rows = {LEFT: orders((1, 0), (2, 0)), RIGHT: payments((1, 50000), (3, 0)), "watermark": watermark(None)}
    assert timers(filled(rows, tmp_path)) == [(1, 60001), (2, 60001), (3, 10001)]


@pytest.mark.parametrize(
    ("kind", "left", "right"), [("LEFT", True, False), ("RIGHT", False, True), ("FULL", True, True)]
)
def test_rows_that_are_emitted_alone_say_whether_they_were_joined(
    kind: str, left: bool, right: bool, tmp_path: Path
) -> None:
    flags = [{"joined": True} if one else {} for one in (left, right)]
    rows = {LEFT: orders((1, 5), **flags[0]), RIGHT: payments((1, 5), **flags[1]), "watermark": watermark(7)}
    made = filled(rows, tmp_path, plan=joined_as(kind))
    assert cache(made, LEFT) == [(1, 5, [left])] and cache(made, RIGHT) == [(1, 5, [right])]
    without = rows | {LEFT if left else RIGHT: orders((1, 5)) if left else payments((1, 5))}
    with pytest.raises(NotFound, match="no field in the rows of column 'rows' 'joined'"):
        OperatorBootstrap.from_plan(joined_as(kind), NEAR, without)
    null = rows | {LEFT if left else RIGHT: orders((1, 5), joined=None) if left else payments((1, 5), joined=None)}
    with pytest.raises(InvalidRows, match="column 'joined' cannot be null"):
        OperatorBootstrap.from_plan(joined_as(kind), NEAR, null)


KEYED = pa.list_(pa.struct([("id", pa.int64())]))
PAID = pa.list_(pa.struct([("order_id", pa.int64()), ("payer", pa.string())]))
OF_ANY_KEY: Json = {
    LEFT: pa.table({"id": [1, 2], "proc": [7, 9], "rows": pa.array([[{"id": 1}] * 2, [{"id": 2}]], KEYED)}),
    RIGHT: pa.table({
        "order_id": pa.array([None, 1], pa.int64()),
        "proc": pa.array([at(1), at(7)], STAMP),
        "rows": pa.array([[{"order_id": key, "payer": name} for name in ("é", None)] for key in (None, 1)], PAID),
    }),
}  # fmt: skip
"""Rows of orders and payments that came by the clock."""


def test_the_clock_drops_rows_by_processing_time_of_any_key(tmp_path: Path) -> None:
    """A key has the type of the left input, which is NOT NULL, and is null of rows of the right one."""
    made, hour = filled(OF_ANY_KEY, tmp_path, BY_CLOCK), 3_600_001
    assert cache(made, LEFT) == [(1, 7, [False, False]), (2, 9, [False])]
    assert cache(made, RIGHT) == [(1, 7, [False, False]), (None, 1, [False, False])]
    assert times(made, "Right") == {1: 7 + hour, 2: 9 + hour} and times(made, "Left") == {None: 1 + hour, 1: 7 + hour}
    assert set(timers(made, "processing")) == {(1, 7 + hour), (2, 9 + hour), (None, 1 + hour)}


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        ({LEFT: orders((1, None))}, InvalidRows, "column 'ts' cannot be null"),
        ({LEFT: orders((1, 5)).drop_columns(["ts"])}, NotFound, "no column 'ts'"),
        ({LEFT: pa.table({"id": [1], "ts": [5], "rows": [[]]})}, SnapshotError, "array of structs is needed"),
        ({"watermark": pa.table({"watermark": [1, 2]})}, SnapshotError, "there are 2 rows with a watermark"),
    ],
)
def test_rows_that_an_interval_join_cannot_have(rows: Json, error: type[Exception], text: str) -> None:
    given = {LEFT: orders((1, 5)), RIGHT: payments((1, 5)), "watermark": watermark(1)} | rows
    with pytest.raises(error, match=text):
        OperatorBootstrap.from_plan(PLAN, NEAR, given)


def test_a_join_without_bounds_is_refused() -> None:
    plan = joined_as("INNER")
    (node,) = [one for one in plan["nodes"] if one["id"] == int(NEAR.split("_")[0])]
    del node["intervalJoinSpec"]["windowBounds"]["leftLowerBound"]
    with pytest.raises(UnsupportedSnapshot, match="with these bounds"):
        OperatorBootstrap.from_plan(plan, NEAR, {})
