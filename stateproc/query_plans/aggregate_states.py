"""Say which states an aggregate over groups or windows declares, with the types of their values, by the plan alone.

    accState, window-aggs     the accumulators, a row, per key of groups, of windows also per slice
    distinctAcc_<i>           a map: what DISTINCT has seen, see aggregate_views → a bit for each call; over rows that
                              may be taken back, and in HOP windows of a table function, how often it is there: of
                              several calls an array
    distinctAcc_<i>_null_state
                              the same for the value null
    agg<i>$map                a map, of call i: of MIN and MAX of rows that may be taken back, and of COLLECT: values →
                              how often each is there
    agg<i>$map, agg<i>$list   of JSON_OBJECTAGG a map: names → values as JSON, "" for null; of JSON_ARRAYAGG a list of
                              these, where null is JSON's null
    agg<i>$list, agg<i>$retractList
                              lists, of LISTAGG of rows that may be taken back: the values as they came, and those that
                              were taken back before they came
    agg<i>$valueToOrderMap, agg<i>$orderToValueMap
                              maps, of FIRST_VALUE and LAST_VALUE of rows that may be taken back: values → the times in
                              milliseconds at which they came, in a list; these times → the values of each, as they came

The accumulators of calls, one after another, of rows that are only added: COUNT the number, SUM, MIN and MAX their
result, AVG sum and number, LISTAGG the delimiter and the text, FIRST_VALUE and LAST_VALUE a row of the value and of the
time in milliseconds at which it came, the largest and the smallest BIGINT for none. Of rows that may be taken back: SUM
sum and number, and rows with null in place of views: MIN and MAX result and number of different values, FIRST_VALUE and
LAST_VALUE the value and its time, LISTAGG nothing more, or the delimiter if it has one. COLLECT and ARRAY_AGG have the
same of both: a row of a view, and one of two lists, the values as they came and those that were taken back before.

    session-window-mapping    a map, of sessions: the window → the one that is the namespace of what is kept of it

The namespace of a slice is its end in milliseconds. Windows that do not overlap are one slice; the slices of HOP
windows are as long as their slide, those of CUMULATE their step. Of sessions, and of GROUP BY TUMBLE(…), HOP(…) and
SESSION(…), it is a window with start and end; of HOP(…) a pane, as long as what both size and slide are multiples of.

Sources: GroupAggFunction, SliceAssigners, WindowOperator, SlidingWindowAssigner, MergingWindowProcessFunction,
DistinctAggCodeGen, and the functions of org.apache.flink.table.planner.functions.aggfunctions and
org.apache.flink.table.runtime.functions.aggregate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stateproc.query_plans.aggregate_views import distinct_views
from stateproc.query_plans.call_buffers import buffer_types, call_text
from stateproc.query_plans.node_rules import (
    PANES,
    accumulator_names,
    aggregate_calls,
    call_columns,
    call_name,
    function_of,
    group_accumulators,
    is_built_in,
    over_arguments,
    window_millis,
    window_names,
)
from stateproc.query_plans.over_aggregates import OVER, is_bounded, over_calls
from stateproc.query_plans.plan_file import PlanNode, unique_names
from stateproc.query_plans.row_conversion import column_type
from stateproc.query_plans.state_parts import (
    COUNT,
    MOST_ELEMENTS,
    Always,
    Column,
    NodeState,
    Order,
    Part,
    Record,
    Seen,
    Slices,
    Windows,
    Zeros,
    beside,
    input_columns,
    unsupported,
)
from stateproc.readers.state_names import WindowNames
from stateproc.serializers.table.java_streams import LIST_VIEW, MAP_VIEW, linked_list
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import external, external_list, external_longs, parse_sql_type

_IN_WINDOWS = frozenset({"COUNT", "SUM", "SUM0", "MIN", "MAX", "AVG", "FIRST_VALUE", "LAST_VALUE", "LISTAGG"})
_JSON_OBJECTS = {"JSON_OBJECTAGG_NULL_ON_NULL": "", "JSON_OBJECTAGG_ABSENT_ON_NULL": None}
"""Functions of JSON objects → what stands for null in their maps; None if it is left out."""
_JSON_ARRAYS = ("JSON_ARRAYAGG_NULL_ON_NULL", "JSON_ARRAYAGG_ABSENT_ON_NULL")
_APPENDED = _IN_WINDOWS | {"COLLECT", "ARRAY_AGG", *_JSON_OBJECTS, *_JSON_ARRAYS}
_TAKEN_BACK = _APPENDED
"""Functions that are filled: over rows that are only added, and over rows that may be taken back."""
_IGNORE_NULL = frozenset({"COUNT", "SUM", "SUM0", "MIN", "MAX", "AVG"})
"""Of these, those that can have DISTINCT in OVER."""
_ORDERED = {"FIRST_VALUE": ("First", 2**63 - 1), "LAST_VALUE": ("Last", -(2**63))}
"""Functions that keep when a value came → what their fields and classes begin with, and when none came."""
_EXTREMES = {"MIN": "Min", "MAX": "Max"}
_FUNCTIONS = "org.apache.flink.table.runtime.functions.aggregate."
_BEGIN_WITH_ZERO = ("COUNT", "SUM0", "ROW_NUMBER")
_DELIMITER = ","
_SEEN = LogicalType("BIGINT", nullable=False)
_BITS = 63
"""How many calls with DISTINCT have a bit each in one number, beside that of its sign."""
_BIGINT, _INT = LogicalType("BIGINT"), LogicalType("INTEGER")


def group_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of an aggregate over groups. Raises UnsupportedSnapshot for a call that is not filled."""
    retracted, names = node.items("aggCallNeedRetractions"), group_accumulators(node)
    key = input_columns(node, node.items("grouping"))
    yield NodeState("accState", key, _accumulators(node, key, names, [one is True for one in retracted]))
    for index, call in enumerate(node.items("aggCalls")):
        yield from views_of_call(node, key, index, call, taken_back=index < len(retracted) and retracted[index] is True)
    taken_back = node.at("needRetraction") is True
    for index, calls in enumerate(distinct_views(node)):
        yield from _view(node, key, index, calls, counted=taken_back, from_rows=taken_back)


