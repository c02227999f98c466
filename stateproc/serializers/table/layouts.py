"""Layouts of SQL types: in slots of Flink's binary rows and arrays, and as their own serializers write them.

Sources: org.apache.flink.table.data.writer.AbstractBinaryWriter (slots), InternalSerializers (serializers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.layouts import (
    AlwaysNull,
    BinaryArray,
    BinaryMap,
    BinaryRow,
    Blob,
    Boolean,
    Layout,
    MaskedList,
    Number,
    Sized,
    VariableSlot,
    WideTimestampSlot,
)
from stateproc.codec.layouts.numbers import FullRange
from stateproc.errors import SnapshotError
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable, simple_name
from stateproc.serializers.core.registry import read_versioned
from stateproc.serializers.table.logical_types import LogicalType, RawSerializer
from stateproc.serializers.table.scalar_layouts import (
    COMPACT_TIMESTAMP,
    date_layout,
    decimal_layout,
    serialized_timestamp,
    time_layout,
    timestamp_layout,
)
from stateproc.serializers.table.variants import VARIANT_FIELD, bitmap_layout
from stateproc.wire import Cursor

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
    item = _inside(serializer, ctx)
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
