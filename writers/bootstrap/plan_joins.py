"""Say which rows joins by time, and as of a time, keep, and when their operators drop and emit them.

`stateproc.query_plans.timed_joins` says what their states are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc import types
from stateproc.codec.arrow_arrays import numbers_of, values_array
from stateproc.query_plans.node_definitions import SIDES
from stateproc.query_plans.state_parts import NEXT, TIMER, AsOf, NodeState, Record, Waiting
from stateproc.writers.bootstrap.frame_columns import is_spark
from stateproc.writers.bootstrap.keyed_bootstrap import KeyedBootstrap
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, TIMESTAMP
from stateproc.writers.bootstrap.plan_windows import time_of
from stateproc.writers.bootstrap.timed_rows import NEVER, by_key, flat_keys, key_type, keys_of, rows_after

_ROW = "row"


def waiting_rows(frame: Any, state: str, of: Waiting, watermark: int | None) -> Any:
    """Return the rows that may still have a partner, with their times in milliseconds.

    The watermark is in milliseconds.

    Raises:
        NotFound: The column of times is missing.
        InvalidRows: A time is null. Spark has an error of its own, when it computes the rows.
    """
    after = time_of(watermark) - of.reach - 1 if of.by_row_time else -NEVER
    return rows_after(frame, of.column, state, -NEVER, after)


def add_timers(made: KeyedBootstrap, states: Sequence[NodeState], nested: Mapping[str, Any]) -> None:
    """Add the timers of the keys of a join, and the states that have their times."""
    kept = [(state.waiting, nested[state.name]) for state in states if state.waiting is not None]
    if is_spark(kept[0][1]):
        # Lazy: only where Spark is imported.
        from stateproc.writers.bootstrap.spark_timed_rows import due_timers, due_times

        totals = due_times(kept)
        timers = due_timers(totals, [of.timer for of, _ in kept])
    else:
        wanted, names = key_type(states[0].key), [of.timer for of, _ in kept]
        fields, found = by_key(_due(kept, wanted), wanted, dict.fromkeys(names, "min"), "joins by time")
        totals = pa.table({KEY: keys_of(fields, len(found[names[0]])), **found})
        timers = _timers(totals, names)
    for state in states:
        if state.is_derived:
            made.value_state(state.name, totals, state.columns[-1], type=types.LONG)
    if kept[0][0].by_row_time:
        made.event_time_timers(timers, TIMESTAMP)
    else:
        made.processing_time_timers(timers, TIMESTAMP)


def _due(kept: Sequence[tuple[Waiting, pa.Table]], wanted: pa.StructType) -> Iterator[list[pa.Array]]:
    for of, rows in kept:
        for batch in rows.to_batches():
            due, none = values_array(numbers_of(batch.column(MAP_KEY)) + of.due), pa.nulls(len(batch), pa.int64())
            yield [*flat_keys(batch, wanted), *(due if other is of else none for other, _ in kept)]


def _timers(totals: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the timers of keys, each once."""
    found: list[pa.Table] = []
    for at, name in enumerate(names):
        own = totals.column(name)
        is_new = own.is_valid()
        for before in names[:at]:
            is_new = pc.and_(is_new, pc.fill_null(pc.not_equal(own, totals.column(before)), True))
        found.append(totals.select([KEY, name]).filter(is_new).rename_columns([KEY, TIMESTAMP]))
    return pa.concat_tables(found)


def rows_as_of(rows: Any, of: AsOf, key: Record, watermark: int | None) -> Any:
    """Return the rows of a temporal join that wait for the watermark, and of versions those that are valid at it.

    The watermark is in milliseconds.

    Raises:
        InvalidOption: Arrow does not group by keys of this type.
    """
    now = time_of(watermark)
    if is_spark(rows):
        from stateproc.writers.bootstrap.spark_timed_rows import waiting_or_valid  # Lazy: only where Spark is imported.

        return waiting_or_valid(rows, of, now)
    batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
    if not of.are_versions:
        kept = (batch.filter(pc.greater(batch.column(TIMESTAMP), now)) for batch in batches)
        return pa.Table.from_batches(kept, rows.schema)
    table = pa.Table.from_batches(batches, rows.schema)
    times = numbers_of(table.column(TIMESTAMP).combine_chunks())
    order, wanted = np.argsort(times, kind="stable"), key_type(key)
    past = order[times[order] <= now]
    keys = pa.table({KEY: table.column(KEY).take(past), _ROW: past}).to_batches()
    parts = ([*flat_keys(batch, wanted), batch.column(_ROW)] for batch in keys)
    _, found = by_key(parts, wanted, {_ROW: "last"}, "temporal joins")
    waits = times > now
    waits[numbers_of(found[_ROW])] = True
    return table.filter(values_array(waits))


def add_next(
    made: KeyedBootstrap, states: Sequence[NodeState], nested: Mapping[str, Any], watermark: int | None
) -> None:
    """Add the numbers of next rows of a temporal join, and timers at the first time of a key's rows that wait.

    The watermark is in milliseconds.
    """
    now, (left, right) = time_of(watermark), (nested[side] for side in SIDES)
    if is_spark(left):
        from stateproc.writers.bootstrap.spark_timed_rows import due_timers, next_times  # Lazy, as above.

        totals = next_times(left, right, now)
        timers = due_timers(totals, [TIMER])
    else:
        wanted = key_type(states[0].key)
        fields, found = by_key(_next(left, right, wanted, now), wanted, {TIMER: "min", NEXT: "max"}, "temporal joins")
        totals = pa.table({KEY: keys_of(fields, len(found[TIMER])), **found})
        timers = _timers(totals, [TIMER])
    for state in states:
        if state.is_derived:
            made.value_state(state.name, totals, state.columns[-1], type=types.LONG)
    made.event_time_timers(timers, TIMESTAMP, service="timers")


def _next(left: pa.Table, right: pa.Table, wanted: pa.StructType, now: int) -> Iterator[list[pa.Array]]:
    for batch in left.to_batches():
        following = pc.add(batch.column(MAP_KEY).cast(pa.int64()), 1)
        yield [*flat_keys(batch, wanted), batch.column(TIMESTAMP), following]
    for batch in right.filter(pc.greater(right.column(TIMESTAMP), now)).to_batches():
        yield [*flat_keys(batch, wanted), batch.column(TIMESTAMP), pa.nulls(len(batch), pa.int64())]
