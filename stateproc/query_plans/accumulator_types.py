"""The types of accumulators and views of aggregates, whether rows fill them or not (`aggregate_states`).

A call whose accumulator is not known, as of functions of the user, has fields of types that the plan does not contain,
and may have views of others.

What DISTINCT has seen of a set of columns is a map: their values, of several columns a row → a number; of several calls
with filters over rows that may be taken back, and of more than 64 others, an array of numbers (DistinctAggCodeGen).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.query_plans.aggregate_states import row_of_call, views_of_call
from stateproc.query_plans.aggregate_views import distinct_views
from stateproc.query_plans.call_buffers import buffer_types
from stateproc.query_plans.node_rules import aggregate_calls, buffer_names, call_columns, function_of, is_built_in
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.row_conversion import column_type
from stateproc.query_plans.state_parts import NodeState, Record
from stateproc.serializers import Serializer
from stateproc.serializers.java.scalars import VOID_NAMESPACE
from stateproc.serializers.table.java_streams import MAP_VIEW
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import External
from stateproc.serializers.table.type_text import internal_serializer, parse_sql_type

FieldTypes: TypeAlias = "tuple[LogicalType | None, ...]"
"""The types of a row's fields; None for one that the plan does not say."""
_MOST_BITS = 64
_MOST_DIGITS = 38
_BIGINT, _INT = LogicalType("BIGINT"), LogicalType("INTEGER")
_SEEN = replace(_BIGINT, nullable=False)
_NUMBERS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
_VALUES = frozenset({"COUNT", "SUM", "SUM0", "MIN", "MAX", "AVG"})


@dataclass(frozen=True)
class StateTypes:
    """A state that an operator registers.

    Attributes:
        value: The value; of a list an element, of a map an entry's. None of a row of which not all fields are known.
        map_key: The key of an entry; None but of a map.
        is_list: Whether it is a list.
        ttl: Whether it has a time to live; None where the plan does not say.
        fields: The types of the fields of a row with some that the plan does not say.
    """

    name: str
    value: Serializer | None
    map_key: Serializer | None = None
    is_list: bool = False
    namespace: Serializer = VOID_NAMESPACE
    ttl: bool | None = False
    fields: FieldTypes = ()

    @property
    def kind(self) -> str:
        """What Flink calls it."""
        return "list" if self.is_list else "value" if self.map_key is None else "map"


def accumulator_types(node: PlanNode, taken_back: Sequence[bool]) -> FieldTypes:
    """Return the types of the accumulators of an aggregate.

    Args:
        taken_back: Of each of its calls, whether its rows may be taken back. It counts its rows in a call of its own.
    """
    found: list[LogicalType | None] = []
    for number, call in enumerate(aggregate_calls(node)):
        found += _call_types(node, call, taken_back=number < len(taken_back) and taken_back[number])
    return (*found, *[MAP_VIEW] * len(distinct_views(node)))


def _call_types(node: PlanNode, call: Any, *, taken_back: bool) -> FieldTypes:
    if not is_built_in(call):
        return (None,)
    function = function_of(call)
    try:
        known = _known_types(node, call, function, taken_back=taken_back)
    except (InvalidOption, UnsupportedSnapshot):
        known = None  # Over columns of types that are not known.
    return (None,) * len(buffer_names(function, retracted=taken_back)) if known is None else known


def _known_types(node: PlanNode, call: Any, function: str, *, taken_back: bool) -> FieldTypes | None:
    row = row_of_call(node, call, taken_back=taken_back)
    if row is not None:
        return (row,)
    if function == "LISTAGG":
        return (parse_sql_type("STRING"),) * 2
    if function in _NUMBERS:
        return (_BIGINT,) * len(buffer_names(function))
    result = replace(column_type(node, function, call.get("type")), nullable=True)
    if function == "SINGLE_VALUE":
        return result, _INT
    if function == "AVG" and result.kind == "DECIMAL":
        (argument,) = argument_types(node, call)
        return replace(argument, nullable=True, precision=_MOST_DIGITS), _BIGINT
    return tuple(buffer_types(node, call, retracts=taken_back)) if function in _VALUES else None


def argument_types(node: PlanNode, call: Any) -> tuple[LogicalType, ...]:
    """Return the types of a call's columns."""
    names, written = call_columns(node)
    positions = call.get("argList") or []
    chosen = node.chosen(names, positions)
    return tuple(column_type(node, str(name), written[at]) for name, at in zip(chosen, positions, strict=True))


def view_types(node: PlanNode, key: Record, taken_back: Sequence[bool], *, is_changing: bool) -> Iterator[StateTypes]:
    """Yield the states of views of an aggregate that are known.

    Args:
        taken_back: As of `accumulator_types`.
        is_changing: Whether any of its rows may be taken back.

    Raises:
        UnsupportedSnapshot: A view is of columns whose types are not known.
    """
    calls = aggregate_calls(node)
    for number, call in enumerate(calls):
        if is_built_in(call):
            retracted = number < len(taken_back) and taken_back[number]
            for state in views_of_call(node, key, number, call, taken_back=retracted):
                yield of_state(state)
    for number, group in enumerate(distinct_views(node)):
        yield from _distinct_types(node, number, [calls[at] for at in group], is_changing=is_changing)


def of_state(state: NodeState) -> StateTypes:
    """Return the types of a state that rows fill, without its namespace and time to live."""
    map_key = None if state.map_key is None else state.map_key.serializer
    return StateTypes(state.name, state.value.serializer, map_key, state.is_list)


def _distinct_types(node: PlanNode, number: int, calls: Sequence[Any], *, is_changing: bool) -> Iterator[StateTypes]:
    seen, several = argument_types(node, calls[0]), len(calls) > (1 if is_changing else _MOST_BITS)
    row = LogicalType("ROW", children=seen, names=tuple(f"f{at}" for at in range(len(seen))))
    value = _external(LogicalType("ARRAY", nullable=False, children=(_SEEN,)) if several else _SEEN)
    name = f"distinctAcc_{number}"
    yield StateTypes(name, value, _external(seen[0] if len(seen) == 1 else row))
    yield StateTypes(f"{name}_null_state", value)


def _external(type_: LogicalType) -> External:
    return External(type_, internal_serializer(type_))