def window_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of an aggregate over windows. Raises UnsupportedSnapshot for one that is not filled."""
    kind = node.at("windowing", "window", "type")
    yield from _of_windows(node, _sessions if kind == _SESSION else _slices, counts_seen=kind == _HOPPING)


def group_window_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of GROUP BY TUMBLE(…), HOP(…) or SESSION(…). Raises UnsupportedSnapshot as `window_states`."""
    yield from _of_windows(node, _group_windows, counts_seen=False)


def _of_windows(
    node: PlanNode, windows: Callable[[PlanNode, Record], Slices | Windows], *, counts_seen: bool
) -> Iterable[NodeState]:
    """Return the states of an aggregate over windows.

    Args:
        windows: Returns its windows, whose columns are beside these.
        counts_seen: Whether DISTINCT keeps how often it has seen a value.
    """
    if node.at("needRetraction") is True:
        raise unsupported(node, "windows over rows that may be taken back are not filled from rows")
    calls, arguments = node.items("aggCalls"), call_columns(node)[0]
    names = accumulator_names(node, calls, arguments, count_rows=len(aggregate_calls(node)) > len(calls))
    key = input_columns(node, node.items("grouping"))
    accumulators = _accumulators(node, key, names, [], _IN_WINDOWS)
    views = list(distinct_views(node))
    seen = node.chosen(arguments, [at for numbers in views for at in aggregate_calls(node)[numbers[0]]["argList"]])
    slices = windows(node, Record((*key.columns, *accumulators.columns, *map(str, seen)), ()))
    for call in node.items("aggCalls"):
        if function_of(call) == "LISTAGG" and len(call.get("argList") or []) > 1:
            # Slices are joined by the delimiter that they keep, and an accumulator without a row has none of its own.
            raise unsupported(node, f"{call_text(node, call)}, with a delimiter, is not filled from rows for windows")
    yield NodeState("window-aggs", key, accumulators, slices=slices)
    if isinstance(slices, Windows) and slices.are_sessions:
        yield NodeState("session-window-mapping", key, slices.namespace, slices.namespace, rows="window-aggs")
    for index, numbers in enumerate(views):
        for state in _view(node, key, index, numbers, counted=counts_seen):
            yield replace(state, slices=slices)


