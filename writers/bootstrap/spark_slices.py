"""The open slices of SQL windows and their timers as DataFrames of Spark; `plan_windows` says what they are."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stateproc.query_plans.state_parts import Slices
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
