"""Read and write lists, maps, sets and arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.layouts import (
    Blob,
    Counted,
    FlinkString,
    Layout,
    MapLayout,
    Marked,
    MaskedList,
    Numbers,
    StructLayout,
)
from stateproc.errors import UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    composite_reader,
    composite_with,
    expect_version,
    simple_snapshot,
    snapshot,
    write_composite,
    write_head,
    write_nested,
    write_simple,
)
from stateproc.wire import Cursor, Output

_BASE = "org.apache.flink.api.common.typeutils.base."
_ARRAYS = _BASE + "array."
_LIST, _SET, _ARRAY = (_BASE + f"{name}SerializerSnapshot" for name in ("List", "Set", "GenericArray"))
_ARRAY_LIST = "org.apache.flink.runtime.state.ArrayListSerializerSnapshot"
_MAP = _BASE + "MapSerializerSnapshot"
_DATA_VIEW = "org.apache.flink.table.dataview."
_NULL_AWARE_MAP = _DATA_VIEW + "NullAwareMapSerializerSnapshot"
_LINKED_LIST = "org.apache.flink.table.runtime.typeutils.LinkedListSerializer$LinkedListSerializerSnapshot"
SORTED_MAP = "org.apache.flink.table.runtime.typeutils.SortedMapSerializerSnapshot"
LIST_VIEW, MAP_VIEW = (_DATA_VIEW + f"{name}ViewSerializerSnapshot" for name in ("List", "Map"))
_LISTS = {"List": _LIST, "Set": _SET, "Array": _ARRAY}
_LINKED_LIST_FLAG, _SETS = Release(1, 14), Release(2, 0)

PRIMITIVE_ARRAYS: tuple[tuple[str, Layout], ...] = (
    ("Boolean", Numbers(pa.bool_())),
    ("Byte", Blob(ops.LENGTH_I32)),
    ("Short", Numbers(pa.int16())),
    ("Int", Numbers(pa.int32())),
    ("Long", Numbers(pa.int64())),
    ("Float", Numbers(pa.float32())),
    ("Double", Numbers(pa.float64())),
)


@dataclass(frozen=True)
class PlainArray(Serializer):
    """An array without parameters: primitive arrays, String[]."""

    element: str
    bytes: Layout
    snapshot_class: str = field(default="", compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return Counted(FlinkString(strict=True)) if ctx.strict and self.element == "String" else self.bytes

    @property
    def type_name(self) -> str:
        return f"{self.element}[]"

    def write_snapshot(self, out: Output, release: Release) -> None:
        name = "StringArray" if self.element == "String" else f"{self.element.capitalize()}PrimitiveArray"
        write_simple(out, self.snapshot_class or f"{_ARRAYS}{name}Serializer${name}SerializerSnapshot", release)


def _register_array(name: str, element: str, layout: Layout) -> None:
    class_name = f"{_ARRAYS}{name}Serializer${name}SerializerSnapshot"
    simple_snapshot(PlainArray(element, layout, class_name), class_name)


for _name, _layout in PRIMITIVE_ARRAYS:
    _register_array(f"{_name}PrimitiveArray", _name.lower(), _layout)
_register_array("StringArray", "String", Counted(FlinkString()))


@dataclass(frozen=True)
class ListOf(CompositeSerializer):
    """ListSerializer, ArrayListSerializer (no null marks), SetSerializer (1 marks a null), arrays and
    Traversables (0 marks a null). ``null_byte``: that mark, None without marks.

    ``snapshot_class``: where it is not the one that goes with the kind. ``component``: an array's component class,
    a Traversable's builder. ``in_view``: whether a ListView stands around it, which adds no bytes to values.
    """

    kind: str
    element: Serializer
    null_byte: int | None = None
    snapshot_class: str = field(default="", compare=False)
    component: str = field(default="", compare=False)
    in_view: bool = field(default=False, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return Counted(self.item_layout(ctx))

    def item_layout(self, ctx: LayoutContext) -> Layout:
        """Return the layout of an item, its null mark included."""
        item = self.element.layout(ctx.inner)
        return item if self.null_byte is None else Marked(item, self.null_byte)

    @property
    def type_name(self) -> str:
        return f"{self.element.type_name}[]" if self.kind == "Array" else f"{self.kind}<{self.element.type_name}>"

    def write_snapshot(self, out: Output, release: Release) -> None:
        if self.in_view:
            write_composite(out, LIST_VIEW, 1, (replace(self, in_view=False),), release)
            return
        if self.kind == "Set" and release < _SETS:
            raise UnsupportedSnapshot(
                f"a {self.type_name} is of Flink {_SETS} and later, not of {release}",
                advice="take a List or a Map, or write for a later release",
            )
        class_name = self.snapshot_class or _LISTS.get(self.kind, "")
        outer = None if self.kind in ("List", "Set") else self._write_component
        if not class_name or (outer is not None and not self.component):
            super().write_snapshot(out, release)
        write_composite(out, class_name, 2 if self.kind == "Traversable" else 1, (self.element,), release, outer)

    def _write_component(self, out: Output) -> None:
        out.utf(self.component)


for _class_name in (_LIST, _ARRAY_LIST, LIST_VIEW + "$ListSerializerSnapshot"):
    composite_reader(_class_name, n=1, make=partial(ListOf, "List", snapshot_class=_class_name))
composite_reader(_SET, n=1, make=partial(ListOf, "Set", null_byte=1))


@snapshot(_ARRAY)
def _read_array(cursor: Cursor, version: int) -> Serializer:
    component, (element,) = composite_with(cursor, version, 1, lambda outer, _: outer.utf())
    return ListOf("Array", element, null_byte=0, component=component)


@dataclass(frozen=True)
class MapOf(CompositeSerializer):
    """MapSerializer: values have a null mark, keys none. Table's SortedMap has a Java object as ``comparator``.

    ``order``: what that says of each field of keys: whether it ascends, and whether null is last; None if not known.
    ``in_view``: whether a MapView stands around it, which adds no bytes to values.
    """

    key: Serializer
    value: Serializer
    kind: str = "Map"
    comparator: bytes = field(default=b"", compare=False)
    order: tuple[tuple[bool, bool], ...] | None = field(default=None, compare=False)
    in_view: bool = field(default=False, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return MapLayout.of(self.key.layout(ctx.inner), self.value_layout(ctx.inner))

    def value_layout(self, ctx: LayoutContext) -> Layout:
        """Return the layout of a value, its null mark included."""
        return Marked(self.value.layout(ctx))

    @property
    def type_name(self) -> str:
        return f"{self.kind}<{self.key.type_name}, {self.value.type_name}>"

    def write_snapshot(self, out: Output, release: Release) -> None:
        if self.in_view:
            write_composite(out, MAP_VIEW, 1, (replace(self, in_view=False),), release)
        elif self.kind == "Map":
            write_composite(out, _MAP, 1, self.nested, release)
        elif self.kind == "SortedMap" and self.comparator:
            write_head(out, SORTED_MAP, 3, release)
            out.raw(self.comparator)
            write_nested(out, self.nested, release)
        else:
            super().write_snapshot(out, release)


composite_reader(_MAP, n=2, make=MapOf)


@dataclass(frozen=True)
class NullAwareMap(CompositeSerializer):
    """NullAwareMapSerializer: keys may be null, which no Arrow map can hold; a list of entries instead."""

    key: Serializer
    value: Serializer
    in_view: bool = field(default=False, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        key, value = Marked(self.key.layout(ctx.inner)), Marked(self.value.layout(ctx.inner))
        return Counted(StructLayout((("key", key), ("value", value))))

    @property
    def type_name(self) -> str:
        return f"Map<{self.key.type_name}?, {self.value.type_name}>"

    def write_snapshot(self, out: Output, release: Release) -> None:
        if self.in_view:
            write_composite(out, MAP_VIEW, 1, (replace(self, in_view=False),), release)
        else:
            write_composite(out, _NULL_AWARE_MAP, 1, self.nested, release)


composite_reader(_NULL_AWARE_MAP, n=2, make=NullAwareMap)


@dataclass(frozen=True)
class MaskedListOf(CompositeSerializer):
    """Table's LinkedListSerializer. Outer version 3 says whether there is a mask, 2 means one, 1 none."""

    element: Serializer
    has_mask: bool
    type_pattern = "LinkedList<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        return MaskedList(self.element.layout(ctx.inner), self.has_mask)

    def write_snapshot(self, out: Output, release: Release) -> None:
        outer_version = 3 if release >= _LINKED_LIST_FLAG else 2 if self.has_mask else 1
        flag = (lambda outer: outer.boolean(self.has_mask)) if outer_version == 3 else None
        write_composite(out, _LINKED_LIST, outer_version, self.nested, release, flag)


@snapshot(_LINKED_LIST)
def _read_linked_list(cursor: Cursor, version: int) -> Serializer:
    def read_flag(outer: Cursor, outer_version: int) -> bool:
        expect_version(outer, "LinkedListSerializerSnapshot", outer_version, 1, 2, 3)
        return outer.boolean() if outer_version >= 3 else outer_version == 2

    has_mask, (element,) = composite_with(cursor, version, 1, read_flag)
    return MaskedListOf(element, has_mask)
