"""SQL operators' serializers: org.apache.flink.table.runtime.typeutils."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.layouts import Blob, Layout, Number, Sized, Struct
from stateproc.codec.layouts.whole import Whole
from stateproc.serializers.base import VARIABLE, LayoutContext, Serializer, Undecodable
from stateproc.serializers.logical_types import LogicalType, logical_type, read_logical_type
from stateproc.serializers.registry import composite, expect_version, read_nested, simple, snapshot
from stateproc.serializers.sql_layouts import (
    content,
    decimal_layout,
    row_of,
    serialized,
    serialized_timestamp,
)
from stateproc.wire import Cursor
from stateproc.wire.java_stream import read_java_object
from stateproc.wire.java_values import JavaObject

_TYPEUTILS = "org.apache.flink.table.runtime.typeutils."
_BYTES = Blob(ops.LENGTH_I32)

_NESTED_MAGIC = (1333245).to_bytes(4, "big")


@dataclass(frozen=True)
class RowData(Serializer):
    """RowDataSerializer: an i32 size, then a BinaryRow. Only snapshots since version 4 have ``names``."""

    types: tuple[LogicalType, ...]
    names: tuple[str, ...]
    fields: tuple[Serializer, ...] = ()

    def layout(self, ctx: LayoutContext) -> Layout:
        return Sized(row_of(self.names, self.types, ctx))

    @property
    def type_name(self) -> str:
        return LogicalType("ROW", children=self.types, names=self.names).sql

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return self.fields


@snapshot(_TYPEUTILS + "RowDataSerializer$RowDataSerializerSnapshot")
def _read_row(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "RowDataSerializerSnapshot", version, 3, 4)
    types = tuple(read_logical_type(cursor) for _ in range(cursor.count("row fields", 8)))
    at = cursor.pos
    fields = read_nested(cursor)
    if len(fields) != len(types):
        cursor.corrupt(f"a row of {len(types)} types and {len(fields)} serializers", at=at)
    names = tuple(f"f{index}" for index in range(len(types)))
    if version >= 4 and cursor.boolean():
        names = tuple(cursor.utf() for _ in types)
    return RowData(types, names, fields)


@dataclass(frozen=True)
class BinaryRowData(Serializer):
    """BinaryRowDataSerializer: the snapshot has no field types, so the rows come as bytes."""

    n_fields: int

    def layout(self, ctx: LayoutContext) -> Layout:
        return _BYTES

    @property
    def type_name(self) -> str:
        return f"BinaryRow({self.n_fields} fields of unknown types)"


@snapshot(_TYPEUTILS + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot")
def _read_binary_row(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "BinaryRowDataSerializerSnapshot", version, 3)
    at = cursor.pos
    n_fields = cursor.i32()
    if n_fields < 0:
        cursor.corrupt(f"a row of {n_fields} fields", at=at)
    return BinaryRowData(n_fields)


@dataclass(frozen=True)
class SqlCollection(Serializer):
    """ArrayDataSerializer, MapDataSerializer: an i32 size, then the binary array or map."""

    type: LogicalType

    def layout(self, ctx: LayoutContext) -> Layout:
        return Sized(content(self.type, ctx))

    @property
    def type_name(self) -> str:
        return self.type.sql


@snapshot(_TYPEUTILS + "ArrayDataSerializer$ArrayDataSerializerSnapshot")
def _read_array(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "ArrayDataSerializerSnapshot", version, 3)
    element = read_logical_type(cursor)
    read_java_object(cursor)  # the element serializer, which the type implies
    return SqlCollection(LogicalType("ARRAY", children=(element,)))


@snapshot(_TYPEUTILS + "MapDataSerializer$MapDataSerializerSnapshot")
def _read_map(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "MapDataSerializerSnapshot", version, 3)
    key, value = read_logical_type(cursor), read_logical_type(cursor)
    for _ in range(2):
        read_java_object(cursor)  # the serializers of keys and values, which the types imply
    return SqlCollection(LogicalType("MAP", children=(key, value)))


@dataclass(frozen=True)
class StringData(Serializer):
    """StringDataSerializer: an i32 size, UTF-8."""

    def layout(self, ctx: LayoutContext) -> Layout:
        return Blob(ops.LENGTH_I32, text=True)

    @property
    def type_name(self) -> str:
        return "STRING"


@snapshot(_TYPEUTILS + "StringDataSerializer$StringDataSerializerSnapshot")
def _read_string(cursor: Cursor, version: int) -> Serializer:
    simple(cursor, version, "StringDataSerializerSnapshot")
    return StringData()


@dataclass(frozen=True)
class TimestampData(Serializer):
    """TimestampDataSerializer. The snapshot does not say whether the time is local or UTC: seen as local."""

    precision: int

    def layout(self, ctx: LayoutContext) -> Layout:
        return serialized_timestamp(self.precision, None, ctx)

    @property
    def length(self) -> int:
        return 8 if self.precision <= 3 else 12

    @property
    def type_name(self) -> str:
        return f"TIMESTAMP({self.precision})"


@snapshot(_TYPEUTILS + "TimestampDataSerializer$TimestampDataSerializerSnapshot")
def _read_timestamp(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "TimestampDataSerializerSnapshot", version, 1)
    at = cursor.pos
    precision = cursor.i32()
    if not 0 <= precision <= 9:
        cursor.corrupt(f"a timestamp of precision {precision}", at=at)
    return TimestampData(precision)


@dataclass(frozen=True)
class DecimalData(Serializer):
    """DecimalDataSerializer: i64 unscaled for up to 18 digits, else an i32 size and two's complement."""

    precision: int
    scale: int

    def layout(self, ctx: LayoutContext) -> Layout:
        return decimal_layout(self.precision, self.scale, Number(pa.int64()), _BYTES)

    @property
    def type_name(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@snapshot(_TYPEUTILS + "DecimalDataSerializer$DecimalSerializerSnapshot")
def _read_decimal(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "DecimalSerializerSnapshot", version, 3)
    at = cursor.pos
    precision, scale = cursor.i32(), cursor.i32()
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        cursor.corrupt(f"DECIMAL({precision}, {scale}) in a serializer snapshot", at=at)
    return DecimalData(precision, scale)


@dataclass(frozen=True)
class RawValue(Serializer):
    """RawValueDataSerializer: an i32 size, then what the value's own serializer writes."""

    inner: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        inside = replace(ctx, tail=True)
        try:
            return Sized(Whole(self.inner.layout(inside)))
        except Undecodable:
            return _BYTES

    @property
    def type_name(self) -> str:
        return f"RAW({self.inner.type_name})"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.inner,)


