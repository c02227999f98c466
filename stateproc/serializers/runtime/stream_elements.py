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
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    composite_snapshot,
)

_ELEMENT = "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot"
_RENAMED_ELEMENT = "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializerSnapshot"
_UNION = "org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot"
_BUFFER_ENTRY = "org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot"


def _by_tag(b: Builder, ways: list[Label], null_way: Label, *, tags: tuple[int, ...]) -> None:
    pairs: list[int | Label] = []
    for tag, way in zip(tags, ways, strict=True):
        pairs += (tag, way)
    b.op(ops.SWITCH, 1, len(tags), -1, *pairs)


@composite_snapshot(_ELEMENT, _RENAMED_ELEMENT, outer_version=2)
@dataclass(frozen=True)
class StreamElement(CompositeSerializer):
    """StreamElementSerializer: a record with or without timestamp (evicting windows keep those), or a marker.

    Seen as struct<element, timestamp, value>; element is 'record' but for markers, which state never holds.
    """

    value: Serializer
    type_pattern = "StreamElement<{}>"

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


@composite_snapshot(_UNION, outer_version=2)
@dataclass(frozen=True)
class Union(CompositeSerializer):
    """CoGroupedStreams.UnionSerializer: 1 and a value of the first input, or 2 and one of the second."""

    one: Serializer
    two: Serializer
    type_pattern = "TaggedUnion<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        return Choice(
            (ChoiceOption(1, "one", self.one.layout(ctx.inner)), ChoiceOption(2, "two", self.two.layout(ctx.inner)))
        )


@composite_snapshot(_BUFFER_ENTRY, outer_version=2)
@dataclass(frozen=True)
class BufferEntry(CompositeSerializer):
    """IntervalJoinOperator.BufferEntrySerializer: whether the element has been joined, the element."""

    element: Serializer
    type_pattern = "BufferEntry<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout((("has_been_joined", Boolean()), ("element", self.element.layout(ctx.inner))))
