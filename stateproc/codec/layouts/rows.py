"""Structs with a null mask (Flink's Row), and lists with a null mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import arrow_arrays as arrays
from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import Unencodable, values_array
from stateproc.codec.builder import Assembler, Builder, DecodedColumns
from stateproc.codec.encoding import list_encoding
from stateproc.codec.encoding.list_encoding import mask
from stateproc.codec.encoding.sized_writers import SizedWriter, concatenate, fixed, locate_errors, scatter
from stateproc.codec.errors import BadValue, Unrepresentable
from stateproc.codec.layouts.base import Layout, ListLayout
from stateproc.codec.layouts.collections import list_array, measure_items
from stateproc.codec.layouts.nesting import struct_array

ROW_KINDS = ("+I", "-U", "+U", "-D")
_KINDS = pa.concat_arrays([arrays.repeated_text(kind, 1) for kind in ROW_KINDS])
"""The same; pa.array, and fill_null with a text, would import pandas."""
ROW_KIND_FIELD = "row_kind"


def kind_array(decoded: DecodedColumns, column: int) -> pa.Array:
    """A column of RowKind bytes as the strings +I, -U, +U, -D."""
    kinds = decoded.column(column, np.int8)
    if len(kinds) and (kinds.min() < 0 or kinds.max() > 3):
        raise BadRowKind("a row's kind is none of +I, -U, +U, -D")
    return pa.DictionaryArray.from_arrays(values_array(kinds), _KINDS).cast(pa.string())


class BadRowKind(BadValue):
    """Internal: a row's kind is none of the four of RowKind."""


class LostRowKind(Unrepresentable):
    """Internal: a row whose kind is not +I, where no column holds it."""


def refuse_kinds(decoded: DecodedColumns, column: int) -> None:
    """Raise LostRowKind for a kind other than +I in a column of RowKind bytes."""
    if decoded.column(column, np.int8).any():
        raise LostRowKind(
            "a row whose RowKind is not +I, which no column shows",
            "read with row_kind=True: rows have a field 'row_kind' then, which is written back",
        )


def given_kinds(array: pa.Array, names: Sequence[str]) -> npt.NDArray[np.uint8] | None:
    """The RowKind bytes of rows that have a field ``row_kind`` beside their own, ``names``; None if they have none.

    Null is +I. Raises Unencodable.
    """
    at = array.type.get_field_index(ROW_KIND_FIELD) if pa.types.is_struct(array.type) else -1
    if at < 0 or ROW_KIND_FIELD in names:
        return None
    kinds = array.field(at)
    null = arrays.null_rows(kinds)
    codes = pc.index_in(kinds, _KINDS.cast(kinds.type))
    other = arrays.null_rows(codes) & ~null
    if other.any():
        row = int(np.argmax(other))
        raise Unencodable(f"a row's kind is {kinds[row]}, none of {', '.join(ROW_KINDS)}", row)
    return np.where(null, 0, arrays.numbers_of(codes)).astype(np.uint8)


def row_type(fields: tuple[tuple[str, Layout], ...], keep_kind: bool) -> pa.DataType:
    """The Arrow type of a row with these fields, and with its kind as a last one if it is kept."""
    kind = [pa.field(ROW_KIND_FIELD, pa.string())] if keep_kind else []
    return pa.struct([*(pa.field(name, layout.arrow_type) for name, layout in fields), *kind])


def row_to_python(fields: tuple[tuple[str, Layout], ...], value: Any) -> Any:
    """A row as a dict; its kind only if it is not the usual +I."""
    if value is None:
        return None
    row = {name: layout.to_python(value[name]) for name, layout in fields}
    if value.get(ROW_KIND_FIELD, "+I") != "+I":
        row[ROW_KIND_FIELD] = value[ROW_KIND_FIELD]
    return row


