"""Layouts of SQL types: in slots of Flink's binary rows and arrays, and as their own serializers write them.

Sources: org.apache.flink.table.data.writer.AbstractBinaryWriter (slots), InternalSerializers (serializers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec import temporal as t
from stateproc.codec import temporal as times
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.decimals import compact_decimals, unscaled_bytes, unscaled_longs, wide_decimals
from stateproc.codec.errors import BadValue
from stateproc.codec.layouts import (
    AlwaysNull,
    BinaryArray,
    BinaryMap,
    BinaryRow,
    Blob,
    Boolean,
    Converted,
    Layout,
    MaskedList,
    Number,
    Sized,
    StructLayout,
    VariableSlot,
    WideTimestampSlot,
)
from stateproc.codec.layouts.numbers import FullRange
from stateproc.errors import SnapshotError
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable, simple_name
from stateproc.serializers.core.registry import read_versioned
from stateproc.serializers.java.temporal import python_date, python_time, python_timestamp
from stateproc.serializers.java.uuids import uuid_layout
from stateproc.serializers.table.logical_types import LogicalType, RawSerializer
from stateproc.serializers.table.variants import VARIANT_FIELD, bitmap_layout
from stateproc.wire import Cursor

# Layouts of SQL dates, times and decimals, whose bytes are converted after decoding.
#
# Sources: org.apache.flink.table.data.TimestampData, DecimalData, and their serializers in flink-table-runtime.

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


_WIDE_DECIMAL_BYTES = 16
_REST = Blob(ops.LENGTH_REST)
_TEXT = Blob(ops.LENGTH_REST, text=True)
_INT = LogicalType("INTEGER", nullable=False)


# --- slots of rows and arrays ----------------------------------------------------------------------------


def slot(type_: LogicalType, ctx: LayoutContext) -> Layout:
    """Return the layout of a slot of a BinaryRow (its low bytes) or an element of a BinaryArray; fixed in size."""
    build = _SLOTS.get(type_.kind)
    if build is None:
        raise Undecodable(
            f"SQL type {type_.sql} has no binary form that is known",
            advice="read the other fields or states; if Flink can store this type, please report it",
        )
    return build(type_, ctx.inner)


def _little(arrow: pa.DataType) -> Callable[[LogicalType, LayoutContext], Layout]:
    return lambda type_, ctx: Number(arrow, big_endian=False)


def _decimal_slot(type_: LogicalType, ctx: LayoutContext) -> Layout:
    compact = Number(pa.int64(), big_endian=False)
    return decimal_layout(type_.precision, type_.scale, compact, VariableSlot(_REST, reserved=_WIDE_DECIMAL_BYTES))


def _timestamp_slot(zone: str | None) -> Callable[[LogicalType, LayoutContext], Layout]:
    def build(type_: LogicalType, ctx: LayoutContext) -> Layout:
        wide = type_.precision > COMPACT_TIMESTAMP
        inner = WideTimestampSlot() if wide else Number(pa.int64(), big_endian=False)
        return timestamp_layout(inner, wide, zone, ctx, type_.precision)

    return build


def _raw_slot(type_: LogicalType, ctx: LayoutContext) -> Layout:
    try:
        known = None if type_.serializer is None else serializer_layout(type_.serializer, ctx.inner)
    except Undecodable:
        known = None
    return VariableSlot(_REST if known is None else FullRange(known))


def _without_parameters(serializer_class: str) -> Serializer | None:
    """Return the serializer of a class whose snapshot contains its name only; None for other classes."""
    name = f"{serializer_class}${simple_name(serializer_class)}Snapshot".encode()
    cursor = Cursor(len(name).to_bytes(2, "big") + name + (3).to_bytes(4, "big"))
    try:
        return read_versioned(cursor)
    except SnapshotError:
        return None


_I32_LE = Number(pa.int32(), big_endian=False)
_SLOTS: dict[str, Callable[[LogicalType, LayoutContext], Layout]] = {
    "BOOLEAN": lambda type_, ctx: Boolean(),
    "TINYINT": _little(pa.int8()),
    "SMALLINT": _little(pa.int16()),
    "INTEGER": _little(pa.int32()),
    "BIGINT": _little(pa.int64()),
    "FLOAT": _little(pa.float32()),
    "DOUBLE": _little(pa.float64()),
    "INTERVAL_YEAR_MONTH": _little(pa.int32()),
    "INTERVAL_DAY_TIME": _little(pa.int64()),
    "DATE": lambda type_, ctx: date_layout(_I32_LE, ctx),
    "TIME_WITHOUT_TIME_ZONE": lambda type_, ctx: time_layout(_I32_LE, ctx),
    "TIMESTAMP_WITHOUT_TIME_ZONE": _timestamp_slot(None),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _timestamp_slot("UTC"),
    "DECIMAL": _decimal_slot,
    "CHAR": lambda type_, ctx: VariableSlot(_TEXT, inlined=True),
    "VARCHAR": lambda type_, ctx: VariableSlot(_TEXT, inlined=True),
    "BINARY": lambda type_, ctx: VariableSlot(_REST, inlined=True),
    "VARBINARY": lambda type_, ctx: VariableSlot(_REST, inlined=True),
    "ARRAY": lambda type_, ctx: VariableSlot(content(type_, ctx)),
    "MAP": lambda type_, ctx: VariableSlot(content(type_, ctx)),
    "MULTISET": lambda type_, ctx: VariableSlot(content(type_, ctx)),
    "ROW": lambda type_, ctx: VariableSlot(content(type_, ctx)),
    "STRUCTURED_TYPE": lambda type_, ctx: VariableSlot(content(type_, ctx)),
    "DISTINCT_TYPE": lambda type_, ctx: slot(type_.children[0], ctx),
    "RAW": _raw_slot,
    "NULL": lambda type_, ctx: AlwaysNull(8),
    "VARIANT": lambda type_, ctx: VariableSlot(VARIANT_FIELD),
    "BITMAP": lambda type_, ctx: VariableSlot(bitmap_layout(_REST), inlined=True),
    "UUID": lambda type_, ctx: VariableSlot(uuid_layout(_REST), inlined=True),
}


# --- contents of rows, arrays and maps -------------------------------------------------------------------


def content(type_: LogicalType, ctx: LayoutContext) -> Layout:
    """Return the layout of a row, array or map that fills its range."""
    if type_.kind == "ARRAY":
        return array_of(type_.children[0], ctx)
    if type_.kind == "MAP":
        return BinaryMap(array_of(type_.children[0], ctx), array_of(type_.children[1], ctx))
    if type_.kind == "MULTISET":
        return BinaryMap(array_of(type_.children[0], ctx), array_of(_INT, ctx))
    return row_of(type_.names, type_.children, ctx)


def array_of(element: LogicalType, ctx: LayoutContext) -> BinaryArray:
    layout = slot(element, ctx)
    return BinaryArray(layout, layout.size or 8, not element.nullable)


def row_of(names: tuple[str, ...], types: tuple[LogicalType, ...], ctx: LayoutContext) -> BinaryRow:
    """Return the layout of a row; RowKinds of nested rows carry no information and are dropped."""
    inner = replace(ctx, row_kind=False, tail=False, projected=False)
    fields = tuple((name, slot(type_, inner)) for name, type_ in zip(unique(names), types, strict=True))
    # Processing time is no value that rows have: it is NOT NULL, and null wherever a row is stored.
    required = frozenset(
        name
        for (name, _), type_ in zip(fields, types, strict=True)
        if not type_.nullable and type_.attribute != "PROCTIME"
    )
    return BinaryRow(fields, ctx.row_kind, ctx.projected, required)


def unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Number repeated names: fields of Arrow structs are accessed by name."""
    seen: set[str] = set()
    out = []
    for name in names:
        candidate, n = name, 1
        while candidate in seen:
            n += 1
            candidate = f"{name}_{n}"
        seen.add(candidate)
        out.append(candidate)
    return tuple(out)