def _sessions(node: PlanNode, named: Record) -> Windows:
    """Return the windows of SESSION of a table. Raises UnsupportedSnapshot for windows that are not filled."""
    if node.at("windowing", "strategy") != "TimeAttribute":
        raise unsupported(node, _WITHOUT_WINDOW)
    _check_time(node, node.at("windowing", "timeAttributeType"), is_rowtime=node.at("windowing", "isRowtime") is True)
    gap = window_millis(node, node.at("windowing", "window"), "gap")
    return _windows(named, pane=0, size=gap, slide=0, restores_watermark=True)


def _group_windows(node: PlanNode, named: Record) -> Windows:
    """Return the windows of GROUP BY TUMBLE and so on. Raises UnsupportedSnapshot for windows that are not filled."""
    window, type_ = node.at("window"), node.at("window", "timeField", "fieldType")
    kind = str(window.get("kind")) if isinstance(window, dict) else ""
    if not isinstance(window, dict) or kind not in _GROUP_SIZES or window.get("isTimeWindow") is False:
        raise unsupported(node, "of such windows only those of TUMBLE, HOP and SESSION of times are filled from rows")
    _check_time(node, type_, is_rowtime=isinstance(type_, dict) and type_.get("kind") == "ROWTIME")
    if kind == "SESSION":
        gap = window_millis(node, window, "gap")
        return _windows(named, pane=0, size=gap, slide=0, restores_watermark=False)
    size, slide = (window_millis(node, window, name) for name in _GROUP_SIZES[kind])
    if slide > size:
        raise unsupported(node, f"windows of {size} ms every {slide} ms, which some rows are in none of")
    return _windows(named, pane=math.gcd(size, slide), size=size, slide=slide, restores_watermark=False)


def _windows(named: Record, *, pane: int, size: int, slide: int, restores_watermark: bool) -> Windows:
    names = WindowNames() if pane in (0, size) else PANES
    end = beside(named, names.end)
    start = beside(Record((*named.columns, end), ()), names.start)
    return Windows(end, start, pane, size, slide, restores_watermark)


def _check_time(node: PlanNode, type_: Any, *, is_rowtime: bool) -> None:
    """Raise UnsupportedSnapshot for windows of processing time, and of other time zones than UTC."""
    if not is_rowtime:
        raise unsupported(node, "windows by processing time are not filled from rows")
    kind, zone = type_.get("type") if isinstance(type_, dict) else None, node.at("configuration", _ZONE)
    if kind != "TIMESTAMP_WITHOUT_TIME_ZONE" and zone not in _UTC:
        raise unsupported(node, f"windows of TIMESTAMP_LTZ are filled where {_ZONE} is UTC; it is {zone}")


def over_states(node: PlanNode, key: Record) -> Iterable[NodeState]:
    """Return the states of an aggregate of OVER that are not of rows. Raises UnsupportedSnapshot as `group_states`."""
    calls, taken_back = over_calls(node), is_bounded(node)
    retracted = [taken_back] * len(calls)
    names = accumulator_names(node, calls, over_arguments(node), retracted=retracted, count_rows=taken_back)
    yield NodeState("accState", key, _accumulators(node, key, names, retracted))
    for index, call in enumerate(calls):
        yield from views_of_call(node, key, index, call, taken_back=taken_back)
    for index, numbers in enumerate(distinct_views(node)):
        if taken_back and len(numbers) > 1:
            text = call_text(node, calls[numbers[0]])
            raise unsupported(node, f"several calls with DISTINCT of one column in a frame that rows leave: {text}")
        yield from _view(node, key, index, numbers, counted=taken_back, from_rows=taken_back)


