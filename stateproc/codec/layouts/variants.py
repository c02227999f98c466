"""Values of several variants, decoded to one struct: each variant sets some of its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import arrow_arrays as arrays
from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import Unencodable, booleans_of, values_array
from stateproc.codec.builder import Assembler, Builder, DecodedColumns, Label
from stateproc.codec.encoding.sized_writers import SizedWriter, concatenate, constant_bytes, locate_errors, scatter
from stateproc.codec.layouts.base import Layout, Unwritable
from stateproc.codec.layouts.nesting import struct_array

UNNAMED = ""
"""The name of a step that is read and not kept."""


@dataclass(frozen=True)
class StructVariant:
    """One shape: ``label`` names it (null: unnamed), ``steps`` are (field or UNNAMED, layout) in byte order.

    ``lead``: the bytes that ``choose`` of Merged knows the shape by; None: values of this shape are read only.
    """

    label: str | None
    steps: tuple[tuple[str, Layout], ...]
    lead: bytes | None = None


class SharedColumns:
    """The columns of the struct's fields, shared by all shapes that have a field of the name and layout."""

    def __init__(self, b: Builder) -> None:
        self._b = b
        self._ranges: dict[str, tuple[int, int]] = {}
        self._missing: list[tuple[str, Label]] = []
        self.assemblers: dict[str, Assembler] = {}

    def emit(self, shape: StructVariant, names: tuple[str, ...]) -> None:
        """Emit the shape's steps, and nulls for the fields it lacks."""
        b = self._b
        present = {name for name, _ in shape.steps}
        for name, layout in shape.steps:
            if name == UNNAMED:
                layout.skip(b)
            elif name in self._ranges:
                with b.reuse_columns(self._ranges[name][0]):
                    layout.emit(b, True)
            else:
                first = b.column_count
                self.assemblers[name] = layout.emit(b, True)
                self._ranges[name] = (first, b.column_count)
        for name in names:
            if name not in present:
                fill = b.pending_fill()
                b.op(ops.FILL, fill)
                self._missing.append((name, fill))

    def finish(self) -> None:
        """All shapes are emitted: every field's columns are known now."""
        for name, fill in self._missing:
            self._b.set_fill(fill, *self._ranges[name])


def merged_fields(shapes: tuple[StructVariant, ...]) -> dict[str, Layout]:
    """Field → layout over all shapes, in order of first appearance."""
    fields: dict[str, Layout] = {}
    for shape in shapes:
        for name, layout in shape.steps:
            if name != UNNAMED:
                fields.setdefault(name, layout)
    return fields


