"""Rows that have times, and what follows from them, as DataFrames of Spark.

`plan_frames` says what they are of OVER, `timed_rows` of joins by time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stateproc.query_plans.state_parts import (
    CLEANUP,
    EARLIEST,
    LAST,
    NEXT,
    NUMBER,
    TIMER,
    AsOf,
    Frame,
    Slices,
    Waiting,
    Windows,
)
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACE, TIMESTAMP, VALUE
from stateproc.writers.bootstrap.spark_frames import column_named, long, millis_of

_KEY, _TEXT, _COUNTED, _LATEST = "$key", "$text", "$counted", "$latest"
_ROW = "$row"


def rows_after(frame: DataFrame, name: str, least: int, after: int) -> DataFrame:
    """Return the rows whose times are after another, with their times in milliseconds."""
    time = millis_of(frame, name)
    text = F.lit(f"column '{name}': null, or a time that Flink drops as late: ")
    text = F.concat(text, F.coalesce(time.cast("string"), F.lit("null")))
    own = F.when(time >= long(least), time).otherwise(F.raise_error(text).cast("long"))
    return frame.withColumns({name: own}).filter(column_named(name) > long(after))


def frame_totals(rows: DataFrame, accumulators: DataFrame, of: Frame, now: int) -> DataFrame:
    """Return a row per key with the columns of derived states."""
    time, none, zero = F.col(MAP_KEY), F.lit(None).cast("long"), long(0)
    waits = time > long(now)
    number = F.when(waits, zero).otherwise(F.size(MAP_VALUE).cast("long"))
    parts = [rows.select(*_columns(KEY, F.when(waits, none).otherwise(time), time, number, zero))]
    if of.count is not None:
        counts = F.col(VALUE)[f"f{of.count}"].cast("long")
        parts.append(accumulators.select(*_columns(KEY, none, none, zero, counts)))
    flat = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
    groups = _by_key(
        flat,
        F.max(LAST).alias(LAST),
        F.max(column_named(_LATEST)).alias(_LATEST),
        F.min(column_named(_LATEST)).alias(EARLIEST),
        F.sum(NUMBER).alias(NUMBER),
        F.sum(column_named(_COUNTED)).alias(_COUNTED),
    )
    number = F.col(NUMBER)
    if of.count is not None:
        groups = groups.filter(_is_right(of))
    columns = [F.col(LAST), F.col(EARLIEST), F.when(number > zero, number).alias(NUMBER)]
    columns += [] if of.millis is None else [(column_named(_LATEST) + long(of.cleanup)).alias(CLEANUP)]
    return groups.select(column_named(_KEY).alias(KEY), *columns)


def _is_right(of: Frame) -> Column:
    """Return true, or fail where a frame has another number of rows than its accumulators say, or too many."""
    number, counted = F.col(NUMBER), column_named(_COUNTED)
    right, most = number == counted, ""
    if of.rows is not None:
        right, most = right & (number <= long(of.rows)), f", and can have {of.rows}"
    text = F.concat(
        F.lit("the frame of "), column_named(_TEXT), F.lit(" has "), number.cast("string"),
        F.lit(f" rows that do not wait{most}; by its accumulators it has "), counted.cast("string"),
    )  # fmt: skip
    return F.when(right, F.lit(True)).otherwise(F.raise_error(text).cast("boolean"))


def frame_timers(rows: DataFrame, totals: DataFrame, of: Frame, now: int) -> DataFrame:
    """Return the timers: keys and times."""
    if of.one_timer:
        return totals.select(KEY, long(of.next_watermark(now)).alias(TIMESTAMP))
    waits = rows.filter(F.col(MAP_KEY) > long(now)).select(KEY, F.col(MAP_KEY).alias(TIMESTAMP))
    if of.millis is None:
        return waits
    return waits.unionAll(totals.filter(F.col(CLEANUP).isNotNull()).select(KEY, F.col(CLEANUP).alias(TIMESTAMP)))


def _columns(*columns: Column | str) -> list[Column]:
    """Return the columns of rows and of accumulators alike."""
    names = (KEY, LAST, _LATEST, NUMBER, _COUNTED)
    return [(F.col(one) if isinstance(one, str) else one).alias(name) for one, name in zip(columns, names, strict=True)]


def due_times(kept: Sequence[tuple[Waiting, DataFrame]]) -> DataFrame:
    """Return a row per key of a join with the times of its timers, null for none."""
    none = F.lit(None).cast("long")
    parts = [
        rows.select(
            KEY, *((F.col(MAP_KEY) + long(of.due) if other is of else none).alias(other.timer) for other, _ in kept)
        )
        for of, rows in kept
    ]
    once = _by_key(reduce(DataFrame.unionAll, parts), *(F.min(of.timer).alias(of.timer) for of, _ in kept))
    return once.select(column_named(_KEY).alias(KEY), *(of.timer for of, _ in kept))


def due_timers(totals: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the timers of keys, each once."""
    due = F.explode(F.array_distinct(F.array_compact(F.array(*names))))
    return totals.select(KEY, due.alias(TIMESTAMP))


