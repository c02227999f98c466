"""Variants and bitmaps: org.apache.flink.api.common.typeutils.base.{Variant,Bitmap}Serializer (2.1+, 2.3+).

A variant comes as JSON text (each of a column's rows may have another type). A bitmap comes as its bytes, in
RoaringBitmap's portable format; Python values are lists of the positions set.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.layouts import Blob, Converted, Hosted, Layout
from stateproc.serializers.base import LayoutContext, Serializer
from stateproc.serializers.registry import simple, snapshot
from stateproc.serializers.roaring import positions
from stateproc.serializers.variant_values import variant_json
from stateproc.wire import Cursor

_BASE = "org.apache.flink.api.common.typeutils.base."


def read_serialized(cursor: Cursor) -> str:
    """VariantSerializer: i32 size of the value, i32 size of the metadata, value, metadata."""
    value_size, metadata_size = cursor.i32(), cursor.i32()
    at = cursor.pos
    value = bytes(cursor.take(value_size, "a variant"))
    return variant_json(value, bytes(cursor.take(metadata_size, "a variant's metadata")), cursor, at)


def read_field(cursor: Cursor) -> str:
    """A VARIANT field of a binary row, up to its end: i32 size of the metadata, metadata, value."""
    metadata = cursor.bytes32()
    at = cursor.pos
    return variant_json(bytes(cursor.take(cursor.remaining, "a variant")), metadata, cursor, at)


VARIANT = Hosted(read_serialized, pa.string(), 8, json.loads)
VARIANT_FIELD = Hosted(read_field, pa.string(), 4, json.loads)


def same(values: pa.Array) -> pa.Array:
    return values


def bitmap_layout(inner: Layout) -> Layout:
    """``inner``: the bytes of a bitmap."""
    return Converted(inner, pa.binary(), same, positions)


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


def _register(name: str, layout: Layout) -> None:
    @snapshot(f"{_BASE}{name}Serializer${name}SerializerSnapshot")
    def read(cursor: Cursor, version: int) -> Serializer:
        simple(cursor, version, f"{name}SerializerSnapshot")
        return OneLayout(name.upper(), layout)


_register("Variant", VARIANT)
_register("Bitmap", bitmap_layout(Blob(ops.LENGTH_I32)))
