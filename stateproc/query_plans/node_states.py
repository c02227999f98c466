"""Say which states the operator of a node declares, with the types of keys and values, by the plan alone.

    group aggregate       accState and views, see aggregate_states
    window aggregate      window-aggs and views, of sessions also session-window-mapping, see aggregate_states
    deduplicate           deduplicate-state: the row that is kept; of the first row by processing time only TRUE
    changelog normalize   deduplicate-state: the last row
    TopN, LIMIT           Top1-Rank-State: the first row; data-state-with-append: rows by their sort key, in lists
    join                  left-records, right-records, see below
    sink                  values: the rows of each primary key, in a list; the last one is that of the sink's table
    OVER, joins by time   see below

The rows of a join's input are a value where the join's key contains a unique key of the input, values of a map where
the input has another unique key, else keys of a map with the number of their occurrences. Where a row is emitted
without a partner, too (LEFT, RIGHT, FULL, semi and anti joins), the number of its partners is beside it, in a tuple.

An aggregate of OVER:

    accState               the accumulators, with the views of aggregate_states. Where rows leave the frame they are
                           those of an aggregate over rows that may be taken back
    inputState             a map: times in milliseconds → the rows of each time as they came, in a list: those that wait
                           for the watermark, and where rows leave the frame those that are in it
    lastTriggeringTsState  the last time that was computed
    processedCountState    how many rows are in a frame of a number of rows
    smallestTSState        the first time of its rows, where they are in the order of processing time
    cleanupTsState         when the state of a key is dropped: one and a half times as long after a row as a frame of a
                           time is long, and a millisecond

    frame                     by                states
    from the first row on     row time          accState, inputState with the rows that wait
                              processing time   accState
    a number of rows          row time          accState, inputState, lastTriggeringTsState, processedCountState
                              processing time   accState, inputState, processedCountState, smallestTSState
    a time                    row time          accState, inputState, lastTriggeringTsState, cleanupTsState
                              processing time   accState, inputState, cleanupTsState

Its timers: by row time one at the time of each row that waits, or, in Flink 1 for frames from the first row on, one of
each key at the next watermark; and one at cleanupTsState. A job with table.exec.state.ttl has also the state of a
cleanup time, which begins anew.

Joins by time:

    interval join    IntervalJoinLeftCache, IntervalJoinRightCache: maps, times in milliseconds → the rows of each time
                     as they came, in a list, each with whether it was emitted with a partner, in a tuple
                     IntervalJoinRightTimerState, IntervalJoinLeftTimerState: when the rows of the left, and of the
                     right input are looked through next for those that get no partner any more
    temporal join    left: a map, numbers as rows came → the rows that wait for the watermark
                     right: a map, times in milliseconds → the version that begins then
                     next-index: the number of the next row
                     timer: the first time of the rows that wait

Rows of a temporal join have their RowKind, of the right input -D for a key that has no version from then on. A row of
the right input that waits has part in the timer if it came when there was none, or a later one; the next timer is that
of rows of the left input alone. So the order in which rows come decides when versions are dropped, not what is joined.

A row of an interval join is dropped, of outer joins emitted without a partner, when the time of the operator is more
than its bounds later, at a timer a millisecond after that. What table.exec.interval-join.min-cleanup-interval adds to
that time, as earlier releases do unasked, only begins with the timers after these.

Sources: GroupAggFunction, DeduplicateFunctionBase, FastTop1Function, AppendOnlyTopNFunction, JoinRecordStateViews,
OuterJoinRecordStateViews, SinkUpsertMaterializer, TimeIntervalJoin, TemporalRowTimeJoinOperator and the functions of
OVER, of org.apache.flink.table.runtime.operators; JoinUtil.analyzeJoinInput, StreamExecSink, StreamExecOverAggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from stateproc import types
from stateproc.errors import UnsupportedSnapshot, not_found
from stateproc.query_plans.aggregate_states import group_states, group_window_states, over_states, window_states
from stateproc.query_plans.call_buffers import buffer_starts
from stateproc.query_plans.join_types import OUTER
from stateproc.query_plans.node_definitions import SIDES, TEMPORAL_JOIN, is_on
from stateproc.query_plans.node_rules import NODE_RULES, aggregate_calls, counts_rows, node_uids
from stateproc.query_plans.over_aggregates import (
    OVER,
    is_bounded,
    over_groups,
    over_order,
    over_time,
    preceding,
    timers_of_over,
)
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode, unique_names
from stateproc.query_plans.plan_tables import SINK, declared_columns, primary_key, sink_columns
from stateproc.query_plans.rank_order import ADDED_ROWS, FIRST_ROW, NUMBER_OF_ROWS, last_rank, rows_state
from stateproc.query_plans.row_conversion import column_type
from stateproc.query_plans.split_distinct import without_split
from stateproc.query_plans.state_parts import (
    ASSOCIATIONS,
    CLEANUP,
    COUNT,
    EARLIEST,
    LAST,
    NEXT,
    NUMBER,
    ROWS,
    TIMER,
    Always,
    AsOf,
    Column,
    Frame,
    NodeState,
    Pair,
    Part,
    Record,
    Rows,
    Waiting,
    Windows,
    beside,
    input_rows,
    join_key,
    picked,
    unsupported,
)
from stateproc.query_plans.time_bounds import INTERVAL_JOIN, time_bounds

_INDEX, _KIND = "index", "row_kind"
"""Columns of a temporal join: the number of a row of the left input, and the RowKind of rows."""
_JOINED = "joined"
"""The field of rows of an interval join that says whether they were emitted with a partner."""
_BEFORE_SESSIONS = ("1.15", "1.16", "1.17", "1.18", "1.19")
_ASYNC = "table.exec.async-state.enabled"


def node_states(plan: CompiledPlan, uid: str) -> tuple[NodeState, ...]:
    """Return the states of the operator with this uid.

    Raises:
        NotFound: The plan has no such operator.
        UnsupportedSnapshot: Its states are not known, or contain what rows do not give.
    """
    found = {own: (node, name) for node in plan.nodes for name, own in node_uids(plan, node).items()}
    if uid not in found:
        known = [own for own, (node, name) in found.items() if node.kind in _STATES and name == _stateful(node)]
        raise not_found("operator", uid, known, "the plan")
    node, name = found[uid]
    if any(node is split.partial for split in without_split(plan)[1].values()):
        raise UnsupportedSnapshot(
            f"{node.label}: what DISTINCT has seen is divided by hash codes, which rows do not give",
            advice="fill the state of a plan that is compiled without table.optimizer.distinct-agg.split.enabled, and "
            "make of the savepoint one of this plan: stateproc evolve",
        )
    states = _STATES.get(node.kind)
    if states is None or name != _stateful(node):
        raise unsupported(node, "its states are not filled from rows")
    if node.at("configuration", _ASYNC) == "true":
        raise unsupported(node, f"with {_ASYNC} it has states of another kind")
    if plan.flink_version.startswith("1.15") and states is _rank:
        raise unsupported(node, "Flink 1.15 has other states for it")
    if states in _BY_TIME:  # What windows and frames keep goes with them.
        found_states = tuple(replace(state, ttl=False) for state in states(node))
        keeps = isinstance(found_states[0].slices, Windows) and found_states[0].slices.restores_watermark
        if keeps and plan.flink_version[:4] in _BEFORE_SESSIONS:
            raise unsupported(node, f"Flink {plan.flink_version} has other states for SESSION of a table")
        return found_states
    # All states of an aggregate have the time to live of the one that the plan has.
    one = states is group_states
    return tuple(
        replace(state, ttl=time_to_live(node, 0 if one else index)) for index, state in enumerate(states(node))
    )


def _stateful(node: PlanNode) -> str | None:
    """Return which of a node's operators has state."""
    rule = NODE_RULES.get(node.kind)
    keeps_rows = node.kind != SINK or node.at("requireUpsertMaterialize") is True
    return rule.transformation if rule is not None and keeps_rows else None


