"""Register readers of snapshot classes; read and write versioned snapshots.

Format: org.apache.flink.api.common.typeutils.TypeSerializerSnapshot.writeVersionedSnapshot.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

from stateproc.errors import InvalidOption, SnapshotError, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.core.opaque import Opaque
from stateproc.wire import Cursor, Output

# Read the snapshots of serializers on TypeSerializerConfigSnapshot, which Flink 1.8 to 1.16 still have.
#
# Format (BackwardsCompatibleSerializerSnapshot is not written any more): utf class, i32 version 0x7a53c4f0, i32 1, i32
# length, the serializer as a Java object stream of that length, then what the class itself writes. Nothing marks the
# end of that.

CONFIG_VERSION = 0x7A53C4F0
_PROXY_VERSION = 1


def skip_java_serializer(cursor: Cursor) -> None:
    """Pass the serializer in front of what the snapshot's class writes. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    version = cursor.i32()
    if version != _PROXY_VERSION:
        cursor.unsupported(f"a serializer as a Java object in version {version} (known: {_PROXY_VERSION})", at=at)
    cursor.bytes32()


Outer = TypeVar("Outer")
SnapshotReader = Callable[[Cursor, int], Serializer]
"""Reads a snapshot's payload of the given version; the cursor is after the class name and version."""


@dataclass(frozen=True)
class ObservedSnapshot:
    """A serializer, the class and version of the snapshot that it was read from, and where that begins and ends."""

    serializer: Serializer
    class_name: str
    version: int
    start: int = 0
    end: int = 0


PROXY_VERSION = 2
_ROLE = "_SERIALIZER"
"""What the names of serializers' roles end with, which come where a payload of unknown size was taken for too long."""
_CLASS_NAME = re.compile(r"[^\W\d][\w$-]*(\.[^\W\d][\w$-]*)*|\$[\w$.-]*")
_COMPOSITE_MAGIC, _NESTED_MAGIC = 911108, 1333245
_COMPOSITE_VERSION, _NESTED_VERSION, _SIMPLE_VERSION = 3, 1, 3
SCALA_PACKAGES = ("org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils.")
_READERS: dict[str, SnapshotReader] = {}
_OBSERVED: ContextVar[list[ObservedSnapshot] | None] = ContextVar("observed snapshots", default=None)


class UnknownSnapshotClass(UnsupportedSnapshot):
    """No reader is registered for a snapshot class: ``class_name``, ``version``, ``payload_at`` (buffer position)."""

    class_name = ""
    version = 0
    payload_at = 0


class UnreadablePayload(Exception):
    """Internal: the payload at ``payload_at`` of a known snapshot class cannot be read, for the ``reason`` given."""

    def __init__(self, payload_at: int, reason: SnapshotError) -> None:
        super().__init__(payload_at, reason)
        self.payload_at = payload_at
        self.reason = reason


def snapshot(*class_names: str) -> Callable[[SnapshotReader], SnapshotReader]:
    """Register a reader for these snapshot classes (decorator)."""

    def register_reader(reader: SnapshotReader) -> SnapshotReader:
        for name in class_names:
            _READERS[name] = reader
        return reader

    return register_reader


def register(class_name: str, reader: SnapshotReader) -> None:
    """Register a reader for a snapshot class of your own.

    To have it on Spark executors, too, register in a module and name the module in the option ``plugins``.

    Args:
        class_name: the snapshot class's name, as Class.getName() returns it.
        reader: ``reader(cursor, version)`` reads the payload after class name and version and returns a Serializer. The
            payload of a TypeSerializerConfigSnapshot (version 0x7a53c4f0) is what its ``write`` has written.
    """
    _READERS[class_name] = reader


def read_versioned(cursor: Cursor) -> Serializer:
    """Read class name, version, payload. Raises UnknownSnapshotClass, UnsupportedSnapshot, CorruptSnapshot."""
    at = cursor.pos
    class_name = cursor.utf()
    return _read_payload(cursor, class_name, cursor.i32(), at)


