"""The table of snapshot classes, how a versioned snapshot is read with it, and the frames of writing one.

Format: org.apache.flink.api.common.typeutils.TypeSerializerSnapshot.writeVersionedSnapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.core.opaque import Opaque
from stateproc.wire import Cursor, Output

SnapshotReader = Callable[[Cursor, int], Serializer]
"""Reads a snapshot's payload of the given version (the class name and version are behind the cursor)."""

PROXY_VERSION = 2
_COMPOSITE_MAGIC, _NESTED_MAGIC = 911108, 1333245
_COMPOSITE_VERSION, _NESTED_VERSION, _SIMPLE_VERSION = 3, 1, 3
SCALA_PACKAGES = ("org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils.")
_READERS: dict[str, SnapshotReader] = {}


class UnknownSnapshotClass(UnsupportedSnapshot):
    """The snapshot's class is in no table; ``class_name``, ``version`` and ``payload_at`` (buffer position) tell."""

    class_name = ""
    version = 0
    payload_at = 0


def snapshot(*class_names: str) -> Callable[[SnapshotReader], SnapshotReader]:
    """Register a reader for these snapshot classes (decorator)."""

    def register_reader(reader: SnapshotReader) -> SnapshotReader:
        for name in class_names:
            _READERS[name] = reader
        return reader

    return register_reader


def register(class_name: str, reader: SnapshotReader) -> None:
    """Teach stateproc a snapshot class of your own.

    ``reader(cursor, version)`` reads the payload behind class name and version and returns a Serializer. To have
    it on Spark executors too, register in a module and name the module in the option ``plugins``.
    """
    _READERS[class_name] = reader


def read_versioned(cursor: Cursor) -> Serializer:
    """Class name, version, payload. Raises UnknownSnapshotClass, UnsupportedSnapshot, CorruptSnapshot."""
    at = cursor.pos
    class_name = cursor.utf()
    version = cursor.i32()
    reader = _READERS.get(class_name)
    if reader is None:
        known_size = cursor.assumed_sizes.get(cursor.pos)
        if known_size is not None:
            cursor.take(known_size, "an unknown snapshot")
            return Opaque(class_name, bytes(cursor.data[at : cursor.pos]))
        raise _unknown(cursor, class_name, version, at)
    cursor.nested("serializer snapshots")
    try:
        serializer = reader(cursor, version)
    except SnapshotError as error:
        if error.where.file is not None:
            raise
        place = cursor.where(at)
        raise error.at(file=place.file, offset=place.offset) from error
    cursor.unnested()
    return serializer


def _unknown(cursor: Cursor, class_name: str, version: int, at: int) -> UnknownSnapshotClass:
    error = UnknownSnapshotClass(
        f"no parser for the serializer snapshot class {class_name!r} (version {version})",
        where=cursor.where(at),
        advice=(
            "register one:\n"
            "      from stateproc import serializers\n"
            f"      serializers.register({class_name!r}, lambda cursor, version: ...)  # returns a Serializer\n"
            "    put these lines in a module and name it in the option 'plugins' to have it on Spark executors"
        ),
    )
    error.class_name, error.version, error.payload_at = class_name, version, cursor.pos
    return error


@dataclass(frozen=True)
class Composite:
    """What CompositeTypeSerializerSnapshot reads: the outer version, the nested serializers."""

    outer_version: int
    nested: tuple[Serializer, ...]


def read_composite(cursor: Cursor, version: int, read_outer: Callable[[Cursor, int], None] | None = None) -> Composite:
    """Magic, outer version, outer payload (``read_outer(cursor, outer version)``), magic, nested snapshots.

    Snapshots of versions 1 and 2 have no first magic and no outer version: their version takes its place.
    """
    at = cursor.pos
    outer_version = version
    if version >= 3:
        if cursor.i32() != _COMPOSITE_MAGIC:
            cursor.corrupt("a composite serializer snapshot does not begin with its magic number", at=at)
        outer_version = cursor.i32()
    if read_outer is not None:
        read_outer(cursor, outer_version)
    return Composite(outer_version, read_nested(cursor))


