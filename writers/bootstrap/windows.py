"""Derive the states of Flink's window operator from rows of windows (WindowOperator, MergingWindowSet)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, LongType, StructType, TimestampNTZType, TimestampType

from stateproc.errors import InvalidOption, Where, not_found
from stateproc.writers.bootstrap.spark_frames import column_named
from stateproc.writers.bootstrap.windowing import (
    CONTENTS,
    COUNTED,
    HELD,
    PAIRS,
    STORED,
    TIME,
    WINDOW,
    WindowColumns,
    Windowing,
)

_TIMES, _GROUP_KEY, _GROUP_TEXT = "$timestamps", "$group_key", "$group_text"
_LATEST = 2**63 - 1
_START_END = "struct<start: timestamp, end: timestamp>, or of ms since the epoch"


@dataclass(frozen=True)
class WindowRows:
    """The rows of the states that windows are kept in; all have the columns ``kept`` (the key, its hash).

    ``rows``: a row per key and window, with WINDOW, STORED (the window of the contents), HELD (the contents) and
    COUNTED; without windows those of global ones. ``timers``: WINDOW and TIME. ``merging``: a row per key, PAIRS.
    """

    rows: DataFrame
    timers: DataFrame | None
    merging: DataFrame | None


def window_rows(
    windowing: Windowing,
    frame: DataFrame,
    kept: list[str],
    value: str,
    window: WindowColumns,
    state_window: str | None,
    count: str | None,
    fired: str | None,
) -> WindowRows:
    """The rows of each state. ``kept``: the columns of the key. Raises InvalidOption, NotFound."""
    whole = [column_named(name) for name in kept]
    held = _recorded(frame, value) if windowing.contents == "evict" else column_named(value)
    own = [] if count is None else [column_named(count).cast(LongType()).alias(COUNTED)]
    if state_window is not None and windowing.assigner != "session":
        raise InvalidOption(f"{windowing.assigner} windows do not merge", advice="state_window is for sessions")
    if windowing.is_global:
        return WindowRows(frame.select(*whole, held.alias(HELD), *own), None, None)
    span = _span(frame, window)
    stored = span if state_window is None else _span(frame, state_window)
    times = _times(windowing, fired, by_count=count is not None)
    rows = frame.select(
        *whole,
        span.alias(WINDOW),
        stored.alias(STORED),
        held.alias(HELD),
        *own,
        *([] if fired is None else [column_named(fired)]),
    )
    timers = rows.select(*whole, WINDOW, times.alias(_TIMES))
    timers = timers.select(*whole, WINDOW, F.explode(_TIMES).alias(TIME))
    return WindowRows(rows, timers, _merging(windowing, rows, kept))


def _times(windowing: Windowing, fired: str | None, *, by_count: bool) -> Column:
    """When a window's timers are due: EventTimeTrigger's (ProcessingTimeTrigger's), and the cleanup's.

    CountTrigger has none of its own; in processing time there is no lateness. There is no cleanup after the largest
    timestamp.
    """
    last = F.col(f"`{WINDOW}`.end") - F.lit(1).cast(LongType())
    lateness = windowing.lateness if windowing.time == "event" else 0
    cleanup = F.when(last <= F.lit(_LATEST - 1 - lateness), last + F.lit(lateness).cast(LongType()))
    both = F.array(cleanup) if by_count or not lateness else F.array(last, cleanup)
    if fired is not None and lateness:
        both = F.when(F.coalesce(column_named(fired), F.lit(False)), F.array(cleanup)).otherwise(both)
    # No window: no time, which is refused with its row.
    return F.when(F.col(f"`{WINDOW}`").isNull(), F.array(last)).otherwise(F.filter(both, lambda it: it.isNotNull()))


def _merging(windowing: Windowing, rows: DataFrame, kept: list[str]) -> DataFrame | None:
    """The merging window set: all windows of a key, with those that their contents are stored under."""
    if windowing.assigner != "session":
        return None
    pair = F.struct(F.col(f"`{WINDOW}`").alias("f0"), F.col(f"`{STORED}`").alias("f1"))
    whole = F.array_sort(F.collect_list(pair)).alias(PAIRS)
    key = column_named(kept[0])
    if not _has_floats(rows.schema[kept[0]].dataType):
        return rows.groupBy(key).agg(*(F.first(column_named(name)).alias(name) for name in kept[1:]), whole)
    # Spark groups -0.0 with 0.0, which Java distinguishes: as text they differ. JSON alone would not do: it has
    # milliseconds, where keys may have microseconds.
    groups = rows.groupBy(key.alias(_GROUP_KEY), F.to_json(F.struct(key)).alias(_GROUP_TEXT))
    columns = (F.first(column_named(name)).alias(name) for name in kept)
    return groups.agg(*columns, whole).drop(_GROUP_KEY, _GROUP_TEXT)


def _span(frame: DataFrame, window: WindowColumns) -> Column:
    """The window as struct<start: bigint, end: bigint>, in milliseconds."""
    if window is None:
        window = "window" if "window" in frame.columns else ("window_start", "window_end")
    names = [window] if isinstance(window, str) else list(window)
    for name in names:
        if name not in frame.columns:
            raise not_found("column", name, frame.columns).at(state=CONTENTS)
    if isinstance(window, tuple):
        ends = [_milliseconds(column_named(name), frame.schema[name].dataType, name) for name in window]
        missing = column_named(window[0]).isNull() | column_named(window[1]).isNull()
    else:
        kind = frame.schema[window].dataType
        if not isinstance(kind, StructType) or len(kind) != 2:
            raise InvalidOption(
                f"column '{window}' is {kind.simpleString()}, where a window is {_START_END}",
                where=Where(state=CONTENTS),
            )
        ends = [_milliseconds(column_named(window)[item.name], item.dataType, window) for item in kind]
        missing = column_named(window).isNull()
    return F.when(~missing, F.struct(ends[0].alias("start"), ends[1].alias("end")))


def _milliseconds(column: Column, kind: DataType, name: str) -> Column:
    """A time as milliseconds since the epoch; timestamps without time zone are taken for UTC."""
    found: dict[type[DataType], Callable[[Column], Column]] = {
        TimestampType: F.unix_millis,
        TimestampNTZType: lambda it: F.unix_millis(F.to_timestamp_ltz(F.concat(it.cast("string"), F.lit("Z")))),
    }
    if type(kind) in found:
        return found[type(kind)](column)
    if kind.typeName() in ("long", "integer"):
        return column.cast(LongType())
    raise InvalidOption(
        f"column '{name}' has a time that is {kind.simpleString()}",
        where=Where(state=CONTENTS),
        advice="give a timestamp, or milliseconds since the epoch as a long",
    )


def _recorded(frame: DataFrame, value: str) -> Column:
    """Elements with their timestamps as the stream records that windows with an evictor hold."""
    kind = frame.schema[value].dataType
    element = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(element, StructType) or not {"timestamp", "value"} <= set(element.names):
        raise InvalidOption(
            f"column '{value}' is {kind.simpleString()}, where windows with an evictor hold elements and their times",
            where=Where(state=CONTENTS),
            advice="give array<struct<timestamp: timestamp or ms, value: …>>",
        )
    times: Any = element["timestamp"].dataType

    def record(item: Column) -> Column:
        time = _milliseconds(item["timestamp"], times, value)
        return F.struct(F.lit("record").alias("element"), time.alias("timestamp"), item["value"].alias("value"))

    return F.transform(column_named(value), record)


def _has_floats(kind: DataType) -> bool:
    return any(name in kind.json() for name in ('"float"', '"double"'))