def _read_payload(cursor: Cursor, class_name: str, version: int, at: int) -> Serializer:
    """Read the payload of a snapshot that begins ``at`` the position of its class name."""
    reader = _READERS.get(class_name)
    if reader is None and (not _CLASS_NAME.fullmatch(class_name) or class_name.endswith(_ROLE)):
        cursor.corrupt(f"a serializer snapshot of {class_name!r}, which is no name of a class", at=at)
    if version == CONFIG_VERSION:
        skip_java_serializer(cursor)
    known_size = cursor.assumed_sizes.get(cursor.pos)
    if known_size is not None:
        reason = (cursor.reasons or {}).get(cursor.pos)
        cursor.take(known_size, "an unknown snapshot")
        return Opaque(class_name, bytes(cursor.data[at : cursor.pos]), reason)
    if reader is None:
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
    observed = _OBSERVED.get()
    if observed is not None:
        observed.append(ObservedSnapshot(serializer, class_name, version, at, cursor.pos))
    return serializer


def find_reader(class_name: str) -> SnapshotReader | None:
    """Return the reader of a snapshot class; None if none is registered."""
    return _READERS.get(class_name)


def read_without_version(cursor: Cursor, version_of: Callable[[str], int]) -> Serializer:
    """Read class name and payload; ``version_of`` gives the payload's version by the class name.

    Raises UnknownSnapshotClass, UnsupportedSnapshot, CorruptSnapshot.
    """
    at = cursor.pos
    class_name = cursor.utf()
    return _read_payload(cursor, class_name, version_of(class_name), at)


def read_observed(cursor: Cursor) -> tuple[Serializer, list[ObservedSnapshot]]:
    """Read as :func:`read_versioned`; return also the class and version of each nested snapshot, the outer one last."""
    observed: list[ObservedSnapshot] = []
    token = _OBSERVED.set(observed)
    try:
        return read_versioned(cursor), observed
    finally:
        _OBSERVED.reset(token)


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


def read_nested(cursor: Cursor) -> tuple[Serializer, ...]:
    """Read NestedSerializersSnapshotDelegate: magic, version 1, count, snapshots."""
    at = cursor.pos
    if cursor.i32() != _NESTED_MAGIC:
        cursor.corrupt("nested serializer snapshots do not begin with their magic number", at=at)
    version = cursor.i32()
    if version != 1:
        cursor.unsupported(f"nested serializer snapshots of version {version}", at=at)
    return tuple(read_versioned(cursor) for _ in range(cursor.count("nested serializers", 6)))


def composite_with(
    cursor: Cursor, version: int, n: int | None, read_outer: Callable[[Cursor, int], Outer]
) -> tuple[Outer, tuple[Serializer, ...]]:
    """Read CompositeTypeSerializerSnapshot: magic, outer version, outer payload, magic, nested snapshots.

    Snapshots of versions 1 and 2 have no first magic and no outer version: their version is used instead.

    Args:
        n: the number of nested serializers; None: any number.

    Returns:
        What ``read_outer`` returns; the nested serializers.
    """
    at = cursor.pos
    outer_version = version
    if version >= 3:
        if cursor.i32() != _COMPOSITE_MAGIC:
            cursor.corrupt("a composite serializer snapshot does not begin with its magic number", at=at)
        outer_version = cursor.i32()
    outer = read_outer(cursor, outer_version)
    nested = read_nested(cursor)
    if n is not None and len(nested) != n:
        cursor.corrupt(f"a composite serializer snapshot of {n} parts has {len(nested)}", at=at)
    return outer, nested


def composite(cursor: Cursor, version: int, n: int) -> tuple[Serializer, ...]:
    """Read the ``n`` nested serializers of a composite without an outer payload."""
    return composite_with(cursor, version, n, lambda _cursor, _version: None)[1]


@dataclass(frozen=True)
class CompositeSerializer(Serializer):
    """A serializer with nested ones: those that its fields hold, in this order."""

    type_pattern = ""
    """The type's name, with ``{}`` for the names of the nested ones."""
    _written: ClassVar[tuple[str, int] | None] = None

    @property
    def type_name(self) -> str:
        return self.type_pattern.format(", ".join(part.type_name for part in self.nested))

    @property
    def nested(self) -> tuple[Serializer, ...]:
        values = [getattr(self, item.name) for item in fields(self)]
        parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
        return tuple(part for part in parts if isinstance(part, Serializer))

    def write_snapshot(self, out: Output, release: Release) -> None:
        if self._written is None:
            super().write_snapshot(out, release)
        else:
            write_composite(out, *self._written, self.nested, release)


_Class = TypeVar("_Class", bound=type[CompositeSerializer])


