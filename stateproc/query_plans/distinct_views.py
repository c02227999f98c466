"""The views of an aggregate over groups: the values that DISTINCT has seen of a set of columns.

All calls with DISTINCT of the same columns, in the same order, share a view. It is a map from values to a number: a bit
for each of its calls, by its place among them, for their filters may differ; or, if rows may be taken back, how often
the value is there (DistinctAggCodeGen). View i is the states distinctAcc_i and distinctAcc_i_null_state, the number of
the value null; views are numbered as their first calls come. The row of accumulators has a field for each view after
all others, which is always null.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.query_plans.node_rules import aggregate_calls
from stateproc.query_plans.plan_file import PlanNode, row_type_names, row_type_types
from stateproc.query_plans.plan_matching import Pair

_STATE, _PARTS = "distinctAcc_", ("", "_null_state")


def input_type(node: PlanNode) -> Any:
    """Return the type of the rows that the calls are over; in two phases those that the first reads."""
    local = node.at("localAggInputRowType")
    return node.sources[0].attributes.get("outputType") if local is None else local


def distinct_views(node: PlanNode) -> list[list[int]]:
    """Return the calls of each view, by their numbers in `aggregate_calls`."""
    found: dict[tuple[str, ...], list[int]] = {}
    names = tuple(map(str, range(len(row_type_names(input_type(node))))))
    for number, call in enumerate(aggregate_calls(node)):
        columns = node.chosen(names, call.get("argList") or [])
        if call.get("distinct") is True and columns:
            found.setdefault(columns, []).append(number)
    return list(found.values())


def kept_views(pair: Pair) -> list[int | None]:
    """Return of each view of the new node the number of that of the old one; None for one that begins.

    Raises:
        InvalidOption: The calls of a view are not those that it had, or its columns have other types.
    """
    kept, before = pair.kept or (), distinct_views(pair.old)
    taken = {number: at for at, calls in enumerate(before) for number in calls}
    found: list[int | None] = []
    for calls in distinct_views(pair.new):
        sources = [kept[number] for number in calls]
        known = {taken[source] for source in sources if source is not None}
        view = known.pop() if known else None
        if view is not None and sources != before[view]:
            raise _refused(pair, "are others, and what it has seen is kept by their number")
        if view is not None and _types(pair.new, calls[0]) != _types(pair.old, before[view][0]):
            raise _refused(pair, "have columns of other types, by which it is kept what it has seen")
        found.append(view)
    return found


def renamed_states(views: Collection[int | None], names: Collection[str]) -> dict[str, str | None]:
    """Return what the states of views are called in the new job; None for one that it does not have.

    Args:
        views: `kept_views`.
        names: The states of the operator.
    """
    found: dict[str, str | None] = {name: None for name in names if name.startswith(_STATE)}
    for number, view in enumerate(views):
        for part in _PARTS:
            if f"{_STATE}{view}{part}" in found:
                found[f"{_STATE}{view}{part}"] = f"{_STATE}{number}{part}"
    return found


def _types(node: PlanNode, number: int) -> list[Any]:
    types = row_type_types(input_type(node))
    return [types[at] for at in aggregate_calls(node)[number].get("argList") or []]


def _refused(pair: Pair, why: str) -> InvalidOption:
    return InvalidOption(
        f"the calls with DISTINCT of one column of {pair.new.label} {why}",
        advice="leave these calls as they are, or let the aggregate start empty: --empty, without --map",
    )
