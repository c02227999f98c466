"""Tuples, rows, either, nullable, enums: org.apache.flink.api.java.typeutils.runtime."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from stateproc.codec.layouts import (
    Choice,
    Converted,
    Layout,
    Marked,
    MaskedRow,
    Nothing,
    Number,
    Option,
    Struct,
)
from stateproc.codec.temporal import OutOfRange, ints, nulls
from stateproc.serializers.base import VARIABLE, LayoutContext, Serializer, fixed_sum, simple_name
from stateproc.serializers.registry import composite, expect_version, read_composite, simple, snapshot
from stateproc.wire import Cursor

_RUNTIME = "org.apache.flink.api.java.typeutils.runtime."


def positional(parts: tuple[Serializer, ...], ctx: LayoutContext) -> tuple[tuple[str, Layout], ...]:
    """Fields f0, f1 … of parts written in order."""
    return tuple((f"f{index}", part.layout(ctx.inner)) for index, part in enumerate(parts))


@dataclass(frozen=True)
class TupleOf(Serializer):
    """TupleSerializer: the fields in order, without null marks."""

    class_name: str
    fields: tuple[Serializer, ...]

    def layout(self, ctx: LayoutContext) -> Layout:
        return Struct(positional(self.fields, ctx))

    @property
    def length(self) -> int:
        return fixed_sum(self.fields)

    @property
    def type_name(self) -> str:
        return f"{simple_name(self.class_name)}<{', '.join(field.type_name for field in self.fields)}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return self.fields


@snapshot(_RUNTIME + "TupleSerializerSnapshot")
def _read_tuple(cursor: Cursor, version: int) -> Serializer:
    names: list[str] = []
    fields = composite(cursor, version, None, lambda outer, _: names.append(outer.utf()))
    return TupleOf(names[0], fields)


@dataclass(frozen=True)
class Tuple0(Serializer):
    """Tuple0Serializer: one byte, 42."""

    def layout(self, ctx: LayoutContext) -> Layout:
        return Nothing(1)

    @property
    def length(self) -> int:
        return 1

    @property
    def type_name(self) -> str:
        return "Tuple0"


@snapshot(_RUNTIME + "Tuple0SerializerSnapshot", _RUNTIME + "Tuple0Serializer$Tuple0SerializerSnapshot")
def _read_tuple0(cursor: Cursor, version: int) -> Serializer:
    simple(cursor, version, "Tuple0SerializerSnapshot")
    return Tuple0()


@dataclass(frozen=True)
class RowOf(Serializer):
    """RowSerializer: a null mask, led by two bits of RowKind since 1.11, then the fields that are not null."""

    fields: tuple[Serializer, ...]
    has_kind: bool

    def layout(self, ctx: LayoutContext) -> Layout:
        return MaskedRow(positional(self.fields, ctx), self.has_kind, ctx.row_kind)

    @property
    def type_name(self) -> str:
        return f"Row<{', '.join(field.type_name for field in self.fields)}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return self.fields


@snapshot(_RUNTIME + "RowSerializer$RowSerializerSnapshot")
def _read_row(cursor: Cursor, version: int) -> Serializer:
    flags: list[bool] = []

    def read_outer(outer: Cursor, outer_version: int) -> None:
        flags.append(outer.boolean() if outer_version >= 4 else outer_version == 3)

    return RowOf(read_composite(cursor, version, read_outer).nested, flags[0])


@dataclass(frozen=True)
class EitherOf(Serializer):
    """JavaEitherSerializer, ScalaEitherSerializer: 1 and the left value, or 0 and the right one."""

    left: Serializer
    right: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return Choice(
            (Option(1, "left", self.left.layout(ctx.inner)), Option(0, "right", self.right.layout(ctx.inner)))
        )

    @property
    def type_name(self) -> str:
        return f"Either<{self.left.type_name}, {self.right.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.left, self.right)


@snapshot(_RUNTIME + "JavaEitherSerializerSnapshot")
def _read_either(cursor: Cursor, version: int) -> Serializer:
    left, right = composite(cursor, version, 2)
    return EitherOf(left, right)


@dataclass(frozen=True)
class NullableOf(Serializer):
    """NullableSerializer: a null mark; a null of a fixed-length value is padded with ``padding`` zero bytes."""

    inner: Serializer
    padding: int

    def layout(self, ctx: LayoutContext) -> Layout:
        return Marked(self.inner.layout(ctx if self.padding == 0 else ctx.inner), pad=self.padding)

    @property
    def length(self) -> int:
        return 1 + self.padding if self.padding else VARIABLE

    @property
    def type_name(self) -> str:
        return f"{self.inner.type_name}?"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.inner,)


@snapshot(_RUNTIME + "NullableSerializer$NullableSerializerSnapshot")
def _read_nullable(cursor: Cursor, version: int) -> Serializer:
    paddings: list[int] = []
    at = cursor.pos
    (inner,) = composite(cursor, version, 1, lambda outer, _: paddings.append(outer.i32()))
    if paddings[0] < 0 or paddings[0] > 1 << 16:
        cursor.corrupt(f"a null's padding of {paddings[0]} bytes", at=at)
    return NullableOf(inner, paddings[0])


def constants(indexes: pa.Array, names: tuple[tuple[int, str], ...]) -> pa.Array:
    """Enum constants by their number in the data."""
    values, null = ints(indexes), nulls(indexes)
    table = dict(names)
    distinct = set(values[~null].tolist())
    unknown = distinct - table.keys()
    if unknown:
        raise OutOfRange(f"constant {min(unknown)} of an enum of {len(table)} constants")
    return pa.array([None if gone else table[int(v)] for v, gone in zip(values, null, strict=True)], pa.string())


@dataclass(frozen=True)
class EnumOf(Serializer):
    """EnumSerializer, ScalaEnumSerializer: the number of a constant in the snapshot's list."""

    class_name: str
    constants: tuple[tuple[int, str], ...]

    def layout(self, ctx: LayoutContext) -> Layout:
        return Converted(Number(pa.int32()), pa.string(), partial(constants, names=self.constants))

    @property
    def length(self) -> int:
        return 4

    @property
    def type_name(self) -> str:
        return f"Enum {simple_name(self.class_name)}"


@snapshot("org.apache.flink.api.common.typeutils.base.EnumSerializer$EnumSerializerSnapshot")
def _read_enum(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "EnumSerializerSnapshot", version, 3)
    class_name = cursor.utf()
    names = tuple((index, cursor.utf()) for index in range(cursor.count("enum constants", 2)))
    return EnumOf(class_name, names)
