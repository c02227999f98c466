"""Read and write tuples, rows, Either, nullable values and enums: org.apache.flink.api.java.typeutils.runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from stateproc.codec.layouts import (
    Choice,
    ChoiceOption,
    Converted,
    Layout,
    Marked,
    MaskedRow,
    Number,
    SingletonValue,
    StructLayout,
)
from stateproc.codec.temporal import OutOfRange, by_distinct, ints, nulls
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import VARIABLE, LayoutContext, Serializer, fixed_sum, simple_name
from stateproc.serializers.core.registry import (
    SCALA_PACKAGES,
    CompositeSerializer,
    composite_reader,
    composite_with,
    expect_version,
    simple_snapshot,
    snapshot,
    write_composite,
    write_head,
    write_simple,
)
from stateproc.wire import Cursor, Output

_RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
_TUPLE, _TUPLE0 = _RUNTIME + "TupleSerializerSnapshot", _RUNTIME + "Tuple0SerializerSnapshot"
_ROW = _RUNTIME + "RowSerializer$RowSerializerSnapshot"
_EITHER = _RUNTIME + "JavaEitherSerializerSnapshot"
_NULLABLE = _RUNTIME + "NullableSerializer$NullableSerializerSnapshot"
_ENUM = "org.apache.flink.api.common.typeutils.base.EnumSerializer$EnumSerializerSnapshot"
SCALA_ENUM = SCALA_PACKAGES[0] + "ScalaEnumSerializerSnapshot"
_ROW_FLAG, _ROW_KIND = Release(1, 14), Release(1, 11)


def positional(parts: tuple[Serializer, ...], ctx: LayoutContext) -> tuple[tuple[str, Layout], ...]:
    """Return the layouts of serializers written in order, as fields f0, f1 …"""
    return tuple((f"f{index}", part.layout(ctx.inner)) for index, part in enumerate(parts))


@dataclass(frozen=True)
class TupleOf(CompositeSerializer):
    """TupleSerializer: the fields in order, without null marks. ``names``: those that replace f0, f1 …, if any."""

    class_name: str
    fields: tuple[Serializer, ...]
    names: tuple[str, ...] = ()

    def layout(self, ctx: LayoutContext) -> Layout:
        fields = positional(self.fields, ctx)
        if self.names:
            fields = tuple((name, layout) for name, (_, layout) in zip(self.names, fields, strict=True))
        return StructLayout(fields)

    @property
    def length(self) -> int:
        return fixed_sum(self.fields)

    @property
    def type_name(self) -> str:
        return f"{simple_name(self.class_name)}<{', '.join(field.type_name for field in self.fields)}>"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, _TUPLE, 2, self.fields, release, lambda outer: outer.utf(self.class_name))


@snapshot(_TUPLE)
def _read_tuple(cursor: Cursor, version: int) -> Serializer:
    return TupleOf(*composite_with(cursor, version, None, lambda outer, _: outer.utf()))


@dataclass(frozen=True)
class Tuple0(Serializer):
    """Tuple0Serializer: one byte, 42."""

    length = 1
    type_name = "Tuple0"

    def layout(self, ctx: LayoutContext) -> Layout:
        return SingletonValue(1, 42)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_simple(out, _TUPLE0, release)


simple_snapshot(Tuple0(), _TUPLE0, _RUNTIME + "Tuple0Serializer$Tuple0SerializerSnapshot")


@dataclass(frozen=True)
class RowOf(CompositeSerializer):
    """RowSerializer: a null mask, led by two bits of RowKind since 1.11, then the fields that are not null."""

    fields: tuple[Serializer, ...]
    has_kind: bool
    type_pattern = "Row<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        return MaskedRow(positional(self.fields, ctx), self.has_kind, ctx.row_kind, ctx.strict)

    def write_snapshot(self, out: Output, release: Release) -> None:
        # Outer version 4 says whether there is a kind, 3 means one, 2 none.
        outer_version = 4 if release >= _ROW_FLAG else 3 if self.has_kind else 2
        flag = (lambda outer: outer.boolean(self.has_kind)) if outer_version == 4 else None
        write_composite(out, _ROW, outer_version, self.fields, release, flag)


@snapshot(_ROW)
def _read_row(cursor: Cursor, version: int) -> Serializer:
    def read_flag(outer: Cursor, outer_version: int) -> bool:
        return outer.boolean() if outer_version >= 4 else outer_version == 3

    has_kind, fields = composite_with(cursor, version, None, read_flag)
    return RowOf(fields, has_kind)


@dataclass(frozen=True)
class EitherOf(CompositeSerializer):
    """JavaEitherSerializer, ScalaEitherSerializer: 1 and the left value, or 0 and the right one.

    ``snapshot_class``: where it is not Java's. Of neither side set is read what Scala can have, Left(null) or
    Right(null), and the bytes do not distinguish them: it is not encoded.
    """

    left: Serializer
    right: Serializer
    snapshot_class: str = field(default="", compare=False)
    type_pattern = "Either<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        sides = (
            ChoiceOption(1, "left", self.left.layout(ctx.inner)),
            ChoiceOption(0, "right", self.right.layout(ctx.inner)),
        )
        return Choice(sides, always_set=True)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, self.snapshot_class or _EITHER, 1, self.nested, release)


composite_reader(_EITHER, n=2, make=EitherOf)


@dataclass(frozen=True)
class NullableOf(CompositeSerializer):
    """NullableSerializer: a null mark; a null of a fixed-length value is padded with ``padding`` zero bytes."""

    inner: Serializer
    padding: int
    type_pattern = "{}?"

    def layout(self, ctx: LayoutContext) -> Layout:
        return Marked(self.inner.layout(ctx if self.padding == 0 else ctx.inner), pad=self.padding)

    @property
    def length(self) -> int:
        return 1 + self.padding if self.padding else VARIABLE

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, _NULLABLE, 2, self.nested, release, lambda outer: outer.i32(self.padding))


@snapshot(_NULLABLE)
def _read_nullable(cursor: Cursor, version: int) -> Serializer:
    at = cursor.pos
    padding, (inner,) = composite_with(cursor, version, 1, lambda outer, _: outer.i32())
    if padding < 0 or padding > 1 << 16:
        cursor.corrupt(f"a null's padding of {padding} bytes", at=at)
    return NullableOf(inner, padding)


def constants(indexes: pa.Array, names: tuple[tuple[int, str], ...]) -> pa.Array:
    """Convert numbers in the data to enum constants."""
    values, null = ints(indexes), nulls(indexes)
    table = dict(names)
    distinct = set(values[~null].tolist())
    unknown = distinct - table.keys()
    if unknown:
        raise OutOfRange(f"constant {min(unknown)} of an enum of {len(table)} constants")
    return pa.array([None if gone else table[int(v)] for v, gone in zip(values, null, strict=True)], pa.string())


def numbers_of(texts: pa.Array, names: tuple[tuple[int, str], ...]) -> pa.Array:
    """Convert enum constants to their numbers. Raises Unencodable for a text that is no constant."""
    table = {name: number for number, name in reversed(names)}

    def turn(text: str) -> int:
        if text not in table:
            raise ValueError(f"{text!r} is no constant of an enum of {', '.join(list(table)[:10])}")
        return table[text]

    return by_distinct(texts, turn, pa.int32())


@dataclass(frozen=True)
class EnumOf(Serializer):
    """EnumSerializer, ScalaEnumSerializer: the number of a constant in the snapshot's list.

    ``scala``: a scala.Enumeration, whose constants have numbers of their own.
    """

    class_name: str
    constants: tuple[tuple[int, str], ...]
    scala: bool = field(default=False, compare=False)
    length = 4

    def layout(self, ctx: LayoutContext) -> Layout:
        convert, inverse = partial(constants, names=self.constants), partial(numbers_of, names=self.constants)
        return Converted(Number(pa.int32()), pa.string(), convert, inverse=inverse)

    @property
    def type_name(self) -> str:
        return f"Enum {simple_name(self.class_name)}"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, SCALA_ENUM if self.scala else _ENUM, 3, release)
        out.utf(self.class_name)
        out.i32(len(self.constants))
        for number, name in self.constants:
            out.utf(name)
            if self.scala:
                out.i32(number)


@snapshot(_ENUM)
def _read_enum(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "EnumSerializerSnapshot", version, 3)
    class_name = cursor.utf()
    names = tuple((index, cursor.utf()) for index in range(cursor.count("enum constants", 2)))
    return EnumOf(class_name, names)
