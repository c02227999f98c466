"""Say which states an aggregate over groups or windows declares, with the types of their values, by the plan alone.

    accState, window-aggs     the accumulators, a row, per key of groups, of windows also per slice
    distinctAcc_<i>           a map: what DISTINCT has seen, see aggregate_views → a bit for each call; over rows that
                              may be taken back, and in HOP windows, how often it is there
    distinctAcc_<i>_null_state
                              that number for the value null

The accumulators of calls, one after another: COUNT the number, SUM, MIN and MAX their result, AVG sum and number, SUM
over rows that may be taken back sum and number, LISTAGG the delimiter and the text, FIRST_VALUE and LAST_VALUE a row of
the value and of the time in milliseconds at which it came, the largest and the smallest BIGINT for none.

The namespace of a slice is its end in milliseconds. Windows that do not overlap are one slice; the slices of HOP
windows are as long as their slide, those of CUMULATE their step.

Sources: GroupAggFunction, SliceAssigners, DistinctAggCodeGen, and the functions of
org.apache.flink.table.planner.functions.aggfunctions and org.apache.flink.table.runtime.functions.aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from stateproc.query_plans.aggregate_conversion import buffer_types, call_text
from stateproc.query_plans.aggregate_views import call_columns, distinct_views
from stateproc.query_plans.node_rules import (
    accumulator_names,
    aggregate_calls,
    function_of,
    is_built_in,
    window_millis,
    window_names,
)
from stateproc.query_plans.plan_file import PlanNode, unique_names
from stateproc.query_plans.row_conversion import column_type
from stateproc.query_plans.state_parts import (
    COUNT,
    Always,
    Column,
    NodeState,
    Record,
    Slices,
    beside,
    input_columns,
    unsupported,
)
from stateproc.serializers.table.java_streams import MAP_VIEW
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import external, parse_sql_type

_APPENDED = frozenset({"COUNT", "SUM", "SUM0", "MIN", "MAX", "AVG", "FIRST_VALUE", "LAST_VALUE", "LISTAGG"})
_TAKEN_BACK = frozenset({"COUNT", "SUM", "AVG"})
"""Functions whose accumulators are columns: of rows that are only added, and of rows that may be taken back."""
_IGNORE_NULL = frozenset({"COUNT", "SUM", "SUM0", "MIN", "MAX", "AVG"})
"""Of these, those whose accumulator the order of values does not change, so that they can have DISTINCT."""
_ORDERED = {"FIRST_VALUE": ("first", 2**63 - 1), "LAST_VALUE": ("last", -(2**63))}
"""Functions that keep when a value came → how its fields are called, and when none came."""
_BEGIN_WITH_ZERO = ("COUNT", "SUM0")
_DELIMITER = ","
_SEEN = LogicalType("BIGINT", nullable=False)


def group_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of an aggregate over groups. Raises UnsupportedSnapshot for a call that is not filled."""
    retracted = node.items("aggCallNeedRetractions")
    names = accumulator_names(
        node,
        node.items("aggCalls"),
        call_columns(node)[0],
        retracted=retracted,
        count_rows=node.at("needRetraction") is True and node.at("indexOfCountStar") in (None, -1),
    )
    key = input_columns(node, node.items("grouping"))
    yield NodeState("accState", key, _accumulators(node, key, names, [one is True for one in retracted]))
    taken_back = node.at("needRetraction") is True
    for index, calls in enumerate(distinct_views(node)):
        yield from _view(node, key, index, calls, taken_back=taken_back)


def window_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of an aggregate over windows. Raises UnsupportedSnapshot for one that is not filled."""
    if node.at("needRetraction") is True:
        raise unsupported(node, "windows over rows that may be taken back are not filled from rows")
    calls, arguments = node.items("aggCalls"), call_columns(node)[0]
    names = accumulator_names(node, calls, arguments, count_rows=len(aggregate_calls(node)) > len(calls))
    key = input_columns(node, node.items("grouping"))
    accumulators = _accumulators(node, key, names, [])
    views = list(distinct_views(node))
    seen = node.chosen(arguments, [at for numbers in views for at in aggregate_calls(node)[numbers[0]]["argList"]])
    named = Record((*key.columns, *accumulators.columns, *map(str, seen)), ())
    slices = _slices(node, beside(named, window_names(node, "windowing").end))
    hops = node.at("windowing", "window", "type") == _HOPPING
    for call in node.items("aggCalls"):
        if function_of(call) == "LISTAGG" and len(call.get("argList") or []) > 1:
            # Slices are joined by the delimiter that they keep, and an accumulator without a row has none of its own.
            raise unsupported(node, f"{call_text(node, call)}, with a delimiter, is not filled from rows for windows")
    yield NodeState("window-aggs", key, accumulators, slices=slices)
    for index, numbers in enumerate(views):
        if hops and len(numbers) > 1:
            text = call_text(node, aggregate_calls(node)[numbers[0]])
            raise unsupported(
                node, f"several calls with DISTINCT of one column in HOP are not filled from rows: {text}"
            )
        for state in _view(node, key, index, numbers, taken_back=False):
            yield replace(state, slices=slices)


def _slices(node: PlanNode, column: str) -> Slices:
    """Return the slices of an aggregate's windows. Raises UnsupportedSnapshot for windows that are not filled."""
    window, strategy = node.at("windowing", "window"), node.at("windowing", "strategy")
    kind = window.get("type") if isinstance(window, dict) else None
    if not isinstance(window, dict) or kind not in _SIZES or strategy not in _STRATEGIES:
        why = "of windows only those of TUMBLE, HOP and CUMULATE are filled from rows, over rows without a window"
        raise unsupported(node, why)
    if node.at("windowing", "isRowtime") is not True:
        raise unsupported(node, "windows by processing time are not filled from rows")
    zone = node.at("configuration", "table.local-time-zone")
    if node.at("windowing", "timeAttributeType", "type") != "TIMESTAMP_WITHOUT_TIME_ZONE" and zone not in _UTC:
        raise unsupported(node, f"windows of TIMESTAMP_LTZ are filled where table.local-time-zone is UTC; it is {zone}")
    size, step = (window_millis(node, window, name) for name in _SIZES[kind])
    offset = window_millis(node, window, "offset") if window.get("offset") else 0
    if size % step:
        raise node.error(f"a window of {size} ms in steps of {step} ms")
    return Slices(column, step, offset, size, cumulates=kind == "CumulativeWindow")