# --- values in serializers of their own ------------------------------------------------------------------


def serialized(type_: LogicalType, ctx: LayoutContext) -> Layout | None:
    """Return the layout of the type's internal serializer; None if its own snapshot describes it."""
    build = _SERIALIZED.get(type_.kind)
    return None if build is None else build(type_, ctx)


def _sized(type_: LogicalType, ctx: LayoutContext) -> Layout:
    return Sized(content(type_, ctx))


_SERIALIZED: dict[str, Callable[[LogicalType, LayoutContext], Layout]] = {
    "DATE": lambda type_, ctx: date_layout(Number(pa.int32()), ctx),
    "TIME_WITHOUT_TIME_ZONE": lambda type_, ctx: time_layout(Number(pa.int32()), ctx),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": lambda type_, ctx: serialized_timestamp(type_.precision, "UTC", ctx),
    "ROW": _sized,
    "STRUCTURED_TYPE": _sized,
    "UUID": lambda type_, ctx: uuid_layout(Blob(ops.LENGTH_I32)),
}


# --- serializers within RAW types ------------------------------------------------------------------------

_BYTES = Blob(ops.LENGTH_I32)


def serializer_layout(serializer: RawSerializer, ctx: LayoutContext) -> Layout | None:
    """Return the layout of what the serializer within a RAW type writes; None if it is unknown."""
    build = _RAW_SERIALIZERS.get(serializer.kind) if serializer.kind else None
    if build is not None:
        return build(serializer, ctx)
    known = _without_parameters(serializer.class_name)
    return None if known is None else known.layout(ctx.inner)