def read_nested(cursor: Cursor) -> tuple[Serializer, ...]:
    """NestedSerializersSnapshotDelegate: magic, version 1, count, snapshots."""
    at = cursor.pos
    if cursor.i32() != _NESTED_MAGIC:
        cursor.corrupt("nested serializer snapshots do not begin with their magic number", at=at)
    version = cursor.i32()
    if version != 1:
        cursor.unsupported(f"nested serializer snapshots of version {version}", at=at)
    return tuple(read_versioned(cursor) for _ in range(cursor.count("nested serializers", 6)))


def composite(
    cursor: Cursor, version: int, n: int | None, read_outer: Callable[[Cursor, int], None] | None = None
) -> tuple[Serializer, ...]:
    """The nested serializers of a composite, of which there must be ``n`` (None: any number)."""
    at = cursor.pos
    nested = read_composite(cursor, version, read_outer).nested
    if n is not None and len(nested) != n:
        cursor.corrupt(f"a composite serializer snapshot of {n} parts has {len(nested)}", at=at)
    return nested


def expect_version(cursor: Cursor, class_name: str, version: int, *known: int) -> None:
    """Refuse snapshot versions nobody wrote."""
    if version not in known:
        cursor.unsupported(
            f"version {version} of {class_name} (known: {', '.join(map(str, known))})",
            advice="the snapshot is damaged, or of a Flink release newer than this stateproc: upgrade stateproc",
        )


def simple(cursor: Cursor, version: int, class_name: str) -> None:
    """SimpleTypeSerializerSnapshot: version 3 says nothing more, version 2 names the serializer."""
    expect_version(cursor, class_name, version, 2, 3)
    if version == 2:
        cursor.utf()


# --- writing: each is the twin of the function above that reads the same -----------------------------------------


def write_versioned(serializer: Serializer, out: Output, release: Release) -> None:
    """Class name, version, payload of this serializer. Raises UnsupportedSnapshot for one that is only read."""
    serializer.write_snapshot(out, release)


def write_proxied(serializer: Serializer, out: Output, release: Release) -> None:
    """TypeSerializerSnapshotSerializationUtil: i32 proxy version 2, then the versioned snapshot."""
    out.i32(PROXY_VERSION)
    serializer.write_snapshot(out, release)


def proxied_snapshot(serializer: Serializer, release: Release) -> bytes:
    """What write_proxied writes."""
    out = Output()
    write_proxied(serializer, out, release)
    return bytes(out)


def write_head(out: Output, class_name: str, version: int, release: Release) -> None:
    """Class name and version. Snapshots of Scala types go by the package they have in ``release``."""
    for package in SCALA_PACKAGES:
        if class_name.startswith(package):
            class_name = release.scala_package + class_name.removeprefix(package)
            break
    out.utf(class_name)
    out.i32(version)


def write_simple(out: Output, class_name: str, release: Release) -> None:
    """SimpleTypeSerializerSnapshot: nothing behind the version."""
    write_head(out, class_name, _SIMPLE_VERSION, release)


def write_composite(
    out: Output,
    class_name: str,
    outer_version: int,
    nested: tuple[Serializer, ...],
    release: Release,
    write_outer: Callable[[Output], None] | None = None,
) -> None:
    """CompositeTypeSerializerSnapshot: magic, outer version, outer payload, nested snapshots."""
    write_head(out, class_name, _COMPOSITE_VERSION, release)
    out.i32(_COMPOSITE_MAGIC)
    out.i32(outer_version)
    if write_outer is not None:
        write_outer(out)
    write_nested(out, nested, release)


def write_nested(out: Output, nested: tuple[Serializer, ...], release: Release) -> None:
    """NestedSerializersSnapshotDelegate: magic, version 1, count, snapshots."""
    out.i32(_NESTED_MAGIC)
    out.i32(_NESTED_VERSION)
    out.i32(len(nested))
    for serializer in nested:
        serializer.write_snapshot(out, release)
