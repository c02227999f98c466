"""Turn serializers of Flink's Scala API, which Flink 2 does not have, into those of flink-scala-api 2.x.

What a value is made of, with Flink's Scala API → with flink-scala-api:
* case class, tuple: fields → i32 number of fields, fields. Of specialised tuples (Tuple2$mcIJ$sp) the class is Tuple2.
* Traversable: i32 n, n times i8 1 and the item, or i8 0 for null → the collection that its builder names: i32 n, items.
* Map, a Traversable of tuples: i32 n, n times i8 1, key, value → i32 n, n times key, value.
* array of objects: as a Traversable → i32 n, items.
* Unit: i8 → nothing.
* Option, Either, Nothing: alike.

Only what differs is taken apart: any part that has none of these stays the bytes that it is, so that nothing is lost of
values for which there is no column (Some(null)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import refuse_nulls, row_bytes_of
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.codec.layouts import Counted, Layout, MapLayout, SingletonValue, StructLayout
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.errors import UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import SCALA_PACKAGES
from stateproc.serializers.flinkx.case_classes import FlinkxCaseClass
from stateproc.serializers.flinkx.collections import MAP, FlinkxOption, ScalaCollection, ScalaMap, flinkx_either
from stateproc.serializers.flinkx.layouts import PACKAGE
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import EitherOf, EnumOf
from stateproc.serializers.kryo.conversion import Rewritten
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.serializers.scala import CaseClass, OptionOf, TryOf
from stateproc.wire import Output

FLINK_SCALA_API = "flink-scala-api"
_VERSION = 2
"""That of the snapshots of collections and maps since flink-scala-api 2.0."""
_BUILDER = re.compile(r"CanBuildFrom\[\s*([\w.$:]+)")
_COLLECTIONS = {
    "List": "List",
    "::": "ListCC",
    "Seq": "Seq",
    "Vector": "Vector",
    "Set": "Set",
    "mutable.Buffer": "MutableBuffer",
    "mutable.ArrayBuffer": "MutableBuffer",
    "mutable.Queue": "MutableQueue",
    "mutable.Set": "MutableSet",
    "mutable.HashSet": "MutableSet",
}
"""Scala's collections that are written alike; the kind of serializer that flink-scala-api has for each."""
_MAPS = {
    "Map": MAP,
    "mutable.Map": "MutableMapSerializerSnapshot",
    "mutable.HashMap": "MutableMapSerializerSnapshot",
}
_BEFORE_A_NAME = re.compile(r"^(scala\.)?(collection\.)?(immutable\.)?(Predef\.)?(package\.)?")
_OBJECT = "java.lang.Object"
_BOXES = {"Int": "Integer", "Char": "Character"}
_TIMES = "LocalDate LocalTime LocalDateTime ZonedDateTime OffsetDateTime ZoneId ZoneOffset"
_MAPPED_BY_THE_API = {
    "java.util.UUID": "UUID",
    "scala.math.BigDecimal": "BigDecimal",
    "scala.math.BigInt": "BigInt",
    **{f"java.time.{name}": name for name in _TIMES.split()},
    "java.time.ZoneRegion": "ZoneId",
    **{f"scala.concurrent.duration.{name}": name for name in ("Duration", "FiniteDuration")},
}
_ADVICE = "give the state another type (transform_state), or leave it out (drop_state)"


@dataclass(frozen=True)
class _ValueBytes(SerializedValue):
    """The bytes of a value, written as they are; none stand for null."""

    def measure(self, array: pa.Array) -> SizedWriter:
        refuse_nulls(array, "an item of a collection of flink-scala-api")
        return row_bytes_writer(row_bytes_of(array))


@dataclass(frozen=True)
class _Present(Layout):
    """The mark of a value that is there, i8 1, and the value."""

    inner: Layout

    @property
    def arrow_type(self) -> pa.DataType:
        return self.inner.arrow_type

    @property
    def min_size(self) -> int:
        return 1 + self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        b.op(ops.SWITCH, 1, 1, -1, 1, following := b.label())
        b.bind(following)
        return self.inner.emit(b, nullable)


class _Declared(Serializer):
    """Declares what another serializer does, and reads values in a way of its own."""

    new: Serializer

    @property
    def length(self) -> int:
        return self.new.length

    @property
    def type_name(self) -> str:
        return self.new.type_name

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return self.new.nested

    def write_snapshot(self, out: Output, release: Release) -> None:
        self.new.write_snapshot(out, release)