@snapshot(_TYPEUTILS + "RawValueDataSerializer$RawValueDataSerializerSnapshot")
def _read_raw(cursor: Cursor, version: int) -> Serializer:
    (inner,) = composite(cursor, version, 1)
    return RawValue(inner)


@dataclass(frozen=True)
class External(Serializer):
    """ExternalSerializer: a value of a user's class, written as the SQL type's internal form."""

    type: LogicalType
    internal: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return serialized(self.type, ctx) or self.internal.layout(ctx)

    @property
    def length(self) -> int:
        return self.internal.length

    @property
    def type_name(self) -> str:
        return self.type.sql

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.internal,)


@snapshot(_TYPEUTILS + "ExternalSerializer$ExternalSerializerSnapshot")
def _read_external(cursor: Cursor, version: int) -> Serializer:
    found: list[LogicalType] = []

    def read_outer(outer: Cursor, _version: int) -> None:
        at = outer.pos
        data_type = read_java_object(outer)
        if not isinstance(data_type, JavaObject):
            outer.corrupt("an external serializer without a data type", at=at)
        found.append(logical_type(data_type.fields.get("logicalType")))
        # Flink 1.12 wrote the same outer version without this flag: the nested block's magic number follows at once.
        if bytes(outer.data[outer.pos : outer.pos + 4]) != _NESTED_MAGIC:
            outer.boolean()

    (internal,) = composite(cursor, version, 1, read_outer)
    return External(found[0], internal)


@dataclass(frozen=True)
class WindowKey(Serializer):
    """WindowKeySerializer: i64 window (the end of a slice), the key's row."""

    key: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return Struct((("window", Number(pa.int64())), ("key", self.key.layout(ctx.inner))))

    @property
    def length(self) -> int:
        return VARIABLE if self.key.length < 0 else 8 + self.key.length

    @property
    def type_name(self) -> str:
        return f"WindowKey<{self.key.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.key,)


@snapshot(_TYPEUTILS + "WindowKeySerializer$WindowKeySerializerSnapshot")
def _read_window_key(cursor: Cursor, version: int) -> Serializer:
    (key,) = composite(cursor, version, 1)
    return WindowKey(key)
