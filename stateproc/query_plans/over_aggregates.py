"""What a plan says of aggregates of OVER: their frames, by what rows are ordered, and which timers they have."""

from __future__ import annotations

import re
from typing import Any

from stateproc.query_plans.plan_file import PlanNode

OVER = "stream-exec-over-aggregate"
TIMERS_OPTION = "unboundedOverVersion"
"""The attribute that says which timers there are, from Flink 2 on."""


def timers_of_over(node: PlanNode) -> Any:
    """Return which timers an aggregate of OVER has; None of frames for which there is only one answer.

    1: one for the next watermark (AbstractRowTimeUnboundedPrecedingOver); 2: one at the time of each row that waits
    (RowTimeUnboundedPrecedingOverFunctionV2 of Flink 2).
    """
    if node.kind != OVER or is_bounded(node) or over_time(node) != "ROWTIME":
        return None
    return node.attributes.get(TIMERS_OPTION, 1)


def is_bounded(node: PlanNode) -> bool:
    """Whether rows leave the frame of an aggregate of OVER."""
    bounds = [group.get("lowerBound") for group in over_groups(node)]
    return any(not isinstance(one, dict) or one.get("kind") != "UNBOUNDED_PRECEDING" for one in bounds)


def preceding(node: PlanNode) -> int | None:
    """Return how many rows, or milliseconds, are in the frame of an aggregate of OVER before the current row.

    None of a frame from the first row on, and of bounds that are no numbers of these, such as months.
    """
    groups = over_groups(node)
    lower, upper = (groups[0].get(name) for name in ("lowerBound", "upperBound")) if len(groups) == 1 else (None, None)
    kinds = [one.get("kind") if isinstance(one, dict) else None for one in (lower, upper)]
    if kinds == ["CURRENT_ROW", "CURRENT_ROW"]:
        return 0
    constants, offset = node.items("overSpec", "constants"), lower.get("offset") if isinstance(lower, dict) else None
    at = offset.get("inputIndex") if isinstance(offset, dict) else None
    at = at - len(node.input()) if type(at) is int else -1
    if kinds != ["BOUNDED_WINDOW", "CURRENT_ROW"] or not 0 <= at < len(constants):
        return None
    constant = constants[at] if isinstance(constants[at], dict) else {}
    # Flink before 1.20 writes some numbers as text.
    number = _NUMBER.fullmatch(str(constant.get("value")))
    return None if number is None or _MONTHS.search(str(constant.get("type"))) else int(number[0])


_NUMBER, _MONTHS = re.compile("[0-9]{1,18}"), re.compile("MONTH|YEAR")
"""A number of rows or milliseconds, and intervals that are none of milliseconds."""


def knows_frame(node: PlanNode) -> bool:
    """Whether the state says which rows are in the frame now, of all that it keeps until they leave.

    By the time of rows those up to the last time that was computed, which it has (RowTimeRowsBoundedPrecedingFunction,
    RowTimeRangeBoundedPrecedingFunction); of a number of rows by processing time all of them
    (ProcTimeRowsBoundedPrecedingFunction). In a range of processing time some may still wait, as only timers say.
    """
    time, groups = over_time(node), over_groups(node)
    is_rows = all(group.get("isRows") is True for group in groups)
    return is_bounded(node) and (time == "ROWTIME" or (time == "PROCTIME" and is_rows))


def over_order(node: PlanNode) -> list[Any]:
    """Return the columns by which rows of OVER are ordered, by their positions."""
    orders = [group.get("orderBy") for group in over_groups(node)]
    return [one.get("index") for order in orders if isinstance(order, dict) for one in _objects(order.get("fields"))]


def over_calls(node: PlanNode) -> list[dict[str, Any]]:
    """Return the calls of OVER."""
    return [call for group in over_groups(node) for call in _objects(group.get("aggCalls"))]


def over_groups(node: PlanNode) -> list[dict[str, Any]]:
    """Return the groups of aggregates of OVER, all of one frame."""
    return _objects(node.items("overSpec", "groups"))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def over_time(node: PlanNode) -> str | None:
    """Return by which time of rows an aggregate of OVER is ordered, ROWTIME or PROCTIME; None for another column."""
    return node.time_at(next(iter(over_order(node)), None))