def time_to_live(node: PlanNode, index: int) -> bool | None:
    """Return whether a state has a time to live; None where the plan does not say.

    ``index``: its number among those that the plan has settings of.
    """
    states = node.items("state")
    found = states[index].get("ttl") if index < len(states) and isinstance(states[index], dict) else None
    return None if found is None else is_on(found)


def _deduplicate(node: PlanNode) -> Iterable[NodeState]:
    rows = input_rows(node)
    key = picked(node, rows, node.items("uniqueKeys"))
    first = node.at("keepLastRow") is False
    if first and node.at("isRowtime") is True:
        raise unsupported(node, "the first row by its time waits for the watermark in some releases")
    yield NodeState("deduplicate-state", key, Always(True, types.BOOLEAN) if first else rows)


def _normalize(node: PlanNode) -> Iterable[NodeState]:
    rows = input_rows(node)
    yield NodeState("deduplicate-state", picked(node, rows, node.items("uniqueKeys")), rows)


def _rank(node: PlanNode) -> Iterable[NodeState]:
    rows = input_rows(node)
    key = picked(node, rows, node.items("partition", "fields"))
    is_added = last_rank(node) is not None and node.at("rankStrategy", "type") == "AppendFast"
    if not is_added or rows_state(node) == NUMBER_OF_ROWS:
        raise unsupported(node, "of TopN only that with a constant range over rows that are only added is filled")
    if rows_state(node) == FIRST_ROW:
        yield NodeState(FIRST_ROW, key, rows)
        return
    fields = node.items("orderBy", "fields")
    sort_key = picked(node, rows, [item.get("index") if isinstance(item, dict) else None for item in fields])
    # Arrays of structs are matched by the names of their fields.
    row = types.RowData(zip(rows.columns, rows.types, strict=True))
    yield NodeState(ADDED_ROWS, key, Column(beside(rows, ROWS), types.List(row), is_array=True), sort_key)