@dataclass(frozen=True)
class MaskedRow(Layout):
    """RowSerializer: a mask (most significant bit first, two leading kind bits if ``has_kind``), non-null fields.

    ``keep_kind``: the row's kind is kept as a last field. ``only_inserts``: else others than +I are refused.
    """

    fields: tuple[tuple[str, Layout], ...]
    has_kind: bool = True
    keep_kind: bool = False
    only_inserts: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        return row_type(self.fields, self.keep_kind)

    @property
    def _lead(self) -> int:
        return 2 if self.has_kind else 0

    @property
    def min_size(self) -> int:
        return (len(self.fields) + self._lead + 7) // 8

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        marked = nullable or not self.fields
        valid = b.column(1, 0) if marked else -1
        if marked:
            b.op(ops.PUT1, valid, 1)
        b.op(ops.MASK, self.min_size)
        children = [self._field(b, index, layout) for index, (_, layout) in enumerate(self.fields)]
        if self.keep_kind:
            kind = b.column(1, 0)
            if self.has_kind:
                b.op(ops.MASK_KIND, kind)
            else:
                b.op(ops.PUT1, kind, 0)
            children.append(lambda decoded: kind_array(decoded, kind))
        checked = b.column(1, 0) if self.only_inserts and self.has_kind and not self.keep_kind else -1
        if checked >= 0:
            b.op(ops.MASK_KIND, checked)
        b.op(ops.POP, 1)
        fields = list(self.arrow_type)

        def assemble(decoded: DecodedColumns) -> pa.Array:
            if checked >= 0:
                refuse_kinds(decoded, checked)
            return struct_array(decoded, valid, fields, children)

        return assemble

    def _field(self, b: Builder, index: int, layout: Layout) -> Assembler:
        first, fill, end = b.column_count, b.pending_fill(), b.label()
        b.op(ops.MASK_BIT, index + self._lead, fill, end)
        assemble = layout.emit(b, True)
        b.bind(end)
        b.set_fill(fill, first)
        return assemble

    def measure(self, array: pa.Array) -> SizedWriter:
        arrays.refuse_nulls(array, "a row")
        rows, bits = [], []
        kinds = given_kinds(array, [name for name, _ in self.fields]) if self.has_kind else None
        if kinds is not None:
            for bit in range(self._lead):
                rows.append(np.flatnonzero(kinds & (1 << bit)))
                bits.append(bit)
        parts: list[SizedWriter] = []
        for index, (name, layout) in enumerate(self.fields):
            column = arrays.field_of(array, name, index)
            valid, null = arrays.split_nulls(column) if column.null_count else (None, None)
            with locate_errors(None if valid is None else valid.__getitem__, f"field {name!r}"):
                part = layout.measure(column if valid is None else column.drop_null())
            parts.append(part if valid is None else scatter(len(array), [(valid, part)]))
            if null is not None:
                rows.append(null)
                bits.append(index + self._lead)
        marked = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
        places = np.repeat(np.array(bits, dtype=np.int64), [len(some) for some in rows])
        return concatenate([mask(self.min_size, marked, places), *parts])

    def to_python(self, value: Any) -> Any:
        return row_to_python(self.fields, value)


@dataclass(frozen=True)
class MaskedList(ListLayout):
    """Table's LinkedListSerializer: an i32 count, one mask bit per item (if ``has_mask``), the non-null items."""

    item: Layout
    has_mask: bool = True
    min_size = 4

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        counts = b.column(4, -1)
        end, next_item, fill = b.label(), b.label(), b.pending_fill()
        b.op(ops.READ_COUNT, ops.COUNT_I32)
        if self.has_mask:
            b.op(ops.MASK, -1)
        b.op(ops.LOOP, counts, 0 if self.has_mask else self.item.min_size, end)
        body = b.here()
        with b.items():
            first = b.column_count
            if self.has_mask:
                b.op(ops.MASK_LOOP_BIT, fill, next_item)
            items = self.item.emit(b, True)
            b.set_fill(fill, first)
        b.bind(next_item)
        b.op(ops.NEXT, counts, body)
        b.bind(end)
        if self.has_mask:
            b.op(ops.POP, 1)
        return lambda decoded: list_array(decoded, counts, items, self.arrow_type)

    def measure(self, array: pa.Array) -> SizedWriter:
        if not self.has_mask:
            return list_encoding.counted(*measure_items(self.item, array))
        arrays.refuse_nulls(array, "a list")
        offsets, items = arrays.items_of(array)
        counts = list_encoding.counts_of(offsets, 2**31 - 1, "items")
        valid, null = arrays.split_nulls(items)
        lists = np.repeat(np.arange(len(counts)), counts)
        # An item type that does not fit is an error of the first item, which lists without items do not have.
        with locate_errors(lambda i: int(lists[valid[i]]) if len(valid) else 0, "an item"):
            present = self.item.measure(items.drop_null())
        bits: Longs = null - offsets[lists[null]]
        return concatenate(
            [
                fixed(counts.astype(np.int32)),
                mask((counts + 7) // 8, lists[null], bits),
                list_encoding.joined(offsets, scatter(len(items), [(valid, present)])),
            ]
        )
