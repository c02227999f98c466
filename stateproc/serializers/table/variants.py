"""Read and write variants and bitmaps.

Source: VariantSerializer (Flink 2.1) and BitmapSerializer (2.3) of org.apache.flink.api.common.typeutils.base.

A variant is decoded to JSON text (each row of a column may have another type). A bitmap is decoded to its bytes, in
RoaringBitmap's portable format; Python values are lists of the positions that are set.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from stateproc.codec import ops
from stateproc.codec.decimals import decimal_text
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.layouts import Blob, Converted, Hosted, Layout
from stateproc.codec.layouts.base import refuse_rows
from stateproc.codec.temporal import iso_date, iso_instant, iso_time
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import simple_snapshot, write_simple
from stateproc.wire import Cursor, Output

# Convert variants (Parquet's encoding; org.apache.flink.types.variant.BinaryVariant) to JSON text.

MAX_DEPTH = 128
MAX_TEXT = 1 << 26
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)


def variant_json(value: bytes, metadata: bytes, cursor: Cursor, at: int) -> str:
    """Convert a variant to JSON text.

    Dates, times, bytes (base64), NaN and Infinity are strings; decimals have all digits.

    Raises CorruptSnapshot at ``at``, the position of the value in ``cursor``.
    """
    try:
        tree = _VariantReader(value, _keys(metadata)).read(0, 0)
    except (_Bad, struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
        cursor.corrupt(f"a damaged variant: {error}", at=at)
    return _text(tree)


def _text(value: Any) -> str:
    """JSON as BinaryVariant.toJson has it: decimals are numbers, and no spaces."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return value if isinstance(value, _Decimal) else json.dumps(value, ensure_ascii=False)


class _Decimal(str):
    """All digits of a decimal."""


class _Bad(Exception):
    """Bytes that are no variant."""


def _unsigned(data: bytes, at: int, size: int) -> int:
    if at < 0 or at + size > len(data):
        raise _Bad("a number is after the end")
    return int.from_bytes(data[at : at + size], "little")


def _keys(metadata: bytes) -> list[str]:
    """Header (version, size of offsets), count, count + 1 offsets, UTF-8."""
    header = _unsigned(metadata, 0, 1)
    if header & 0x0F != 1:
        raise _Bad(f"metadata of version {header & 0x0F}")
    size = (header >> 6) + 1
    count = _unsigned(metadata, 1, size)
    start = 1 + size * (count + 2)
    if start > len(metadata):
        raise _Bad(f"{count} keys in {len(metadata)} bytes")
    ends = [start + _unsigned(metadata, 1 + size * (1 + index), size) for index in range(count + 1)]
    if any(a > b for a, b in pairwise(ends)) or ends[-1] > len(metadata):
        raise _Bad("offsets of keys out of order")
    return [metadata[a:b].decode("utf-8") for a, b in pairwise(ends)]