@dataclass(frozen=True)
class VariantStruct(Layout):
    """A value of one of several shapes as one struct.

    ``choose`` emits the ops that pick a shape: it gets the builder, a label per shape and the label of null.
    ``label_field``: the field with the variant's label; None for no such field.
    A field that two shapes share must have the same layout in both. ``null``: the bytes of a null, None if there are
    none.
    """

    shapes: tuple[StructVariant, ...]
    choose: Callable[[Builder, list[Label], Label], None]
    label_field: str | None = None
    least: int = 1
    null: bytes | None = None

    @property
    def fields(self) -> dict[str, Layout]:
        return merged_fields(self.shapes)

    @property
    def arrow_type(self) -> pa.DataType:
        fields = [pa.field(name, layout.arrow_type) for name, layout in self.fields.items()]
        if self.label_field is not None:
            fields.insert(0, pa.field(self.label_field, pa.string()))
        return pa.struct(fields)

    @property
    def min_size(self) -> int:
        return self.least

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        first = b.column_count
        valid = b.column(1, 0)
        label = b.column(1, 0) if self.label_field is not None else -1
        branches = [b.label() for _ in self.shapes]
        null_branch, end, null_fill = b.label(), b.label(), b.pending_fill()
        self.choose(b, branches, null_branch)
        shared, names = SharedColumns(b), tuple(self.fields)
        for index, (shape, branch) in enumerate(zip(self.shapes, branches, strict=True)):
            b.bind(branch)
            b.op(ops.PUT1, valid, 1)
            if self.label_field is not None:
                b.op(ops.PUT1, label, index)
            shared.emit(shape, names)
            b.op(ops.JUMP, end)
        shared.finish()
        b.bind(null_branch)
        b.op(ops.FILL, null_fill)
        b.set_fill(null_fill, first)
        b.bind(end)
        if not b.keep:
            return lambda decoded: pa.nulls(0)
        children = [shared.assemblers[name] for name in names]
        if self.label_field is not None:
            children.insert(0, lambda decoded: self._labels(decoded, label))
        fields = list(self.arrow_type)
        return lambda decoded: struct_array(decoded, valid, fields, children)

    @property
    def encodes_null(self) -> bool:
        return self.null is not None

    def measure(self, array: pa.Array) -> SizedWriter:
        """Of the shapes of a row's label (null: the first shape's) the first that has the row's fields is taken."""
        null = arrays.null_rows(array)
        if self.null is None:
            arrays.refuse_nulls(array, "a value of one of several shapes")
        first = 0 if self.label_field is None else 1
        columns = {name: arrays.field_of(array, name, first + at) for at, name in enumerate(self.fields)}
        chosen = self._chosen(array, columns, null)
        parts: list[tuple[Longs, SizedWriter]] = []
        for index, shape in enumerate(self.shapes):
            rows = np.flatnonzero(chosen == index)
            if len(rows) == 0:
                continue
            whole = len(rows) == len(array)
            mine = columns if whole else {name: column.take(values_array(rows)) for name, column in columns.items()}
            with locate_errors(rows.__getitem__):
                parts.append((rows, _measure_shape(shape, mine, len(rows))))
            if whole:
                return parts[0][1]
        if self.null is not None:
            parts.append((np.flatnonzero(null), constant_bytes(self.null)))
        return scatter(len(array), parts)

    def _chosen(self, array: pa.Array, columns: dict[str, pa.Array], null: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """The number of each row's shape, -1 for null."""
        if len(self.shapes) == 1:
            return np.where(null, -1, 0)
        given = {name: ~arrays.null_rows(column) for name, column in columns.items()}
        labels = None if self.label_field is None else arrays.field_of(array, self.label_field, 0)
        chosen = np.full(len(array), -1)
        open_rows = ~null
        for index, shape in enumerate(self.shapes):
            fits = open_rows & _is_labelled(labels, shape.label, self.shapes[0].label)
            layouts = dict(shape.steps)
            for name, here in given.items():
                if name not in layouts:
                    fits &= ~here
                elif not layouts[name].encodes_null:
                    fits &= here
            chosen[fits] = index
            open_rows &= ~fits
        if open_rows.any():
            row = int(np.argmax(open_rows))
            label = "" if labels is None else f" {labels[row].as_py()!r}"
            known = ", ".join(repr(shape.label) for shape in self.shapes)
            raise Unencodable(f"the fields set are not those of one of the shapes ({known}):{label}", row)
        return chosen

    def _labels(self, decoded: DecodedColumns, column: int) -> pa.Array:
        labels = pa.array([shape.label for shape in self.shapes], pa.string())
        return labels.take(values_array(decoded.column(column, np.uint8)))

    def to_python(self, value: Any) -> Any:
        if value is None:
            return None
        plain = {name: layout.to_python(value[name]) for name, layout in self.fields.items()}
        return plain if self.label_field is None else {self.label_field: value[self.label_field], **plain}


def _is_labelled(labels: pa.Array | None, label: str | None, usual: str | None) -> npt.NDArray[np.bool_] | bool:
    """Which rows are of the label; without labels every row may be."""
    if labels is None:
        return True
    row_labels = labels if usual is None else labels.fill_null(usual)
    return booleans_of(pc.equal(row_labels, label).fill_null(False)).view(np.bool_)


def _measure_shape(shape: StructVariant, columns: dict[str, pa.Array], n: int) -> SizedWriter:
    if shape.lead is None:
        raise Unwritable(f"values that are {shape.label!r} are read only")
    parts = [constant_bytes(shape.lead)]
    for name, layout in shape.steps:
        with locate_errors(name=f"field {name!r}" if name else ""):
            parts.append(layout.measure(pa.nulls(n) if name == UNNAMED else columns[name]))
    return concatenate(parts)
