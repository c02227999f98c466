"""Say which states joins of rows that are near in time, or as of a time, declare, by the plan alone.

    interval join    IntervalJoinLeftCache, IntervalJoinRightCache: maps, times in milliseconds → the rows of each time
                     as they came, in a list, each with whether it was emitted with a partner, in a tuple
                     IntervalJoinRightTimerState, IntervalJoinLeftTimerState: when the rows of the left, and of the
                     right input are looked through next for those that get no partner any more
    temporal join    left: a map, numbers as rows came → the rows that wait for the watermark
                     right: a map, times in milliseconds → the version that begins then
                     next-index: the number of the next row
                     timer: the first time of the rows that wait

Rows of a temporal join have their RowKind, of the right input -D for a key that has no version from then on. A row of
the right input that waits has part in the timer if it came when there was none, or a later one; the next timer is that
of rows of the left input alone. So the order in which rows come decides when versions are dropped, not what is joined.

A row of an interval join is dropped, of outer joins emitted without a partner, when the time of the operator is more
than its bounds later, at a timer a millisecond after that. What table.exec.interval-join.min-cleanup-interval adds to
that time, as earlier releases do unasked, only begins with the timers after these.

Sources: TimeIntervalJoin and TemporalRowTimeJoinOperator of org.apache.flink.table.runtime.operators.join.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stateproc import types
from stateproc.query_plans.join_types import OUTER
from stateproc.query_plans.node_definitions import SIDES
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.state_parts import (
    NEXT,
    ROWS,
    TIMER,
    Always,
    AsOf,
    Column,
    NodeState,
    Record,
    Rows,
    Waiting,
    beside,
    input_rows,
    join_key,
    unsupported,
)
from stateproc.query_plans.time_bounds import time_bounds

INDEX, KIND = "index", "row_kind"
"""Columns of a temporal join: the number of a row of the left input, and the RowKind of rows."""
JOINED = "joined"
"""The field of rows of an interval join that says whether they were emitted with a partner."""


def interval_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of an interval join. Raises UnsupportedSnapshot for one that is not filled."""
    spec, bounds = ("intervalJoinSpec", "joinSpec"), time_bounds(node)
    kind = node.at(*spec, "joinType")
    if bounds is None or not isinstance(kind, str) or kind not in OUTER:
        raise unsupported(node, f"a join of the type {kind!r}, with these bounds")
    by_row_time = node.at("intervalJoinSpec", "windowBounds", "isEventTime") is True
    timers = []
    for index, (side, reach) in enumerate(zip(SIDES, (-bounds[0], bounds[1]), strict=True)):
        rows, key = input_rows(node, index), join_key(node, index, *spec)
        at = node.at("intervalJoinSpec", "windowBounds", f"{side}TimeIndex")
        (time,) = node.chosen(rows.columns, [at])
        waiting = Waiting(beside(key, str(time)), by_row_time, f"{side}_timer", reach, reach + 1)
        joined: Column | Always = Always(False, types.BOOLEAN)
        if OUTER[kind][index]:
            joined = Column(beside(rows, JOINED), types.BOOLEAN)
        array = Rows(beside(Record((*rows.columns, waiting.column), ()), ROWS), rows, joined)
        name = f"IntervalJoin{side.capitalize()}Cache"
        yield NodeState(name, key, array, Column(waiting.column, types.LONG), waiting=waiting)
        timers.append((waiting.timer, key))
    # What says when rows of the left input are looked through is called by the other one.
    for other, (timer, key) in zip(("Right", "Left"), timers, strict=True):
        yield NodeState(f"IntervalJoin{other}TimerState", key, Column(timer, types.LONG), is_derived=True)


def temporal_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of a temporal join. Raises UnsupportedSnapshot for one by processing time."""
    key = join_key(node, 0, "joinSpec")
    for index, side in enumerate(SIDES):
        rows, at = input_rows(node, index), node.at(f"{side}TimeAttributeIndex")
        if at in (None, -1):
            raise unsupported(node, "a temporal join by processing time")
        (name,) = node.chosen(rows.columns, [at])
        time = Column(str(name), types.LONG, is_time=True)
        number = time if index else Column(beside(rows, INDEX), types.LONG, least=0)
        rows = replace(rows, kind=beside(rows, KIND))
        yield NodeState(side, join_key(node, index, "joinSpec"), rows, number, as_of=AsOf(time, bool(index)))
    for state, column in (("next-index", NEXT), ("timer", TIMER)):
        yield NodeState(state, key, Column(column, types.LONG), is_derived=True)
