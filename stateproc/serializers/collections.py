"""Lists, maps, sets and arrays."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.layouts import (
    Blob,
    Counted,
    FlinkString,
    Layout,
    Mapping,
    Marked,
    MaskedList,
    Numbers,
    Struct,
)
from stateproc.serializers.base import LayoutContext, Serializer
from stateproc.serializers.registry import composite, simple, snapshot
from stateproc.wire import Cursor

_BASE = "org.apache.flink.api.common.typeutils.base."
_ARRAYS = _BASE + "array."

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

    def layout(self, ctx: LayoutContext) -> Layout:
        return self.bytes

    @property
    def type_name(self) -> str:
        return f"{self.element}[]"


def _register_array(name: str, element: str, layout: Layout) -> None:
    @snapshot(f"{_ARRAYS}{name}Serializer${name}SerializerSnapshot")
    def read(cursor: Cursor, version: int) -> Serializer:
        simple(cursor, version, name)
        return PlainArray(element, layout)


for _name, _layout in PRIMITIVE_ARRAYS:
    _register_array(f"{_name}PrimitiveArray", {"Int": "int"}.get(_name, _name.lower()), _layout)
_register_array("StringArray", "String", Counted(FlinkString()))


@dataclass(frozen=True)
class ListOf(Serializer):
    """ListSerializer, ArrayListSerializer (no null marks), SetSerializer (1 marks a null), arrays and
    Traversables (0 marks a null). ``null_byte``: that mark, None without marks."""

    kind: str
    element: Serializer
    null_byte: int | None = None

    def layout(self, ctx: LayoutContext) -> Layout:
        return Counted(self.item_layout(ctx))

    def item_layout(self, ctx: LayoutContext) -> Layout:
        """How one item lies, its null mark included."""
        item = self.element.layout(ctx.inner)
        return item if self.null_byte is None else Marked(item, self.null_byte)

    @property
    def type_name(self) -> str:
        return f"{self.element.type_name}[]" if self.kind == "Array" else f"{self.kind}<{self.element.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.element,)


@snapshot(
    _BASE + "ListSerializerSnapshot",
    "org.apache.flink.runtime.state.ArrayListSerializerSnapshot",
    "org.apache.flink.table.dataview.ListViewSerializerSnapshot$ListSerializerSnapshot",
)
def _read_list(cursor: Cursor, version: int) -> Serializer:
    (element,) = composite(cursor, version, 1)
    return ListOf("List", element)


@snapshot(_BASE + "SetSerializerSnapshot")
def _read_set(cursor: Cursor, version: int) -> Serializer:
    (element,) = composite(cursor, version, 1)
    return ListOf("Set", element, null_byte=1)


@snapshot(_BASE + "GenericArraySerializerSnapshot")
def _read_array(cursor: Cursor, version: int) -> Serializer:
    def component_class(outer: Cursor, _version: int) -> None:
        outer.utf()

    (element,) = composite(cursor, version, 1, component_class)
    return ListOf("Array", element, null_byte=0)


@dataclass(frozen=True)
class MapOf(Serializer):
    """MapSerializer: values have a null mark, keys none."""

    key: Serializer
    value: Serializer
    kind: str = "Map"

    def layout(self, ctx: LayoutContext) -> Layout:
        return Mapping.of(self.key.layout(ctx.inner), self.value_layout(ctx.inner))

    def value_layout(self, ctx: LayoutContext) -> Layout:
        """How one value lies, its null mark included."""
        return Marked(self.value.layout(ctx))

    @property
    def type_name(self) -> str:
        return f"{self.kind}<{self.key.type_name}, {self.value.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.key, self.value)


@snapshot(_BASE + "MapSerializerSnapshot")
def _read_map(cursor: Cursor, version: int) -> Serializer:
    key, value = composite(cursor, version, 2)
    return MapOf(key, value)


@dataclass(frozen=True)
class NullAwareMap(Serializer):
    """NullAwareMapSerializer: keys may be null, which no Arrow map can hold; a list of entries instead."""

    key: Serializer
    value: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        key, value = Marked(self.key.layout(ctx.inner)), Marked(self.value.layout(ctx.inner))
        return Counted(Struct((("key", key), ("value", value))))

    @property
    def type_name(self) -> str:
        return f"Map<{self.key.type_name}?, {self.value.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.key, self.value)


@dataclass(frozen=True)
class MaskedListOf(Serializer):
    """Table's LinkedListSerializer."""

    element: Serializer
    has_mask: bool

    def layout(self, ctx: LayoutContext) -> Layout:
        return MaskedList(self.element.layout(ctx.inner), self.has_mask)

    @property
    def type_name(self) -> str:
        return f"LinkedList<{self.element.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.element,)
