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
    CompositeSerializer,
    SnapshotReader,
    composite_reader,
    composite_snapshot,
    composite_with,
    expect_version,
    simple_snapshot,
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


def _scala_names(name: str) -> tuple[str, ...]:
    return tuple(package + name for package in SCALA_PACKAGES)


def _scala(name: str) -> Callable[[SnapshotReader], SnapshotReader]:
    return snapshot(*_scala_names(name))


@dataclass(frozen=True)
class CaseClass(CompositeSerializer):
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

    def write_snapshot(self, out: Output, release: Release) -> None:
        class_name = _PACKAGE + (_TUPLE2 if self.specialized else _CASE_CLASS)
        write_composite(out, class_name, 2, self.fields, release, lambda outer: outer.utf(self.class_name))


def _read_case_class(cursor: Cursor, version: int, *, specialized: bool) -> Serializer:
    return CaseClass(*composite_with(cursor, version, None, lambda outer, _: outer.utf()), specialized)


_scala(_CASE_CLASS)(partial(_read_case_class, specialized=False))
_scala(_TUPLE2)(partial(_read_case_class, specialized=True))


@composite_snapshot(*_scala_names(_OPTION), outer_version=2)
@dataclass(frozen=True)
class OptionOf(CompositeSerializer):
    """OptionSerializer: 0 for None, or 1 and the value."""

    element: Serializer
    type_pattern = "Option[{}]"

    def layout(self, ctx: LayoutContext) -> Layout:
        return Marked(self.element.layout(ctx), null_byte=0)


@composite_snapshot(*_scala_names(_TRY), outer_version=2)
@dataclass(frozen=True)
class TryOf(CompositeSerializer):
    """TrySerializer: 1 and the value, or 0 and the exception."""

    element: Serializer
    throwable: Serializer
    type_pattern = "Try[{}]"

    def layout(self, ctx: LayoutContext) -> Layout:
        return Choice(
            (
                ChoiceOption(1, "success", self.element.layout(ctx)),
                ChoiceOption(0, "failure", self.throwable.layout(ctx)),
            )
        )


composite_reader(*_scala_names(_EITHER), n=2, make=lambda left, right: EitherOf(left, right, SCALA_EITHER))


@_scala(_TRAVERSABLE)
def _read_traversable(cursor: Cursor, version: int) -> Serializer:
    # The outer payload is Scala source text, which Flink compiles; here it is only read over.
    source, (element,) = composite_with(cursor, version, 1, lambda outer, _: outer.utf())
    return ListOf("Traversable", element, 0, _PACKAGE + _TRAVERSABLE, source)


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
simple_snapshot(UNIT, *_scala_names(_UNIT))
for _name in _NOTHING:
    # Writing a Nothing fails in Flink: what has this type never has a value.
    simple_snapshot(Scalar("Nothing", "Nothing", AlwaysNull(0), -1, _PACKAGE + _name), *_scala_names(_name))
