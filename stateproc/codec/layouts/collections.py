"""Lists, maps and arrays of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec import arrow_arrays as arrays
from stateproc.codec import ops
from stateproc.codec.array_types import Ints, Longs
from stateproc.codec.arrow_arrays import number_dtype, values_array
from stateproc.codec.builder import Assembler, Builder, DecodedColumns
from stateproc.codec.encoding import list_encoding
from stateproc.codec.encoding.sized_writers import (
    SizedWriter,
    concatenate,
    constant_bytes,
    fixed,
    locate_errors,
    scatter,
    varints,
)
from stateproc.codec.errors import Unrepresentable
from stateproc.codec.layouts.base import Layout, ListLayout, Unwritable, validity_buffer
from stateproc.codec.layouts.nesting import StructLayout
from stateproc.codec.layouts.numbers import Boolean, Number
from stateproc.codec.native.jit import exported

# Arrow offsets from lengths.


@exported
def add_up(lengths: Ints, offsets: Ints) -> int:
    """Write the sum of the lengths before each item, and that of all, to ``offsets``; returns the latter as int64."""
    total = np.int64(0)
    for k in range(len(lengths)):
        offsets[k] = total
        total += max(lengths[k], 0)
    offsets[len(lengths)] = total
    return int(total)


def offsets_of_lengths(lengths: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Arrow offsets of items of these lengths; negative lengths (nulls) count as zero.

    Raises:
        OverflowError: They hold 2^31 items or more.
    """
    offsets = np.empty(len(lengths) + 1, dtype=np.int32)
    if add_up(lengths, offsets) > 2**31 - 1:
        raise OverflowError("over 2^31 items in one batch")
    return offsets


def list_array(decoded: DecodedColumns, counts: int, items: Assembler, arrow_type: pa.DataType) -> pa.Array:
    """The Arrow array of a list or map: ``counts`` the column of item counts, -1 for null."""
    sizes = decoded.column(counts, np.int32)
    buffers = [validity_buffer(sizes >= 0), pa.py_buffer(offsets_of_lengths(sizes))]
    return pa.Array.from_buffers(arrow_type, len(sizes), buffers, children=[items(decoded)])


def emit_items(b: Builder, item: Layout, counts: int) -> Assembler:
    """Emit the loop over as many items as the count that was read says; it is kept in the column ``counts``."""
    end = b.label()
    b.op(ops.LOOP, counts, item.min_size, end)
    body = b.here()
    with b.items():
        items = item.emit(b, False)
    b.op(ops.NEXT, counts, body)
    b.bind(end)
    return items


def measure_items(item: Layout, array: pa.Array) -> tuple[Longs, SizedWriter]:
    """(offsets, from 0; items measured) of a list array."""
    arrays.refuse_nulls(array, "a list or map")
    offsets, items = arrays.items_of(array)
    with locate_errors(lambda i: int(np.searchsorted(offsets, i, "right")) - 1, "an item"):
        return offsets, item.measure(items)


