"""Read and write variants and bitmaps.

Source: VariantSerializer (Flink 2.1) and BitmapSerializer (2.3) of org.apache.flink.api.common.typeutils.base.

A variant is decoded to JSON text (each row of a column may have another type). A bitmap is decoded to its bytes, in
RoaringBitmap's portable format; Python values are lists of the positions that are set.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.layouts import Blob, Converted, Hosted, Layout
from stateproc.codec.layouts.base import refuse_rows
from stateproc.errors import UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import simple, snapshot, write_simple
from stateproc.serializers.table.roaring_bitmap import positions
from stateproc.serializers.table.variant_json import variant_json
from stateproc.wire import Cursor, Output

_BASE = "org.apache.flink.api.common.typeutils.base."


def read_serialized(cursor: Cursor) -> str:
    """Read VariantSerializer's form: i32 size of the value, i32 size of the metadata, value, metadata."""
    value_size, metadata_size = cursor.i32(), cursor.i32()
    at = cursor.pos
    value = bytes(cursor.take(value_size, "a variant"))
    return variant_json(value, bytes(cursor.take(metadata_size, "a variant's metadata")), cursor, at)


def read_field(cursor: Cursor) -> str:
    """Read a VARIANT field of a binary row, up to its end: i32 size of the metadata, metadata, value."""
    metadata = cursor.bytes32()
    at = cursor.pos
    return variant_json(bytes(cursor.take(cursor.remaining, "a variant")), metadata, cursor, at)


@dataclass(frozen=True)
class Variant(Hosted):
    """Decoded to JSON text, and read-only: from JSON, dates, decimals and bytes would be written as strings."""

    def measure(self, array: pa.Array) -> SizedWriter:
        return refuse_rows(
            array, "values of VARIANT are read only, as JSON text, which does not distinguish all of a variant's types"
        )


VARIANT = Variant(read_serialized, pa.string(), 8, json.loads)
VARIANT_FIELD = Variant(read_field, pa.string(), 4, json.loads)


def same(values: pa.Array) -> pa.Array:
    return values


def bitmap_layout(inner: Layout) -> Layout:
    """Return the layout of a bitmap; ``inner``: the layout of its bytes."""
    return Converted(inner, pa.binary(), same, positions, same)


@dataclass(frozen=True)
class OneLayout(Serializer):
    """A serializer without parameters, whose values have one layout."""

    type: str
    bytes: Layout

    def layout(self, ctx: LayoutContext) -> Layout:
        return self.bytes

    @property
    def type_name(self) -> str:
        return self.type

    def write_snapshot(self, out: Output, release: Release) -> None:
        if release < _SINCE[self.type]:
            raise UnsupportedSnapshot(
                f"{self.type} is of Flink {_SINCE[self.type]} and later, not of {release}",
                advice="give the state another type, or write for a later release",
            )
        write_simple(out, self.snapshot_class, release)

    @property
    def snapshot_class(self) -> str:
        name = self.type.capitalize()
        return f"{_BASE}{name}Serializer${name}SerializerSnapshot"


_SINCE = {"VARIANT": Release(2, 1), "BITMAP": Release(2, 3)}
VARIANT_VALUE, BITMAP_VALUE = OneLayout("VARIANT", VARIANT), OneLayout("BITMAP", bitmap_layout(Blob(ops.LENGTH_I32)))
for _serializer in (VARIANT_VALUE, BITMAP_VALUE):

    def _read(cursor: Cursor, version: int, *, made: OneLayout = _serializer) -> Serializer:
        simple(cursor, version, made.snapshot_class)
        return made

    snapshot(_serializer.snapshot_class)(_read)
