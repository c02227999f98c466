"""Rows of keys that have times: those after a time, aggregates of the rows of each key, and what joins keep of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc import types
from stateproc.codec.arrow_arrays import Unencodable, as_type, numbers_of, values_array
from stateproc.errors import InvalidOption, InvalidRows
from stateproc.query_plans.node_definitions import SIDES
from stateproc.query_plans.state_parts import NEXT, TIMER, AsOf, NodeState, Record, Waiting
from stateproc.serializers import LayoutContext
from stateproc.writers.bootstrap.arrow_frames import arrow_batches
from stateproc.writers.bootstrap.frame_columns import columns_of, is_spark
from stateproc.writers.bootstrap.keyed_bootstrap import KeyedBootstrap
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, TIMESTAMP
from stateproc.writers.bootstrap.plan_windows import millis_of, time_of
from stateproc.writers.bootstrap.state_registration import check_time, column_type

NEVER = 2**62
"""After all times: the watermark, where no row waits."""


def rows_after(frame: Any, name: str, state: str, least: int, after: int) -> Any:
    """Return the rows whose times are after another, with their times in milliseconds.

    Raises:
        NotFound: The column is missing.
        InvalidRows: A time is null, or before the first. Spark has an error of its own, when it computes the rows.
    """
    check_time(frame, name, state, "the time of rows")
    if is_spark(frame):
        from stateproc.writers.bootstrap import spark_timed_rows  # Lazy: only where Spark is imported.

        return spark_timed_rows.rows_after(frame, name, least, after)
    names = list(columns_of(frame).names)  # type: ignore[union-attr]
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, column_type(frame, one, "").arrow) for one in names], names)
    found = [_kept(batch, name, least, after) for batch in (empty, *arrow_batches(frame, names))]
    return pa.Table.from_batches(found)


def _kept(batch: pa.RecordBatch, name: str, least: int, after: int) -> pa.RecordBatch:
    times = millis_of(batch.column(name), name)
    early = np.flatnonzero(times < least)
    if len(early):
        raise InvalidRows(
            f"column '{name}' has the time {times[early[0]]} ms, and Flink drops rows before {least} ms as late",
            advice="drop such rows",
        )
    at = batch.schema.get_field_index(name)
    arrays = [values_array(times) if index == at else column for index, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names).filter(values_array(times > after))


def key_type(key: Record) -> pa.StructType:
    """Return the Arrow type of keys."""
    return key.serializer.layout(LayoutContext()).arrow_type


def by_key(
    parts: Iterable[list[pa.Array]], wanted: pa.StructType, how: Mapping[str, str], what: str
) -> tuple[list[pa.Array], dict[str, pa.Array]]:
    """Return the fields of keys, each once, and aggregates of BIGINT for each key.

    Args:
        parts: Batches: the columns of `flat_keys`, and those that are aggregated.
        wanted: The type of keys.
        how: The columns that are aggregated, in their order, and Arrow's function for each.
        what: What the rows are, for errors.

    Raises:
        InvalidOption: Arrow does not group by keys of this type.
    """
    names = [f"k{at}" for at in range(wanted.num_fields)] or ["k"]
    types_ = [field.type for field in wanted] or [pa.int64()]
    schema = pa.schema([*zip(names, types_, strict=True), *((name, pa.int64()) for name in how)])
    flat = pa.Table.from_batches([pa.RecordBatch.from_arrays(one, schema.names) for one in parts], schema)
    try:
        once = flat.group_by(names, use_threads=False).aggregate(list(how.items()))
    except pa.ArrowNotImplementedError as error:
        raise InvalidOption(
            f"{what} by keys of the types {', '.join(map(str, types_))}",
            advice="give the rows as a DataFrame of Spark, or let the operator begin without state",
        ) from error
    found = {name: once.column(f"{name}_{word}").combine_chunks() for name, word in how.items()}
    return [once.column(name).combine_chunks() for name in names][: wanted.num_fields], found


def flat_keys(batch: pa.RecordBatch, wanted: pa.StructType) -> list[pa.Array]:
    """Return the fields of keys, of one type wherever they come from; without any a constant."""
    if not wanted.num_fields:
        return [values_array(np.zeros(len(batch), np.int64))]
    keys = batch.column(KEY).flatten()
    try:
        return [as_type(column, field.type) for column, field in zip(keys, wanted, strict=True)]
    except Unencodable as error:
        row = batch.slice(error.row, 1).column(KEY).to_pylist()
        text = f"a key is of another type: {error.message} (key: {row})"
        raise InvalidRows(text, advice="cast the column") from error


def keys_of(fields: list[pa.Array], n: int) -> pa.Array:
    types_ = [pa.field(f"f{at}", column.type) for at, column in enumerate(fields)]
    return pa.Array.from_buffers(pa.struct(types_), n, [None], children=fields)


# Which rows joins by time, and as of a time, keep, and when their operators drop and emit them.
#
# `stateproc.query_plans.node_states` says what their states are.


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
