"""TypeSerializer snapshots as a type tree: what Flink wrote about its types, read without Flink.

``read_snapshot(data)`` gives a Serializer with ``arrow_type`` and ``decode(data)``; ``register`` adds a class;
``write_proxied(serializer, out, release)`` writes the snapshot as a release of Flink does.
"""

from __future__ import annotations

from stateproc.serializers import families  # noqa: F401  (registers all families)
from stateproc.serializers.base import LayoutContext, Serializer, Undecodable
from stateproc.serializers.registry import (
    PROXY_VERSION,
    UnknownSnapshotClass,
    proxied_snapshot,
    read_versioned,
    register,
    write_proxied,
    write_versioned,
)
from stateproc.wire import Cursor

__all__ = [
    "LayoutContext", "Serializer", "Undecodable", "UnknownSnapshotClass", "proxied_snapshot", "read_proxied",
    "read_snapshot", "read_versioned", "register", "write_proxied", "write_versioned",
]  # fmt: skip


def read_proxied(cursor: Cursor) -> Serializer:
    """TypeSerializerSnapshotSerializationUtil: i32 proxy version 2, then a versioned snapshot."""
    at = cursor.pos
    version = cursor.i32()
    if version != PROXY_VERSION:
        cursor.unsupported(
            f"serializer snapshots in proxy version {version} (known: {PROXY_VERSION})",
            at=at,
            advice="if it is of Flink 1.6 or older: restore it once in Flink 1.8–1.16 and take a savepoint there",
        )
    return read_versioned(cursor)


def read_snapshot(data: bytes) -> Serializer:
    """The serializer that ``data`` describes: all of it, a versioned snapshot with or without proxy version.

    Raises CorruptSnapshot, UnsupportedSnapshot (UnknownSnapshotClass for a class in no table).
    """
    cursor = Cursor(data, file="<snapshot>")
    proxied = len(data) >= 4 and data[:4] == PROXY_VERSION.to_bytes(4, "big")
    serializer = read_proxied(cursor) if proxied else read_versioned(cursor)
    cursor.finish("the serializer snapshot")
    return serializer