def composite_snapshot(*class_names: str, outer_version: int) -> Callable[[_Class], _Class]:
    """Read and write a dataclass by snapshots without an outer payload (class decorator); the first class is written.

    Its nested serializers are its fields of the type Serializer.
    """

    def register_class(made: _Class) -> _Class:
        made._written = class_names[0], outer_version
        composite_reader(*class_names, n=sum(item.type == "Serializer" for item in fields(made)), make=made)
        return made

    return register_class


def composite_reader(*class_names: str, n: int, make: Callable[..., Serializer]) -> None:
    """Read snapshots without an outer payload as what ``make`` returns for their ``n`` nested serializers."""
    snapshot(*class_names)(lambda cursor, version: make(*composite(cursor, version, n)))


def simple_snapshot(serializer: Serializer, *class_names: str) -> None:
    """Register snapshots that are a SimpleTypeSerializerSnapshot of this serializer."""

    def read(cursor: Cursor, version: int) -> Serializer:
        simple(cursor, version, class_names[0])
        return serializer

    snapshot(*class_names)(read)


def expect_version(cursor: Cursor, class_name: str, version: int, *known: int) -> None:
    """Refuse snapshot versions that no Flink release writes."""
    if version not in known:
        cursor.unsupported(
            f"version {version} of {class_name} (known: {', '.join(map(str, known))})",
            advice="the snapshot is damaged, or of a Flink release newer than this stateproc: upgrade stateproc",
        )


def simple(cursor: Cursor, version: int, class_name: str) -> None:
    """Read SimpleTypeSerializerSnapshot: version 3 is empty, version 2 names the serializer."""
    expect_version(cursor, class_name, version, 2, 3)
    if version == 2:
        cursor.utf()


# --- Writing: each function writes what the function of the same name above reads. -------------------------------


def write_versioned(serializer: Serializer, out: Output, release: Release) -> None:
    """Write class name, version, payload of a serializer. Raises UnsupportedSnapshot for a read-only one."""
    serializer.write_snapshot(out, release)


def write_proxied(serializer: Serializer, out: Output, release: Release) -> None:
    """Write TypeSerializerSnapshotSerializationUtil's form: i32 proxy version 2, then the versioned snapshot."""
    out.i32(PROXY_VERSION)
    serializer.write_snapshot(out, release)


def proxied_snapshot(serializer: Serializer, release: Release) -> bytes:
    """Return the bytes that `write_proxied` writes."""
    out = Output()
    write_proxied(serializer, out, release)
    return bytes(out)


def write_head(out: Output, class_name: str, version: int, release: Release) -> None:
    """Write class name and version. Snapshots of Scala types have the package of ``release``."""
    for package in SCALA_PACKAGES:
        if class_name.startswith(package):
            class_name = release.scala_package + class_name.removeprefix(package)
            break
    out.utf(class_name)
    out.i32(version)


def write_simple(out: Output, class_name: str, release: Release) -> None:
    """Write SimpleTypeSerializerSnapshot: nothing after the version."""
    write_head(out, class_name, _SIMPLE_VERSION, release)


def write_composite(
    out: Output,
    class_name: str,
    outer_version: int,
    nested: tuple[Serializer, ...],
    release: Release,
    write_outer: Callable[[Output], None] | None = None,
) -> None:
    """Write CompositeTypeSerializerSnapshot: magic, outer version, outer payload, nested snapshots."""
    write_head(out, class_name, _COMPOSITE_VERSION, release)
    out.i32(_COMPOSITE_MAGIC)
    out.i32(outer_version)
    if write_outer is not None:
        write_outer(out)
    write_nested(out, nested, release)


def write_nested(out: Output, nested: tuple[Serializer, ...], release: Release) -> None:
    """Write NestedSerializersSnapshotDelegate: magic, version 1, count, snapshots."""
    out.i32(_NESTED_MAGIC)
    out.i32(_NESTED_VERSION)
    out.i32(len(nested))
    for serializer in nested:
        serializer.write_snapshot(out, release)


# Import the user's modules that register snapshot readers.


def load_plugins(names: Iterable[str]) -> None:
    """Import each module; raises InvalidOption if one cannot be imported."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InvalidOption(
                f"plugin module {name!r} cannot be imported: {error}",
                advice="it must be on the Python path of the driver and of every executor (spark.submit.pyFiles)",
            ) from error
