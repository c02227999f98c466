"""Say which rows of an aggregate of OVER wait, and what its operator knows of the rows in each key's frame.

Rows are those of `inputState`, an array for each time of a key; `stateproc.query_plans.over_states` says what the other
states are. Rows after the watermark wait for it; those up to it are in a frame, if rows leave it, and in the
accumulators. By processing time none wait.

Sources: the functions of org.apache.flink.table.runtime.operators.over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc import types
from stateproc.codec.arrow_arrays import Unencodable, as_type, null_rows, numbers_of, offsets_of, values_array
from stateproc.errors import InvalidOption, InvalidRows
from stateproc.query_plans.state_parts import CLEANUP, EARLIEST, LAST, NUMBER, Frame, NodeState, Record
from stateproc.serializers import LayoutContext
from stateproc.writers.bootstrap.arrow_frames import arrow_batches
from stateproc.writers.bootstrap.frame_columns import columns_of, is_spark
from stateproc.writers.bootstrap.keyed_bootstrap import KeyedBootstrap
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, MAP_VALUE, TIMESTAMP, VALUE
from stateproc.writers.bootstrap.plan_windows import millis_of, time_of
from stateproc.writers.bootstrap.state_registration import check_time, column_type

NEVER = 2**62
"""After all times: the watermark, where no row waits."""
_LATEST, _COUNTED = "$latest", "$counted"


def frame_of(states: tuple[NodeState, ...]) -> Frame | None:
    """Return the frame of an operator that keeps rows of one."""
    return next((state.frame for state in states if state.frame is not None), None)


def kept_rows(frame: Any, of: Frame, watermark: int | None) -> Any:
    """Return the rows that the operator keeps, with their times in milliseconds.

    Args:
        frame: The rows.
        of: The frame.
        watermark: The watermark in milliseconds; None for none.

    Raises:
        NotFound: The column of times is missing.
        InvalidRows: A time is null, or before the first that Flink knows. Spark has an error of its own, when it
            computes the rows.
    """
    # Without an earlier time that was computed, Flink takes it for 0.
    least = 1 if of.is_bounded and of.by_row_time else -NEVER
    return rows_after(frame, of.column, "inputState", least, _kept_after(of, watermark))


def rows_after(frame: Any, name: str, state: str, least: int, after: int) -> Any:
    """Return the rows whose times are after another, with their times in milliseconds.

    Args:
        frame: The rows.
        name: The column of times.
        state: The state that they fill, for errors.
        least: The first time that rows can have.
        after: The other time.

    Raises:
        NotFound, InvalidRows: As `kept_rows` says.
    """
    check_time(frame, name, state, "the time of rows")
    if is_spark(frame):
        from stateproc.writers.bootstrap import spark_over  # Lazy: only where Spark is imported.

        return spark_over.rows_after(frame, name, least, after)
    names = list(columns_of(frame).names)  # type: ignore[union-attr]
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, column_type(frame, one, "").arrow) for one in names], names)
    found = [_kept(batch, name, least, after) for batch in (empty, *arrow_batches(frame, names))]
    return pa.Table.from_batches(found)


def _kept_after(of: Frame, watermark: int | None) -> int:
    """Return after which time rows are kept: all where rows leave the frame, else those that wait."""
    return -NEVER if of.is_bounded else time_of(watermark)


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
        from stateproc.writers.bootstrap.spark_over import frame_timers, frame_totals  # Lazy, as above.

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
