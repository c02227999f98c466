"""Read and write UUIDs: org.apache.flink.api.common.typeutils.base.UuidSerializer, of Flink 2.4, and SQL's UUID.

i64 most significant bits, i64 least significant bits: the 16 bytes of the UUID's text. In SQL the value is a byte[16].
Both come as text. From Flink's sources, not compared with a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from stateproc.codec.errors import BadValue
from stateproc.codec.layouts import Converted, Layout, Number, StructLayout
from stateproc.codec.temporal import by_distinct, ints, nulls, strings
from stateproc.errors import UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import simple_snapshot, write_simple
from stateproc.wire import Output

SINCE = Release(2, 4)
_SNAPSHOT = "org.apache.flink.api.common.typeutils.base.UuidSerializer$UuidSerializerSnapshot"
_LOW = (1 << 64) - 1
_HALVES = pa.struct([("high", pa.int64()), ("low", pa.int64())])
_SIZE = 16


def texts_of_halves(halves: pa.StructArray) -> pa.Array:
    """Convert the fields ``high`` and ``low``, 64 bits each, to text."""
    high, low = (ints(halves.field(halves.type.get_field_index(name))).tolist() for name in ("high", "low"))
    null = nulls(halves)
    return strings(null, len(null), lambda row: str(UUID(int=(high[row] & _LOW) << 64 | low[row] & _LOW)))


def halves_of_texts(texts: pa.Array) -> pa.StructArray:
    """Convert text to the fields ``high`` and ``low``. Raises BadValue for text that is no UUID."""

    def halves(text: str) -> dict[str, int]:
        raw = UUID(text).bytes
        return {name: int.from_bytes(raw[at : at + 8], "big", signed=True) for name, at in (("high", 0), ("low", 8))}

    return by_distinct(texts, halves, _HALVES)


def _texts_of_bytes(raws: pa.Array) -> pa.Array:
    values: Sequence[bytes | None] = raws.to_pylist()
    wrong = next((raw for raw in values if raw is not None and len(raw) != _SIZE), None)
    if wrong is not None:
        raise BadValue(f"a UUID of {len(wrong)} bytes")
    return pa.array([None if raw is None else str(UUID(bytes=raw)) for raw in values], pa.string())


def _bytes_of_texts(texts: pa.Array) -> pa.Array:
    return by_distinct(texts, lambda text: UUID(text).bytes, pa.binary())


def uuid_layout(inner: Layout) -> Layout:
    """Return the layout of SQL's UUID; ``inner``: the layout of its bytes."""
    return Converted(inner, pa.string(), _texts_of_bytes, UUID, _bytes_of_texts)


@dataclass(frozen=True)
class Uuid(Serializer):
    """UuidSerializer."""

    def layout(self, ctx: LayoutContext) -> Layout:
        halves = StructLayout((("high", Number(pa.int64())), ("low", Number(pa.int64()))))
        return Converted(halves, pa.string(), texts_of_halves, UUID, halves_of_texts)

    @property
    def length(self) -> int:
        return _SIZE

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