def map_type(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    return pa.map_(key, value)


@dataclass(frozen=True)
class Counted(ListLayout):
    """A count (ops.COUNT_*), then so many items."""

    item: Layout
    count: int = ops.COUNT_I32

    @property
    def min_size(self) -> int:
        return {ops.COUNT_I32: 4, ops.COUNT_U16: 2}.get(self.count, 1)

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        counts = b.column(4, -1)
        items = self._emit_items(b, counts)
        return lambda decoded: list_array(decoded, counts, items, self.arrow_type)

    def _emit_items(self, b: Builder, counts: int) -> Assembler:
        b.op(ops.READ_COUNT, self.count)
        return emit_items(b, self.item, counts)

    def measure(self, array: pa.Array) -> SizedWriter:
        offsets, items = measure_items(self.item, array)
        if self.count == ops.COUNT_I32:
            return list_encoding.counted(offsets, items)
        if self.count == ops.COUNT_U16:
            counts = list_encoding.counts_of(offsets, 0xFFFF, "items")
            return concatenate([fixed(counts.astype(np.uint16)), list_encoding.joined(offsets, items)])
        if self.count == ops.COUNT_VARINT:
            counts = list_encoding.counts_of(offsets, 2**31 - 1, "items")
            return concatenate([varints(counts), list_encoding.joined(offsets, items)])
        raise Unwritable("lists whose count is stored in another value are read only")


@dataclass(frozen=True)
class Delimited(ListLayout):
    """Items up to the end of the range with one ',' between them: list state in canonical and RocksDB entries."""

    item: Layout

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        counts = b.column(4, -1)
        end = b.label()
        b.op(ops.DELIMITED)
        again = b.here()
        b.op(ops.DELIMITED_NEXT, counts, end)
        with b.items():
            items = self.item.emit(b, False)
        b.op(ops.JUMP, again)
        b.bind(end)
        return lambda decoded: list_array(decoded, counts, items, self.arrow_type)

    def measure(self, array: pa.Array) -> SizedWriter:
        return list_encoding.joined(*measure_items(self.item, array), list_encoding.COMMA)


@dataclass(frozen=True)
class AvroBlocks(ListLayout):
    """Avro's arrays and maps: blocks of a varint count and so many items, ended by a count of 0."""

    item: Layout

    @property
    def min_size(self) -> int:
        return 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        counts = b.column(4, -1)
        end = b.label()
        b.op(ops.BLOCKS)
        again = b.here()
        b.op(ops.BLOCK_NEXT, counts, self.item.min_size, end)
        with b.items():
            items = self.item.emit(b, False)
        b.op(ops.JUMP, again)
        b.bind(end)
        return lambda decoded: list_array(decoded, counts, items, self.arrow_type)

    def measure(self, array: pa.Array) -> SizedWriter:
        """One block of all items, none if there are no items, and the 0 that ends it."""
        offsets, items = measure_items(self.item, array)
        counts = list_encoding.counts_of(offsets, 2**31 - 1, "items")
        some = np.flatnonzero(counts)
        return concatenate(
            [
                scatter(len(array), [(some, varints(counts[some]))]),
                list_encoding.joined(offsets, items),
                constant_bytes(b"\0"),
            ]
        )


@dataclass(frozen=True)
class MapLayout(Layout):
    """A list of two-field structs, seen as a map. ``entries`` is a layout of list<struct<key, value>>."""

    entries: Layout

    @classmethod
    def of(cls, key: Layout, value: Layout) -> MapLayout:
        """An i32 count, then key and value so many times."""
        return cls(Counted(StructLayout((("key", key), ("value", value)))))

    @property
    def arrow_type(self) -> pa.DataType:
        entry = self.entries.arrow_type.value_type
        return map_type(entry.field(0).type, entry.field(1).type)

    @property
    def min_size(self) -> int:
        return self.entries.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        entries = self.entries.emit(b, nullable)
        return lambda decoded: as_map(entries(decoded), self.arrow_type)

    def measure(self, array: pa.Array) -> SizedWriter:
        arrays.refuse_nulls(array, "a map")
        offsets, keys, values = arrays.entries_of(array)
        names = [field.name for field in self.entries.arrow_type.value_type]
        pairs = pa.StructArray.from_arrays([keys, values], names=names)
        return self.entries.measure(arrays.list_of(offsets, pairs))

    def to_python(self, value: Any) -> Any:
        if value is None:
            return None
        pairs = self.entries.to_python([{"key": key, "value": item} for key, item in value])
        return [(pair["key"], pair["value"]) for pair in pairs]


def as_map(entries: pa.ListArray, arrow_type: pa.DataType) -> pa.Array:
    """A list of (key, value) structs as a map array over the same buffers. Raises NullKey."""
    pairs = entries.values
    keys, values = pairs.field(0), pairs.field(1)
    refuse_null_keys(keys, "leave the column out (columns)")
    fields = [pa.field("key", keys.type, nullable=False), pa.field("value", values.type)]
    children = [pa.Array.from_buffers(pa.struct(fields), len(pairs), [None], children=[keys, values])]
    return pa.Array.from_buffers(arrow_type, len(entries), entries.buffers()[:2], children=children)


def refuse_null_keys(keys: pa.Array, advice: str) -> None:
    """Raise NullKey for maps of these keys that would have a null among them."""
    if keys.null_count:
        raise NullKey("a map has a null key, which neither Arrow nor Spark can hold", advice)


class NullKey(Unrepresentable):
    """Internal: a map has a null key, which neither Arrow nor Spark can hold."""


@dataclass(frozen=True)
class Numbers(Layout):
    """An i32 count and so many big-endian numbers of ``type``, copied in one go."""

    type: pa.DataType

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.list_(self.type)

    @property
    def min_size(self) -> int:
        return 4

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        counts = b.column(4, -1)
        data = b.column(0)
        width = 1 if pa.types.is_boolean(self.type) else int(self.type.bit_width) // 8
        b.op(ops.NUMBERS, counts, data, width)

        def values(decoded: DecodedColumns) -> pa.Array:
            if pa.types.is_boolean(self.type):
                return values_array(decoded.column(data, np.uint8) != 0)
            native = number_dtype(self.type)
            return values_array(decoded.column(data, native.newbyteorder(">")).astype(native))

        return lambda decoded: list_array(decoded, counts, values, self.arrow_type)

    def measure(self, array: pa.Array) -> SizedWriter:
        item = Boolean() if pa.types.is_boolean(self.type) else Number(self.type)
        return list_encoding.counted(*measure_items(item, array))
