"""Serializers of Flink's runtime: TTL, timers, windows, stream elements, unions, join buffers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Builder, Label
from stateproc.codec.layouts import (
    Boolean,
    Choice,
    Converted,
    Layout,
    Nothing,
    Number,
    Option,
    Struct,
)
from stateproc.codec.layouts.merging import NAMELESS, Merged, Shape
from stateproc.codec.temporal import ints
from stateproc.serializers.base import LayoutContext, Serializer, fixed_sum
from stateproc.serializers.registry import composite, expect_version, read_versioned, simple, snapshot
from stateproc.serializers.scalars import Scalar
from stateproc.wire import Cursor

_I32, _I64 = Number(pa.int32()), Number(pa.int64())
LAST_ACCESS = "last_access"


@dataclass(frozen=True)
class Ttl(Serializer):
    """TtlStateFactory.TtlSerializer: i64 last access (ms since the epoch), the user's value."""

    value: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return Struct(((LAST_ACCESS, _I64), ("value", self.value.layout(ctx))))

    @property
    def length(self) -> int:
        return fixed_sum((self.value,), 8)

    @property
    def type_name(self) -> str:
        return f"Ttl<{self.value.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.value,)


@snapshot(
    "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot",
    "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot",
)
def _read_ttl(cursor: Cursor, version: int) -> Serializer:
    at = cursor.pos
    timestamp, value = composite(cursor, version, 2)
    if timestamp.length != 8:
        cursor.corrupt("a TTL serializer's timestamp is no long", at=at)
    return Ttl(value)


@snapshot("org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot")
def _read_ttl_aware(cursor: Cursor, version: int) -> Serializer:
    # Wraps the serializer that writes the values, be it a TtlSerializer or not: it adds no bytes of its own.
    expect_version(cursor, "TtlAwareSerializerSnapshot", version, 1)
    cursor.boolean()
    return read_versioned(cursor)


def unflip(timestamps: pa.Array) -> pa.Array:
    """Undo TimerSerializer's flip of the sign bit, which makes byte order time order."""
    return pa.array(ints(timestamps) ^ np.int64(-(2**63)))


@dataclass(frozen=True)
class Timer(Serializer):
    """TimerSerializer: i64 timestamp with the sign flipped, key, namespace."""

    key: Serializer
    namespace: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        timestamp = Converted(_I64, pa.int64(), unflip)
        inner = ctx.inner
        return Struct(
            (
                ("timestamp", timestamp),
                ("key", self.key.layout(inner)),
                ("namespace", self.namespace.layout(inner)),
            )
        )

    @property
    def length(self) -> int:
        return fixed_sum((self.key, self.namespace), 8)

    @property
    def type_name(self) -> str:
        return f"Timer<{self.key.type_name}, {self.namespace.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.key, self.namespace)


@snapshot("org.apache.flink.streaming.api.operators.TimerSerializerSnapshot")
def _read_timer(cursor: Cursor, version: int) -> Serializer:
    key, namespace = composite(cursor, version, 2)
    return Timer(key, namespace)


@dataclass(frozen=True)
class TimeWindow(Serializer):
    """TimeWindow.Serializer: i64 start, i64 end (exclusive), ms."""

    def layout(self, ctx: LayoutContext) -> Layout:
        return Struct((("start", _I64), ("end", _I64)))

    @property
    def length(self) -> int:
        return 16

    @property
    def type_name(self) -> str:
        return "TimeWindow"


@dataclass(frozen=True)
class GlobalWindow(Serializer):
    """GlobalWindow.Serializer: one byte that says nothing."""

    def layout(self, ctx: LayoutContext) -> Layout:
        return Nothing(1)

    @property
    def length(self) -> int:
        return 1

    @property
    def type_name(self) -> str:
        return "GlobalWindow"


def _register_window(name: str, serializer: Serializer) -> None:
    for package in ("streaming.api.windowing.windows", "table.runtime.operators.window"):

        @snapshot(f"org.apache.flink.{package}.{name}$Serializer${name}SerializerSnapshot")
        def read(cursor: Cursor, version: int) -> Serializer:
            simple(cursor, version, name)
            return serializer


_register_window("TimeWindow", TimeWindow())
_register_window("GlobalWindow", GlobalWindow())


def _by_tag(b: Builder, ways: list[Label], null_way: Label, *, tags: tuple[int, ...]) -> None:
    pairs: list[int | Label] = []
    for tag, way in zip(tags, ways, strict=True):
        pairs += (tag, way)
    b.op(ops.SWITCH, 1, len(tags), -1, *pairs)


@snapshot("org.apache.flink.table.runtime.operators.window.CountWindow$Serializer$CountWindowSerializerSnapshot")
def _read_count_window(cursor: Cursor, version: int) -> Serializer:
    simple(cursor, version, "CountWindowSerializerSnapshot")
    return Scalar("CountWindow", "CountWindow", _I64, 8)


@dataclass(frozen=True)
class StreamElement(Serializer):
    """StreamElementSerializer: a record with or without timestamp (evicting windows keep those), or a marker.

    Seen as struct<element, timestamp, value>; element is 'record' but for markers, which state never holds.
    """

    value: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        value, time = ("value", self.value.layout(ctx.inner)), ("timestamp", _I64)
        shapes = (
            Shape("record", (time, value)),
            Shape("record", (value,)),
            Shape("watermark", (time,)),
            Shape("latency marker", (time, (NAMELESS, Nothing(20)))),
            Shape("status", ((NAMELESS, _I32),)),
            Shape("attributes", ((NAMELESS, Boolean()),)),
            Shape("internal watermark", ((NAMELESS, _I32), time)),
        )
        return Merged(shapes, partial(_by_tag, tags=tuple(range(7))), "element")

    @property
    def type_name(self) -> str:
        return f"StreamElement<{self.value.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.value,)


@snapshot(
    "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot",
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
        return Choice((Option(1, "one", self.one.layout(ctx.inner)), Option(2, "two", self.two.layout(ctx.inner))))

    @property
    def type_name(self) -> str:
        return f"TaggedUnion<{self.one.type_name}, {self.two.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.one, self.two)


@snapshot("org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot")
def _read_union(cursor: Cursor, version: int) -> Serializer:
    one, two = composite(cursor, version, 2)
    return Union(one, two)


@dataclass(frozen=True)
class BufferEntry(Serializer):
    """IntervalJoinOperator.BufferEntrySerializer: whether the element has been joined, the element."""

    element: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return Struct((("has_been_joined", Boolean()), ("element", self.element.layout(ctx.inner))))

    @property
    def type_name(self) -> str:
        return f"BufferEntry<{self.element.type_name}>"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.element,)


@snapshot("org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot")
def _read_buffer_entry(cursor: Cursor, version: int) -> Serializer:
    (element,) = composite(cursor, version, 1)
    return BufferEntry(element)
