"""Open windows and slices of SQL, and their timers, as DataFrames of Spark; `plan_windows` says what they are."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stateproc.query_plans.state_parts import Slices, Windows
from stateproc.writers.bootstrap.keyed_encoder import KEY, NAMESPACE, TIMESTAMP
from stateproc.writers.bootstrap.spark_frames import column_named, long, millis_of

_TEXT = "$text"


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
