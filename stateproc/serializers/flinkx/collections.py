"""Read and write the collections, maps, options, eithers and mapped values of flink-scala-api.

Snapshots (org.apache.flinkx.api.serializer); the parts are without version in version 1, versioned from 2 on:
* CollectionSerializerSnapshot (List, ::, Seq, Vector, Set, Array, mutable ones): utf serializer class, utf element
  class, the element's snapshot. SortedCollectionSerializerSnapshot: the same, then the ordering's snapshot.
* MapSerializer$MapSerializerSnapshot: the snapshots of key and value. MutableMapSerializerSnapshot (versioned in
  version 1), SortedMapSerializerSnapshot and MutableSortedMapSerializerSnapshot (the same, then the ordering's).
* MappedSerializer$MappedSerializerSnapshot: utf class of the mapper; version 1: utf class of the serializer, without a
  snapshot; version 2: the serializer's snapshot.
* ScalaOptionSerializerSnapshot, ScalaEitherSerializerSnapshot: composites.

Values: i32 n and n items, or keys and values; −2³¹ is a null of mutable and sorted ones; sorted ones have the ordering
after n. Option: 0, or 1 and the value. Either: 1 and the left value, 0 and the right one. Mapped: what the mapper
makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stateproc.codec.layouts import Counted, Layout, MapLayout, StructLayout
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.core.registry import composite, composite_snapshot, expect_version, write_head
from stateproc.serializers.flinkx.layouts import (
    PACKAGE,
    UNVERSIONED,
    NullableCounted,
    NullableMap,
    flinkx_snapshot,
    read_part,
    serializer_of_class,
    write_part,
)
from stateproc.serializers.java.structs import EitherOf
from stateproc.serializers.scala import OptionOf
from stateproc.wire import Cursor, Output

_COLLECTION, _SORTED_COLLECTION = "CollectionSerializerSnapshot", "SortedCollectionSerializerSnapshot"
MAP = "MapSerializer$MapSerializerSnapshot"
_MAPS_WITH_NULL = {
    "MutableMapSerializerSnapshot": False,
    "SortedMapSerializerSnapshot": True,
    "MutableSortedMapSerializerSnapshot": True,
}
"""Class of the snapshot → whether an ordering follows."""
_MAPPED = "MappedSerializer$MappedSerializerSnapshot"
_EITHER, _OPTION = "ScalaEitherSerializerSnapshot", "ScalaOptionSerializerSnapshot"
_MAY_BE_NULL = ("Mutable", "Sorted")


@dataclass(frozen=True)
class ScalaCollection(Serializer):
    """A collection or array. ``ordering``: of a sorted one; its bytes are read over, so that it is read only."""

    serializer_class: str
    element_class: str
    element: Serializer
    version: int
    ordering: Serializer | None = None

    def layout(self, ctx: LayoutContext) -> Layout:
        item = self.element.layout(ctx.inner)
        if not self.kind.startswith(_MAY_BE_NULL):
            return Counted(item)
        return NullableCounted(item, lead=None if self.ordering is None else self.ordering.layout(ctx.inner))

    @property
    def kind(self) -> str:
        """The kind of collection: List, Seq, MutableSet …"""
        return self.serializer_class.rsplit(".", 1)[-1].removesuffix("Serializer")

    @property
    def type_name(self) -> str:
        return f"{self.element.type_name}[]" if self.kind == "Array" else f"{self.kind}[{self.element.type_name}]"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.element,)

    def write_snapshot(self, out: Output, release: Release) -> None:
        name = _COLLECTION if self.ordering is None else _SORTED_COLLECTION
        write_head(out, PACKAGE + name, self.version, release)
        out.utf(self.serializer_class)
        out.utf(self.element_class)
        for part in (self.element, self.ordering):
            if part is not None:
                write_part(part, out, release, versioned=self.version > UNVERSIONED)


@flinkx_snapshot(_COLLECTION)
def _read_collection(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, _COLLECTION, version, 1, 2)
    names = cursor.utf(), cursor.utf()
    return ScalaCollection(*names, read_part(cursor, versioned=version > UNVERSIONED), version)


@flinkx_snapshot(_SORTED_COLLECTION)
def _read_sorted_collection(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, _SORTED_COLLECTION, version, 2)
    names = cursor.utf(), cursor.utf()
    element = read_part(cursor, versioned=True)
    return ScalaCollection(*names, element, version, read_part(cursor, versioned=True))


@dataclass(frozen=True)
class ScalaMap(Serializer):
    """A map. ``snapshot_name``: the class of its snapshot; ``ordering`` as of `ScalaCollection`."""

    snapshot_name: str
    key: Serializer
    value: Serializer
    version: int
    ordering: Serializer | None = None

    def layout(self, ctx: LayoutContext) -> Layout:
        inner = ctx.inner
        entry = StructLayout((("key", self.key.layout(inner)), ("value", self.value.layout(inner))))
        if self.snapshot_name == MAP:
            return MapLayout(Counted(entry))
        return NullableMap(NullableCounted(entry, lead=None if self.ordering is None else self.ordering.layout(inner)))

    @property
    def type_name(self) -> str:
        kind = self.snapshot_name.partition("Serializer")[0]
        return f"{kind}[{self.key.type_name}, {self.value.type_name}]"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.key, self.value)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, PACKAGE + self.snapshot_name, self.version, release)
        for part in (self.key, self.value, self.ordering):
            if part is not None:
                write_part(part, out, release, versioned=self.version > UNVERSIONED or self.snapshot_name != MAP)


@flinkx_snapshot(MAP)
def _read_map(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, MAP, version, 1, 2)
    key, value = (read_part(cursor, versioned=version > UNVERSIONED) for _ in range(2))
    return ScalaMap(MAP, key, value, version)


def _register_map(name: str, *, is_sorted: bool) -> None:
    @flinkx_snapshot(name)
    def read(cursor: Cursor, version: int) -> Serializer:
        expect_version(cursor, name, version, 1)
        key, value = (read_part(cursor, versioned=True) for _ in range(2))
        return ScalaMap(name, key, value, version, read_part(cursor, versioned=True) if is_sorted else None)


for _name, _sorted in _MAPS_WITH_NULL.items():
    _register_map(_name, is_sorted=_sorted)


@dataclass(frozen=True)
class Mapped(Serializer):
    """A value that a TypeMapper turns into one of another type, which is what is written and shown."""

    mapper: str
    inner: Serializer
    version: int = field(compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return self.inner.layout(ctx)

    @property
    def length(self) -> int:
        return self.inner.length

    @property
    def type_name(self) -> str:
        return self.inner.type_name

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return self.inner.nested

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, PACKAGE + _MAPPED, self.version, release)
        out.utf(self.mapper)
        if self.version > UNVERSIONED:
            write_part(self.inner, out, release, versioned=True)
        elif isinstance(self.inner, Opaque):
            out.utf(self.inner.class_name)
        else:
            snapshot = Output()
            self.inner.write_snapshot(snapshot, release)
            name = Cursor(bytes(snapshot)).utf()
            out.utf(name.partition("$")[0] if "$" in name else name.removesuffix("Snapshot"))


@flinkx_snapshot(_MAPPED)
def _read_mapped(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, _MAPPED, version, 1, 2)
    mapper = cursor.utf()
    inner = serializer_of_class(cursor.utf()) if version == UNVERSIONED else read_part(cursor, versioned=True)
    return Mapped(mapper, inner, version)


@composite_snapshot(PACKAGE + _OPTION, outer_version=2)
@dataclass(frozen=True)
class FlinkxOption(OptionOf):
    """An Option: the value, or null for None."""


@flinkx_snapshot(_EITHER)
def _read_either(cursor: Cursor, version: int) -> Serializer:
    return flinkx_either(*composite(cursor, version, 2))


def flinkx_either(left: Serializer, right: Serializer) -> EitherOf:
    """Return the serializer of an Either."""
    return EitherOf(left, right, PACKAGE + _EITHER)