def waiting_or_valid(rows: DataFrame, of: AsOf, now: int) -> DataFrame:
    """Return the rows of a temporal join that wait, and of versions the last of each key up to a time."""
    waits = F.col(TIMESTAMP) > long(now)
    if not of.are_versions:
        return rows.filter(waits)
    # -0.0 and 0.0 are two keys, as in `_by_key`.
    window = Window.partitionBy(KEY, F.to_json(F.struct(KEY)), waits).orderBy(F.col(TIMESTAMP).desc())
    numbered = rows.withColumn(_ROW, F.row_number().over(window))
    return numbered.filter(waits | (column_named(_ROW) == F.lit(1))).drop(_ROW)


def next_times(left: DataFrame, right: DataFrame, now: int) -> DataFrame:
    """Return a row per key of a temporal join with its timer, null for none, and the number of its next row."""
    following = (F.col(MAP_KEY) + long(1)).alias(NEXT)
    waiting = right.filter(F.col(TIMESTAMP) > long(now))
    rows = left.select(KEY, F.col(TIMESTAMP).alias(TIMER), following)
    rows = rows.unionAll(waiting.select(KEY, F.col(TIMESTAMP).alias(TIMER), F.lit(None).cast("long").alias(NEXT)))
    once = _by_key(rows, F.min(TIMER).alias(TIMER), F.max(NEXT).alias(NEXT))
    return once.select(column_named(_KEY).alias(KEY), TIMER, NEXT)


def _by_key(rows: DataFrame, *aggregates: Column) -> DataFrame:
    """Return aggregates of each key, which is in the column _KEY."""
    # Spark groups -0.0 with 0.0, which Flink distinguishes: as text they differ.
    return rows.groupBy(KEY, F.to_json(F.struct(KEY)).alias(_TEXT)).agg(F.first(KEY).alias(_KEY), *aggregates)


# Open windows and slices of SQL, and their timers; `plan_windows` says what they are.


def in_millis(frame: DataFrame, name: str) -> DataFrame:
    """Return a column of times, as milliseconds."""
    return frame.select(millis_of(frame, name).alias(name))


def open_rows(frame: DataFrame, slices: Slices, now: int) -> DataFrame:
    """Return the rows of slices that are open, with their ends in milliseconds."""
    end, step, size = millis_of(frame, slices.column), long(slices.step), long(slices.size)
    is_end = F.pmod(end - long(slices.offset), step) == long(0)
    if not slices.cumulates:
        last, is_own = end + size - step, F.lit(True)
    else:
        first = end - F.pmod(end - long(1 + slices.offset), size) - long(1) + step
        last = first - step + size
        is_own = (end - long(1) > long(now)) | (end == first) | (last - long(1) <= long(now))
    right = F.coalesce(is_end & is_own, F.lit(False))
    text = F.concat(
        F.lit(
            f"column '{slices.column}': no end of a slice of the query's windows, or of one whose window was emitted: "
        ),
        F.coalesce(end.cast("string"), F.lit("null")),
    )
    own = {slices.column: F.when(right, end).otherwise(F.raise_error(text).cast("long"))}
    return frame.withColumns(own).filter(_last(column_named(slices.column), slices) - long(1) > long(now))


def _last(end: Column, slices: Slices) -> Column:
    """Return the end of the last window that a slice is in."""
    if not slices.cumulates:
        return end + long(slices.size - slices.step)
    return end - long(1) - F.pmod(end - long(1 + slices.offset), long(slices.size)) + long(slices.size)