class _VariantReader:
    """Reads one variant; every value in it takes a byte at least, which bounds how many there can be."""

    def __init__(self, data: bytes, keys: list[str]) -> None:
        self.data = data
        self.keys = keys
        self.left = len(data)
        self.text = 0

    def read(self, at: int, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > MAX_DEPTH:
            raise _Bad("values overlap or are more than there are bytes, or nested too deep")
        header = _unsigned(self.data, at, 1)
        kind, detail = header & 3, header >> 2
        if kind == _SHORT_STRING:
            return self.string(at + 1, detail)
        if kind == _OBJECT:
            return self.object(at + 1, detail, depth)
        if kind == _ARRAY:
            return self.array(at + 1, detail, depth)
        read = _PRIMITIVES.get(detail)
        if read is None:
            raise _Bad(f"unknown type {detail}")
        return read(self, at + 1)

    def take(self, at: int, size: int) -> bytes:
        if at + size > len(self.data):
            raise _Bad("a value is after the end")
        self.spend(size)
        return self.data[at : at + size]

    def spend(self, size: int) -> None:
        self.text += size
        if self.text > MAX_TEXT:
            raise _Bad("over 64 MiB of text")

    def string(self, at: int, size: int) -> str:
        return self.take(at, size).decode("utf-8")

    def sized(self, at: int) -> bytes:
        return self.take(at + 4, _unsigned(self.data, at, 4))

    def integer(self, at: int, size: int) -> int:
        return int.from_bytes(self.take(at, size), "little", signed=True)

    def object(self, at: int, detail: int, depth: int) -> dict[str, Any]:
        """Count, ids of the keys, offsets of the values and their end, values."""
        offset_size, id_size, count_size = (detail & 3) + 1, (detail >> 2 & 3) + 1, 4 if detail & 16 else 1
        count = self.count(at, count_size)
        ids = at + count_size
        offsets = ids + count * id_size
        values = offsets + (count + 1) * offset_size
        found: dict[str, Any] = {}
        for index in range(count):
            key = self.keys[_unsigned(self.data, ids + index * id_size, id_size)]
            self.spend(len(key))
            found[key] = self.read(values + _unsigned(self.data, offsets + index * offset_size, offset_size), depth + 1)
        return found

    def array(self, at: int, detail: int, depth: int) -> list[Any]:
        """Count, offsets of the values and their end, values."""
        offset_size, count_size = (detail & 3) + 1, 4 if detail & 4 else 1
        count = self.count(at, count_size)
        offsets = at + count_size
        values = offsets + (count + 1) * offset_size
        return [
            self.read(values + _unsigned(self.data, offsets + index * offset_size, offset_size), depth + 1)
            for index in range(count)
        ]

    def count(self, at: int, size: int) -> int:
        count = _unsigned(self.data, at, size)
        if count > self.left:
            raise _Bad(f"{count} values overlap or are more than there are bytes")
        return count


def _decimal(size: int) -> Callable[[_VariantReader, int], _Decimal]:
    def read(reader: _VariantReader, at: int) -> _Decimal:
        scale = _unsigned(reader.data, at, 1)
        if scale > 38:
            raise _Bad(f"a decimal of scale {scale}")
        return _Decimal(decimal_text(reader.integer(at + 1, size), scale))

    return read


def _instant(units: int, suffix: str) -> Callable[[_VariantReader, int], str]:
    """``units`` per second."""

    def read(reader: _VariantReader, at: int) -> str:
        seconds, part = divmod(reader.integer(at, 8), units)
        return iso_instant(seconds, part * (10**9 // units)) + suffix

    return read


def _floating(code: str, size: int) -> Callable[[_VariantReader, int], float | str]:
    def read(reader: _VariantReader, at: int) -> float | str:
        number = float(struct.unpack(code, reader.take(at, size))[0])
        if math.isfinite(number):
            return number
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"

    return read


def _time(reader: _VariantReader, at: int) -> str:
    micros = reader.integer(at, 8)
    if not 0 <= micros < 86_400_000_000:
        raise _Bad("a time outside of the day")
    return iso_time(micros * 1000)


_PRIMITIVES: dict[int, Callable[[_VariantReader, int], Any]] = {
    0: lambda reader, at: None,
    1: lambda reader, at: True,
    2: lambda reader, at: False,
    3: lambda reader, at: reader.integer(at, 1),
    4: lambda reader, at: reader.integer(at, 2),
    5: lambda reader, at: reader.integer(at, 4),
    6: lambda reader, at: reader.integer(at, 8),
    7: _floating("<d", 8),
    8: _decimal(4),
    9: _decimal(8),
    10: _decimal(16),
    11: lambda reader, at: iso_date(reader.integer(at, 4)),
    12: _instant(10**6, "Z"),
    13: _instant(10**6, ""),
    14: _floating("<f", 4),
    15: lambda reader, at: base64.b64encode(reader.sized(at)).decode("ascii"),
    16: lambda reader, at: reader.sized(at).decode("utf-8"),
    17: _time,
    18: _instant(10**9, "Z"),
    19: _instant(10**9, ""),
    20: lambda reader, at: str(uuid.UUID(bytes=reader.take(at, 16))),
}


# Decode RoaringBitmap's portable format (32-bit) with pyroaring, which validates its input since 1.0.1.

MAX_POSITIONS = 1 << 22


def positions(data: bytes) -> list[int]:
    """Decode a bitmap to the positions that are set, in ascending order.

    Raises:
        CorruptSnapshot: the bytes are no bitmap.
        UnsupportedSnapshot: the bitmap has over 4 million positions, which few bytes can stand for.
    """
    try:
        bitmap = BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise CorruptSnapshot(f"no Roaring bitmap: {error}", where=Where(file="<bytes>", offset=0)) from error
    if len(bitmap) > MAX_POSITIONS:
        raise UnsupportedSnapshot(
            f"a bitmap of {len(bitmap)} positions",
            advice="read it from the Arrow column, whose bytes libraries for Roaring bitmaps understand",
        )
    # Bytes after the bitmap are ignored by pyroaring.
    used = len(bitmap.serialize())
    if used != len(data):
        raise CorruptSnapshot(
            f"a Roaring bitmap of {used} bytes in {len(data)} bytes", where=Where(file="<bytes>", offset=used)
        )
    return list(bitmap)


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
    simple_snapshot(_serializer, _serializer.snapshot_class)
