"""Values that come in several shapes and are seen as one struct: each shape sets some of its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder, Label, Taken
from stateproc.codec.layouts.base import Layout
from stateproc.codec.layouts.nesting import struct_array

NAMELESS = ""
"""The name of a step that is read and not kept."""


@dataclass(frozen=True)
class Shape:
    """One shape: ``label`` names it (null: not told), ``steps`` are (field or NAMELESS, layout) in byte order."""

    label: str | None
    steps: tuple[tuple[str, Layout], ...]


class SharedFields:
    """The columns of the struct's fields, shared by all shapes that have a field of the name and layout."""

    def __init__(self, b: Builder) -> None:
        self._b = b
        self._ranges: dict[str, tuple[int, int]] = {}
        self._missing: list[tuple[str, Label]] = []
        self.assemblers: dict[str, Assembler] = {}

    def emit(self, shape: Shape, names: tuple[str, ...]) -> None:
        """Emit the shape's steps, and nulls for the fields it lacks."""
        b = self._b
        present = {name for name, _ in shape.steps}
        for name, layout in shape.steps:
            if name == NAMELESS:
                layout.skip(b)
            elif name in self._ranges:
                with b.again_from(self._ranges[name][0]):
                    layout.emit(b, True)
            else:
                first = b.columns_made
                self.assemblers[name] = layout.emit(b, True)
                self._ranges[name] = (first, b.columns_made)
        for name in names:
            if name not in present:
                fill = b.later_fill()
                b.op(ops.FILL, fill)
                self._missing.append((name, fill))

    def finish(self) -> None:
        """All shapes are emitted: every field's columns are known now."""
        for name, fill in self._missing:
            self._b.set_fill(fill, *self._ranges[name])


def merged_fields(shapes: tuple[Shape, ...]) -> dict[str, Layout]:
    """Field → layout over all shapes, in order of first appearance."""
    fields: dict[str, Layout] = {}
    for shape in shapes:
        for name, layout in shape.steps:
            if name != NAMELESS:
                fields.setdefault(name, layout)
    return fields


@dataclass(frozen=True)
class Merged(Layout):
    """A value of one of several shapes as one struct.

    ``choose`` emits the ops that pick a shape: it gets the builder, a label per shape and the label of null.
    ``label_field``: the field that tells the shape's label; None for no such field.
    A field that two shapes share must have the same layout in both.
    """

    shapes: tuple[Shape, ...]
    choose: Callable[[Builder, list[Label], Label], None]
    label_field: str | None = None
    least: int = 1

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
        first = b.columns_made
        valid = b.column(1, 0)
        label = b.column(1, 0) if self.label_field is not None else -1
        ways = [b.label() for _ in self.shapes]
        null_way, behind, null_fill = b.label(), b.label(), b.later_fill()
        self.choose(b, ways, null_way)
        shared, names = SharedFields(b), tuple(self.fields)
        for index, (shape, way) in enumerate(zip(self.shapes, ways, strict=True)):
            b.place(way)
            b.op(ops.PUT1, valid, 1)
            if self.label_field is not None:
                b.op(ops.PUT1, label, index)
            shared.emit(shape, names)
            b.op(ops.JUMP, behind)
        shared.finish()
        b.place(null_way)
        b.op(ops.FILL, null_fill)
        b.set_fill(null_fill, first)
        b.place(behind)
        if not b.keep:
            return lambda taken: pa.nulls(0)
        children = [shared.assemblers[name] for name in names]
        if self.label_field is not None:
            children.insert(0, lambda taken: self._labels(taken, label))
        fields = list(self.arrow_type)
        return lambda taken: struct_array(taken, valid, fields, children)

    def _labels(self, taken: Taken, column: int) -> pa.Array:
        labels = pa.array([shape.label for shape in self.shapes], pa.string())
        return labels.take(pa.array(taken.column(column, np.uint8)))

    def to_python(self, value: Any) -> Any:
        if value is None:
            return None
        plain = {name: layout.to_python(value[name]) for name, layout in self.fields.items()}
        return plain if self.label_field is None else {self.label_field: value[self.label_field], **plain}
