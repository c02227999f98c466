"""Layouts of SQL dates, times and decimals, whose bytes are converted after decoding.

Sources: org.apache.flink.table.data.TimestampData, DecimalData, and their serializers in flink-table-runtime.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from stateproc.codec import temporal as t
from stateproc.codec import temporal as times
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.decimals import compact_decimals, unscaled_bytes, unscaled_longs, wide_decimals
from stateproc.codec.errors import BadValue
from stateproc.codec.layouts import Converted, Layout, Number, StructLayout
from stateproc.serializers.core.base import LayoutContext, Undecodable
from stateproc.serializers.java.temporal import python_date, python_time, python_timestamp

COMPACT_DECIMAL, COMPACT_TIMESTAMP = 18, 3
_MICRO_DIGITS = 6
MAX_DECIMAL = 38
_MILLI = 10**6
_MOST_DAYS = 2**31 - 1


# --- dates and times -------------------------------------------------------------------------------------


def days_to_dates(days: pa.Array, mode: str) -> pa.Array:
    return t.date_array(t.ints(days), t.nulls(days), mode)


def millis_to_times(millis: pa.Array, mode: str) -> pa.Array:
    """Convert milliseconds of the day."""
    return t.time_array(t.ints(millis) * _MILLI, t.nulls(millis), mode)


def millis_to_timestamps(millis: pa.Array, mode: str, zone: str | None) -> pa.Array:
    """Convert milliseconds since the epoch."""
    values = t.ints(millis)
    return t.instant_array(np.floor_divide(values, 1000), values % 1000 * _MILLI, t.nulls(millis), mode, zone)


def wide_to_timestamps(parts: pa.StructArray, mode: str, zone: str | None) -> pa.Array:
    """Fields ``millis`` since the epoch, ``nanos`` of the millisecond."""
    null = t.nulls(parts)
    fields = parts.type
    millis = t.ints(parts.field(fields.get_field_index("millis")))
    nanos = t.ints(parts.field(fields.get_field_index("nanos")))
    if (((nanos < 0) | (nanos >= _MILLI)) & ~null).any():
        raise t.OutOfRange("nanoseconds outside of the millisecond")
    return t.instant_array(np.floor_divide(millis, 1000), millis % 1000 * _MILLI + nanos, null, mode, zone)


def dates_to_days(dates: pa.Array) -> pa.Array:
    days, null = times.dates(dates)
    times.refuse(np.abs(days) > _MOST_DAYS, "a date of over 2^31 days from the epoch")
    return times.integers(days, null, pa.int32())


def times_to_millis(values: pa.Array) -> pa.Array:
    nanos, null = times.day_times(values)
    times.refuse(nanos % _MILLI != 0, "a time finer than a millisecond, which is all the type holds")
    return times.integers(nanos // _MILLI, null, pa.int32())


def timestamps_to_millis(values: pa.Array) -> pa.Array:
    seconds, nanos, null = times.instants(values)
    return times.integers(times.in_units(seconds, nanos, null, 1000), null, pa.int64())


def timestamps_to_wide(values: pa.Array) -> pa.StructArray:
    seconds, nanos, null = times.instants(values)
    millis = times.in_units(seconds, nanos // _MILLI * _MILLI, null, 1000)
    none = np.zeros(len(null), dtype=np.bool_)
    parts = [times.integers(millis, none, pa.int64()), times.integers(nanos % _MILLI, none, pa.int32())]
    return pa.StructArray.from_arrays(parts, names=["millis", "nanos"], mask=values_array(null))


def date_layout(inner: Layout, ctx: LayoutContext) -> Layout:
    """``inner``: int32 days since the epoch."""
    mode = ctx.fidelity.coarse
    return Converted(inner, _temporal(mode, pa.date32()), partial(days_to_dates, mode=mode), python_date, dates_to_days)


def time_layout(inner: Layout, ctx: LayoutContext) -> Layout:
    """``inner``: int32 milliseconds of the day."""
    mode = ctx.fidelity.coarse
    return Converted(
        inner, _temporal(mode, pa.time64("us")), partial(millis_to_times, mode=mode), python_time, times_to_millis
    )


def timestamp_layout(inner: Layout, wide: bool, zone: str | None, ctx: LayoutContext, precision: int = 3) -> Layout:
    """``inner``: int64 milliseconds, or with ``wide`` a struct of millis and nanos of the millisecond."""
    convert = wide_to_timestamps if wide else millis_to_timestamps
    mode = ctx.fidelity.fine if precision > _MICRO_DIGITS else ctx.fidelity.coarse
    arrow = _temporal(mode, pa.timestamp("us", zone))
    inverse = timestamps_to_wide if wide else timestamps_to_millis
    return Converted(inner, arrow, partial(convert, mode=mode, zone=zone), python_timestamp, inverse)


def _temporal(mode: str, arrow: pa.DataType) -> pa.DataType:
    return pa.string() if mode == "exact" else arrow


# --- decimals --------------------------------------------------------------------------------------------


def to_compact_decimals(values: pa.Array, precision: int, scale: int) -> pa.Array:
    """Unscaled int64 values; refused if they have too many digits."""
    if precision <= COMPACT_DECIMAL and len(values) and np.abs(t.ints(values)).max() >= 10**precision:
        raise BadValue(f"a decimal of more than {precision} digits")
    return compact_decimals(values, precision, scale)


def decimal_layout(precision: int, scale: int, compact: Layout, wide: Layout) -> Layout:
    """``compact``: int64 unscaled, for up to 18 digits; ``wide``: big-endian two's complement."""
    if not 1 <= precision <= MAX_DECIMAL or not 0 <= scale <= precision:
        raise Undecodable(f"DECIMAL({precision}, {scale}) is no type that Flink has")
    is_compact = precision <= COMPACT_DECIMAL
    convert = to_compact_decimals if is_compact else wide_decimals
    return Converted(
        compact if is_compact else wide,
        pa.decimal128(precision, scale),
        partial(convert, precision=precision, scale=scale),
        inverse=unscaled_longs if is_compact else unscaled_bytes,
    )


def serialized_timestamp(precision: int, zone: str | None, ctx: LayoutContext) -> Layout:
    """TimestampDataSerializer: i64 ms, and i32 nanoseconds of the millisecond if the precision is over 3."""
    wide = precision > COMPACT_TIMESTAMP
    millis = Number(pa.int64())
    parts: Layout = StructLayout((("millis", millis), ("nanos", Number(pa.int32())))) if wide else millis
    return timestamp_layout(parts, wide, zone, ctx, precision)