def _known_over(call: Any, *, taken_back: bool) -> frozenset[str]:
    """Return the functions of OVER that are filled."""
    if call.get("distinct") is True and call.get("argList"):
        return _IGNORE_NULL - (_EXTREMES.keys() if taken_back else set())
    known = _IN_WINDOWS | {"COLLECT", "ARRAY_AGG"}
    return known if taken_back else known | {"ROW_NUMBER", "LAG"}


def _calls(node: PlanNode) -> list[Any]:
    """Return the calls of the query."""
    return over_calls(node) if node.kind == OVER else node.items("aggCalls")


def _slices(node: PlanNode, named: Record) -> Slices:
    """Return the slices of an aggregate's windows. Raises UnsupportedSnapshot for windows that are not filled."""
    window, strategy = node.at("windowing", "window"), node.at("windowing", "strategy")
    kind = window.get("type") if isinstance(window, dict) else None
    if not isinstance(window, dict) or kind not in _SIZES or strategy not in _STRATEGIES:
        raise unsupported(node, _WITHOUT_WINDOW)
    _check_time(node, node.at("windowing", "timeAttributeType"), is_rowtime=node.at("windowing", "isRowtime") is True)
    size, step = (window_millis(node, window, name) for name in _SIZES[kind])
    offset = window_millis(node, window, "offset") if window.get("offset") else 0
    if size % step:
        raise node.error(f"a window of {size} ms in steps of {step} ms")
    column = beside(named, window_names(node, "windowing").end)
    return Slices(column, step, offset, size, cumulates=kind == "CumulativeWindow")


_HOPPING, _SESSION = "HoppingWindow", "SessionWindow"
_GROUP_SIZES = {"TUMBLING": ("size", "size"), "SLIDING": ("size", "slide"), "SESSION": ()}
_WITHOUT_WINDOW = "of windows only those of TUMBLE, HOP, CUMULATE and SESSION are filled, over rows without a window"
_ZONE = "table.local-time-zone"
_SIZES = {
    "TumblingWindow": ("size", "size"),
    _HOPPING: ("size", "slide"),
    "CumulativeWindow": ("maxSize", "step"),
}
_STRATEGIES = ("TimeAttribute", "SliceAttached")
_UTC = ("UTC", "Etc/UTC", "GMT", "Z")


def _accumulators(
    node: PlanNode,
    key: Record,
    names: Sequence[str],
    retracted: Sequence[bool],
    appended: Collection[str] = _APPENDED,
) -> Record:
    """Return the row of accumulators."""
    found: list[LogicalType] = []
    initial: dict[int, int | str] = {}
    rows: dict[int, _Row] = {}
    calls = _calls(node)
    for number, call in enumerate(calls):
        taken_back = number < len(retracted) and retracted[number]
        function, at = function_of(call), len(found)
        known = frozenset(_TAKEN_BACK if taken_back else appended)
        if node.kind == OVER:
            known = _known_over(call, taken_back=taken_back)
        if not is_built_in(call) or function not in known:
            raise unsupported(node, f"{call_text(node, call)} has an accumulator that is not filled from rows")
        row = _row(node, call, taken_back=taken_back)
        if row is not None:
            found.append(row.type)
            rows[at] = row
        elif function == "LISTAGG":
            found += [parse_sql_type("STRING")] * 2
            initial[at] = _DELIMITER
        else:
            buffers = buffer_types(node, call, retracts=taken_back)
            found += buffers
            begins = len(buffers) > 1 or function in _BEGIN_WITH_ZERO
            initial |= dict.fromkeys(range(at, len(found)), 0) if begins else {}
    if len(aggregate_calls(node)) > len(calls):
        initial[len(found)] = 0
        found.append(parse_sql_type("BIGINT"))
    found += [MAP_VIEW] * len(distinct_views(node))
    if len(names) != len(found):
        raise unsupported(node, f"its accumulators have {len(found)} fields, and {len(names)} names")
    columns = unique_names((*key.columns, *map(str, names)))[len(key.columns) :]
    taken: tuple[str, ...] = (*key.columns, *columns)
    fields: dict[str, Record] = {}
    for at, row in rows.items():
        fields[columns[at]] = own = row.named(columns[at], taken)
        taken = (*taken, *own.columns)
    return Record(
        columns,
        tuple(found),
        {columns[at]: value for at, value in initial.items()},
        rows=fields,
    )


