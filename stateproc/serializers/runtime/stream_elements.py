"""Read and write elements that operators buffer: stream elements, tagged unions, interval join entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Builder, Label
from stateproc.codec.layouts import (
    AlwaysNull,
    Boolean,
    Choice,
    ChoiceOption,
    Layout,
    Number,
    StructLayout,
)
from stateproc.codec.layouts.variants import UNNAMED, StructVariant, VariantStruct
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import (
    composite,
    snapshot,
    write_composite,
)
from stateproc.wire import Cursor, Output

_ELEMENT = "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot"
_UNION = "org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot"
_BUFFER_ENTRY = "org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot"


def _by_tag(b: Builder, ways: list[Label], null_way: Label, *, tags: tuple[int, ...]) -> None:
    pairs: list[int | Label] = []
    for tag, way in zip(tags, ways, strict=True):
        pairs += (tag, way)
    b.op(ops.SWITCH, 1, len(tags), -1, *pairs)


@dataclass(frozen=True)
class StreamElement(Serializer):
    """StreamElementSerializer: a record with or without timestamp (evicting windows keep those), or a marker.

    Seen as struct<element, timestamp, value>; element is 'record' but for markers, which state never holds.
    """

    value: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        value, time = ("value", self.value.layout(ctx.inner)), ("timestamp", Number(pa.int64()))
        shapes = (
            StructVariant("record", (time, value), b"\0"),
            StructVariant("record", (value,), b"\1"),
            StructVariant("watermark", (time,), b"\2"),
            StructVariant("latency marker", (time, (UNNAMED, AlwaysNull(20)))),
            StructVariant("status", ((UNNAMED, Number(pa.int32())),)),
            StructVariant("attributes", ((UNNAMED, Boolean()),)),
            StructVariant("internal watermark", ((UNNAMED, Number(pa.int32())), time)),
        )
        return VariantStruct(shapes, partial(_by_tag, tags=tuple(range(7))), "element")

    @property
    def type_name(self) -> str:
        return f"StreamElement<{self.value.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.value,)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, _ELEMENT, 2, self.nested, release)


@snapshot(
    _ELEMENT,
    "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializerSnapshot",
)
def _read_stream_element(cursor: Cursor, version: int) -> Serializer:
    (value,) = composite(cursor, version, 1)
    return StreamElement(value)


@dataclass(frozen=True)
class Union(Serializer):
    """CoGroupedStreams.UnionSerializer: 1 and a value of the first input, or 2 and one of the second."""

    one: Serializer
    two: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return Choice(
            (ChoiceOption(1, "one", self.one.layout(ctx.inner)), ChoiceOption(2, "two", self.two.layout(ctx.inner)))
        )

    @property
    def type_name(self) -> str:
        return f"TaggedUnion<{self.one.type_name}, {self.two.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.one, self.two)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, _UNION, 2, self.nested, release)


@snapshot(_UNION)
def _read_union(cursor: Cursor, version: int) -> Serializer:
    one, two = composite(cursor, version, 2)
    return Union(one, two)


@dataclass(frozen=True)
class BufferEntry(Serializer):
    """IntervalJoinOperator.BufferEntrySerializer: whether the element has been joined, the element."""

    element: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout((("has_been_joined", Boolean()), ("element", self.element.layout(ctx.inner))))

    @property
    def type_name(self) -> str:
        return f"BufferEntry<{self.element.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.element,)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, _BUFFER_ENTRY, 2, self.nested, release)


@snapshot(_BUFFER_ENTRY)
def _read_buffer_entry(cursor: Cursor, version: int) -> Serializer:
    (element,) = composite(cursor, version, 1)
    return BufferEntry(element)