@dataclass(frozen=True)
class _Kept(_Declared):
    """A part of a value that is written as it is read."""

    new: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return _ValueBytes(self.new.layout(ctx))


@dataclass(frozen=True)
class _Pairs(Serializer):
    """A Traversable of tuples of two, which a Map is for Flink's Scala API."""

    key: Serializer
    value: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        inner = ctx.inner
        pair = StructLayout((("key", self.key.layout(inner)), ("value", self.value.layout(inner))))
        return MapLayout(Counted(_Present(pair)))

    @property
    def type_name(self) -> str:
        return f"Map[{self.key.type_name}, {self.value.type_name}]"


@dataclass(frozen=True)
class Migrated(_Declared):
    """A value that ``old`` reads and ``new`` writes. Both have the same parts, and a length or none."""

    old: Serializer
    new: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return Rewritten(self.old.layout(ctx), self.new.layout(ctx))


def is_of_scala_api(serializer: Serializer) -> bool:
    """Whether the serializer itself, whatever is in it, is one of Flink's Scala API."""
    if isinstance(serializer, Scalar):
        return serializer.snapshot_class.startswith(SCALA_PACKAGES)
    if isinstance(serializer, ListOf):
        return serializer.kind == "Traversable"
    if isinstance(serializer, EitherOf):
        return serializer.snapshot_class.startswith(SCALA_PACKAGES)
    if isinstance(serializer, EnumOf):
        return serializer.scala
    return type(serializer) in (CaseClass, OptionOf, TryOf)


def has_scala_api(serializer: Serializer | None) -> bool:
    """Whether a serializer or one in it is of Flink's Scala API."""
    return serializer is not None and _any(serializer, is_of_scala_api)


def is_migrated(serializer: Serializer | None) -> bool:
    """Whether values are written otherwise than they are read."""
    return serializer is not None and _any(serializer, lambda part: isinstance(part, Migrated))


def migrated(serializer: Serializer, context: LayoutContext) -> Serializer:
    """Return what a job of flink-scala-api 2.x has in place of a serializer; it reads the values of the old one.

    Raises:
        UnsupportedSnapshot: A serializer in it has no counterpart.
    """
    return _migrated(serializer, context) if has_scala_api(serializer) else serializer


def _migrated(serializer: Serializer, context: LayoutContext) -> Serializer:
    return _counterpart(_with_parts(serializer, context), context)


def _counterpart(old: Serializer, context: LayoutContext) -> Serializer:
    """Return the counterpart of a serializer whose parts are counterparts already."""
    if isinstance(old, Kryo) and old.class_name in _MAPPED_BY_THE_API:
        raise _refused(f"{_MAPPED_BY_THE_API[old.class_name]} left to Kryo, which flink-scala-api maps to another type")
    if isinstance(old, ListOf) and old.kind == "Array":
        _refuse_two_nulls(old, old.element, context)
        new: Serializer = _collection("Array", old.element, old.component)
        return _pair(replace(old, element=_kept(old.element)), new)
    if not is_of_scala_api(old):
        return old
    if isinstance(old, CaseClass):
        parts = tuple(map(_kept, old.fields))
        name = old.class_name.partition("$mc")[0] if old.class_name.startswith("scala.Tuple") else old.class_name
        return Migrated(replace(old, fields=parts), FlinkxCaseClass(name, parts, immutable=False))
    if isinstance(old, OptionOf):
        _refuse_two_nulls(old, old.element, context)
        return FlinkxOption(old.element)
    if isinstance(old, EitherOf):
        sides = (old.left, old.right)
        if any(map(is_migrated, sides)):  # Which side it is must not depend on a null in it.
            for side in sides:
                _refuse_two_nulls(old, side, context)
            sides = (_kept(old.left), _kept(old.right))
        return flinkx_either(*sides)
    if isinstance(old, ListOf):
        return _of_traversable(old, context)
    if isinstance(old, Scalar) and old.name == "Unit":
        new = Scalar("Unit", "Unit", SingletonValue(0), 0, f"{PACKAGE}UnitSerializer$UnitSerializerSnapshot")
        return Migrated(old, new)
    if isinstance(old, Scalar):
        return replace(old, snapshot_class=f"{PACKAGE}NothingSerializerSnapshot")
    what = f"the Enumeration {old.class_name}" if isinstance(old, EnumOf) else old.type_name
    raise _refused(what)