@dataclass(frozen=True)
class _Row:
    """An accumulator that is a row.

    Attributes:
        value: The field whose column is called as the call is.
        initial: As of a Record, by the names of fields.
        orders: The field of the time of that value → what it is where that is null.
        empty: As of a Record.
        always: As of a Record.
    """

    type: LogicalType
    value: str | None = None
    initial: Mapping[str, int | str | tuple[()]] = field(default_factory=dict)
    orders: Mapping[str, int | None] = field(default_factory=dict)
    empty: frozenset[str] = frozenset()
    always: Mapping[str, int | str | None] = field(default_factory=dict)

    def named(self, call: str, taken: Sequence[str]) -> Record:
        """Return the row with columns that are called as the call and the field are, beside those that are taken."""
        names = unique_names((*taken, *(f"{call}_{name}" for name in self.type.names)))[len(taken) :]
        columns = dict(zip(self.type.names, map(str, names), strict=True))
        if self.value is not None:
            columns[self.value] = call
        return Record(
            tuple(columns.values()),
            self.type.children,
            {columns[name]: value for name, value in self.initial.items()},
            {columns[name]: Order(call, none) for name, none in self.orders.items()},
            frozenset(columns[name] for name in self.empty),
            {columns[name]: value for name, value in self.always.items()},
        )


def _row(node: PlanNode, call: Any, *, taken_back: bool) -> _Row | None:
    """Return the accumulator of a call if it is a row."""
    function = function_of(call)
    if function in _ORDERED:
        word, none = _ORDERED[function]
        value, order = f"{word.lower()}Value", f"{word.lower()}Order"
        fields = {value: replace(_argument(node, call), nullable=True), order: _BIGINT}
        if not taken_back:
            type_ = LogicalType("ROW", children=tuple(fields.values()), names=tuple(fields))
            return _Row(type_, value, orders={order: none})
        maps = {"valueToOrderMap": MAP_VIEW, "orderToValueMap": MAP_VIEW}
        return _Row(_retracting(f"{word}Value", fields | maps), value, orders={order: None})
    if function in _EXTREMES and taken_back:
        value = function.lower()
        fields = {value: replace(_argument(node, call), nullable=True), "mapSize": _BIGINT, "map": MAP_VIEW}
        return _Row(_retracting(_EXTREMES[function], fields), value, {"mapSize": 0})
    if function == "LISTAGG" and taken_back:
        fields = {"list": LIST_VIEW, "retractList": LIST_VIEW}
        if len(call.get("argList") or []) < 2:
            return _Row(_retracting("ListAgg", fields))
        return _Row(
            _retracting("ListAggWs", fields | {"delimiter": parse_sql_type("STRING")}),
            initial={"delimiter": _DELIMITER},
        )
    if function == "COLLECT":
        return _Row(_structured("CollectAggFunction$CollectAccumulator", {"map": MAP_VIEW}))
    if function in _JSON_OBJECTS:
        return _Row(_structured("JsonObjectAggFunction$Accumulator", {"map": MAP_VIEW}))
    if function in _JSON_ARRAYS:
        return _Row(_structured("JsonArrayAggFunction$Accumulator", {"list": LIST_VIEW}))
    if function == "ARRAY_AGG":
        list_ = linked_list(_argument(node, call))
        type_ = _structured("ArrayAggFunction$ArrayAggAccumulator", {"list": list_, "retractList": list_})
        return _Row(type_, "list", {"list": ()}, empty=frozenset({"retractList"}))
    return _lag(node, call) if function == "LAG" else None


