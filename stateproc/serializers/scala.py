"""Scala's types: org.apache.flink.api.scala.typeutils, since 2.0 org.apache.flink.table.api.typeutils."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stateproc.codec.layouts import Choice, Layout, Marked, Nothing, Option, Struct
from stateproc.serializers.base import LayoutContext, Serializer, fixed_sum, simple_name
from stateproc.serializers.collections import ListOf
from stateproc.serializers.descriptions import parse_classes
from stateproc.serializers.registry import SnapshotReader, composite, expect_version, simple, snapshot
from stateproc.serializers.scalars import Scalar
from stateproc.serializers.structs import EitherOf, EnumOf
from stateproc.wire import Cursor

PACKAGES = ("org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils.")


def _scala(*class_names: str) -> Callable[[SnapshotReader], SnapshotReader]:
    return snapshot(*(package + name for package in PACKAGES for name in class_names))


@dataclass(frozen=True)
class CaseClass(Serializer):
    """ScalaCaseClassSerializer, for tuples too: the fields in order.

    The snapshot has no names: those of the user's description of the class if it has as many, else _1, _2 …
    """

    class_name: str
    fields: tuple[Serializer, ...]

    def layout(self, ctx: LayoutContext) -> Layout:
        inner = ctx.inner
        names = self.names(ctx)
        return Struct(tuple((name, field.layout(inner)) for name, field in zip(names, self.fields, strict=True)))

    def names(self, ctx: LayoutContext) -> tuple[str, ...]:
        """The fields' names."""
        described = parse_classes(ctx.classes).get(self.class_name) if ctx.classes else None
        if described is not None and len(described.fields) == len(self.fields):
            return tuple(name for name, _ in described.fields)
        return tuple(f"_{index}" for index in range(1, len(self.fields) + 1))

    @property
    def length(self) -> int:
        return fixed_sum(self.fields)

    @property
    def type_name(self) -> str:
        return f"{simple_name(self.class_name)}({', '.join(field.type_name for field in self.fields)})"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return self.fields


@_scala("ScalaCaseClassSerializerSnapshot", "Tuple2CaseClassSerializerSnapshot")
def _read_case_class(cursor: Cursor, version: int) -> Serializer:
    names: list[str] = []
    fields = composite(cursor, version, None, lambda outer, _: names.append(outer.utf()))
    return CaseClass(names[0], fields)


@dataclass(frozen=True)
class OptionOf(Serializer):
    """OptionSerializer: 0 for None, or 1 and the value."""

    element: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return Marked(self.element.layout(ctx), null_byte=0)

    @property
    def type_name(self) -> str:
        return f"Option[{self.element.type_name}]"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.element,)


@_scala("ScalaOptionSerializerSnapshot")
def _read_option(cursor: Cursor, version: int) -> Serializer:
    (element,) = composite(cursor, version, 1)
    return OptionOf(element)


@dataclass(frozen=True)
class TryOf(Serializer):
    """TrySerializer: 1 and the value, or 0 and the exception."""

    element: Serializer
    throwable: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return Choice(
            (Option(1, "success", self.element.layout(ctx)), Option(0, "failure", self.throwable.layout(ctx)))
        )

    @property
    def type_name(self) -> str:
        return f"Try[{self.element.type_name}]"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.element, self.throwable)


@_scala("ScalaTrySerializerSnapshot")
def _read_try(cursor: Cursor, version: int) -> Serializer:
    element, throwable = composite(cursor, version, 2)
    return TryOf(element, throwable)


@_scala("ScalaEitherSerializerSnapshot")
def _read_either(cursor: Cursor, version: int) -> Serializer:
    left, right = composite(cursor, version, 2)
    return EitherOf(left, right)


@_scala("TraversableSerializerSnapshot")
def _read_traversable(cursor: Cursor, version: int) -> Serializer:
    # The outer payload is Scala source text, which Flink compiles; here it is only read over.
    (element,) = composite(cursor, version, 1, lambda outer, _: _read_over(outer))
    return ListOf("Traversable", element, null_byte=0)


def _read_over(outer: Cursor) -> None:
    outer.utf()


@_scala("ScalaEnumSerializerSnapshot")
def _read_enumeration(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "ScalaEnumSerializerSnapshot", version, 3)
    class_name = cursor.utf()
    found = []
    for _ in range(cursor.count("enumeration values", 6)):
        name = cursor.utf()
        found.append((cursor.i32(), name))
    return EnumOf(class_name, tuple(found))


@_scala("UnitSerializer$UnitSerializerSnapshot")
def _read_unit(cursor: Cursor, version: int) -> Serializer:
    simple(cursor, version, "UnitSerializerSnapshot")
    return Scalar("Unit", "Unit", Nothing(1), 1)


@_scala("NothingSerializer$NothingSerializerSnapshot", "NothingSerializerSnapshot")
def _read_nothing(cursor: Cursor, version: int) -> Serializer:
    # Writing a Nothing fails in Flink: what stands here never has a value.
    simple(cursor, version, "NothingSerializerSnapshot")
    return Scalar("Nothing", "Nothing", Nothing(0), -1)
