"""Read and write dates and times; each type encodes null in its own form.

Source: org.apache.flink.api.common.typeutils.base.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec import temporal as t
from stateproc.codec import temporal as times
from stateproc.codec.array_types import Longs
from stateproc.codec.layouts import Converted, Layout, Number, StructLayout
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import simple_snapshot, write_simple
from stateproc.wire import Output

_I8, _I32, _I64 = Number(pa.int8()), Number(pa.int32()), Number(pa.int64())
_DATE = StructLayout((("year", _I32), ("month", _I8), ("day", _I8)))
_TIME = StructLayout((("hour", _I8), ("minute", _I8), ("second", _I8), ("nano", _I32)))
_MILLIS = StructLayout((("millis", _I64),))
_STAMP = StructLayout((("millis", _I64), ("nanos", _I32)))
_INSTANT = StructLayout((("seconds", _I64), ("nanos", _I32)))
_I32_MIN, _I16_MIN = -(2**31), -(2**15)


def _days(parts: pa.StructArray, null: Any) -> tuple[Longs, Any]:
    year, month, day = (t.ints(parts.field(i)) for i in range(3))
    null = null | ((year == _I32_MIN) & (month == -128) & (day == 0))
    t.check_date(year, month, day, null)
    return t.days_of(year, np.clip(month, 1, 12), day), null


def _nanos(parts: pa.StructArray, null: Any) -> tuple[Longs, Any]:
    hour, minute, second, nano = (t.ints(parts.field(i)) for i in range(4))
    null = null | (hour == -128)
    bad = (hour < 0) | (hour > 23) | (minute < 0) | (minute > 59) | (second < 0) | (second > 59)
    bad |= (nano < 0) | (nano > 999_999_999)
    if (bad & ~null).any():
        raise t.OutOfRange("hour, minute, second and nanosecond make no time of day")
    return (hour * 3600 + minute * 60 + second) * 10**9 + nano, null


def _local_date(parts: pa.StructArray, mode: str) -> pa.Array:
    days, null = _days(parts, t.nulls(parts))
    return t.date_array(days, null, mode)


def _local_time(parts: pa.StructArray, mode: str) -> pa.Array:
    nanos, null = _nanos(parts, t.nulls(parts))
    return t.time_array(nanos, null, mode)


def _local_date_time(parts: pa.StructArray, mode: str) -> pa.Array:
    days, null = _days(parts.field(0), t.nulls(parts))
    nanos, time_null = _nanos(parts.field(1), null)
    return t.instant_array(days * t.DAY_SECONDS + nanos // 10**9, nanos % 10**9, null | time_null, mode, None)


def _instant(parts: pa.StructArray, mode: str) -> pa.Array:
    seconds, nanos = t.ints(parts.field(0)), t.ints(parts.field(1))
    null = t.nulls(parts) | ((seconds == t.I64_MIN) & (nanos == _I32_MIN))
    return t.instant_array(seconds, nanos, null, mode, "UTC")


def _millis(parts: pa.StructArray, mode: str) -> pa.Array:
    millis = t.ints(parts.field(0))
    null = t.nulls(parts) | (millis == t.I64_MIN)
    return t.instant_array(np.floor_divide(millis, 1000), millis % 1000 * 10**6, null, mode, "UTC")


def _sql_timestamp(parts: pa.StructArray, mode: str) -> pa.Array:
    # The milliseconds hold the fraction too; the nanos are those of the second and replace it.
    millis, nanos = t.ints(parts.field(0)), t.ints(parts.field(1))
    null = t.nulls(parts) | (millis == t.I64_MIN)
    return t.instant_array(np.floor_divide(millis, 1000), nanos, null, mode, "UTC")


# --- Encoding: a null is a combination of fields that no value has. --------------------------------------------


def _struct(type_: pa.DataType, *columns: Any) -> pa.StructArray:
    """Combine number columns (or arrays) to the struct array ``type_``."""
    arrays = [
        column if isinstance(column, pa.Array) else times.integers(column, np.zeros(len(column), np.bool_), field.type)
        for column, field in zip(columns, type_, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


def _date_parts(days: Longs, null: Any) -> pa.StructArray:
    year, month, day = t.civil_of(days)
    times.refuse(np.abs(year) > t.MAX_YEAR, "a date further away than LocalDate goes")
    return _struct(
        _DATE.arrow_type,
        np.where(null, _I32_MIN, year),
        np.where(null, _I16_MIN >> 8, month),
        np.where(null, 0, day),
    )


def _time_parts(nanos: Longs, null: Any) -> pa.StructArray:
    seconds = nanos // 10**9
    # A null's minute and second are the bytes of Short.MIN_VALUE.
    return _struct(
        _TIME.arrow_type,
        np.where(null, -128, seconds // 3600),
        np.where(null, _I16_MIN >> 8, seconds // 60 % 60),
        np.where(null, 0, seconds % 60),
        np.where(null, _I32_MIN, nanos % 10**9),
    )


def _from_local_date(values: pa.Array) -> pa.StructArray:
    return _date_parts(*times.dates(values))


def _from_local_time(values: pa.Array) -> pa.StructArray:
    return _time_parts(*times.day_times(values))


def _from_local_date_time(values: pa.Array) -> pa.StructArray:
    seconds, nanos, null = times.instants(values)
    day, second = np.floor_divide(seconds, t.DAY_SECONDS), seconds % t.DAY_SECONDS
    parts = _date_parts(day, null), _time_parts(second * 10**9 + nanos, null)
    return pa.StructArray.from_arrays(parts, names=["date", "time"])


def _from_instant(values: pa.Array) -> pa.StructArray:
    seconds, nanos, null = times.instants(values)
    return _struct(_INSTANT.arrow_type, np.where(null, t.I64_MIN, seconds), np.where(null, _I32_MIN, nanos))


def _from_millis(values: pa.Array) -> pa.StructArray:
    seconds, nanos, null = times.instants(values)
    return _struct(_MILLIS.arrow_type, np.where(null, t.I64_MIN, times.in_units(seconds, nanos, null, 1000)))


def _from_sql_timestamp(values: pa.Array) -> pa.StructArray:
    seconds, nanos, null = times.instants(values)
    millis = times.in_units(seconds, nanos // t.MILLI_NANOS * t.MILLI_NANOS, null, 1000)
    return _struct(_STAMP.arrow_type, np.where(null, t.I64_MIN, millis), np.where(null, 0, nanos))


def python_date(value: Any) -> Any:
    """Return the Python object for an exact ISO text if it can represent it, else the text."""
    return _parsed(value, dt.date.fromisoformat)


def python_time(value: Any) -> Any:
    return _parsed(value, dt.time.fromisoformat)


def python_timestamp(value: Any) -> Any:
    return _parsed(value, lambda text: dt.datetime.fromisoformat(text.replace("Z", "+00:00")))


def _parsed(value: Any, parse: Callable[[str], Any]) -> Any:
    if not isinstance(value, str) or (value[-4:-3] != "." and len(value.rstrip("Z").rpartition(".")[2]) == 9):
        return value
    try:
        return parse(value)
    except ValueError:
        return value


@dataclass(frozen=True)
class TemporalKind:
    """A row of the table: the layout of the fields, and their conversion to Arrow; ``fine``: they have nanoseconds."""

    name: str
    type: str
    parts: Layout
    size: int
    micros: pa.DataType
    convert: Callable[..., pa.Array]
    inverse: Callable[[pa.Array], pa.Array]
    plain: Callable[[Any], Any]
    fine: bool = False


_UTC = pa.timestamp("us", "UTC")
TEMPORAL: tuple[TemporalKind, ...] = (
    TemporalKind("Date", "java.util.Date", _MILLIS, 8, _UTC, _millis, _from_millis, python_timestamp),
    TemporalKind("SqlDate", "java.sql.Date", _MILLIS, 8, _UTC, _millis, _from_millis, python_timestamp),
    TemporalKind("SqlTime", "java.sql.Time", _MILLIS, 8, _UTC, _millis, _from_millis, python_timestamp),
    TemporalKind(
        "SqlTimestamp",
        "java.sql.Timestamp",
        _STAMP,
        12,
        _UTC,
        _sql_timestamp,
        _from_sql_timestamp,
        python_timestamp,
        fine=True,
    ),
    TemporalKind("LocalDate", "LocalDate", _DATE, 6, pa.date32(), _local_date, _from_local_date, python_date),
    TemporalKind(
        "LocalTime", "LocalTime", _TIME, 7, pa.time64("us"), _local_time, _from_local_time, python_time, fine=True
    ),
    TemporalKind(
        "LocalDateTime",
        "LocalDateTime",
        StructLayout((("date", _DATE), ("time", _TIME))),
        13,
        pa.timestamp("us"),
        _local_date_time,
        _from_local_date_time,
        python_timestamp,
        fine=True,
    ),
    TemporalKind("Instant", "Instant", _INSTANT, 12, _UTC, _instant, _from_instant, python_timestamp, fine=True),
)


def temporal_layout(kind: TemporalKind, ctx: LayoutContext) -> Layout:
    """Return the layout of a temporal kind in the context's mode."""
    mode = ctx.fidelity.fine if kind.fine else ctx.fidelity.coarse
    arrow = pa.string() if mode == "exact" else kind.micros
    return Converted(kind.parts, arrow, partial(kind.convert, mode=mode), kind.plain, kind.inverse, True)


@dataclass(frozen=True)
class Temporal(Serializer):
    """A serializer of dates or times; ``kind``: a row of TEMPORAL."""

    kind: TemporalKind

    def layout(self, ctx: LayoutContext) -> Layout:
        return temporal_layout(self.kind, ctx)

    @property
    def length(self) -> int:
        return self.kind.size

    @property
    def type_name(self) -> str:
        return self.kind.type

    @property
    def snapshot_class(self) -> str:
        name = self.kind.name
        return f"org.apache.flink.api.common.typeutils.base.{name}Serializer${name}SerializerSnapshot"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_simple(out, self.snapshot_class, release)


for _kind in TEMPORAL:
    simple_snapshot(Temporal(_kind), Temporal(_kind).snapshot_class)
