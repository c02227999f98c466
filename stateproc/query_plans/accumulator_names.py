"""Names of the fields of an accumulator row.

Flink's planner stores one row per group: the buffers of each aggregate call one after another, a count of rows if
inputs may be retracted and the query has no COUNT(*), then a view per set of columns that DISTINCT applies to
(AggregateUtil, AggFunctionFactory). Data views are stored in states of their own; their fields in the row are always
null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stateproc.query_plans.plan_nodes import PlanNode
from stateproc.query_plans.row_type_names import unique_names
from stateproc.readers.state_names import Names

ROW_COUNT = "row_count"

_BUFFERS: dict[str, tuple[str, ...]] = {
    "AVG": ("sum", "count"),
    "LISTAGG": ("delimiter", ""),
    "SINGLE_VALUE": ("", "count"),
    "RANK": ("", "order"),
    "DENSE_RANK": ("", "order"),
}
"""Function → what its buffers hold, where it has several; the result itself is called as the aggregate call is."""
_RETRACTING: dict[str, tuple[str, ...]] = {"SUM": ("", "count"), "LISTAGG": ("",)}
"""Functions whose buffers differ where inputs may be retracted."""
_GENERATED = re.compile(r"(EXPR)?\$\w*|\w+\$\w*")
_FUNCTION = re.compile(r"\$+(.*?)\$\d+")


def accumulator_names(
    node: PlanNode,
    calls: Sequence[Any],
    arguments: Names,
    *,
    retracted: Sequence[Any] = (),
    count_rows: bool = False,
) -> Names:
    """Return the names of an accumulator's fields.

    Args:
        node: The node, for errors.
        calls: Its aggregate calls, JSON objects.
        arguments: The columns that the calls refer to.
        retracted: Of each call, whether its input may be retracted.
        count_rows: Whether Flink counts the rows of a group.
    """
    names: list[str] = []
    distinct: dict[tuple[str, ...], None] = {}
    counted = False
    for index, call in enumerate(calls):
        if not isinstance(call, dict):
            raise node.error("an aggregate call is no object")
        columns = node.chosen(arguments, call.get("argList") or [])
        function = _function(call)
        is_distinct = call.get("distinct") is True and bool(columns)
        counted |= function == "COUNT" and not columns and not is_distinct and call.get("filterArg", -1) == -1
        name = _call_name(call, function, columns)
        is_retracted = index < len(retracted) and retracted[index] is True
        buffers = _RETRACTING.get(function) if is_retracted else None
        names += [f"{name}_{part}" if part else name for part in buffers or _BUFFERS.get(function, ("",))]
        if is_distinct:
            distinct[columns] = None
    if count_rows and not counted:
        names.append(ROW_COUNT)
    names += ["distinct_" + "_".join(columns) for columns in distinct]
    return unique_names(names)


def _function(call: Any) -> str:
    """Return the SQL name of a call's function; the last part of a user-defined function's name."""
    for key in ("internalName", "systemName", "catalogName", "name"):
        written = call.get(key)
        if isinstance(written, str):
            match = _FUNCTION.fullmatch(written)
            return (match[1] if match else written.rsplit(".", 1)[-1].strip("`")).upper()
    return "AGGREGATE"


def _call_name(call: Any, function: str, columns: Names) -> str:
    """Return the name that the query gives to a call, or one of its function and columns where it gives none."""
    name = call.get("name")
    if isinstance(name, str) and name and not _GENERATED.fullmatch(name):
        return name
    return "_".join([function.removesuffix("0").lower(), *(item for item in columns if not _GENERATED.fullmatch(item))])
