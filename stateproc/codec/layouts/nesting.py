"""Structs, null marks, choices and conversions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec import arrow_arrays as arrays
from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import Unencodable, values_array
from stateproc.codec.builder import Assembler, Builder, DecodedColumns
from stateproc.codec.encoding.binary_rows import Slots
from stateproc.codec.encoding.sized_writers import (
    SizedWriter,
    concatenate,
    constant_bytes,
    locate_errors,
    scatter,
    zeros,
)
from stateproc.codec.layouts.base import Layout, Unwritable, Wrapper, is_valid, refuse_rows, validity_buffer
from stateproc.codec.layouts.numbers import Number, number_array


def struct_array(
    decoded: DecodedColumns, valid: int, fields: list[pa.Field], children: list[Assembler]
) -> pa.StructArray:
    """The Arrow array of a struct: ``valid`` its validity column or -1."""
    arrays = [child(decoded) for child in children]
    if valid >= 0:
        present = is_valid(decoded, valid)
        n, mask = len(present), validity_buffer(present)
    else:
        n, mask = len(arrays[0]), None
    return pa.Array.from_buffers(pa.struct(fields), n, [mask], children=arrays)


@dataclass(frozen=True)
class StructLayout(Layout):
    """Named values one after another."""

    fields: tuple[tuple[str, Layout], ...]

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.struct([pa.field(name, layout.arrow_type) for name, layout in self.fields])

    @property
    def size(self) -> int | None:
        sizes = [layout.size for _, layout in self.fields]
        return None if any(size is None for size in sizes) else sum(size or 0 for size in sizes)

    @property
    def min_size(self) -> int:
        return sum(layout.min_size for _, layout in self.fields)

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        marked = nullable or not self.fields
        valid = b.column(1, 0) if marked else -1
        if marked:
            b.op(ops.PUT1, valid, 1)
        children = [layout.emit(b, nullable and layout.converts_nulls) for _, layout in self.fields]
        fields = list(self.arrow_type)
        return lambda decoded: struct_array(decoded, valid, fields, children)

    @property
    def converts_nulls(self) -> bool:
        return any(layout.converts_nulls for _, layout in self.fields)

    def measure(self, array: pa.Array) -> SizedWriter:
        arrays.refuse_nulls(array, "a struct")
        parts = []
        for position, (name, layout) in enumerate(self.fields):
            with locate_errors(name=f"field {name!r}"):
                parts.append(layout.measure(arrays.field_of(array, name, position)))
        return concatenate(parts)

    def to_python(self, value: Any) -> Any:
        if value is None:
            return None
        return {name: layout.to_python(value[name]) for name, layout in self.fields}


@dataclass(frozen=True)
class Marked(Layout):
    """One byte, then the value unless the byte is ``null_byte``.

    ``pad``: bytes that follow a null in the value's place (-1: whatever is left of the range is ignored).
    """

    inner: Layout
    null_byte: int = 1
    pad: int = 0
    encodes_null = True

    @property
    def arrow_type(self) -> pa.DataType:
        return self.inner.arrow_type

    @property
    def size(self) -> int | None:
        inner = self.inner.size
        return 1 + inner if inner is not None and inner == self.pad else None

    @property
    def min_size(self) -> int:
        return 1 + (min(self.pad, self.inner.min_size) if self.pad > 0 else 0)

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        if isinstance(self.inner, Number) and self.inner.big_endian and self.pad == 0:
            return self._emit_number(b, self.inner)
        first, fill, end = b.column_count, b.pending_fill(), b.label()
        b.op(ops.NULL_IF, self.null_byte, fill, end, self.pad)
        assemble = self.inner.emit(b, True)
        b.bind(end)
        b.set_fill(fill, first)
        return assemble

    def _emit_number(self, b: Builder, number: Number) -> Assembler:
        """The commonest case, nullable numbers of POJOs, in one op."""
        valid, column = b.column(1, 0), b.column(number.size, 0)
        b.op(ops.MARKED_NUMBER, self.null_byte, valid, column, number.size)
        return lambda decoded: number_array(decoded, valid, column, number.type)

    def measure(self, array: pa.Array) -> SizedWriter:
        present = constant_bytes(bytes([1 - self.null_byte]))
        if not array.null_count:
            return concatenate([present, self.inner.measure(array)])
        valid, null = arrays.split_nulls(array)
        with locate_errors(valid.__getitem__):
            inner = self.inner.measure(array.drop_null())
        absent = [(null, constant_bytes(bytes([self.null_byte]))), (null, zeros(max(self.pad, 0)))]
        return scatter(len(array), [(valid, concatenate([present, inner])), *absent])

    def to_python(self, value: Any) -> Any:
        return None if value is None else self.inner.to_python(value)


@dataclass(frozen=True)
class Converted(Layout):
    """Values stored as ``inner``; ``convert`` makes the Arrow array for users, vectorised.

    ``plain`` turns what ``as_py`` gives into a Python value. ``inverse`` undoes ``convert`` for writing (None: the
    values are read only) and raises Unencodable for what it cannot; it keeps nulls, or with ``null_form`` has parts
    for them.
    """

    inner: Layout
    type: pa.DataType
    convert: Callable[[pa.Array], pa.Array]
    plain: Callable[[Any], Any] | None = None
    inverse: Callable[[pa.Array], pa.Array] | None = field(default=None, compare=False)
    null_form: bool = field(default=False, compare=False)
    converts_nulls = True

    @property
    def arrow_type(self) -> pa.DataType:
        return self.type

    @property
    def size(self) -> int | None:
        return self.inner.size

    @property
    def min_size(self) -> int:
        return self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        inner = self.inner.emit(b, nullable)
        return lambda decoded: self.convert(inner(decoded))

    @property
    def encodes_null(self) -> bool:
        return self.null_form or self.inner.encodes_null

    def measure(self, array: pa.Array) -> SizedWriter:
        if self.inverse is None:
            return refuse_rows(array, f"values of the type {self.type} are read only here")
        return self.inner.measure(self.inverse(self._coerced(array)))

    def measure_slots(self, array: pa.Array) -> Slots:
        if self.inverse is None:
            raise Unwritable(f"values of the type {self.type} are read only here")
        return self.inner.measure_slots(self.inverse(self._coerced(array)))

    def _coerced(self, array: pa.Array) -> pa.Array:
        """``array`` as the type that ``inverse`` takes; for dates and times it takes text and any unit as they are."""
        if pa.types.is_temporal(self.type) or pa.types.is_temporal(array.type):
            return array
        return arrays.as_type(array, self.type)

    def to_python(self, value: Any) -> Any:
        return value if value is None or self.plain is None else self.plain(value)


@dataclass(frozen=True)
class ChoiceOption:
    """One alternative of a :class:`Choice`: the value of the tag, and the value that follows."""

    tag: int
    name: str
    layout: Layout


@dataclass(frozen=True)
class Choice(Layout):
    """A tag of ``tag_size`` bytes (1 or 4), then one of several values; a struct with one field set.

    ``null_tag``: the tag of a null without a value. ``always_set``: no option is written whose value is null.
    """

    options: tuple[ChoiceOption, ...]
    tag_size: int = 1
    null_tag: int | None = None
    always_set: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.struct([pa.field(option.name, option.layout.arrow_type) for option in self.options])

    @property
    def min_size(self) -> int:
        return self.tag_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        first = b.column_count
        valid = b.column(1, 0)
        branches = [b.label() for _ in self.options]
        null_branch, end, null_fill = b.label(), b.label(), b.pending_fill()
        pairs: list[Any] = []
        for option, branch in zip(self.options, branches, strict=True):
            pairs += (option.tag, branch)
        if self.null_tag is not None:
            pairs += (self.null_tag, null_branch)
        b.op(ops.SWITCH, self.tag_size, len(pairs) // 2, -1, *pairs)
        fills = [b.pending_fill() for _ in self.options]
        children: list[Assembler] = []
        ranges: list[tuple[int, int]] = []
        for index, (option, branch) in enumerate(zip(self.options, branches, strict=True)):
            b.bind(branch)
            b.op(ops.PUT1, valid, 1)
            for other, fill in enumerate(fills):
                if other != index:
                    b.op(ops.FILL, fill)
            begin = b.column_count
            children.append(option.layout.emit(b, True))
            ranges.append((begin, b.column_count))
            b.op(ops.JUMP, end)
        for fill, (begin, stop) in zip(fills, ranges, strict=True):
            b.set_fill(fill, begin, stop)
        if self.null_tag is not None:
            b.bind(null_branch)
            b.op(ops.FILL, null_fill)
            b.set_fill(null_fill, first)
        b.bind(end)
        fields = list(self.arrow_type)
        return lambda decoded: struct_array(decoded, valid, fields, children)

    @property
    def encodes_null(self) -> bool:
        return self.null_tag is not None

    def measure(self, array: pa.Array) -> SizedWriter:
        """Choose the option whose field is set; if none is, the one option whose values can be null, if any."""
        null = arrays.null_rows(array)
        if self.null_tag is None:
            arrays.refuse_nulls(array, "a choice")
        columns = [arrays.field_of(array, option.name, at) for at, option in enumerate(self.options)]
        given = np.array([~arrays.null_rows(column) & ~null for column in columns]).reshape(len(columns), len(array))
        counts = given.sum(axis=0)
        if (counts > 1).any():
            raise Unencodable(f"two options of a choice are set ({self._names})", int(np.argmax(counts > 1)))
        self._choose_unset((counts == 0) & ~null, given)
        parts: list[tuple[Longs, SizedWriter]] = []
        for option, column, mine in zip(self.options, columns, given, strict=True):
            rows = np.flatnonzero(mine)
            with locate_errors(rows.__getitem__, f"option {option.name!r}"):
                parts.append(
                    (rows, concatenate([self._tag(option.tag), option.layout.measure(column.take(values_array(rows)))]))
                )
        if self.null_tag is not None:
            parts.append((np.flatnonzero(null), self._tag(self.null_tag)))
        return scatter(len(array), parts)

    @property
    def _names(self) -> str:
        return ", ".join(option.name for option in self.options)

    def _choose_unset(self, unset: Any, given: Any) -> None:
        if not unset.any():
            return
        able = [index for index, option in enumerate(self.options) if option.layout.encodes_null]
        if len(able) != 1 or self.always_set:
            raise Unencodable(f"no option of a choice is set ({self._names})", int(np.argmax(unset)))
        given[able[0]] |= unset

    def _tag(self, tag: int) -> SizedWriter:
        return constant_bytes(tag.to_bytes(self.tag_size, "big"))

    def to_python(self, value: Any) -> Any:
        if value is None:
            return None
        return {option.name: option.layout.to_python(value[option.name]) for option in self.options}


@dataclass(frozen=True)
class Prefixed(Wrapper):
    """``skipped``, whose value is dropped, then the value."""

    skipped: Layout
    inner: Layout

    @property
    def min_size(self) -> int:
        return self.skipped.min_size + self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        self.skipped.skip(b)
        return self.inner.emit(b, nullable)


@dataclass(frozen=True)
class Hosted(Layout):
    """A value that only Python can read: ``read`` gets a cursor and leaves it after the value.

    Slow (a Python call per value): for formats that no program can describe. Values must fit ``type``; ``label``:
    what errors call them.
    """

    read: Callable[[Any], Any]
    type: pa.DataType
    least: int = 1
    plain: Callable[[Any], Any] | None = None
    label: str = "such values"

    @property
    def arrow_type(self) -> pa.DataType:
        return self.type

    @property
    def min_size(self) -> int:
        return self.least

    def measure(self, array: pa.Array) -> SizedWriter:
        return refuse_rows(array, f"{self.label} are read only")

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        column = b.host(self.read)
        return lambda decoded: pa.array(decoded.python_values(column), type=self.type)

    def to_python(self, value: Any) -> Any:
        return value if value is None or self.plain is None else self.plain(value)
