"""Say which rows of an aggregate of OVER wait, and what its operator knows of the rows in each key's frame.

Rows are those of `inputState`, an array for each time of a key; `stateproc.query_plans.node_states` says what the other
states are. Rows after the watermark wait for it; those up to it are in a frame, if rows leave it, and in the
accumulators. By processing time none wait.

Sources: the functions of org.apache.flink.table.runtime.operators.over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc import types
from stateproc.codec.arrow_arrays import as_type, null_rows, numbers_of, offsets_of, values_array
from stateproc.errors import InvalidRows
from stateproc.query_plans.state_parts import CLEANUP, EARLIEST, LAST, NUMBER, Frame, NodeState, Record
from stateproc.writers.bootstrap.frame_columns import is_spark
from stateproc.writers.bootstrap.keyed_bootstrap import KeyedBootstrap
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, MAP_VALUE, TIMESTAMP, VALUE
from stateproc.writers.bootstrap.plan_windows import time_of
from stateproc.writers.bootstrap.timed_rows import NEVER, by_key, flat_keys, key_type, keys_of, rows_after

_LATEST, _COUNTED = "$latest", "$counted"


def frame_of(states: tuple[NodeState, ...]) -> Frame | None:
    """Return the frame of an operator that keeps rows of one."""
    return next((state.frame for state in states if state.frame is not None), None)


def kept_rows(frame: Any, of: Frame, watermark: int | None) -> Any:
    """Return the rows that the operator keeps, with their times in milliseconds. The watermark is in milliseconds.

    Raises:
        NotFound: The column of times is missing.
        InvalidRows: A time is null, or before the first that Flink knows. Spark has an error of its own, when it
            computes the rows.
    """
    # Without an earlier time that was computed, Flink takes it for 0.
    least = 1 if of.is_bounded and of.by_row_time else -NEVER
    # All are kept where rows leave the frame, else those that wait.
    after = -NEVER if of.is_bounded else time_of(watermark)
    return rows_after(frame, of.column, "inputState", least, after)


def add_derived(
    made: KeyedBootstrap, states: tuple[NodeState, ...], nested: Mapping[str, Any], watermark: int | None
) -> None:
    """Add the states that follow from others, and the timers.

    Args:
        made: The state of the operator.
        states: What its states are.
        nested: The rows of `inputState` and of the accumulators, as keys and values.
        watermark: The watermark in milliseconds; None for none.

    Raises:
        InvalidRows: The rows in a frame are not those of the accumulators. Spark has an error of its own, when it
            computes the rows.
    """
    of = frame_of(states)
    assert of is not None
    now = time_of(watermark) if of.by_row_time else NEVER
    rows, key = nested["inputState"], states[0].key
    if is_spark(rows):
        from stateproc.writers.bootstrap.spark_timed_rows import frame_timers, frame_totals  # Lazy, as above.

        totals = frame_totals(rows, nested[of.accumulators], of, now)
        timers = frame_timers(rows, totals, of, now)
    else:
        totals = _totals(rows, nested[of.accumulators], of, now, key)
        timers = _timers(rows, totals, of, now)
    for state in states:
        if state.is_derived:
            made.value_state(state.name, totals, state.columns[-1], type=types.LONG)
    if of.by_row_time:
        made.event_time_timers(timers, TIMESTAMP)
    elif of.millis is not None:
        made.processing_time_timers(timers, TIMESTAMP)


def _totals(rows: pa.Table, accumulators: pa.Table, of: Frame, now: int, key: Record) -> pa.Table:
    """Return a row per key with the columns of derived states."""
    wanted = key_type(key)
    parts = [*_of_rows(rows, now, wanted), *([] if of.count is None else _of_accumulators(accumulators, of, wanted))]
    how = {LAST: "max", _LATEST: "max", EARLIEST: "min", NUMBER: "sum", _COUNTED: "sum"}
    fields, found = by_key(parts, wanted, how, "rows of OVER,")
    _check(found, fields, of, key)
    made = {KEY: keys_of(fields, len(found[LAST])), LAST: found[LAST], EARLIEST: found[EARLIEST]}
    number = numbers_of(found[NUMBER])
    made[NUMBER] = values_array(number, number == 0)
    if of.millis is not None:
        latest = found[_LATEST]
        made[CLEANUP] = values_array(numbers_of(latest) + of.cleanup, null_rows(latest))
    return pa.table(made)


def _of_rows(rows: pa.Table, now: int, wanted: pa.StructType) -> Iterator[list[pa.Array]]:
    for batch in rows.to_batches():
        times = numbers_of(batch.column(MAP_KEY))
        lengths = np.diff(offsets_of(batch.column(MAP_VALUE)))
        waits, time = times > now, batch.column(MAP_KEY)
        number = np.where(waits, 0, lengths)
        zeros = values_array(np.zeros(len(batch), np.int64))
        yield [*flat_keys(batch, wanted), values_array(times, waits), time, time, values_array(number), zeros]


def _of_accumulators(accumulators: pa.Table, of: Frame, wanted: pa.StructType) -> Iterator[list[pa.Array]]:
    for batch in accumulators.to_batches():
        counts = batch.column(VALUE).field(of.count)
        none = pa.nulls(len(batch), pa.int64())
        zeros = values_array(np.zeros(len(batch), np.int64))
        yield [*flat_keys(batch, wanted), none, none, none, zeros, as_type(counts, pa.int64())]


def _check(found: Mapping[str, pa.Array], fields: list[pa.Array], of: Frame, key: Record) -> None:
    """Raise InvalidRows unless a frame has as many rows as its accumulators say, and no more than it can have."""
    if of.count is None:
        return
    number, counted = numbers_of(found[NUMBER]), numbers_of(found[_COUNTED])

    def text(row: Any) -> str:
        return str(dict(zip(key.columns, (field[row].as_py() for field in fields), strict=True)))

    for row in np.flatnonzero(number != counted)[:1]:
        raise InvalidRows(
            f"the frame of {text(row)} has {number[row]} rows that do not wait, and {counted[row]} by its accumulators",
            advice=SAME_ROWS,
        )
    for row in np.flatnonzero(number > (NEVER if of.rows is None else of.rows))[:1]:
        raise InvalidRows(
            f"the frame of {text(row)} has {number[row]} rows that do not wait, and {of.rows} are the most",
            advice=f"give the last {of.rows} of them, and the accumulators of these",
        )


SAME_ROWS = "compute the accumulators of the rows in the frame, those up to the watermark and no others"


def _timers(rows: pa.Table, totals: pa.Table, of: Frame, now: int) -> pa.Table:
    """Return the timers: keys and times."""
    if of.one_timer:
        due = values_array(np.full(len(totals), of.next_watermark(now), np.int64))
        return pa.table({KEY: totals.column(KEY), TIMESTAMP: due})
    wanted, found = totals.schema.field(KEY).type, []
    for batch in rows.to_batches():
        waits = values_array(numbers_of(batch.column(MAP_KEY)) > now)
        keys = keys_of(flat_keys(batch, wanted)[: wanted.num_fields], len(batch))
        found.append(pa.RecordBatch.from_arrays([keys, batch.column(MAP_KEY)], [KEY, TIMESTAMP]).filter(waits))
    timers = pa.Table.from_batches(found, pa.schema([(KEY, wanted), (TIMESTAMP, pa.int64())]))
    if of.millis is None:
        return timers
    due = totals.select([KEY, CLEANUP]).rename_columns([KEY, TIMESTAMP])
    return pa.concat_tables([timers, due.filter(due.column(TIMESTAMP).is_valid())])