def _join(node: PlanNode) -> Iterable[NodeState]:
    kind = node.at("joinSpec", "joinType")
    if not isinstance(kind, str) or kind not in OUTER:
        raise unsupported(node, f"a join of the type {kind!r}")
    for index, side in enumerate(SIDES):
        rows, key = input_rows(node, index), join_key(node, index, "joinSpec")
        unique = [*node.items(f"{side}UpsertKeys"), *node.items(f"{side}UniqueKeys")]  # The latter in Flink 1.15.
        map_key, kept = _kept_by(rows, [picked(node, rows, one) for one in unique], key)
        if OUTER[kind][index]:
            kept = Pair(kept, Column(beside(rows, ASSOCIATIONS), types.INT, least=0))
        yield NodeState(f"{side}-records", key, kept, map_key)


def _kept_by(rows: Record, unique: Sequence[Record], key: Record) -> tuple[Part | None, Part]:
    """Return by what the rows of an input are found below the join's key, None if that is enough, and what is kept."""
    if not unique:
        return rows, Column(beside(rows, COUNT), types.INT, default=1, least=1)
    if any(set(one.columns) <= set(key.columns) for one in unique):
        return None, rows
    return min(unique, key=lambda one: len(one.columns)), rows


def _sink(node: PlanNode) -> Iterable[NodeState]:
    """Rows have the types of the table, columns of metadata last; version 1 of the node keeps rows without them."""
    strategy = node.at("upsertMaterializeStrategy")
    if strategy not in (None, "LEGACY"):
        raise unsupported(node, f"of materializers only the first is filled from rows, and not that of {strategy}")
    conflicts = node.at("conflictStrategy", "behavior")
    if conflicts not in (None, "DEDUPLICATE"):
        raise unsupported(node, f"with ON CONFLICT DO {conflicts} it has states of another kind")
    written = sink_columns(node)
    if node.version > 1:
        metadata = [one for one in declared_columns(node) if one.get("kind") == "METADATA" and not one.get("isVirtual")]
        if len(metadata) > 1:
            raise unsupported(node, "several columns of metadata are kept in the order of the connector")
        written += [(str(one.get("name")), one.get("dataType")) for one in metadata]
    names, positions = unique_names(name for name, _ in written), primary_key(node)
    if not positions:
        raise unsupported(node, "the plan does not have the primary key of its table")
    # The rows of the table have no times by which windows are built.
    found = tuple(replace(column_type(node, name, type_), attribute=None) for name, type_ in written)
    rows = Record(tuple(map(str, names)), found)
    row = types.RowData(zip(rows.columns, rows.types, strict=True))
    yield NodeState(
        "values", picked(node, rows, positions), Column(beside(rows, ROWS), types.List(row), least=1, is_array=True)
    )


