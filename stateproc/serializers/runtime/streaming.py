"""Read and write what streaming operators keep: elements that they buffer, timers, windows as namespaces."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.builder import Builder, Label
from stateproc.codec.layouts import AlwaysNull, Boolean, Choice, ChoiceOption, Converted, Layout, Number, StructLayout
from stateproc.codec.layouts.variants import UNNAMED, StructVariant, VariantStruct
from stateproc.codec.temporal import ints, nulls
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer, fixed_sum
from stateproc.serializers.core.registry import CompositeSerializer, composite_snapshot, simple_snapshot, write_simple
from stateproc.wire import Output

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


# Timers: org.apache.flink.streaming.api.operators.TimerSerializer.


_TIMER = "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot"


def unflip(timestamps: pa.Array) -> pa.Array:
    """Undo TimerSerializer's flip of the sign bit, which makes byte order time order; its own inverse."""
    return values_array(ints(timestamps) ^ np.int64(-(2**63)), nulls(timestamps))


@composite_snapshot(_TIMER, outer_version=2)
@dataclass(frozen=True)
class Timer(CompositeSerializer):
    """TimerSerializer: i64 timestamp with the sign flipped, key, namespace."""

    key: Serializer
    namespace: Serializer
    type_pattern = "Timer<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        timestamp = Converted(Number(pa.int64()), pa.int64(), unflip, inverse=unflip)
        inner = ctx.inner
        return StructLayout(
            (
                ("timestamp", timestamp),
                ("key", self.key.layout(inner)),
                ("namespace", self.namespace.layout(inner)),
            )
        )

    @property
    def length(self) -> int:
        return fixed_sum((self.key, self.namespace), 8)


# Windows as namespaces: TimeWindow and GlobalWindow of the DataStream API and of SQL.


_WINDOW = "org.apache.flink.{}.{}$Serializer${}SerializerSnapshot"
_STREAM_WINDOWS, _TABLE_WINDOWS = "streaming.api.windowing.windows", "table.runtime.operators.window"


@dataclass(frozen=True)
class TimeWindow(Serializer):
    """TimeWindow.Serializer: i64 start, i64 end (exclusive), ms. ``table``: SQL's class of that name."""

    table: bool = field(default=False, compare=False)
    length = 16
    type_name = "TimeWindow"

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout((("start", Number(pa.int64())), ("end", Number(pa.int64()))))

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_simple(out, _snapshot_class(self.type_name, self.table), release)


@dataclass(frozen=True)
class GlobalWindow(Serializer):
    """GlobalWindow.Serializer: one byte without information. ``table``: SQL's class of that name."""

    table: bool = field(default=False, compare=False)
    length = 1
    type_name = "GlobalWindow"

    def layout(self, ctx: LayoutContext) -> Layout:
        return AlwaysNull(1)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_simple(out, _snapshot_class(self.type_name, self.table), release)


def _snapshot_class(name: str, table: bool) -> str:
    return _WINDOW.format(_TABLE_WINDOWS if table else _STREAM_WINDOWS, name, name)


for _window in (TimeWindow(), GlobalWindow(), TimeWindow(table=True), GlobalWindow(table=True)):
    simple_snapshot(_window, _snapshot_class(_window.type_name, _window.table))
