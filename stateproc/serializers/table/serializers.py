"""Read and write the serializers of SQL operators: org.apache.flink.table.runtime.typeutils."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.layouts import Blob, Layout, Number, Sized, StructLayout
from stateproc.codec.layouts.numbers import FullRange
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import VARIABLE, LayoutContext, Serializer, Undecodable
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    composite_snapshot,
    composite_with,
    expect_version,
    read_nested,
    simple_snapshot,
    snapshot,
    write_composite,
    write_head,
    write_nested,
    write_simple,
)
from stateproc.serializers.table.java_streams import java_serializer, java_type
from stateproc.serializers.table.layouts import content, decimal_layout, row_of, serialized, serialized_timestamp
from stateproc.serializers.table.logical_types import LogicalType, logical_type, read_logical_type
from stateproc.wire import Cursor, Output
from stateproc.wire.java_stream import JavaObject, read_java_object

_TYPEUTILS = "org.apache.flink.table.runtime.typeutils."
ROW_KEY = "org.apache.flink.table.runtime.sequencedmultisetstate.linked.RowDataKeySerializerSnapshot"
_ROW = _TYPEUTILS + "RowDataSerializer$RowDataSerializerSnapshot"
_BINARY_ROW = _TYPEUTILS + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot"
_ARRAY = _TYPEUTILS + "ArrayDataSerializer$ArrayDataSerializerSnapshot"
_MAP = _TYPEUTILS + "MapDataSerializer$MapDataSerializerSnapshot"
_STRING = _TYPEUTILS + "StringDataSerializer$StringDataSerializerSnapshot"
_TIMESTAMP = _TYPEUTILS + "TimestampDataSerializer$TimestampDataSerializerSnapshot"
_DECIMAL = _TYPEUTILS + "DecimalDataSerializer$DecimalSerializerSnapshot"
_RAW = _TYPEUTILS + "RawValueDataSerializer$RawValueDataSerializerSnapshot"
_EXTERNAL = _TYPEUTILS + "ExternalSerializer$ExternalSerializerSnapshot"
_WINDOW_KEY = _TYPEUTILS + "WindowKeySerializer$WindowKeySerializerSnapshot"
_BYTES = Blob(ops.LENGTH_I32)

_NESTED_MAGIC = (1333245).to_bytes(4, "big")


@dataclass(frozen=True)
class RowData(CompositeSerializer):
    """RowDataSerializer: an i32 size, then a BinaryRow. Only snapshots since version 4 have ``names``.

    ``written``: the types as Java objects, where they were read; of others empty. ``held``: the types of values, where
    these may be null although ``types`` are NOT NULL, which Flink does not check. ``key_functions``: what
    RowDataKeySerializer's snapshot holds in front, where that stands around it.
    """

    types: tuple[LogicalType, ...]
    names: tuple[str, ...]
    fields: tuple[Serializer, ...] = ()
    written: tuple[bytes, ...] = field(default=(), compare=False)
    key_functions: bytes = field(default=b"", compare=False)
    held: tuple[LogicalType, ...] = field(default=(), compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return Sized(row_of(self.names, self.held or self.types, ctx))

    @property
    def type_name(self) -> str:
        return LogicalType("ROW", children=self.types, names=self.names).sql

    def write_snapshot(self, out: Output, release: Release) -> None:
        if self.key_functions:
            write_head(out, ROW_KEY, 0, release)
            out.raw(self.key_functions)
        write_head(out, _ROW, release.row_snapshot_version, release)
        out.i32(len(self.types))
        for type_, written in zip(self.types, self.written or (b"",) * len(self.types), strict=True):
            out.raw(written or java_type(type_, release))
        write_nested(out, self.fields, release)
        if release.row_snapshot_version >= 4:
            named = self.names != _numbered(len(self.types))
            out.boolean(named)
            for name in self.names if named else ():
                out.utf(name)


def _numbered(count: int) -> tuple[str, ...]:
    """Return the names of fields whose names no snapshot contains."""
    return tuple(f"f{index}" for index in range(count))


@snapshot(_ROW)
def _read_row(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "RowDataSerializerSnapshot", version, 3, 4)
    n, starts = cursor.count("row fields", 8), [cursor.pos]
    types = []
    for _ in range(n):
        types.append(read_logical_type(cursor))
        starts.append(cursor.pos)
    written = tuple(bytes(cursor.data[start:end]) for start, end in pairwise(starts))
    at = cursor.pos
    fields = read_nested(cursor)
    if len(fields) != len(types):
        cursor.corrupt(f"a row of {len(types)} types and {len(fields)} serializers", at=at)
    names = _numbered(len(types))
    if version >= 4 and cursor.boolean():
        names = tuple(cursor.utf() for _ in types)
    return RowData(tuple(types), names, fields, written)


@dataclass(frozen=True)
class BinaryRowData(Serializer):
    """BinaryRowDataSerializer: the snapshot has no field types, so rows are decoded to bytes."""

    n_fields: int

    def layout(self, ctx: LayoutContext) -> Layout:
        return _BYTES

    @property
    def type_name(self) -> str:
        return f"BinaryRow({self.n_fields} fields of unknown types)"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, _BINARY_ROW, 3, release)
        out.i32(self.n_fields)


@snapshot(_BINARY_ROW)
def _read_binary_row(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "BinaryRowDataSerializerSnapshot", version, 3)
    at = cursor.pos
    n_fields = cursor.i32()
    if n_fields < 0:
        cursor.corrupt(f"a row of {n_fields} fields", at=at)
    return BinaryRowData(n_fields)


@dataclass(frozen=True)
class SqlCollection(Serializer):
    """ArrayDataSerializer, MapDataSerializer: an i32 size, then the binary array or map.

    ``written``: the types and their serializers as Java objects, where they were read.
    """

    type: LogicalType
    written: bytes = field(default=b"", compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return Sized(content(self.type, ctx))

    @property
    def type_name(self) -> str:
        return self.type.sql

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, _MAP if self.type.kind == "MAP" else _ARRAY, 3, release)
        if self.written:
            out.raw(self.written)
            return
        for child in self.type.children:
            out.raw(java_type(child))
        for child in self.type.children:
            out.raw(java_serializer(child))


@snapshot(_ARRAY)
def _read_array(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "ArrayDataSerializerSnapshot", version, 3)
    at = cursor.pos
    element = read_logical_type(cursor)
    read_java_object(cursor)  # the element serializer, which the type implies
    return SqlCollection(LogicalType("ARRAY", children=(element,)), bytes(cursor.data[at : cursor.pos]))


@snapshot(_MAP)
def _read_map(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "MapDataSerializerSnapshot", version, 3)
    at = cursor.pos
    key, value = read_logical_type(cursor), read_logical_type(cursor)
    for _ in range(2):
        read_java_object(cursor)  # the serializers of keys and values, which the types imply
    return SqlCollection(LogicalType("MAP", children=(key, value)), bytes(cursor.data[at : cursor.pos]))


@dataclass(frozen=True)
class StringData(Serializer):
    """StringDataSerializer: an i32 size, UTF-8."""

    type_name = "STRING"

    def layout(self, ctx: LayoutContext) -> Layout:
        return Blob(ops.LENGTH_I32, text=True)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_simple(out, _STRING, release)


simple_snapshot(StringData(), _STRING)


@dataclass(frozen=True)
class TimestampData(Serializer):
    """TimestampDataSerializer. The snapshot does not store whether the time is local or UTC: it is read as local."""

    precision: int

    def layout(self, ctx: LayoutContext) -> Layout:
        return serialized_timestamp(self.precision, None, ctx)

    @property
    def length(self) -> int:
        return 8 if self.precision <= 3 else 12

    @property
    def type_name(self) -> str:
        return f"TIMESTAMP({self.precision})"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, _TIMESTAMP, 1, release)
        out.i32(self.precision)


@snapshot(_TIMESTAMP)
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

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, _DECIMAL, 3, release)
        out.i32(self.precision)
        out.i32(self.scale)


@snapshot(_DECIMAL)
def _read_decimal(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "DecimalSerializerSnapshot", version, 3)
    at = cursor.pos
    precision, scale = cursor.i32(), cursor.i32()
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        cursor.corrupt(f"DECIMAL({precision}, {scale}) in a serializer snapshot", at=at)
    return DecimalData(precision, scale)


@composite_snapshot(_RAW, outer_version=0)
@dataclass(frozen=True)
class RawValue(CompositeSerializer):
    """RawValueDataSerializer: an i32 size, then what the value's own serializer writes."""

    inner: Serializer
    type_pattern = "RAW({})"

    def layout(self, ctx: LayoutContext) -> Layout:
        inside = replace(ctx, tail=True)
        try:
            return Sized(FullRange(self.inner.layout(inside)))
        except Undecodable:
            return _BYTES