_HOPPING = "HoppingWindow"
_SIZES = {
    "TumblingWindow": ("size", "size"),
    _HOPPING: ("size", "slide"),
    "CumulativeWindow": ("maxSize", "step"),
}
_STRATEGIES = ("TimeAttribute", "SliceAttached")
_UTC = ("UTC", "Etc/UTC", "GMT", "Z")


def _accumulators(node: PlanNode, key: Record, names: Sequence[str], retracted: Sequence[bool]) -> Record:
    """Return the row of accumulators."""
    found: list[LogicalType] = []
    initial: dict[int, int | str] = {}
    ordered: dict[int, int] = {}
    for number, call in enumerate(node.items("aggCalls")):
        taken_back = number < len(retracted) and retracted[number]
        function, at = function_of(call), len(found)
        known = _TAKEN_BACK if taken_back else _APPENDED
        if call.get("distinct") is True and call.get("argList"):
            known &= _IGNORE_NULL
        if not is_built_in(call) or function not in known:
            raise unsupported(node, f"{call_text(node, call)} has an accumulator that is not filled from rows")
        if function in _ORDERED:
            name, none = _ORDERED[function]
            fields = (f"{name}Value", f"{name}Order")
            type_ = replace(_argument(node, call), nullable=True)
            found.append(LogicalType("ROW", children=(type_, parse_sql_type("BIGINT")), names=fields))
            ordered[at] = none
        elif function == "LISTAGG":
            found += [parse_sql_type("STRING")] * 2
            initial[at] = _DELIMITER
        else:
            buffers = buffer_types(node, call, retracts=taken_back)
            found += buffers
            begins = len(buffers) > 1 or function in _BEGIN_WITH_ZERO
            initial |= dict.fromkeys(range(at, len(found)), 0) if begins else {}
    if len(aggregate_calls(node)) > len(node.items("aggCalls")):
        initial[len(found)] = 0
        found.append(parse_sql_type("BIGINT"))
    found += [MAP_VIEW] * len(distinct_views(node))
    if len(names) != len(found):
        raise unsupported(node, f"its accumulators have {len(found)} fields, and {len(names)} names")
    columns = unique_names((*key.columns, *map(str, names)))[len(key.columns) :]
    return Record(
        columns,
        tuple(found),
        {columns[at]: value for at, value in initial.items()},
        {columns[at]: value for at, value in ordered.items()},
    )


def _argument(node: PlanNode, call: Any) -> LogicalType:
    """Return the type of a call's only argument, as the plan has it. Raises UnsupportedSnapshot for several."""
    names, written = call_columns(node)
    chosen = node.chosen(names, call.get("argList") or [])
    if len(chosen) != 1:
        raise unsupported(node, f"{call_text(node, call)}, of {len(chosen)} columns, is not filled from rows")
    return column_type(node, str(chosen[0]), written[call["argList"][0]])


def _view(node: PlanNode, key: Record, index: int, calls: Sequence[int], *, taken_back: bool) -> Iterable[NodeState]:
    """Return the states of what DISTINCT has seen of a column."""
    all_calls = aggregate_calls(node)
    text = call_text(node, all_calls[calls[0]])
    filters = {all_calls[number].get("filterArg", -1) for number in calls}
    if len(filters) > 1 or (taken_back and len(calls) > 1):
        words = "over rows that may be taken back" if taken_back else "with several filters"
        raise unsupported(node, f"several calls with DISTINCT of one column {words} are not filled from rows: {text}")
    type_ = _argument(node, all_calls[calls[0]])
    column = str(node.chosen(call_columns(node)[0], all_calls[calls[0]]["argList"])[0])
    serializer = external(_SEEN)
    seen: Column | Always = Always((1 << len(calls)) - 1, serializer)
    if taken_back:
        seen = Column(beside(Record((*key.columns, column), (*key.types, type_)), COUNT), serializer, least=1)
    name = f"distinctAcc_{index}"
    yield NodeState(name, key, seen, Column(column, external(type_)), split=column)
    yield NodeState(f"{name}_null_state", key, seen, rows=name, split=column)
