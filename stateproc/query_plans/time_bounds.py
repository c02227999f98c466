"""Say how near in time rows have to be for an interval join, or an aggregate of OVER with a RANGE.

State has the rows that may still be in the bounds. With narrower ones it has all that are needed, and others, which are
left out as they are compared (TimeIntervalJoin), or taken back with the next row (RowTimeRangeBoundedPrecedingFunction,
ProcTimeRangeBoundedPrecedingFunction): it stays as it is. Of wider ones rows have left already.

A frame of a number of rows (ROWS) loses the oldest row as another comes, and never several
(RowTimeRowsBoundedPrecedingFunction, ProcTimeRowsBoundedPrecedingFunction). Between two rows the state has the current
row and those before it, which are all that a frame of one row more needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateproc.query_plans.over_aggregates import OVER, over_groups, over_time, preceding
from stateproc.query_plans.plan_file import PlanNode

INTERVAL_JOIN = "stream-exec-interval-join"
_SPEC, _WINDOW = "intervalJoinSpec", "windowBounds"
_BOUNDS = ("leftLowerBound", "leftUpperBound")
Bounds = tuple[int, int]
"""The lowest and the highest difference of times in milliseconds."""


def time_bounds(node: PlanNode) -> Bounds | None:
    """Return the bounds of a node; None of other nodes."""
    if node.kind == INTERVAL_JOIN:
        lower, upper = (node.at(_SPEC, _WINDOW, name) for name in _BOUNDS)
        return (lower, upper) if type(lower) is int and type(upper) is int and lower <= upper else None
    offset = _preceding(node, are_rows=False)
    return None if offset is None else (-offset, 0)


def without_bounds(node: PlanNode) -> dict[str, Any] | None:
    """Return what a plan says of an interval join, without its bounds; None of other nodes."""
    spec = node.at(_SPEC)
    if node.kind != INTERVAL_JOIN or time_bounds(node) is None or not isinstance(spec, dict):
        return None
    window: Mapping[str, Any] = spec[_WINDOW]
    rest = {name: value for name, value in window.items() if name not in _BOUNDS}
    return {**spec, _WINDOW: rest}


def are_within(bounds: Bounds, others: Bounds) -> bool:
    """Whether all times in bounds are in the others, too."""
    return others[0] <= bounds[0] and bounds[1] <= others[1]


def bounds_words(bounds: Bounds) -> str:
    """Return how near in time rows are."""
    lower, upper = bounds
    return f"rows of {lower} to {upper} ms"


def frame_rows(node: PlanNode) -> int | None:
    """Return how many rows before the current one are in a frame of OVER; None of other frames and nodes."""
    return _preceding(node, are_rows=True)


def missing_rows(old: PlanNode, new: PlanNode) -> str | None:
    """Return why the state of OVER is not that of a frame of another number of rows, in words; None if it is."""
    was, now = frame_rows(old), frame_rows(new)
    if was is None or now is None or now in (was, was + 1):
        return None
    if now < was:
        return "its frame loses one row for each that comes, so that it would have too many from then on"
    return "rows that are in this frame have left its state, as they were beyond that"


def rows_words(number: int) -> str:
    """Return how many rows a frame has before the current one."""
    return f"the last {number} row{'s' if number > 1 else ''} before each"


def _preceding(node: PlanNode, *, are_rows: bool) -> int | None:
    """Return how many rows, or milliseconds, a frame of OVER reaches back; None of other frames and nodes."""
    groups = over_groups(node) if node.kind == OVER else []
    is_one = len(groups) == 1 and groups[0].get("isRows") is are_rows and over_time(node) is not None
    return preceding(node) or None if is_one else None
