"""Say which windows of a SQL aggregate are open at a watermark, and which timers they have.

    window-aggs                     per key and slice, whose end in milliseconds is the namespace
    _timer_state/event_window-timers  per key at the end of its next window less 1 ms; the namespace is that end
    watermark                       union list: the watermark, by which the operator knows rows that come late

Of sessions, and of GROUP BY TUMBLE(…), HOP(…) and SESSION(…), namespaces are windows with start and end:

    window-aggs                     per key and window, of HOP(…) per key and pane
    session-window-mapping          map: window of a session → the same window, under which its aggregates are
    _timer_state/event_window-timers  per key and open window at its end less 1 ms
    watermark                       of sessions of a table function only; GROUP BY SESSION(…) and so on have none

A window is emitted when the watermark reaches its end less 1 ms. A slice is dropped with its last window: at its own
end in windows that do not overlap, later in HOP and CUMULATE. The slices of a CUMULATE window that was emitted are
merged into its first slice. A pane is dropped with its last window. Sessions that touch are one.

Sources: SliceAssigners, WindowAggOperator (before Flink 1.20: SlicingWindowOperator), AbstractSliceWindowAggProcessor,
WindowOperator, SlidingWindowAssigner, PanedWindowProcessFunction, MergingWindowProcessFunction, SessionWindowAssigner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import null_rows, numbers_of, values_array
from stateproc.errors import InvalidOption, InvalidRows
from stateproc.query_plans.state_parts import Slices, Windows
from stateproc.writers.bootstrap.arrow_frames import arrow_batches
from stateproc.writers.bootstrap.frame_columns import collected, columns_of, is_spark, rows_like
from stateproc.writers.bootstrap.keyed_encoder import KEY, NAMESPACE, TIMESTAMP, VALUE
from stateproc.writers.bootstrap.state_registration import check_time, column_type

WATERMARK = "watermark"
NOT_OPEN = "the slice that ends at {} is not one of the query's: ends are {} ms from each other, from {} ms on"
NOT_MERGED = (
    "the window that ends at {} was emitted, so that its slices are one with the first slice of the longest window: "
    "give their rows as one, at the end of that slice"
)
TOO_SHORT = "the session from {} ms to {} ms is shorter than the gap of {} ms: it ends a gap after its last row"
OVERLAPPING = "two sessions of one key overlap or touch, which would be one: that from {} ms to {} ms begins in another"
_FIRST, _LAST = -(2**62), 2**62
"""Before all times, and after them: a job that ends has the largest BIGINT as its watermark."""
Longs = npt.NDArray[np.int64]


def watermark_of(frame: Any) -> int | None:
    """Return the watermark in milliseconds, of a row; None if there is no row, or it is null.

    Raises:
        InvalidOption: There are several.
    """
    check_time(frame, WATERMARK, WATERMARK, "a watermark")
    found = collected(_in_millis(frame), {WATERMARK: WATERMARK})
    if len(found) > 1:
        raise InvalidOption(f"there are {len(found)} rows with a watermark", advice="give one, the smallest of them")
    return None if not found or found[0][WATERMARK] is None else int(found[0][WATERMARK])


def watermark_rows(frame: Any, watermark: int | None) -> Any:
    """Return the rows of the operator's state with the watermark, as an object of the library of ``frame``."""
    return rows_like(frame, [] if watermark is None else [(watermark,)], pa.schema([(VALUE, pa.int64())]))


def open_slices(frame: Any, slices: Slices | Windows, watermark: int | None, keys: Sequence[str] | None = None) -> Any:
    """Return the rows of slices or windows that are open, with their ends, of windows also starts, in milliseconds.

    Args:
        slices: What slices or windows there are.
        watermark: The watermark in milliseconds; None for none.
        keys: The columns of the keys, if rows have each window of a key once, and sessions are not to overlap.

    Raises:
        NotFound: The column of starts or of ends is missing.
        InvalidRows: An end is null, or that of no slice, or of one that is merged into another; a session is shorter
            than the gap, or overlaps another. Spark has an error of its own, when it computes the rows.
        InvalidOption: Sessions by keys of types that Arrow does not sort.
    """
    for name in slices.given:
        check_time(frame, name, "window-aggs", f"the {'end' if name == slices.column else 'start'} of a window")
    now = time_of(watermark)
    if is_spark(frame):
        from stateproc.writers.bootstrap.spark_timed_rows import (
            open_rows,  # Lazy: only where Spark is imported.
            open_windows,
        )

        return open_rows(frame, slices, now) if isinstance(slices, Slices) else open_windows(frame, slices, now, keys)
    names = list(columns_of(frame).names)  # type: ignore[union-attr]
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, column_type(frame, name, "").arrow) for name in names], names)
    batches = (empty, *arrow_batches(frame, names))
    if isinstance(slices, Slices):
        return pa.Table.from_batches([_open(batch, slices, now) for batch in batches])
    table = pa.Table.from_batches([_open_windows(batch, slices, now) for batch in batches])
    if slices.are_sessions and keys is not None:
        _refuse_overlaps(table, slices, keys)
    return table


