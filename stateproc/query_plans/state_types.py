"""Say which states the operator of a node registers, with the types of keys, namespaces and values, by the plan alone.

What rows fill has its types from `node_states`, which says of each field what it is made of. Here are the others, and
those of joins and OVER by time:

    aggregate over groups     accState, with views whose accumulators rows do not fill
    aggregate over windows    window-aggs; of sessions session-window-mapping; previous-aggs where results are updated
    two phases, DISTINCT      distinctAcc_<i> of the first phase (incremental aggregate)
    OVER by time              accState, inputState: rows by their time; the last time, numbers of rows
    OVER by a column          accMapState, valueMapState: rows by their ids, sortedListState: ids by their sort key
    interval join             IntervalJoinLeftCache, IntervalJoinRightCache: rows by their time
    temporal join             left, right: rows by the order in which they came, and by their time; right: the last row
    join of windows           left-records, right-records: lists
    multi join                multi-join-input-<i>: rows, or their numbers, by a unique key
    first row by its time     deduplicate-state; in Flink 2 the row until its watermark, and whether it was emitted
    TopN                      data-state, sorted-map: rows that are taken back; data-state-with-update: by a unique key
    windows' TopN, last row   window_rank, window_deduplicate
    sessions of rows          session-window-tvf-acc
    sort by time              dataState: rows by their time; sortState: a list
    sink                      values: the rows of each primary key
    MATCH_RECOGNIZE           the rows in buffers of org.apache.flink.cep

Namespaces are the ends of slices (Long), or windows (TimeWindow) where sessions merge and in GROUP BY TUMBLE(…); states
without windows have none. Timers have the key and the namespace of their operator.

Sources: the operators in org.apache.flink.table.runtime.operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stateproc import types
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.query_plans.accumulator_types import FieldTypes, StateTypes, accumulator_types, of_state, view_types
from stateproc.query_plans.node_definitions import SIDES, TEMPORAL_JOIN
from stateproc.query_plans.node_rules import aggregate_calls, multi_join_key, multi_join_keys, node_uids
from stateproc.query_plans.node_states import node_states, time_to_live
from stateproc.query_plans.over_aggregates import OVER, is_bounded, over_groups, over_order, over_time
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode
from stateproc.query_plans.plan_tables import SINK, primary_key, sink_columns
from stateproc.query_plans.row_conversion import column_type
from stateproc.query_plans.state_parts import Record, input_columns, input_rows, picked, unsupported
from stateproc.query_plans.time_bounds import INTERVAL_JOIN
from stateproc.serializers import Serializer
from stateproc.serializers.java.collections import MapOf
from stateproc.serializers.runtime.cep import EVENT_ID, Lockable
from stateproc.serializers.runtime.streaming import TimeWindow
from stateproc.serializers.table.collections import SORTED_LONG
from stateproc.serializers.table.logical_types import LogicalType

NO_NAMESPACE, SLICE, WINDOW = types.VOID_NAMESPACE, types.LONG, TimeWindow(table=True)
"""Namespaces: none, the end of a slice, a window."""
USER_TIMERS, WINDOW_TIMERS = "user-timers", "window-timers"


@dataclass(frozen=True)
class OperatorTypes:
    """The keyed state of an operator.

    Attributes:
        timers: What its timers are called → their namespace.
        may_have: The names of states that it has only if there is a time to live, which its plan does not contain.
        others: Whether it may have states that the plan does not contain, of functions of the user.
    """

    key: Serializer
    states: tuple[StateTypes, ...]
    timers: Mapping[str, Serializer]
    may_have: tuple[str, ...] = ()
    others: bool = False


def operator_types(plan: CompiledPlan, uid: str) -> OperatorTypes:
    """Return the keyed state of the operator with this uid.

    Raises:
        NotFound: The plan has no such operator.
        UnsupportedSnapshot: Its states are not known, or types of theirs are not.
        InvalidOption: The plan is not as Flink writes it.
    """
    node = next((node for node in plan.nodes if uid in node_uids(plan, node).values()), None)
    try:
        states = node_states(plan, uid)
    except (UnsupportedSnapshot, InvalidOption):  # What rows do not fill, or an accumulator that is not known.
        own = _TYPES.get("" if node is None else node.kind)
        if node is None or own is None or node.at("configuration", _ASYNC) == "true" or _is_old(plan, node):
            raise
        return own(node)
    # Whether states of OVER have a time to live, its plan does not say; rows of a time are those of their input.
    if node is not None and node.kind in (OVER, INTERVAL_JOIN, TEMPORAL_JOIN):
        return _TYPES[node.kind](node)
    slices = states[0].slices
    namespace = NO_NAMESPACE if slices is None else slices.namespace.serializer
    found = [
        replace(of_state(state), namespace=NO_NAMESPACE if state.name == _MERGED else namespace, ttl=state.ttl)
        for state in states
    ]
    timers = {USER_TIMERS if slices is None else WINDOW_TIMERS: namespace}
    return OperatorTypes(states[0].key.serializer, tuple(found), timers)


_ASYNC = "table.exec.async-state.enabled"


def _is_old(plan: CompiledPlan, node: PlanNode) -> bool:
    return plan.flink_version.startswith("1.15") and node.kind in _RANKS


def _map(name: str, key: Serializer, value: Serializer, **more: Any) -> StateTypes:
    return StateTypes(name, value, key, **more)


def _longs(*names: str) -> Iterator[StateTypes]:
    yield from (StateTypes(name, types.LONG) for name in names)


def _user(key: Record, *states: StateTypes, **more: Any) -> OperatorTypes:
    return OperatorTypes(key.serializer, states, {USER_TIMERS: NO_NAMESPACE}, **more)


# --- aggregates ------------------------------------------------------------------------------------------


def _accumulators(name: str, found: FieldTypes, **more: Any) -> StateTypes:
    known = [type_ for type_ in found if type_ is not None]
    if len(known) < len(found):
        return StateTypes(name, None, fields=found, **more)
    return StateTypes(name, _row_of(known), **more)


def _row_of(found: Sequence[LogicalType]) -> Serializer:
    return types.RowData([(f"f{at}", type_) for at, type_ in enumerate(found)])


def _with_views(
    node: PlanNode, key: Record, name: str, taken_back: Sequence[bool], *, is_changing: bool, **more: Any
) -> tuple[StateTypes, ...]:
    found = accumulator_types(node, taken_back)
    views = view_types(node, key, taken_back, is_changing=is_changing)
    return (_accumulators(name, found, **more), *(replace(view, **more) for view in views))


def _group_aggregate(node: PlanNode) -> OperatorTypes:
    key, taken_back = input_columns(node, node.items("grouping")), node.items("aggCallNeedRetractions")
    states = _with_views(
        node,
        key,
        "accState",
        [one is True for one in taken_back],
        is_changing=node.at("needRetraction") is True,
        ttl=time_to_live(node, 0),
    )
    return _user(key, *states, others=_has_others(states))


def _has_others(states: Sequence[StateTypes]) -> bool:
    return any(state.value is None for state in states)


def _incremental_aggregate(node: PlanNode) -> OperatorTypes:
    """Only what DISTINCT has seen: its accumulators are those of a bundle."""
    key = input_columns(node, node.items("partialAggGrouping"))
    first = replace(
        node,
        attributes={
            **node.attributes,
            "aggCalls": node.items("partialOriginalAggCalls"),
            "localAggInputRowType": node.at("partialLocalAggInputRowType"),
            "needRetraction": node.at("partialAggNeedRetraction"),
        },
    )
    taken_back = [one is True for one in node.items("partialAggCallNeedRetractions")]
    changing = node.at("partialAggNeedRetraction") is True
    views = view_types(first, key, taken_back, is_changing=changing)
    return _user(key, *(replace(view, ttl=time_to_live(node, 0)) for view in views))


def _window_aggregate(node: PlanNode) -> OperatorTypes:
    key, changing = input_columns(node, node.items("grouping")), node.at("needRetraction") is True
    is_session = node.at("windowing", "window", "type") == _SESSION
    return _windowed(node, key, WINDOW if is_session else SLICE, changing=changing, merges=is_session)


def _group_window_aggregate(node: PlanNode) -> OperatorTypes:
    window, key = node.at("window"), input_columns(node, node.items("grouping"))
    if not isinstance(window, dict) or window.get("isTimeWindow") is False:
        raise unsupported(node, "windows of a number of rows are not known")
    if any(node.at("configuration", f"table.exec.emit.{name}-fire.enabled") == "true" for name in ("early", "late")):
        raise unsupported(node, "windows that emit early or late have states that are not known")
    changing = node.at("needRetraction") is True
    return _windowed(node, key, WINDOW, changing=changing, merges=str(window.get("kind")).upper() == "SESSION")


_SESSION = "SessionWindow"


def _windowed(node: PlanNode, key: Record, namespace: Serializer, *, changing: bool, merges: bool) -> OperatorTypes:
    taken_back = [changing] * len(aggregate_calls(node))
    states = _with_views(node, key, "window-aggs", taken_back, is_changing=changing, namespace=namespace)
    if merges:
        states += (_map(_MERGED, namespace, namespace),)
    return OperatorTypes(key.serializer, states, {WINDOW_TIMERS: namespace}, others=_has_others(states))


_MERGED = "session-window-mapping"


def _over(node: PlanNode) -> OperatorTypes:
    rows, bounded, time = input_rows(node), is_bounded(node), over_time(node)
    key = picked(node, rows, node.items("overSpec", "partition", "fields"))
    taken_back = [bounded] * len(aggregate_calls(node))
    of_rows = all(group.get("isRows") is True for group in over_groups(node))
    # Rows that leave a frame have timers; whether others live for some time is no part of the plan.
    ttl = False if bounded else None
    states = _with_views(node, key, "accState", taken_back, is_changing=bounded, ttl=ttl)
    by_time = _map("inputState", types.LONG, types.List(rows.serializer), ttl=ttl)
    if time is None and not bounded:
        sort_key = picked(node, rows, over_order(node)).serializer
        by = types.RowData({"f0": "BIGINT"}) if of_rows else sort_key
        first, *views = states
        states = (
            replace(first, name="accMapState", map_key=by),
            *views,
            _map("valueMapState", types.LONG, rows.serializer, ttl=None),
            StateTypes("sortedListState", types.List(types.Tuple(sort_key, types.List(types.LONG))), ttl=None),
            StateTypes("idState", types.LONG, ttl=None),
        )
    elif time == "ROWTIME":
        states += (by_time,)
        if bounded:
            states += tuple(_longs("lastTriggeringTsState", *(["processedCountState"] if of_rows else [])))
        if bounded and not of_rows:
            states += tuple(_longs("cleanupTsState"))
    elif time == "PROCTIME" and bounded:
        states += (by_time, *_longs(*(("processedCountState", "smallestTSState") if of_rows else ("cleanupTsState",))))
    elif time is None:
        raise unsupported(node, "rows that leave a frame by a column that is no time are not known")
    return _user(key, *states, may_have=_OF_RETENTION, others=_has_others(states))


_OF_RETENTION = (
    "RowTimeBoundedRowsOverCleanupTime",
    "RowTimeUnboundedOverCleanupTime",
    "ProcTimeBoundedRowsOverCleanupTime",
    "cleanup-timestamp",
)


# --- joins -----------------------------------------------------------------------------------------------


def _join_key(node: PlanNode, *spec: str) -> Record:
    """Both sides have the key of the left one."""
    return picked(node, input_rows(node), node.items(*spec, "leftKeys"))


def _interval_join(node: PlanNode) -> OperatorTypes:
    key = _join_key(node, "intervalJoinSpec", "joinSpec")
    states: list[StateTypes] = []
    for index, side in enumerate(("Left", "Right")):
        row = types.Tuple(input_rows(node, index).serializer, types.BOOLEAN)
        states.append(_map(f"IntervalJoin{side}Cache", types.LONG, types.List(row)))
        states += _longs(f"IntervalJoin{side}TimerState")
    return _user(key, *states)


def _temporal_join(node: PlanNode) -> OperatorTypes:
    key, (left, right) = _join_key(node, "joinSpec"), (input_rows(node, side).serializer for side in (0, 1))
    timers = {"timers": NO_NAMESPACE}
    if node.at("leftTimeAttributeIndex") in (None, -1):
        return OperatorTypes(key.serializer, (StateTypes("right", right),), timers, _OF_RETENTION)
    rows = _map("left", types.LONG, left), _map("right", types.LONG, right)
    return OperatorTypes(key.serializer, (*rows, *_longs("next-index", "timer")), timers, _OF_RETENTION)


def _window_join(node: PlanNode) -> OperatorTypes:
    states = [
        StateTypes(f"{side}-records", input_rows(node, index).serializer, is_list=True, namespace=SLICE)
        for index, side in enumerate(SIDES)
    ]
    return OperatorTypes(_join_key(node, "joinSpec").serializer, tuple(states), {WINDOW_TIMERS: SLICE})


# --- operators that keep rows of their input -------------------------------------------------------------


def _deduplicate(node: PlanNode) -> OperatorTypes:
    """The first row by its time, whose states are others where only INSERT is emitted, in Flink 2."""
    rows = input_rows(node)
    key, ttl = picked(node, rows, node.items("uniqueKeys")), time_to_live(node, 0)
    if node.at("outputInsertOnly") is True:
        waiting = StateTypes("waiting-to-emit-on-timer", rows.serializer, ttl=ttl)
        return _user(key, waiting, StateTypes("already-emitted-state-boolean", types.BOOLEAN, ttl=ttl))
    return _user(key, StateTypes("deduplicate-state", rows.serializer, ttl=ttl))


def _normalize(node: PlanNode) -> OperatorTypes:
    rows = input_rows(node)
    key = picked(node, rows, node.items("uniqueKeys"))
    return _user(key, StateTypes("deduplicate-state", rows.serializer, ttl=time_to_live(node, 0)))


def _rank(node: PlanNode) -> OperatorTypes:
    rows, ttl = input_rows(node), time_to_live(node, 0)
    key = picked(node, rows, node.items("partition", "fields"))
    sort_key, order = _sort_key(node, rows, "orderBy")
    strategy, limits = node.at("rankStrategy", "type"), node.at("rankRange")
    variable = isinstance(limits, dict) and limits.get("type") == "Variable"
    states: tuple[StateTypes, ...]
    if strategy == "Retract":
        # The map of numbers is never without its time to live: it has that of rows.
        numbers = MapOf(sort_key, types.LONG, "SortedMap", order=order)
        all_rows = _map("data-state", sort_key, types.List(rows.serializer), ttl=ttl)
        states = all_rows, StateTypes("sorted-map", numbers, ttl=ttl)
    elif strategy == "UpdateFast":
        unique = picked(node, rows, node.items("rankStrategy", "primaryKeys")).serializer
        states = (_map("data-state-with-update", unique, types.Tuple(rows.serializer, types.INT), ttl=ttl),)
    elif strategy == "AppendFast" and variable:
        states = (_map("data-state-with-append", sort_key, types.List(rows.serializer), ttl=ttl),)
    else:
        raise unsupported(node, f"its states, of the strategy {strategy}, are not known")
    return _user(key, *states, *([StateTypes("rankEnd", types.LONG, ttl=ttl)] if variable else []))


def _sort_key(node: PlanNode, rows: Record, name: str) -> tuple[Serializer, tuple[tuple[bool, bool], ...]]:
    """Return the type of a sort key, and of each column whether it ascends and whether null is last."""
    found = [one if isinstance(one, dict) else {} for one in node.items(name, "fields")]
    order = tuple((one.get("isAscending") is True, one.get("nullIsLast") is True) for one in found)
    return picked(node, rows, [one.get("index") for one in found]).serializer, order


_RANKS = ("stream-exec-rank", "stream-exec-sort-limit", "stream-exec-limit")


def _window_rank(node: PlanNode) -> OperatorTypes:
    rows = input_rows(node)
    sort_key, _ = _sort_key(node, rows, "sortSpec")
    state = _map("window_rank", sort_key, types.List(rows.serializer), namespace=SLICE)
    return OperatorTypes(picked(node, rows, node.items("partitionSpec", "fields")).serializer, (state,), _SLICE_TIMERS)


_SLICE_TIMERS = {WINDOW_TIMERS: SLICE}


def _window_deduplicate(node: PlanNode) -> OperatorTypes:
    rows = input_rows(node)
    state = StateTypes("window_deduplicate", rows.serializer, namespace=SLICE)
    return OperatorTypes(picked(node, rows, node.items("partitionKeys")).serializer, (state,), _SLICE_TIMERS)


def _window_table_function(node: PlanNode) -> OperatorTypes:
    rows = input_rows(node)
    key = picked(node, rows, node.items("windowing", "window", "partition_key_indices"))
    states = (
        _map("session-window-tvf-acc", types.LONG, rows.serializer, namespace=WINDOW),
        _map(_MERGED, WINDOW, WINDOW),
        *_longs("session-window-tvf-counter"),
    )
    return OperatorTypes(key.serializer, states, {"session-window-tvf-timers": WINDOW})


def _temporal_sort(node: PlanNode) -> OperatorTypes:
    row, key = input_rows(node).serializer, Record((), ())
    first = next(iter(node.items("orderBy", "fields")), None)
    if isinstance(first, dict) and node.time_at(first.get("index")) == "PROCTIME":
        return _user(key, StateTypes("sortState", row, is_list=True))
    return _user(key, _map("dataState", types.LONG, types.List(row)), *_longs("lastTriggeringTsState"))


def _multi_join(node: PlanNode) -> OperatorTypes:
    """Keys of maps are a unique key of the input, or whole rows.

    Those of all inputs but the first are a row of two: the columns that they are joined by, and this; the former alone
    where they contain the unique key.
    """
    key, states = picked(node, input_rows(node), multi_join_key(node)), []
    for index, (joined, own, is_unique) in enumerate(multi_join_keys(node)):
        rows = input_rows(node, index)
        if index and own:
            parts = picked(node, rows, [*joined]), picked(node, rows, [*own])
            map_key = _row_of((_row_type(parts[0], suffix="_key"), _row_type(parts[1], named=not is_unique)))
        else:
            map_key = picked(node, rows, [*joined, *own]).serializer
        kept = rows.serializer if is_unique else types.INT
        states.append(_map(f"multi-join-input-{index}", map_key, kept, ttl=time_to_live(node, index)))
    return OperatorTypes(key.serializer, tuple(states), {})


def _row_type(record: Record, suffix: str = "", *, named: bool = True) -> LogicalType:
    names = tuple(f"{name}{suffix}" if named else f"f{at}" for at, name in enumerate(record.columns))
    return LogicalType("ROW", children=record.types, names=names)


def _sink(node: PlanNode) -> OperatorTypes:
    """Rows have the types of the table; version 1 of the node keeps them without columns of metadata."""
    if node.at("upsertMaterializeStrategy") not in (None, "LEGACY"):
        raise unsupported(node, "its materializer has states that are not known")
    written = [(name, column_type(node, name, type_)) for name, type_ in sink_columns(node)]
    if node.version > 1 and len(written) < len(node.input()):
        raise unsupported(node, "columns of metadata are kept, whose types are not known")
    rows = Record(tuple(name for name, _ in written), tuple(replace(type_, attribute=None) for _, type_ in written))
    key = picked(node, rows, primary_key(node))
    values = StateTypes("values", types.List(rows.serializer), ttl=time_to_live(node, 0))
    return OperatorTypes(key.serializer, (values,), {})


def _match(node: PlanNode) -> OperatorTypes:
    rows = input_rows(node)
    row = rows.serializer
    states = (
        _map("eventQueuesStateName", types.LONG, types.List(row)),
        _map("sharedBuffer-events", EVENT_ID, Lockable(row)),
        _map("sharedBuffer-events-count", types.LONG, types.INT),
    )
    key = picked(node, rows, node.items("matchSpec", "partition", "fields"))
    return OperatorTypes(key.serializer, states, {"watermark-callbacks": NO_NAMESPACE}, _OF_PATTERNS)


_OF_PATTERNS = ("nfaStateName", "sharedBuffer-entries-with-lockable-edges")
"""States of a pattern without types of the query."""


def _process_function(node: PlanNode) -> OperatorTypes:
    """The rows that wait to be sorted; what the function's own states contain only its class knows."""
    operands = [item for item in node.items("functionCall", "operands") if isinstance(item, dict)]
    tables = [item for item in operands if item.get("kind") == "TABLE_ARG_CALL"]
    if not tables:
        raise unsupported(node, "its states are those of a function")
    inputs = [input_rows(node, index) for index in range(len(tables))]
    states = [
        _map(f"input-sort-buffer-data-{at}", SORTED_LONG, types.List(rows.serializer))
        for at, rows in enumerate(inputs)
        if tables[at].get("orderKeys")
    ]
    timers = {f"input-sort-buffer-{at}": NO_NAMESPACE for at in range(len(inputs))}
    key = picked(node, inputs[0], tables[0].get("partitionKeys"))
    return OperatorTypes(key.serializer, tuple(states), timers, others=True)


_TYPES: Mapping[str, Callable[[PlanNode], OperatorTypes]] = {
    "stream-exec-group-aggregate": _group_aggregate,
    "stream-exec-global-group-aggregate": _group_aggregate,
    "stream-exec-incremental-group-aggregate": _incremental_aggregate,
    "stream-exec-window-aggregate": _window_aggregate,
    "stream-exec-global-window-aggregate": _window_aggregate,
    "stream-exec-group-window-aggregate": _group_window_aggregate,
    OVER: _over,
    INTERVAL_JOIN: _interval_join,
    TEMPORAL_JOIN: _temporal_join,
    "stream-exec-window-join": _window_join,
    "stream-exec-multi-join": _multi_join,
    "stream-exec-deduplicate": _deduplicate,
    "stream-exec-changelog-normalize": _normalize,
    **dict.fromkeys(_RANKS, _rank),
    "stream-exec-window-rank": _window_rank,
    "stream-exec-window-deduplicate": _window_deduplicate,
    "stream-exec-window-table-function": _window_table_function,
    "stream-exec-temporal-sort": _temporal_sort,
    SINK: _sink,
    "stream-exec-match": _match,
    "stream-exec-process-table-function": _process_function,
}
"""Type of node → the types of its states that rows do not fill."""
