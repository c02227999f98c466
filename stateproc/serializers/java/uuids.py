"""Read and write UUIDs: org.apache.flink.api.common.typeutils.base.UuidSerializer, of Flink 2.4, and SQL's UUID.

i64 most significant bits, i64 least significant bits: the 16 bytes of the UUID's text. In SQL the value is a byte[16].
Both come as text. From Flink's sources, not compared with a release.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import numpy as np
import pyarrow as pa

from stateproc.codec.layouts import Converted, Layout, Number, StructLayout
from stateproc.codec.temporal import ints, nulls
from stateproc.codec.uuid_text import SIZE, rows_of, texts_of, uuid_bytes, uuid_texts
from stateproc.errors import UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import simple_snapshot, write_simple
from stateproc.wire import Output

SINCE = Release(2, 4)
_SNAPSHOT = "org.apache.flink.api.common.typeutils.base.UuidSerializer$UuidSerializerSnapshot"


def texts_of_halves(halves: pa.StructArray) -> pa.Array:
    """Convert the fields ``high`` and ``low``, 64 bits each, to text."""
    parts = [ints(halves.field(halves.type.get_field_index(name))) for name in ("high", "low")]
    return texts_of(np.stack(parts, axis=1).astype(">i8").view(np.uint8).reshape(-1, SIZE), nulls(halves))


def halves_of_texts(texts: pa.Array) -> pa.StructArray:
    """Convert text to the fields ``high`` and ``low``. Raises Unencodable for text that is no UUID."""
    halves = rows_of(texts).view(">i8").astype(np.int64)
    parts = [pa.array(np.ascontiguousarray(halves[:, at])) for at in range(2)]
    return pa.StructArray.from_arrays(parts, ["high", "low"], mask=pa.array(nulls(texts)))


def uuid_layout(inner: Layout) -> Layout:
    """Return the layout of SQL's UUID; ``inner``: the layout of its bytes."""
    return Converted(inner, pa.string(), uuid_texts, UUID, uuid_bytes)


@dataclass(frozen=True)
class Uuid(Serializer):
    """UuidSerializer."""

    def layout(self, ctx: LayoutContext) -> Layout:
        halves = StructLayout((("high", Number(pa.int64())), ("low", Number(pa.int64()))))
        return Converted(halves, pa.string(), texts_of_halves, UUID, halves_of_texts)

    @property
    def length(self) -> int:
        return SIZE

    @property
    def type_name(self) -> str:
        return "UUID"

    def write_snapshot(self, out: Output, release: Release) -> None:
        if release < SINCE:
            raise UnsupportedSnapshot(
                f"UUID is of Flink {SINCE} and later, not of {release}",
                advice="before, type extraction left them to Kryo: Kryo java.util.UUID; or write for a later release",
            )
        write_simple(out, _SNAPSHOT, release)


simple_snapshot(Uuid(), _SNAPSHOT)
