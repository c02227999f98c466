"""Serializers of Flink's runtime: TTL, timers, windows, stream elements, unions, join buffers."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from stateproc.codec.temporal import ints, nulls
from stateproc.flink_versions import Release
from stateproc.serializers.base import LayoutContext, Serializer, fixed_sum
from stateproc.serializers.registry import (
    composite,
    expect_version,
    read_versioned,
    simple,
    snapshot,
    write_composite,
    write_simple,
)
from stateproc.serializers.scalars import LONG
from stateproc.wire import Cursor, Output

_I32, _I64 = Number(pa.int32()), Number(pa.int64())
LAST_ACCESS = "last_access"
_TTL = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot"
_TTL_V2 = "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot"
_TIMER = "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot"
_WINDOW = "org.apache.flink.{}.{}$Serializer${}SerializerSnapshot"
_STREAM_WINDOWS, _TABLE_WINDOWS = "streaming.api.windowing.windows", "table.runtime.operators.window"
_ELEMENT = "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot"
_UNION = "org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot"
_BUFFER_ENTRY = "org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot"


@dataclass(frozen=True)
class Ttl(Serializer):
    """TtlStateFactory.TtlSerializer: i64 last access (ms since the epoch), the user's value.

    ``snapshot_class``: where it is not that of the classic state API.
    """

    value: Serializer
    snapshot_class: str = field(default="", compare=False)

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

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, self.snapshot_class or _TTL, 2, (LONG, self.value), release)


for _class_name in (_TTL, _TTL_V2):

    @snapshot(_class_name)
    def _read_ttl(cursor: Cursor, version: int, *, name: str = _class_name) -> Serializer:
        at = cursor.pos
        timestamp, value = composite(cursor, version, 2)
        if timestamp.length != 8:
            cursor.corrupt("a TTL serializer's timestamp is no long", at=at)
        return Ttl(value, name)


@snapshot("org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot")
def _read_ttl_aware(cursor: Cursor, version: int) -> Serializer:
    # Wraps the serializer that writes the values, be it a TtlSerializer or not: it adds no bytes of its own.
    expect_version(cursor, "TtlAwareSerializerSnapshot", version, 1)
    cursor.boolean()
    return read_versioned(cursor)


def unflip(timestamps: pa.Array) -> pa.Array:
    """Undo TimerSerializer's flip of the sign bit, which makes byte order time order; its own inverse."""
    return pa.array(ints(timestamps) ^ np.int64(-(2**63)), mask=nulls(timestamps) if timestamps.null_count else None)


@dataclass(frozen=True)
class Timer(Serializer):
    """TimerSerializer: i64 timestamp with the sign flipped, key, namespace."""

    key: Serializer
    namespace: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        timestamp = Converted(_I64, pa.int64(), unflip, inverse=unflip)
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

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, _TIMER, 2, self.nested, release)


@snapshot(_TIMER)
def _read_timer(cursor: Cursor, version: int) -> Serializer:
    key, namespace = composite(cursor, version, 2)
    return Timer(key, namespace)


@dataclass(frozen=True)
class TimeWindow(Serializer):
    """TimeWindow.Serializer: i64 start, i64 end (exclusive), ms. ``table``: SQL's class of that name."""

    table: bool = field(default=False, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return Struct((("start", _I64), ("end", _I64)))

    @property
    def length(self) -> int:
        return 16

    @property
    def type_name(self) -> str:
        return "TimeWindow"

    def write_snapshot(self, out: Output, release: Release) -> None:
        _write_window(out, self.type_name, self.table, release)


@dataclass(frozen=True)
class GlobalWindow(Serializer):
    """GlobalWindow.Serializer: one byte that says nothing. ``table``: SQL's class of that name."""

    table: bool = field(default=False, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return Nothing(1)

    @property
    def length(self) -> int:
        return 1

    @property
    def type_name(self) -> str:
        return "GlobalWindow"

    def write_snapshot(self, out: Output, release: Release) -> None:
        _write_window(out, self.type_name, self.table, release)


def _write_window(out: Output, name: str, table: bool, release: Release) -> None:
    write_simple(out, _WINDOW.format(_TABLE_WINDOWS if table else _STREAM_WINDOWS, name, name), release)


def _register_window(package: str, serializer: Serializer) -> None:
    name = serializer.type_name

    @snapshot(_WINDOW.format(package, name, name))
    def read(cursor: Cursor, version: int) -> Serializer:
        simple(cursor, version, name)
        return serializer


for _windows in (TimeWindow, GlobalWindow):
    _register_window(_STREAM_WINDOWS, _windows())
    _register_window(_TABLE_WINDOWS, _windows(table=True))


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
        value, time = ("value", self.value.layout(ctx.inner)), ("timestamp", _I64)
        shapes = (
            Shape("record", (time, value), b"\0"),
            Shape("record", (value,), b"\1"),
            Shape("watermark", (time,), b"\2"),
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
        return Choice((Option(1, "one", self.one.layout(ctx.inner)), Option(2, "two", self.two.layout(ctx.inner))))

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
        return Struct((("has_been_joined", Boolean()), ("element", self.element.layout(ctx.inner))))

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
