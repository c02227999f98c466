"""Read and write the snapshots that flink-scala-api nests in others.

Up to 1.2.x collections, maps and coproducts write a nested snapshot without its version: utf class name, then the
payload of the class's version in that release. From 2.x on they are versioned snapshots as Flink's.
"""

from __future__ import annotations

from collections.abc import Callable

from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.core.registry import (
    SnapshotReader,
    find_reader,
    read_versioned,
    read_without_version,
    snapshot,
    write_versioned,
)
from stateproc.wire import Cursor, Output

PACKAGE = "org.apache.flinkx.api.serializer."
UNVERSIONED = 1
"""The version of the snapshots of collections, maps and coproducts that nest others without their version."""

_SIMPLE = 3
# Current versions that are not 3: that of simple and composite snapshots, enums and Avro.
_CURRENT = {
    "CollectionSerializerSnapshot": UNVERSIONED,
    "MapSerializer$MapSerializerSnapshot": UNVERSIONED,
    "MappedSerializer$MappedSerializerSnapshot": UNVERSIONED,
    "CoproductSerializer$CoproductSerializerSnapshot": UNVERSIONED,
    "ScalaCaseObjectSerializer$ScalaCaseObjectSerializerSnapshot": 1,
}
_RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
_CURRENT_OF_FLINK = {
    f"{_RUNTIME}PojoSerializerSnapshot": 2,
    f"{_RUNTIME}kryo.KryoSerializerSnapshot": 2,
    **{
        f"{_RUNTIME}{prefix}{name}SerializerSnapshot": 2
        for name in ("Value", "CopyableValue", "Writable")
        for prefix in ("", f"{name}Serializer$")
    },
}


def flinkx_snapshot(name: str) -> Callable[[SnapshotReader], SnapshotReader]:
    """Register a reader of a snapshot class of flink-scala-api (decorator)."""
    return snapshot(PACKAGE + name)


def read_part(cursor: Cursor, *, versioned: bool) -> Serializer:
    """Read a nested snapshot, with its version or without. Raises UnknownSnapshotClass, CorruptSnapshot."""
    return read_versioned(cursor) if versioned else read_without_version(cursor, _current_version)


def _current_version(class_name: str) -> int:
    if class_name.startswith(PACKAGE):
        return _CURRENT.get(class_name.removeprefix(PACKAGE), _SIMPLE)
    return _CURRENT_OF_FLINK.get(class_name, _SIMPLE)


def write_part(serializer: Serializer, out: Output, release: Release, *, versioned: bool) -> None:
    """Write what `read_part` reads."""
    if versioned:
        write_versioned(serializer, out, release)
        return
    whole = Output()
    write_versioned(serializer, whole, release)
    cursor = Cursor(bytes(whole))
    out.utf(cursor.utf())
    cursor.i32()
    out.raw(bytes(cursor.take(cursor.remaining)))


def serializer_of_class(class_name: str) -> Serializer:
    """Return the serializer of a class without parameters, of which a snapshot contains the name alone."""
    simple = class_name.rsplit(".", 1)[-1]
    for name in (f"{class_name}${simple}Snapshot", f"{class_name}Snapshot"):
        reader = find_reader(name)
        if reader is None:
            continue
        cursor = Cursor(b"", file=f"<snapshot of {class_name}>")
        try:
            return reader(cursor, _current_version(name))
        except SnapshotError:
            break  # it has parameters, which the snapshot does not contain
    reason = UnsupportedSnapshot(
        f"the snapshot names the serializer {class_name!r} and contains none of its parameters",
        advice="read it as bytes (opaque='bytes') or as null (on_error='null')",
    )
    return Opaque(class_name, reason=reason)
