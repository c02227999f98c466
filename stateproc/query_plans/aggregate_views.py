"""The views of an aggregate over groups: what its calls keep of many rows, in states of their own.

A call whose accumulator has a list or a map (MIN and MAX of rows that may be taken back, COLLECT, LISTAGG, functions of
the user) keeps it in agg<i>$<field>, with its own number. What DISTINCT has seen of a set of columns is one view of all
calls with DISTINCT of the same columns, in the same order: a map from values to a number, a bit for each of its calls,
by its place among them, for their filters may differ; or, if rows may be taken back, how often the value is there
(DistinctAggCodeGen). View i is the states distinctAcc_<i> and distinctAcc_<i>_null_state, the number of the value null;
these views are numbered as their first calls come. The row of accumulators has a field for each after all others.
Fields of views in it are always null.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.query_plans.node_rules import aggregate_calls, call_columns
from stateproc.query_plans.plan_comparison import goes_on
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.plan_matching import Pair
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import parse_sql_type

# As Flink writes numbers, so that no two names mean one view.
_VIEW = re.compile(
    r"(?P<kind>distinctAcc_|agg(?=[0-9]+\$))(?P<number>0|[1-9][0-9]{0,8})(?P<part>(?![0-9]).*)", re.DOTALL
)


def is_view(state: str) -> bool:
    """Whether a state has this name of a view."""
    return _VIEW.fullmatch(state) is not None


def seen_view(state: str) -> int | None:
    """Return the number of the view of DISTINCT that a state is of; None if it is of none."""
    found = _VIEW.fullmatch(state)
    return int(found["number"]) if found is not None and found["kind"] != "agg" else None


def renumbered(names: Collection[str], numbers: Mapping[int, int]) -> dict[str, str]:
    """Return what states are called that calls keep which get other numbers."""
    kept = [(name, found) for name in names if (found := _VIEW.fullmatch(name)) and found["kind"] == "agg"]
    made = {name: f"agg{numbers.get(int(found['number']), found['number'])}{found['part']}" for name, found in kept}
    return {name: to for name, to in made.items() if to != name}


def distinct_views(node: PlanNode) -> list[list[int]]:
    """Return the calls of each view, by their numbers in `aggregate_calls`."""
    found: dict[tuple[int, ...], list[int]] = {}
    names = range(len(call_columns(node)[0]))
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
            raise _refused(pair, "with DISTINCT of one column are others, and what it has seen is kept by their number")
        is_other = view is not None and _types(pair.new, calls[0]) != _types(pair.old, before[view][0])
        if view is not None and is_other and wider_type(pair, calls[0], before[view][0]) is None:
            raise _refused(pair, "with DISTINCT have columns of other types, by which it is kept what it has seen")
        found.append(view)
    return found


def wider_seen(pair: Pair, number: int) -> LogicalType | None:
    """Return the type of the column of a call with DISTINCT that stays, where it is wider."""
    source = (pair.kept or ())[number]
    is_distinct = aggregate_calls(pair.new)[number].get("distinct") is True
    return wider_type(pair, number, source) if is_distinct and source is not None else None


def wider_type(pair: Pair, number: int, source: int) -> LogicalType | None:
    """Return the type of the column of a call, if it has another one that is as wide as what it was.

    A FLOAT is no more the number that a source gives as DOUBLE: 0.1 would be another value.
    """
    before, after = _types(pair.old, source), _types(pair.new, number)
    if len(before) != 1 or len(after) != 1 or before == after:
        return None
    old, to = (parse_sql_type(one) if isinstance(one, str) else None for one in (*before, *after))
    if old is None or to is None or (old.kind, to.kind) == ("FLOAT", "DOUBLE"):
        return None
    return to if goes_on(old, to) else None


def renamed_states(pair: Pair, views: Sequence[int | None], names: Collection[str]) -> dict[str, str | None]:
    """Return what the states of views are called in the new job; None for one that it does not have.

    Args:
        pair: The nodes, and which call is which.
        views: `kept_views`.
        names: The states of the operator.

    Raises:
        InvalidOption: Two new calls would have the view of an old one.
    """
    found: dict[str, str | None] = {}
    for name in names:
        state = _VIEW.fullmatch(name)
        if state is None:
            continue
        of = (pair.kept or ()) if state["kind"] == "agg" else views
        places = [at for at, one in enumerate(of) if one == int(state["number"])]
        if len(places) > 1:
            raise _refused(pair, "are twice what one was, which keeps many rows")
        found[name] = f"{state['kind']}{places[0]}{state['part']}" if places else None
    return found


def _types(node: PlanNode, number: int) -> list[Any]:
    types = call_columns(node)[1]
    return [types[at] for at in aggregate_calls(node)[number].get("argList") or []]


def _refused(pair: Pair, why: str) -> InvalidOption:
    return InvalidOption(
        f"calls of {pair.new.label} {why}",
        advice="leave these calls as they are, or let the aggregate start empty: --empty, without --map",
    )