def slice_timers(rows: Any, slices: Slices | Windows, watermark: int | None) -> Any:
    """Return the timers of open slices or windows: rows of keys, namespaces and times, each once.

    The watermark is in milliseconds.

    Raises:
        InvalidOption: Windows that overlap, by keys of types that Arrow does not group by.
    """
    now = time_of(watermark)
    if is_spark(rows):
        from stateproc.writers.bootstrap.spark_timed_rows import (
            timer_rows,  # Lazy: only where Spark is imported.
            window_timers,
        )

        return timer_rows(rows, slices, now) if isinstance(slices, Slices) else window_timers(rows, slices, now)
    if isinstance(slices, Windows):
        return _window_timers(rows, slices, now)
    made = []
    for batch in rows.to_batches():
        ends = numbers_of(batch.column(NAMESPACE))
        due = np.where(ends - 1 > now, ends, ends + ((now + 1 - ends) // slices.step + 1) * slices.step)
        fields = [batch.column(KEY), values_array(due), values_array(due - 1)]
        made.append(pa.RecordBatch.from_arrays(fields, _OF_TIMERS))
    table = pa.Table.from_batches(made, _schema(rows))
    return table if slices.size == slices.step else _distinct(table)


_OF_TIMERS = [KEY, NAMESPACE, TIMESTAMP]


def _schema(rows: pa.Table) -> pa.Schema:
    """Return the columns of timers whose namespaces are ends."""
    return pa.schema([rows.schema.field(KEY), (NAMESPACE, pa.int64()), (TIMESTAMP, pa.int64())])


def _window_timers(rows: pa.Table, windows: Windows, now: int) -> pa.Table:
    """Return the timers of open windows. Panes have those of all windows that they are in."""
    if windows.pane in (0, windows.size):
        times = [values_array(numbers_of(batch.column(NAMESPACE).field(1)) - 1) for batch in rows.to_batches()]
        return rows.select([KEY, NAMESPACE]).append_column(TIMESTAMP, pa.chunked_array(times, pa.int64()))
    made = []
    for batch in rows.to_batches():
        starts = numbers_of(batch.column(NAMESPACE).field(0))
        last = starts // windows.slide * windows.slide + windows.size
        for earlier in range(0, windows.size, windows.slide):
            ends = last - earlier
            fields = [batch.column(KEY), values_array(ends), values_array(ends - 1)]
            is_due = (ends > starts) & (ends - 1 > now)
            made.append(pa.RecordBatch.from_arrays(fields, _OF_TIMERS).filter(pa.array(is_due)))
    timers = _distinct(pa.Table.from_batches(made, _schema(rows)))
    ends = numbers_of(timers.column(NAMESPACE).combine_chunks())
    spaces = pa.StructArray.from_arrays([values_array(ends - windows.size), values_array(ends)], ["start", "end"])
    return timers.set_column(1, NAMESPACE, spaces)


def _distinct(timers: pa.Table) -> pa.Table:
    """Return timers, each once."""
    key = timers.column(KEY).combine_chunks()
    parts = {f"k{at}": key.field(at) for at in range(key.type.num_fields)}
    flat = pa.table({**parts, NAMESPACE: timers.column(NAMESPACE)})
    try:
        once = flat.group_by(flat.column_names, use_threads=False).aggregate([])
    except pa.ArrowNotImplementedError as error:
        raise _not_compared("windows that overlap,", [part.type for part in parts.values()]) from error
    columns = [once.column(name).combine_chunks() for name in parts]
    fields = [pa.field(f"f{at}", column.type) for at, column in enumerate(columns)]
    keys = pa.Array.from_buffers(pa.struct(fields), len(once), [None], children=columns)
    due = numbers_of(once.column(NAMESPACE).combine_chunks())
    return pa.table({KEY: keys, NAMESPACE: values_array(due), TIMESTAMP: values_array(due - 1)})


def time_of(watermark: int | None) -> int:
    """Return a time with which there is no overflow; that of no watermark."""
    return _FIRST if watermark is None else min(max(watermark, _FIRST), _LAST)


def _in_millis(frame: Any) -> Any:
    """Return a watermark as milliseconds."""
    if is_spark(frame):
        from stateproc.writers.bootstrap.spark_timed_rows import in_millis  # Lazy: only where Spark is imported.

        return in_millis(frame, WATERMARK)
    batches = list(arrow_batches(frame, [WATERMARK]))
    known = [batch.column(0) for batch in batches if not batch.column(0).null_count]
    columns = [values_array(millis_of(column, WATERMARK)) for column in known]
    nulls = sum(batch.num_rows for batch in batches if batch.column(0).null_count)
    return pa.table({WATERMARK: pa.chunked_array([*columns, pa.nulls(nulls, pa.int64())], pa.int64())})


def millis_of(column: pa.Array, name: str) -> Longs:
    """Return times as milliseconds. Raises InvalidRows for null and finer times."""
    if column.null_count:
        row = int(np.flatnonzero(null_rows(column))[0])
        raise InvalidRows(f"column '{name}' cannot be null, and is in row {row} of a batch", advice="drop such rows")
    if pa.types.is_timestamp(column.type):
        try:
            column = column.cast(pa.timestamp("ms", column.type.tz)).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InvalidRows(
                f"column '{name}' has a time that is no millisecond",
                advice=f"cut it off, as Flink does: date_trunc('milliseconds', …) AS {name}",
            ) from error
    return numbers_of(column).astype(np.int64)


def _open(batch: pa.RecordBatch, slices: Slices, now: int) -> pa.RecordBatch:
    ends = millis_of(batch.column(slices.column), slices.column)
    wrong = np.flatnonzero((ends - slices.offset) % slices.step != 0)
    if len(wrong):
        raise InvalidRows(
            NOT_OPEN.format(f"{ends[wrong[0]]} ms", slices.step, slices.offset),
            advice=f"compute {slices.column} as the query does: TUMBLE, HOP and CUMULATE say how long windows are",
        )
    first = _first_ends(ends, slices)
    last = first - slices.step + slices.size if slices.cumulates else ends + slices.size - slices.step
    is_open = last - 1 > now
    merged = np.flatnonzero(is_open & slices.cumulates & (ends - 1 <= now) & (ends != first))
    if len(merged):
        raise InvalidRows(
            NOT_MERGED.format(f"{ends[merged[0]]} ms"),
            advice=f"GROUP BY CASE WHEN {slices.column} is not after the watermark THEN the first end ELSE "
            f"{slices.column} END",
        )
    at = batch.schema.get_field_index(slices.column)
    arrays = [values_array(ends) if index == at else column for index, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names).filter(pa.array(is_open))


def _open_windows(batch: pa.RecordBatch, windows: Windows, now: int) -> pa.RecordBatch:
    """Return the rows of open windows, with starts and ends."""
    ends = last = millis_of(batch.column(windows.column), windows.column)
    if windows.are_sessions:
        starts = millis_of(batch.column(windows.start), windows.start)
        wrong = np.flatnonzero(ends - starts < windows.size)
        if len(wrong):
            raise InvalidRows(
                TOO_SHORT.format(starts[wrong[0]], ends[wrong[0]], windows.size),
                advice=f"compute {windows.column} as max(…) of the rows' times and the gap",
            )
    else:
        starts = ends - windows.pane
        wrong = np.flatnonzero(ends % windows.pane != 0)
        if len(wrong):
            raise InvalidRows(
                NOT_OPEN.format(f"{ends[wrong[0]]} ms", windows.pane, 0),
                advice=f"compute {windows.column} as the query does: TUMBLE and HOP say how long windows are",
            )
        last = starts // windows.slide * windows.slide + windows.size
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= {windows.start: values_array(starts), windows.column: values_array(ends)}
    return pa.RecordBatch.from_arrays([*columns.values()], [*columns]).filter(pa.array(last - 1 > now))


def _refuse_overlaps(table: pa.Table, windows: Windows, keys: Sequence[str]) -> None:
    """Raise InvalidRows for sessions of one key that overlap or touch."""
    parts = {f"k{at}": table.column(name) for at, name in enumerate(keys) if table.column(name).type != pa.null()}
    flat = pa.table({**parts, "start": table.column(windows.start), "end": table.column(windows.column)})
    try:
        ordered = flat.sort_by([(name, "ascending") for name in flat.column_names[:-1]])
        starts, ends = (numbers_of(ordered.column(name).combine_chunks()) for name in ("start", "end"))
        wrong = starts[1:] <= ends[:-1]
        for name in parts:
            column = ordered.column(name).combine_chunks()
            before, after = column[:-1], column[1:]
            both_null = pc.and_(before.is_null(), after.is_null())
            wrong &= np.asarray(pc.or_(both_null, pc.fill_null(pc.equal(before, after), False)), dtype=bool)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise _not_compared("sessions", flat.schema.types[: len(parts)]) from error
    found = np.flatnonzero(wrong) + 1
    if len(found):
        raise InvalidRows(
            OVERLAPPING.format(starts[found[0]], ends[found[0]]),
            advice="a row belongs to a session if it comes at most the gap after the row before it",
        )


def _not_compared(what: str, types_: Sequence[pa.DataType]) -> InvalidOption:
    return InvalidOption(
        f"{what} by keys of the types {', '.join(map(str, types_))}",
        advice="give the rows as a DataFrame of Spark, or let the operator begin without state",
    )


def _first_ends(ends: Longs, slices: Slices) -> Longs:
    """Return the ends of the first slices of the longest windows that these slices are in."""
    return (ends - 1 - slices.offset) // slices.size * slices.size + slices.offset + slices.step