def _lag(node: PlanNode, call: Any) -> _Row:
    """Return the accumulator of LAG: the last values, and the numbers of the call."""
    numbers, (names, written) = call.get("argList") or [], call_columns(node)
    chosen = node.chosen(names, numbers)
    constants = {at + len(node.input()): one for at, one in enumerate(node.items("overSpec", "constants"))}
    given = [constants[at].get("value") if isinstance(constants.get(at), dict) else None for at in numbers[1:]]
    offset, default = (*given, *(1, None)[len(given) :])[:2]
    is_known = type(offset) is int and 0 <= offset < MOST_ELEMENTS and all(one is not None for one in given)
    if not chosen or not is_known or not (default is None or type(default) in (int, str)):
        raise unsupported(node, f"{call_text(node, call)} is filled with an offset and a default that are constants")
    type_ = replace(column_type(node, str(chosen[0]), written[numbers[0]]), nullable=True)
    if (type(default) is int and type_.kind not in _WHOLE) or (type(default) is str and type_.kind not in _TEXTS):
        raise unsupported(node, f"{call_text(node, call)}, with a default of {type_.sql}, is not filled from rows")
    fields = {"offset": _INT, "defaultValue": type_, "buffer": linked_list(type_)}
    always: dict[str, int | str | None] = {"offset": offset, "defaultValue": default}
    return _Row(_structured("LagAggFunction$LagAcc", fields), "buffer", {"buffer": ()}, always=always)


_WHOLE, _TEXTS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), ("CHAR", "VARCHAR")


def _structured(name: str, fields: Mapping[str, LogicalType]) -> LogicalType:
    """Return the type of accumulators, whose class is called so below `_FUNCTIONS`."""
    children, names = tuple(fields.values()), tuple(fields)
    return LogicalType("STRUCTURED_TYPE", children=children, names=names, class_name=_FUNCTIONS + name)


def _retracting(name: str, fields: Mapping[str, LogicalType]) -> LogicalType:
    """Return the type of the accumulators of a function, for rows that may be taken back."""
    return _structured(f"{name}WithRetractAggFunction${name}WithRetractAccumulator", fields)


def views_of_call(node: PlanNode, key: Record, index: int, call: Any, *, taken_back: bool) -> Iterable[NodeState]:
    """Return the states of what a call, of this number, keeps of many rows, apart from what DISTINCT has seen."""
    function, prefix = function_of(call), f"agg{index}$"
    if function == "COLLECT" or (taken_back and function in _EXTREMES):
        type_ = replace(_argument(node, call), nullable=False)
        number = _INT if function == "COLLECT" else _BIGINT
        column = _column(node, call)
        count = Column(_beside(key, column), external(number), least=1)
        yield NodeState(f"{prefix}map", key, count, Column(column, external(type_)), split=column)
    elif function in _JSON_OBJECTS:
        column, null = _column(node, call), _JSON_OBJECTS[function]
        text = beside(Record((*key.columns, column), ()), call_name(call, function, (column,)))
        value = Column(text, external(parse_sql_type("STRING")), null=null)
        map_key = Column(column, external(parse_sql_type("STRING NOT NULL")))
        yield NodeState(f"{prefix}map", key, value, map_key, split=text if null is None else None)
    elif function in _JSON_ARRAYS:
        array = beside(key, call_name(call, function, (_column(node, call),)))
        list_ = Column(array, external(parse_sql_type("STRING")), is_array=True)
        yield NodeState(f"{prefix}list", key, list_, split=array, is_list=True)
    elif taken_back and function == "LISTAGG":
        array = beside(key, _column(node, call))
        list_ = Column(array, external(parse_sql_type("STRING NOT NULL")), is_array=True)
        yield NodeState(f"{prefix}list", key, list_, split=array, is_list=True)
        yield NodeState(f"{prefix}retractList", key, list_, rows=f"{prefix}list", is_list=True, is_empty=True)
    elif taken_back and function in _ORDERED:
        type_, column = replace(_argument(node, call), nullable=False), _column(node, call)
        times = Zeros(Column(_beside(key, column), external(_BIGINT), least=1), external_list(_BIGINT))
        yield NodeState(f"{prefix}valueToOrderMap", key, times, Column(column, external(type_)), split=column)
        array = beside(key, column)
        values = Column(array, external_list(type_), least=1, is_array=True)
        yield NodeState(f"{prefix}orderToValueMap", key, values, Always(0, external(_BIGINT)), split=array)


