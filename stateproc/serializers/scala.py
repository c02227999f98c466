"""Read and write Scala's types.

Source: org.apache.flink.api.scala.typeutils, since 2.0 org.apache.flink.table.api.typeutils.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from stateproc.codec.layouts import AlwaysNull, Choice, ChoiceOption, Layout, Marked, SingletonValue, StructLayout
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer, fixed_sum, simple_name
from stateproc.serializers.core.registry import (
    SCALA_PACKAGES,
    SnapshotReader,
    composite,
    expect_version,
    simple,
    snapshot,
    write_composite,
)
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import EitherOf, EnumOf
from stateproc.wire import Cursor, Output

# Writing replaces the package by that of the release.
_PACKAGE = SCALA_PACKAGES[0]
_CASE_CLASS, _TUPLE2 = "ScalaCaseClassSerializerSnapshot", "Tuple2CaseClassSerializerSnapshot"
_EITHER, _OPTION, _TRY, _TRAVERSABLE = (
    "ScalaEitherSerializerSnapshot",
    "ScalaOptionSerializerSnapshot",
    "ScalaTrySerializerSnapshot",
    "TraversableSerializerSnapshot",
)
SCALA_EITHER = _PACKAGE + _EITHER


def _scala(*class_names: str) -> Callable[[SnapshotReader], SnapshotReader]:
    return snapshot(*(package + name for package in SCALA_PACKAGES for name in class_names))


@dataclass(frozen=True)
class CaseClass(Serializer):
    """ScalaCaseClassSerializer, for tuples too: the fields in order.

    The snapshot has no names: they are taken from the class's description if it has as many fields, else _1, _2 …
    ``specialized``: a Tuple2 by the serializer for specialized tuples of numbers.
    """

    class_name: str
    fields: tuple[Serializer, ...]
    specialized: bool = field(default=False, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        inner = ctx.inner
        names = self.names(ctx)
        return StructLayout(tuple((name, field.layout(inner)) for name, field in zip(names, self.fields, strict=True)))

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

    def write_snapshot(self, out: Output, release: Release) -> None:
        class_name = _PACKAGE + (_TUPLE2 if self.specialized else _CASE_CLASS)
        write_composite(out, class_name, 2, self.fields, release, lambda outer: outer.utf(self.class_name))


def _read_case_class(cursor: Cursor, version: int, *, specialized: bool) -> Serializer:
    names: list[str] = []
    fields = composite(cursor, version, None, lambda outer, _: names.append(outer.utf()))
    return CaseClass(names[0], fields, specialized)


_scala(_CASE_CLASS)(partial(_read_case_class, specialized=False))
_scala(_TUPLE2)(partial(_read_case_class, specialized=True))


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

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, _PACKAGE + _OPTION, 2, self.nested, release)


@_scala(_OPTION)
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
            (
                ChoiceOption(1, "success", self.element.layout(ctx)),
                ChoiceOption(0, "failure", self.throwable.layout(ctx)),
            )
        )

    @property
    def type_name(self) -> str:
        return f"Try[{self.element.type_name}]"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.element, self.throwable)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, _PACKAGE + _TRY, 2, self.nested, release)


@_scala(_TRY)
def _read_try(cursor: Cursor, version: int) -> Serializer:
    element, throwable = composite(cursor, version, 2)
    return TryOf(element, throwable)


@_scala(_EITHER)
def _read_either(cursor: Cursor, version: int) -> Serializer:
    left, right = composite(cursor, version, 2)
    return EitherOf(left, right, SCALA_EITHER)


@_scala(_TRAVERSABLE)
def _read_traversable(cursor: Cursor, version: int) -> Serializer:
    # The outer payload is Scala source text, which Flink compiles; here it is only read over.
    source: list[str] = []
    (element,) = composite(cursor, version, 1, lambda outer, _: source.append(outer.utf()))
    return ListOf("Traversable", element, 0, _PACKAGE + _TRAVERSABLE, source[0])


@_scala("ScalaEnumSerializerSnapshot")
def _read_enumeration(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "ScalaEnumSerializerSnapshot", version, 3)
    class_name = cursor.utf()
    found = []
    for _ in range(cursor.count("enumeration values", 6)):
        name = cursor.utf()
        found.append((cursor.i32(), name))
    return EnumOf(class_name, tuple(found), scala=True)


_UNIT = "UnitSerializer$UnitSerializerSnapshot"
_NOTHING = "NothingSerializer$NothingSerializerSnapshot", "NothingSerializerSnapshot"


UNIT = Scalar("Unit", "Unit", SingletonValue(1), 1, _PACKAGE + _UNIT)


@_scala(_UNIT)
def _read_unit(cursor: Cursor, version: int) -> Serializer:
    simple(cursor, version, "UnitSerializerSnapshot")
    return UNIT


def _read_nothing(cursor: Cursor, version: int, *, name: str) -> Serializer:
    # Writing a Nothing fails in Flink: what stands here never has a value.
    simple(cursor, version, "NothingSerializerSnapshot")
    return Scalar("Nothing", "Nothing", AlwaysNull(0), -1, _PACKAGE + name)


for _name in _NOTHING:
    _scala(_name)(partial(_read_nothing, name=_name))