def _of_traversable(old: ListOf, context: LayoutContext) -> Serializer:
    found = _BUILDER.search(old.component)
    name = _BEFORE_A_NAME.sub("", found.group(1)) if found else ""
    if name in _MAPS:
        pair = old.element.old if isinstance(old.element, Migrated) else None
        if not isinstance(pair, CaseClass) or len(pair.fields) != 2:
            raise _refused(f"the collection {name}[{old.element.type_name}]")
        key, value = pair.fields
        return Migrated(_Pairs(key, value), ScalaMap(_MAPS[name], key, value, _VERSION if _MAPS[name] == MAP else 1))
    if name not in _COLLECTIONS:
        raise _refused(f"the collection {found.group(1) if found else old.component!r}")
    _refuse_two_nulls(old, old.element, context)
    return _pair(replace(old, element=_kept(old.element)), _collection(_COLLECTIONS[name], old.element))


def _pair(old: ListOf, new: Serializer) -> Migrated:
    assert isinstance(new, ScalaCollection)
    return Migrated(old, replace(new, element=old.element))


def _collection(kind: str, element: Serializer, element_class: str = "") -> ScalaCollection:
    return ScalaCollection(f"{PACKAGE}{kind}Serializer", element_class or _class_of(element), element, _VERSION)


def _class_of(element: Serializer) -> str:
    """Return the class of a collection's elements: what is not known is an Object, of which no array is made."""
    found = element.new if isinstance(element, Migrated) else element
    if isinstance(found, CaseClass | Pojo):
        return found.class_name
    if isinstance(found, FlinkxOption):
        return "scala.Option"
    if isinstance(found, EitherOf) and found.snapshot_class:
        return "scala.util.Either"
    if isinstance(found, Scalar) and found.name in ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double"):
        return f"java.lang.{_BOXES.get(found.name, found.name)}"
    if isinstance(found, Scalar) and found.name in ("Char", "String"):
        return f"java.lang.{_BOXES.get(found.name, found.name)}"
    return _OBJECT


def _kept(part: Serializer) -> Serializer:
    """Return a part as its bytes, unless some in it are written otherwise: values of Kryo may be."""
    is_kept = isinstance(part, _Kept) or _any(part, lambda inner: isinstance(inner, Migrated | Kryo))
    return part if is_kept else _Kept(part)


def _refuse_two_nulls(old: Serializer, part: Serializer, context: LayoutContext) -> None:
    """Refuse a part that has nulls of its own below a mark of a null: columns do not distinguish them."""
    is_unit = isinstance(part, Migrated) and isinstance(part.new, Scalar)
    if is_migrated(part) and not is_unit and part.layout(context.inner).encodes_null:
        raise _refused(f"{old.type_name}, of which both the value and what is in it may be null or None,")


def _refused(what: str) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(f"{what} has no counterpart in flink-scala-api that its values fit", advice=_ADVICE)


def _with_parts(serializer: Serializer, context: LayoutContext) -> Serializer:
    """Return a serializer with the counterparts of its parts.

    Equal serializers may have snapshots of different classes, so that parts are compared by identity.
    """
    changed: dict[str, Any] = {}
    for item in fields(serializer):  # type: ignore[arg-type]
        value = getattr(serializer, item.name)
        made = _part(value, context)
        if made is not value:
            changed[item.name] = made
    return replace(serializer, **changed) if changed else serializer  # type: ignore[type-var]


def _part(value: Any, context: LayoutContext) -> Any:
    if isinstance(value, Serializer):
        return _migrated(value, context)
    if isinstance(value, tuple):
        made = tuple(_part(item, context) for item in value)
        return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
    inner = getattr(value, "serializer", None)  # a subclass of a POJO
    if isinstance(inner, Serializer):
        found = _migrated(inner, context)
        return value if found is inner else replace(value, serializer=found)
    return value


def _any(serializer: Serializer, test: Any) -> bool:
    return bool(test(serializer)) or any(_any_in(getattr(serializer, item.name), test) for item in fields(serializer))  # type: ignore[arg-type]


def _any_in(value: Any, test: Any) -> bool:
    if isinstance(value, Serializer):
        return _any(value, test)
    if isinstance(value, tuple):
        return any(_any_in(item, test) for item in value)
    inner = getattr(value, "serializer", None)
    return isinstance(inner, Serializer) and _any(inner, test)
