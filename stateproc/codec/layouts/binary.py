"""Table API's binary rows, arrays and maps: little-endian fixed slots, then the variable part.

Source of the format: org.apache.flink.table.data.binary.{BinaryRowData, BinaryArrayData, BinaryMapData}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec import arrow_arrays as arrays
from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding import binary_rows, list_encoding
from stateproc.codec.encoding.binary_rows import Field, Slots
from stateproc.codec.encoding.sized_writers import SizedWriter, locate_errors
from stateproc.codec.errors import BadValue
from stateproc.codec.layouts.base import Layout, ListLayout, Wrapper
from stateproc.codec.layouts.collections import as_map, list_array
from stateproc.codec.layouts.nesting import struct_array
from stateproc.codec.layouts.numbers import AlwaysNull, FullRange, number_array
from stateproc.codec.layouts.rows import given_kinds, kind_array, row_to_python, row_type


@dataclass(frozen=True)
class VariableSlot(Wrapper):
    """A slot of offset and length of a value elsewhere in the row; up to 7 bytes may be ``inlined``.

    ``reserved``: so many bytes are kept for the value even if it has less or is null.
    """

    inner: Layout
    inlined: bool = False
    reserved: int = 0
    size = 8

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        b.op(ops.ENTER, ops.ENTER_SLOT_OR_INLINE if self.inlined else ops.ENTER_SLOT)
        assemble = self.inner.emit(b, nullable)
        b.op(ops.LEAVE)
        return assemble

    def measure_slots(self, array: pa.Array) -> Slots:
        value = self.inner.measure(array)
        return binary_rows.variable(value, len(array), inlined=self.inlined, reserved=self.reserved)

    def skip(self, b: Builder) -> None:
        b.op(ops.SKIP, 8)


@dataclass(frozen=True)
class WideTimestampSlot(Layout):
    """TIMESTAMP(p > 3): nanoseconds of the millisecond in the slot's low half, the milliseconds at its offset.

    Decodes to struct<nanos: int32, millis: int64>; wrap it in a conversion.
    """

    arrow_type = pa.struct([pa.field("nanos", pa.int32()), pa.field("millis", pa.int64())])
    size = 8

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        valid, nanos, millis = b.column(1, 0), b.column(4, 0), b.column(8, 0)
        b.op(ops.PUT1, valid, 1)
        b.op(ops.L4, nanos)
        b.op(ops.ENTER, ops.ENTER_HALF)
        b.op(ops.L8, millis)
        b.op(ops.LEAVE)
        fields = list(self.arrow_type)
        children: list[Assembler] = [
            lambda decoded: number_array(decoded, -1, nanos, pa.int32()),
            lambda decoded: number_array(decoded, -1, millis, pa.int64()),
        ]
        return lambda decoded: struct_array(decoded, valid, fields, children)

    def measure_slots(self, array: pa.Array) -> Slots:
        arrays.refuse_nulls(array, "a timestamp")
        nanos, millis = (
            arrays.numbers_of(arrays.field_of(array, name, i)) for i, name in enumerate(("nanos", "millis"))
        )
        return binary_rows.wide_timestamps(nanos, millis)


def measure_field(layout: Layout, column: pa.Array, required: bool) -> Field:
    """The slots of a field or of elements, with those that are null. Raises Unencodable for nulls if ``required``."""
    if not column.null_count or _is_always_there(layout):
        return Field(layout.measure_slots(column), None, np.empty(0, dtype=np.int64))
    if required:
        raise Unencodable("a null, where the type is NOT NULL", int(np.flatnonzero(arrays.null_rows(column))[0]))
    valid, null = arrays.split_nulls(column)
    with locate_errors(valid.__getitem__):
        return Field(layout.measure_slots(column.drop_null()), valid, null)


def _is_always_there(layout: Layout) -> bool:
    """Whether nulls are values: RAW views of aggregates, which NullSerializer writes as one byte that says nothing."""
    if not isinstance(layout, VariableSlot):
        return False
    inner = layout.inner.inner if isinstance(layout.inner, FullRange) else layout.inner
    return isinstance(inner, AlwaysNull) and inner.size > 0


@dataclass(frozen=True)
class BinaryRow(Layout):
    """A row that fills its range: null bits (byte 0 the RowKind), one 8-byte slot per field, the variable part.

    ``reserve_nulls``: null decimals of over 18 digits and timestamps of over 3 reserve the bytes of a value, as
    generated projections do (writeDecimal, writeTimestamp of null); RowDataSerializer.toBinaryRow reserves none.
    ``required``: the names of fields that are NOT NULL: nulls are read, but not written.
    """

    fields: tuple[tuple[str, Layout], ...]
    keep_kind: bool = False
    reserve_nulls: bool = False
    required: frozenset[str] = frozenset()

    @property
    def arrow_type(self) -> pa.DataType:
        return row_type(self.fields, self.keep_kind)

    @property
    def _null_bytes(self) -> int:
        return (len(self.fields) + 63 + 8) // 64 * 8

    @property
    def min_size(self) -> int:
        return self._null_bytes + 8 * len(self.fields)

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        marked = nullable or not self.fields
        valid = b.column(1, 0) if marked else -1
        if marked:
            b.op(ops.PUT1, valid, 1)
        b.op(ops.HEADER, self.min_size)
        kind = b.column(1, 0) if self.keep_kind else -1
        b.op(ops.F1, kind)
        children = [self._field(b, index, layout) for index, (_, layout) in enumerate(self.fields)]
        if self.keep_kind:
            children.append(lambda decoded: kind_array(decoded, kind))
        b.op(ops.SKIP_REST)
        fields = list(self.arrow_type)
        return lambda decoded: struct_array(decoded, valid, fields, children)

    def _field(self, b: Builder, index: int, layout: Layout) -> Assembler:
        first, fill, end = b.column_count, b.pending_fill(), b.label()
        b.op(ops.SLOT, index + 8, self._null_bytes + 8 * index, fill, end)
        assemble = layout.emit(b, True)
        b.bind(end)
        b.set_fill(fill, first)
        return assemble

    def measure(self, array: pa.Array) -> SizedWriter:
        arrays.refuse_nulls(array, "a row")
        kinds = given_kinds(array, [name for name, _ in self.fields])
        fields = []
        for index, (name, layout) in enumerate(self.fields):
            with locate_errors(name=f"field {name!r}"):
                column = arrays.field_of(array, name, index)
                fields.append(measure_field(layout, column, name in self.required))
        return binary_rows.rows(len(array), self._null_bytes, kinds, fields, reserve_nulls=self.reserve_nulls)

    def to_python(self, value: Any) -> Any:
        return row_to_python(self.fields, value)


@dataclass(frozen=True)
class BinaryArray(ListLayout):
    """An array that fills its range: i32 count, null bits, elements of ``width`` bytes, the variable part.

    ``required``: its elements are NOT NULL: nulls are read, but not written.
    """

    item: Layout
    width: int
    required: bool = False
    min_size = 4

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        counts = b.column(4, -1)
        end, fill = b.label(), b.pending_fill()
        b.op(ops.ARRAY, self.width, -1)
        again = b.here()
        with b.items():
            first = b.column_count
            b.op(ops.ARRAY_NEXT, self.width, fill, counts, end)
            items = self.item.emit(b, True)
            b.set_fill(fill, first)
        b.op(ops.JUMP, again)
        b.bind(end)
        return lambda decoded: list_array(decoded, counts, items, self.arrow_type)

    def measure(self, array: pa.Array) -> SizedWriter:
        arrays.refuse_nulls(array, "an array")
        return self.measure_elements(*arrays.items_of(array))

    def measure_elements(self, offsets: Longs, items: pa.Array) -> SizedWriter:
        """Arrays of the elements offsets[i] to offsets[i + 1]."""
        list_encoding.counts_of(offsets, (2**31 - 1) // 8, "elements")
        with locate_errors(lambda i: int(np.searchsorted(offsets, i, "right")) - 1, "an element"):
            return binary_rows.arrays(offsets, self.width, measure_field(self.item, items, self.required))


@dataclass(frozen=True)
class BinaryMap(Layout):
    """A map that fills its range: little-endian i32 size of the key array, the key array, the value array."""

    keys: BinaryArray
    values: BinaryArray
    min_size = 12

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.map_(self.keys.item.arrow_type, self.values.item.arrow_type)

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        b.op(ops.ENTER, ops.ENTER_LE32)
        keys = self.keys.emit(b, nullable)
        b.op(ops.LEAVE)
        b.op(ops.ENTER, ops.ENTER_REST)
        values = self.values.emit(b, nullable)
        b.op(ops.LEAVE)

        def assemble(decoded: Any) -> pa.Array:
            key_lists, value_lists = keys(decoded), values(decoded)
            if key_lists.offsets != value_lists.offsets:
                raise UnevenMap("a binary map has not as many values as keys")
            pairs = pa.StructArray.from_arrays([key_lists.values, value_lists.values], names=["key", "value"])
            lists = pa.Array.from_buffers(
                pa.list_(pairs.type), len(key_lists), key_lists.buffers()[:2], children=[pairs]
            )
            return as_map(lists, self.arrow_type)

        return assemble

    def measure(self, array: pa.Array) -> SizedWriter:
        arrays.refuse_nulls(array, "a map")
        offsets, keys, values = arrays.entries_of(array)
        parts = self.keys.measure_elements(offsets, keys), self.values.measure_elements(offsets, values)
        return binary_rows.maps(*parts, len(array))

    def to_python(self, value: Any) -> Any:
        if value is None:
            return None
        return [(self.keys.item.to_python(key), self.values.item.to_python(item)) for key, item in value]


class UnevenMap(BadValue):
    """Internal: a binary map has more keys than values, or fewer."""


@dataclass(frozen=True)
class Sized(Wrapper):
    """An i32 size, then a value that fills so many bytes."""

    inner: Layout

    @property
    def min_size(self) -> int:
        return 4 + self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        b.op(ops.ENTER, ops.ENTER_I32)
        assemble = self.inner.emit(b, nullable)
        b.op(ops.LEAVE)
        return assemble

    def measure(self, array: pa.Array) -> SizedWriter:
        return list_encoding.sized(self.inner.measure(array), len(array))

    def skip(self, b: Builder) -> None:
        b.op(ops.BYTES, -1, -1, ops.LENGTH_I32, 0)