def _column(node: PlanNode, call: Any) -> str:
    """Return the column of a call's first argument. Raises UnsupportedSnapshot if it has none."""
    columns = node.chosen(call_columns(node)[0], call.get("argList") or [])
    if not columns:
        raise unsupported(node, f"{call_text(node, call)}, of no column, is not filled from rows")
    return str(columns[0])


def _beside(key: Record, *columns: str) -> str:
    """Return the name of the column that says how often a row is there."""
    return beside(Record((*key.columns, *columns), ()), COUNT)


def _argument(node: PlanNode, call: Any) -> LogicalType:
    """Return the type of a call's only argument, as the plan has it. Raises UnsupportedSnapshot for several."""
    names, written = call_columns(node)
    chosen = node.chosen(names, call.get("argList") or [])
    if len(chosen) != 1:
        raise unsupported(node, f"{call_text(node, call)}, of {len(chosen)} columns, is not filled from rows")
    return column_type(node, str(chosen[0]), written[call["argList"][0]])


def _view(
    node: PlanNode, key: Record, index: int, calls: Sequence[int], *, counted: bool, from_rows: bool = False
) -> Iterable[NodeState]:
    """Return the states of what DISTINCT has seen of a column.

    Args:
        index: The number of the view.
        calls: The calls that read it, by their numbers.
        counted: Whether it says how often each of them has seen a value, and not only that it has.
        from_rows: Whether rows say how often, without filters of their own once for all of them.
    """
    all_calls = [aggregate_calls(node)[number] for number in calls]
    type_, column = _argument(node, all_calls[0]), _column(node, all_calls[0])
    numbers: Sequence[Column | Always] = [Always(1, external(_SEEN))] * len(calls)
    if len({str(call.get("filterArg", -1)) for call in all_calls}) > 1:
        taken, columns = (*key.columns, column), (column,)
        names = unique_names((*taken, *(call_name(call, function_of(call), columns) for call in all_calls)))
        numbers = [Column(str(name), external(_SEEN), least=0) for name in names[len(taken) :]]
    elif from_rows:
        numbers = [Column(_beside(key, column), external(_SEEN), least=1)] * len(calls)
    elif not counted:
        numbers = [Always((1 << len(calls)) - 1, external(_SEEN))]
    if not counted and len(calls) > _BITS:
        raise unsupported(node, f"more than {_BITS} calls with DISTINCT of one column: {call_text(node, all_calls[0])}")
    seen: Part = numbers[0]
    if len(numbers) > 1:
        seen = Seen(tuple(numbers), external_longs() if counted else external(_SEEN), are_bits=not counted)
    name = f"distinctAcc_{index}"
    yield NodeState(name, key, seen, Column(column, external(type_)), split=column)
    yield NodeState(f"{name}_null_state", key, seen, rows=name, split=column)


def row_of_call(node: PlanNode, call: Any, *, taken_back: bool) -> LogicalType | None:
    """Return the type of a call's accumulator if it is a row. Raises UnsupportedSnapshot for one that is not known."""
    row = _row(node, call, taken_back=taken_back)
    return None if row is None else row.type