@dataclass(frozen=True)
class External(CompositeSerializer):
    """ExternalSerializer: a value of a user's class, written as the SQL type's internal form.

    ``written``: the outer payload as it was read: the DataType as a Java object, whether input is internal.
    """

    type: LogicalType
    internal: Serializer
    written: bytes = field(default=b"", compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return serialized(self.type, ctx) or self.internal.layout(ctx)

    @property
    def length(self) -> int:
        return self.internal.length

    @property
    def type_name(self) -> str:
        return self.type.sql

    def write_snapshot(self, out: Output, release: Release) -> None:
        if not self.written:
            super().write_snapshot(out, release)
        write_composite(out, _EXTERNAL, 1, self.nested, release, lambda outer: outer.raw(self.written))


@snapshot(_EXTERNAL)
def _read_external(cursor: Cursor, version: int) -> Serializer:
    def read_type(outer: Cursor, _version: int) -> tuple[LogicalType, bytes]:
        at = outer.pos
        data_type = read_java_object(outer)
        if not isinstance(data_type, JavaObject):
            outer.corrupt("an external serializer without a data type", at=at)
        type_ = logical_type(data_type.fields.get("logicalType"))
        # Flink 1.12 wrote the same outer version without this flag: the nested block's magic number follows at once.
        if bytes(outer.data[outer.pos : outer.pos + 4]) != _NESTED_MAGIC:
            outer.boolean()
        return type_, bytes(outer.data[at : outer.pos])

    (type_, written), (internal,) = composite_with(cursor, version, 1, read_type)
    return External(type_, internal, written)


@composite_snapshot(_WINDOW_KEY, outer_version=1)
@dataclass(frozen=True)
class WindowKey(CompositeSerializer):
    """WindowKeySerializer: i64 window (the end of a slice), the key's row."""

    key: Serializer
    type_pattern = "WindowKey<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout((("window", Number(pa.int64())), ("key", self.key.layout(ctx.inner))))

    @property
    def length(self) -> int:
        return VARIABLE if self.key.length < 0 else 8 + self.key.length
