"""Read the snapshots of serializers on TypeSerializerConfigSnapshot, which Flink 1.8 to 1.16 still have.

Format (BackwardsCompatibleSerializerSnapshot is not written any more): utf class, i32 version 0x7a53c4f0, i32 1, i32
length, the serializer as a Java object stream of that length, then what the class itself writes. Nothing marks the end
of that.
"""

from __future__ import annotations

from stateproc.wire import Cursor

CONFIG_VERSION = 0x7A53C4F0
_PROXY_VERSION = 1


def skip_java_serializer(cursor: Cursor) -> None:
    """Pass the serializer in front of what the snapshot's class writes. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    version = cursor.i32()
    if version != _PROXY_VERSION:
        cursor.unsupported(f"a serializer as a Java object in version {version} (known: {_PROXY_VERSION})", at=at)
    cursor.bytes32()
