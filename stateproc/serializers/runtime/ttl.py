"""Read and write state values with a time to live: org.apache.flink.runtime.state.ttl."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from stateproc.codec.layouts import Layout, Number, StructLayout
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer, fixed_sum
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    composite,
    expect_version,
    read_versioned,
    snapshot,
    write_composite,
)
from stateproc.serializers.java.scalars import LONG
from stateproc.wire import Cursor, Output

LAST_ACCESS = "last_access"
_TTL = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot"
_TTL_V2 = "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot"


@dataclass(frozen=True)
class TtlSerializer(CompositeSerializer):
    """TtlStateFactory.TtlSerializer: i64 last access (ms since the epoch), the user's value.

    ``snapshot_class``: where it is not that of the classic state API.
    """

    value: Serializer
    snapshot_class: str = field(default="", compare=False)
    type_pattern = "Ttl<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout(((LAST_ACCESS, Number(pa.int64())), ("value", self.value.layout(ctx))))

    @property
    def length(self) -> int:
        return fixed_sum((self.value,), 8)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, self.snapshot_class or _TTL, 2, (LONG, self.value), release)


for _class_name in (_TTL, _TTL_V2):

    @snapshot(_class_name)
    def _read_ttl(cursor: Cursor, version: int, *, name: str = _class_name) -> Serializer:
        at = cursor.pos
        timestamp, value = composite(cursor, version, 2)
        if timestamp.length != 8:
            cursor.corrupt("a TTL serializer's timestamp is no long", at=at)
        return TtlSerializer(value, name)


@snapshot("org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot")
def _read_ttl_aware(cursor: Cursor, version: int) -> Serializer:
    # Wraps the serializer that writes the values, be it a TtlSerializer or not: it adds no bytes of its own.
    expect_version(cursor, "TtlAwareSerializerSnapshot", version, 1)
    cursor.boolean()
    return read_versioned(cursor)