def frame_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of an aggregate of OVER. Raises UnsupportedSnapshot for one that is not filled."""
    time, rows = over_time(node), input_rows(node)
    if time is None or len(over_groups(node)) != 1:
        raise unsupported(node, "OVER is filled in the order of row time or of processing time")
    key = picked(node, rows, node.items("overSpec", "partition", "fields"))
    yield from over_states(node, key)
    by_row_time, bounded = time == "ROWTIME", is_bounded(node)
    if not by_row_time and not bounded:
        return
    (column,) = node.chosen(rows.columns, over_order(node)[:1])
    frame = _frame(node, beside(key, str(column)), by_row_time=by_row_time)
    array = beside(Record((*rows.columns, frame.column), ()), ROWS)
    yield NodeState("inputState", key, Rows(array, rows), Column(frame.column, types.LONG), frame=frame)
    derived = {"lastTriggeringTsState": LAST} if bounded and by_row_time else {}
    if frame.rows is not None:
        derived["processedCountState"] = NUMBER
        derived |= {} if by_row_time else {"smallestTSState": EARLIEST}
    elif frame.millis is not None:
        derived["cleanupTsState"] = CLEANUP
    for name, of in derived.items():
        yield NodeState(name, key, Column(of, types.LONG), is_derived=True)


def _frame(node: PlanNode, column: str, *, by_row_time: bool) -> Frame:
    """Return which rows are kept. Raises UnsupportedSnapshot for a frame that Flink does not have."""
    (group,) = over_groups(node)
    if not is_bounded(node):
        return Frame(column, "accState", by_row_time, one_timer=timers_of_over(node) == 1)
    before, is_rows = preceding(node), group.get("isRows") is True
    if before is None:
        raise unsupported(node, "the bounds of its frame are no numbers of rows, or days, hours, minutes and seconds")
    starts = zip(buffer_starts(node), aggregate_calls(node), strict=False)
    count = next(start for start, call in starts if counts_rows(call))  # Frames that rows leave have such a call.
    rows, millis = (before + 1, None) if is_rows else (None, before)
    return Frame(column, "accState", by_row_time, rows, millis, count)


def interval_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of an interval join. Raises UnsupportedSnapshot for one that is not filled."""
    spec, bounds = ("intervalJoinSpec", "joinSpec"), time_bounds(node)
    kind = node.at(*spec, "joinType")
    if bounds is None or not isinstance(kind, str) or kind not in OUTER:
        raise unsupported(node, f"a join of the type {kind!r}, with these bounds")
    by_row_time = node.at("intervalJoinSpec", "windowBounds", "isEventTime") is True
    timers = []
    for index, (side, reach) in enumerate(zip(SIDES, (-bounds[0], bounds[1]), strict=True)):
        rows, key = input_rows(node, index), join_key(node, index, *spec)
        at = node.at("intervalJoinSpec", "windowBounds", f"{side}TimeIndex")
        (time,) = node.chosen(rows.columns, [at])
        waiting = Waiting(beside(key, str(time)), by_row_time, f"{side}_timer", reach, reach + 1)
        joined: Column | Always = Always(False, types.BOOLEAN)
        if OUTER[kind][index]:
            joined = Column(beside(rows, _JOINED), types.BOOLEAN)
        array = Rows(beside(Record((*rows.columns, waiting.column), ()), ROWS), rows, joined)
        name = f"IntervalJoin{side.capitalize()}Cache"
        yield NodeState(name, key, array, Column(waiting.column, types.LONG), waiting=waiting)
        timers.append((waiting.timer, key))
    # What says when rows of the left input are looked through is called by the other one.
    for other, (timer, key) in zip(("Right", "Left"), timers, strict=True):
        yield NodeState(f"IntervalJoin{other}TimerState", key, Column(timer, types.LONG), is_derived=True)


def temporal_states(node: PlanNode) -> Iterable[NodeState]:
    """Return the states of a temporal join. Raises UnsupportedSnapshot for one by processing time."""
    key = join_key(node, 0, "joinSpec")
    for index, side in enumerate(SIDES):
        rows, at = input_rows(node, index), node.at(f"{side}TimeAttributeIndex")
        if at in (None, -1):
            raise unsupported(node, "a temporal join by processing time")
        (name,) = node.chosen(rows.columns, [at])
        time = Column(str(name), types.LONG, is_time=True)
        number = time if index else Column(beside(rows, _INDEX), types.LONG, least=0)
        rows = replace(rows, kind=beside(rows, _KIND))
        yield NodeState(side, join_key(node, index, "joinSpec"), rows, number, as_of=AsOf(time, bool(index)))
    for state, column in (("next-index", NEXT), ("timer", TIMER)):
        yield NodeState(state, key, Column(column, types.LONG), is_derived=True)


_STATES: Mapping[str, Callable[[PlanNode], Iterable[NodeState]]] = {
    "stream-exec-group-aggregate": group_states,
    "stream-exec-global-group-aggregate": group_states,
    "stream-exec-window-aggregate": window_states,
    "stream-exec-global-window-aggregate": window_states,
    "stream-exec-group-window-aggregate": group_window_states,
    "stream-exec-deduplicate": _deduplicate,
    "stream-exec-changelog-normalize": _normalize,
    "stream-exec-rank": _rank,
    "stream-exec-sort-limit": _rank,
    "stream-exec-limit": _rank,
    "stream-exec-join": _join,
    INTERVAL_JOIN: interval_states,
    TEMPORAL_JOIN: temporal_states,
    SINK: _sink,
    OVER: frame_states,
}
"""Type of node → its states."""
_BY_TIME = (window_states, group_window_states, frame_states, interval_states, temporal_states)
"""What keeps states as long as windows and frames need them."""
