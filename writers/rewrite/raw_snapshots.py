"""Split serializer snapshots into nested snapshots as bytes, and combine them again.

Format: CompositeTypeSerializerSnapshot and NestedSerializersSnapshotDelegate (org.apache.flink.api.common.typeutils),
after the proxy version of TypeSerializerSnapshotSerializationUtil.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stateproc.errors import UnsupportedSnapshot
from stateproc.readers.header_reader import read_whole_header
from stateproc.serializers import read_versioned
from stateproc.wire import Cursor, Output

PROXY = (2).to_bytes(4, "big")
_COMPOSITE_MAGIC, _NESTED_MAGIC = 911108, 1333245
_COMPOSITE_VERSION = 3


@dataclass(frozen=True)
class RawComposite:
    """A composite's snapshot: its class, what stands between that and its parts, the parts without proxy version."""

    class_name: str
    head: bytes
    parts: tuple[bytes, ...]

    def with_part(self, index: int, part: bytes) -> RawComposite:
        parts = (*self.parts[:index], part, *self.parts[index + 1 :])
        return replace(self, parts=parts)

    def versioned(self) -> bytes:
        """The bytes, without proxy version."""
        out = Output()
        out.utf(self.class_name)
        out.raw(self.head)
        out.i32(_NESTED_MAGIC)
        out.i32(1)
        out.i32(len(self.parts))
        for part in self.parts:
            out.raw(part)
        return bytes(out)


def composite_of(class_name: str, outer_version: int, parts: Sequence[bytes]) -> RawComposite:
    """A composite without an outer payload, as current releases write it."""
    head = Output()
    for number in (_COMPOSITE_VERSION, _COMPOSITE_MAGIC, outer_version):
        head.i32(number)
    return RawComposite(class_name, bytes(head), tuple(parts))


def raw_composite(versioned: bytes, what: str) -> RawComposite:
    """Take the snapshot of a composite without an outer payload apart. ``what``: for errors, whose snapshot it is.

    Raises UnsupportedSnapshot for any other snapshot.
    """
    return read_whole_header(versioned, f"<snapshot of {what}>", _composite)


def _composite(cursor: Cursor) -> RawComposite:
    class_name, at = cursor.utf(), cursor.pos
    if cursor.i32() >= _COMPOSITE_VERSION:
        cursor.i32()
        cursor.i32()
    head = bytes(cursor.data[at : cursor.pos])
    if cursor.i32() != _NESTED_MAGIC or cursor.i32() != 1:
        raise UnsupportedSnapshot(f"a serializer snapshot {class_name} that is no plain composite")
    parts = []
    for _ in range(cursor.count("nested serializers", 6)):
        start = cursor.pos
        read_versioned(cursor)
        parts.append(bytes(cursor.data[start : cursor.pos]))
    return RawComposite(class_name, head, tuple(parts))


def versioned_of(proxied: bytes) -> bytes:
    """A proxied snapshot without its proxy version."""
    if proxied[:4] != PROXY:
        raise UnsupportedSnapshot("a serializer snapshot of a proxy version other than 2")
    return proxied[4:]
