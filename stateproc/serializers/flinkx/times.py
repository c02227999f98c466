"""Read and write durations, time zones, units and orderings of flink-scala-api.

Snapshots (org.apache.flinkx.api.serializer) are simple ones. Values: a FiniteDuration is i64 length, i32 ordinal of
java.util.concurrent.TimeUnit; a Duration i8 −1 null, 0 and a FiniteDuration, 1 undefined, 2 infinity, 3 minus infinity;
a ZoneId a Flink string; a ZoneOffset i32 seconds, −2³¹ null; OffsetDateTime and ZonedDateTime are a LocalDateTime and
either. Unit and orderings have no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import ops
from stateproc.codec.builder import Builder, Label
from stateproc.codec.layouts import AlwaysNull, Converted, FlinkString, Layout, Number, StructLayout
from stateproc.codec.layouts.variants import StructVariant, VariantStruct
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import VARIABLE, LayoutContext, Serializer
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    expect_version,
    simple_snapshot,
    write_head,
    write_simple,
)
from stateproc.serializers.flinkx.layouts import NULL, PACKAGE, flinkx_snapshot, read_part, write_part
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import EnumOf
from stateproc.serializers.java.temporal import TEMPORAL, Temporal, TemporalKind
from stateproc.wire import Cursor, Output

_UNITS = ("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")
_TIME_UNIT = EnumOf("java.util.concurrent.TimeUnit", tuple(enumerate(_UNITS)))
_DURATION_TAGS = {"FiniteDuration": 0, "Undefined": 1, "Inf": 2, "MinusInf": 3}
_NULL_DURATION = 0xFF
_ORDERINGS = tuple(
    """
    Unit DefaultBoolean DefaultByte DefaultChar DefaultShort DefaultInt DefaultLong DefaultFloat FloatIeee
    DefaultDouble DoubleIeee DefaultBigInt DefaultBigDecimal DefaultString
    """.split()
)


def _finite_fields() -> tuple[tuple[str, Layout], ...]:
    return ("length", Number(pa.int64())), ("unit", _TIME_UNIT.layout(LayoutContext()))


def _choose_duration(b: Builder, labels: list[Label], null: Label) -> None:
    pairs = [word for pair in zip(_DURATION_TAGS.values(), labels, strict=True) for word in pair]
    b.op(ops.SWITCH, 1, len(labels) + 1, -1, *pairs, _NULL_DURATION, null)


def _duration() -> Layout:
    shapes = tuple(
        StructVariant(name, _finite_fields() if tag == 0 else (), bytes([tag])) for name, tag in _DURATION_TAGS.items()
    )
    return VariantStruct(shapes, _choose_duration, "type", null=bytes([_NULL_DURATION]))


def _without_marker(seconds: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(seconds, pa.scalar(NULL, pa.int32())), pa.scalar(None, pa.int32()), seconds)


def _with_marker(seconds: pa.Array) -> pa.Array:
    return seconds.fill_null(np.int32(NULL))


_ZONE_ID = FlinkString()
_ZONE_OFFSET = Converted(Number(pa.int32()), pa.int32(), _without_marker, inverse=_with_marker, null_form=True)
_NO_BYTES = AlwaysNull(0)
_LOCAL: TemporalKind = next(kind for kind in TEMPORAL if kind.name == "LocalDateTime")


@dataclass(frozen=True)
class ZonedTime(Serializer):
    """OffsetDateTime, ZonedDateTime: a struct of the local time and the zone; both are null for a null."""

    name: str
    zone: str
    bytes: Layout

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout((("local", Temporal(_LOCAL).layout(ctx)), (self.zone, self.bytes)))

    @property
    def type_name(self) -> str:
        return self.name

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_simple(out, f"{PACKAGE}{self.name}SerializerSnapshot", release)


@dataclass(frozen=True)
class OrderingOf(CompositeSerializer):
    """An ordering made of another one: Reverse, Option."""

    name: str
    inner: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return self.inner.layout(ctx)

    @property
    def type_name(self) -> str:
        return f"{self.name}[{self.inner.type_name}]"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, f"{PACKAGE}{self.name}SerializerSnapshot", 1, release)
        write_part(self.inner, out, release, versioned=True)


_SIMPLE: tuple[Scalar | ZonedTime, ...] = (
    Scalar("Duration", "Duration", _duration(), VARIABLE),
    Scalar("FiniteDuration", "FiniteDuration", StructLayout(_finite_fields()), 12),
    Scalar("ZoneId", "ZoneId", _ZONE_ID, VARIABLE),
    Scalar("ZoneOffset", "ZoneOffset", _ZONE_OFFSET, 4),
    ZonedTime("OffsetDateTime", "offset", _ZONE_OFFSET),
    ZonedTime("ZonedDateTime", "zone", _ZONE_ID),
    Scalar("Nothing", "Nothing", _NO_BYTES, VARIABLE),
    *(Scalar(f"{name}Ordering", "Ordering", _NO_BYTES, 0) for name in _ORDERINGS),
)


def _register(serializer: Scalar | ZonedTime, name: str) -> None:
    class_name = PACKAGE + name
    made = replace(serializer, snapshot_class=class_name) if isinstance(serializer, Scalar) else serializer
    simple_snapshot(made, class_name)


for _serializer in _SIMPLE:
    _register(_serializer, f"{_serializer.name}SerializerSnapshot")
_register(Scalar("Unit", "Unit", _NO_BYTES, 0), "UnitSerializer$UnitSerializerSnapshot")


def _register_ordering(name: str) -> None:
    @flinkx_snapshot(f"{name}SerializerSnapshot")
    def read(cursor: Cursor, version: int) -> Serializer:
        expect_version(cursor, name, version, 1)
        return OrderingOf(name, read_part(cursor, versioned=True))


for _name in ("ReverseOrdering", "OptionOrdering"):
    _register_ordering(_name)
