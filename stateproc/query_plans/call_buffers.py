"""The buffers of the calls of an aggregate, whose accumulators are one after another, by the plan alone."""

from __future__ import annotations

from typing import Any

from stateproc.errors import InvalidOption
from stateproc.query_plans.node_rules import (
    aggregate_calls,
    buffer_names,
    call_columns,
    function_of,
    is_built_in,
    retracts,
)
from stateproc.query_plans.plan_file import PlanNode
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import parse_sql_type

_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FLOATING = ("FLOAT", "DOUBLE")
_MOST_DIGITS = 38


def call_text(node: PlanNode, call: Any) -> str:
    """Return a call as SQL has it."""
    names, _ = call_columns(node)
    columns = node.chosen(names, call.get("argList") or [])
    distinct = "DISTINCT " if call.get("distinct") is True else ""
    text, filter_ = f"{function_of(call)}({distinct}{', '.join(columns) or '*'})", call.get("filterArg", -1)
    return text if filter_ == -1 else f"{text} FILTER ({node.chosen(names, [filter_])[0]})"


def buffer_starts(node: PlanNode) -> list[int]:
    """Return where the buffers of each call begin, and where the last ends."""
    found = [0]
    for number, call in enumerate(aggregate_calls(node)):
        retracted = retracts(node, number, call)
        parts = buffer_names(function_of(call), retracted=retracted) if is_built_in(call) else ("",)
        found.append(found[-1] + len(parts))
    return found


def buffer_types(node: PlanNode, call: Any, *, retracts: bool = False) -> list[LogicalType]:
    """Return the types of the buffers of a call of COUNT, SUM, SUM0, MIN, MAX or AVG.

    Args:
        retracts: Whether rows may be taken back: SUM counts them, too.

    Raises:
        InvalidOption: They are not known.
    """
    function, written = function_of(call), call.get("type")
    if not isinstance(written, str):
        raise _unknown(node, call)
    result = written.removesuffix(" NOT NULL")
    if function == "AVG":
        return [_sum_of_average(node, call, result), parse_sql_type("BIGINT")]
    if function in ("MIN", "MAX") and result.startswith("VARCHAR("):
        result = "STRING"  # StringMinAggFunction and StringMaxAggFunction, of text of any length
    own = parse_sql_type("BIGINT" if function == "COUNT" else result)
    return [own, parse_sql_type("BIGINT")] if function == "SUM" and retracts else [own]


def _sum_of_average(node: PlanNode, call: Any, result: str) -> LogicalType:
    """Return the type of the sum that AVG keeps: of decimals with the scale of the column, not of the result."""
    if result in (*_WHOLE, *_FLOATING):
        return parse_sql_type("BIGINT" if result in _WHOLE else "DOUBLE")
    types, over = call_columns(node)[1], call.get("argList") or []
    written = types[over[0]] if len(over) == 1 and over[0] < len(types) else None
    column = parse_sql_type(written) if isinstance(written, str) else None
    if column is None or column.kind != "DECIMAL":
        raise _unknown(node, call)
    return parse_sql_type(f"DECIMAL({_MOST_DIGITS}, {column.scale})")


def _unknown(node: PlanNode, call: Any) -> InvalidOption:
    return InvalidOption(
        f"the accumulator of {call_text(node, call)} of {node.label} is not known",
        advice="let the aggregate start empty: --empty, without --map",
    )
