"""What a plan says of aggregates of OVER: their frames, by what rows are ordered, and which timers they have."""

from __future__ import annotations

from typing import Any

from stateproc.query_plans.plan_file import PlanNode, row_type_types

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
    types = row_type_types(node.sources[0].attributes.get("outputType")) if node.sources else []
    first = [at for at in over_order(node)[:1] if isinstance(types, list) and type(at) is int and 0 <= at < len(types)]
    found = [types[at] for at in first]
    return found[0].get("kind") if found and isinstance(found[0], dict) else None
