"""Say which states an aggregate of OVER declares, by the plan alone.

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

Timers: by row time one at the time of each row that waits, or, in Flink 1 for frames from the first row on, one of each
key at the next watermark; and one at cleanupTsState. A job with table.exec.state.ttl has also the state of a
cleanup time, which begins anew.

Sources: the functions of org.apache.flink.table.runtime.operators.over, and StreamExecOverAggregate.
"""

from __future__ import annotations

from collections.abc import Iterable

from stateproc import types
from stateproc.query_plans.aggregate_states import over_states
from stateproc.query_plans.call_buffers import buffer_starts
from stateproc.query_plans.node_rules import aggregate_calls, counts_rows
from stateproc.query_plans.over_aggregates import (
    is_bounded,
    over_groups,
    over_order,
    over_time,
    preceding,
    timers_of_over,
)
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.state_parts import (
    CLEANUP,
    EARLIEST,
    LAST,
    NUMBER,
    ROWS,
    Column,
    Frame,
    NodeState,
    Record,
    Rows,
    beside,
    input_rows,
    picked,
    unsupported,
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