def _inside(serializer: RawSerializer, ctx: LayoutContext) -> Layout | None:
    return None if serializer.inner is None else serializer_layout(serializer.inner, ctx)


def _linked_list(serializer: RawSerializer, ctx: LayoutContext) -> Layout | None:
    """Before 1.15 the object has no flag for the mask of nulls: whether lists have one is unknown then."""
    (has_mask,) = serializer.numbers
    item = None if serializer.element is None else serialized(serializer.element, ctx)
    item = item or _inside(serializer, ctx)
    return None if item is None else MaskedList(item, bool(has_mask))


def _decimal(serializer: RawSerializer, _ctx: LayoutContext) -> Layout:
    precision, scale = serializer.numbers
    return decimal_layout(precision, scale, Number(pa.int64()), _BYTES)


def _timestamp(serializer: RawSerializer, ctx: LayoutContext) -> Layout:
    (precision,) = serializer.numbers
    return serialized_timestamp(precision, None, ctx)


def _collection(kind: str) -> Callable[[RawSerializer, LayoutContext], Layout]:
    return lambda serializer, ctx: _sized(LogicalType(kind, children=serializer.types), ctx)


def _row(serializer: RawSerializer, ctx: LayoutContext) -> Layout:
    """RowDataSerializer has the types of its fields and not their names."""
    names = tuple(f"f{n}" for n in range(len(serializer.types)))
    return _sized(LogicalType("ROW", children=serializer.types, names=names), ctx)


def _raw_value(serializer: RawSerializer, ctx: LayoutContext) -> Layout:
    inner = _inside(serializer, ctx)
    return _BYTES if inner is None else Sized(FullRange(inner))


def _external(serializer: RawSerializer, ctx: LayoutContext) -> Layout | None:
    """ExternalSerializer: the type says more than the serializer of its internal form."""
    return serialized(serializer.types[0], ctx) or _inside(serializer, ctx)


_RAW_SERIALIZERS: dict[str, Callable[[RawSerializer, LayoutContext], Layout | None]] = {
    "LinkedListSerializer": _linked_list,
    "DecimalDataSerializer": _decimal,
    "TimestampDataSerializer": _timestamp,
    "ArrayDataSerializer": _collection("ARRAY"),
    "MapDataSerializer": _collection("MAP"),
    "RowDataSerializer": _row,
    "RawValueDataSerializer": _raw_value,
    "ExternalSerializer": _external,
}
