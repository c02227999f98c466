"""Read and write TypeSerializer snapshots: what Flink stores about the types of its states, without Flink.

`read_snapshot(data)` returns a `Serializer` with `arrow_type` and `decode(data)`; `register` adds a snapshot class,
`register_kryo` a Kryo serializer;
`write_proxied(serializer, out, release)` writes a snapshot as a Flink release does. `core` holds the interface and the
registry; `java`, `kryo`, `pojo`, `table`, `avro`, `runtime` and `scala` hold the serializers, one family each, listed
in `families`. May import: errors, wire, flink_versions, codec.
"""

from __future__ import annotations

from stateproc.codec.kryo.registered_serializers import KryoObjectInput, register_kryo
from stateproc.serializers import families  # noqa: F401  (registers all families)
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable
from stateproc.serializers.core.registry import (
    PROXY_VERSION,
    UnknownSnapshotClass,
    UnreadablePayload,
    proxied_snapshot,
    read_versioned,
    register,
    write_proxied,
    write_versioned,
)
from stateproc.wire import Cursor

__all__ = [
    "PROXY_VERSION",
    "KryoObjectInput",
    "LayoutContext",
    "Serializer",
    "Undecodable",
    "UnknownSnapshotClass",
    "UnreadablePayload",
    "proxied_snapshot",
    "read_proxied",
    "read_snapshot",
    "read_versioned",
    "register",
    "register_kryo",
    "write_proxied",
    "write_versioned",
]


def read_proxied(cursor: Cursor) -> Serializer:
    """Read a snapshot with its proxy version: i32 proxy version 2, then a versioned snapshot.

    Format: org.apache.flink.api.common.typeutils.TypeSerializerSnapshotSerializationUtil.

    Raises:
        CorruptSnapshot: the bytes are no serializer snapshot.
        UnsupportedSnapshot: the proxy version, or a snapshot's version, is not supported.
        UnknownSnapshotClass: no reader is registered for a snapshot class.
    """
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
    """Read the serializer that ``data`` describes.

    Args:
        data: one versioned snapshot, with or without proxy version, and nothing after it.

    Raises:
        CorruptSnapshot: the bytes are no serializer snapshot.
        UnsupportedSnapshot: the proxy version, or a snapshot's version, is not supported.
        UnknownSnapshotClass: no reader is registered for a snapshot class.
    """
    cursor = Cursor(data, file="<snapshot>")
    proxied = len(data) >= 4 and data[:4] == PROXY_VERSION.to_bytes(4, "big")
    serializer = read_proxied(cursor) if proxied else read_versioned(cursor)
    cursor.finish("the serializer snapshot")
    return serializer