def timer_rows(rows: DataFrame, slices: Slices, now: int) -> DataFrame:
    """Return the timers of open slices, each once."""
    end, step = F.col(NAMESPACE), long(slices.step)
    later = end + (F.floor((long(now + 1) - end) / step).cast("long") + long(1)) * step
    due = F.when(end - long(1) > long(now), end).otherwise(later)
    timers = rows.select(KEY, due.alias(NAMESPACE), (due - long(1)).alias(TIMESTAMP))
    return timers if slices.size == slices.step else distinct_timers(timers)


def distinct_timers(timers: DataFrame) -> DataFrame:
    """Return timers, each once."""
    # Spark groups -0.0 with 0.0, which Flink distinguishes: as text they differ.
    groups = timers.groupBy(KEY, NAMESPACE, TIMESTAMP, F.to_json(F.struct(KEY)).alias(_TEXT))
    return groups.agg(F.first(KEY).alias("$key")).select(F.col("`$key`").alias(KEY), NAMESPACE, TIMESTAMP)


_START, _END = "$start", "$end"


def open_windows(frame: DataFrame, windows: Windows, now: int, keys: Sequence[str] | None) -> DataFrame:
    """Return the rows of open windows, with starts and ends in milliseconds.

    ``keys``: the columns of the keys, if sessions of one are not to overlap.
    """
    end = millis_of(frame, windows.column)
    if windows.are_sessions:
        start, text = millis_of(frame, windows.start), "a session that is null or shorter than the gap"
        right = end - start >= long(windows.size)
    else:
        start, text = end - long(windows.pane), "no end of a window of the query, or of a slice of its windows"
        right = F.pmod(end, long(windows.pane)) == long(0)
    wrong = F.concat(F.lit(f"column '{windows.column}': {text}: "), F.coalesce(end.cast("string"), F.lit("null")))
    own = F.when(F.coalesce(right, F.lit(False)), end).otherwise(F.raise_error(wrong).cast("long"))
    made = frame.withColumns({_START: start, _END: own}).drop(windows.start, windows.column)
    made = made.withColumnsRenamed({_START: windows.start, _END: windows.column})
    last = column_named(windows.column)
    if not windows.are_sessions:
        last = _last_end(last - long(windows.pane), windows)
    made = made.filter(last - long(1) > long(now))
    return made if keys is None or not windows.are_sessions else _apart(made, windows, keys)


def _apart(frame: DataFrame, windows: Windows, keys: Sequence[str]) -> DataFrame:
    """Return the rows, with an error for sessions of one key that overlap or touch."""
    start, end = column_named(windows.start), column_named(windows.column)
    parts = [column_named(name) for name in keys] or [F.lit(0)]
    before = F.lag(end).over(Window.partitionBy(*parts).orderBy(start))
    text = F.concat(
        F.lit("two sessions of one key overlap or touch, which would be one: that from "), start.cast("string")
    )
    made = frame.withColumn(_START, before)
    right = F.when(column_named(_START) >= start, F.raise_error(text).cast("long")).otherwise(start)
    return made.withColumn(windows.start, right).drop(_START)


def window_timers(rows: DataFrame, windows: Windows, now: int) -> DataFrame:
    """Return the timers of open windows, each once. Panes have those of all windows that they are in."""
    space = F.col(NAMESPACE)
    if windows.pane in (0, windows.size):
        return rows.select(KEY, NAMESPACE, (space["end"] - long(1)).alias(TIMESTAMP))
    start = space["start"]
    earlier = F.sequence(long(0), long(windows.size - 1), long(windows.slide))
    ends = F.transform(earlier, lambda part: _last_end(start, windows) - part)
    due = F.filter(ends, lambda end: (end > start) & (end - long(1) > long(now)))
    timers = rows.select(KEY, F.explode(due).alias(NAMESPACE))
    once = distinct_timers(timers.withColumn(TIMESTAMP, F.col(NAMESPACE) - long(1)))
    end = F.col(NAMESPACE)
    window = F.struct((end - long(windows.size)).alias("start"), end.alias("end"))
    return once.select(KEY, window.alias(NAMESPACE), TIMESTAMP)


def _last_end(start: Column, windows: Windows) -> Column:
    """Return the end of the last window that a pane is in."""
    return start - F.pmod(start, long(windows.slide)) + long(windows.size)
