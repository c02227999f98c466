"""Read and write stream handles, which locate state bytes (org.apache.flink.runtime.state.StreamStateHandle).

``offset`` of a handle is the byte offset of its type byte in ``_metadata``, for error messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NoReturn, TypeAlias

from stateproc.wire.cursor import Cursor
from stateproc.wire.output import MAX_KEY_GROUPS, Output

CANONICAL_TYPE = 7
"""The type byte of keyed state in a canonical savepoint, KeyGroupsSavepointStateHandle, since Flink 1.13."""
TAKE_AGAIN = "the file is damaged; take the snapshot again or restore it from a copy"


@dataclass(frozen=True, slots=True)
class ByteStreamHandle:
    """Type 1, ByteStreamStateHandle: the bytes themselves, inside ``_metadata``."""

    name: str
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"ByteStreamHandle({self.name!r}, {len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class FileHandle:
    """Type 2, FileStateHandle: a whole file by absolute URI; ``size`` in bytes."""

    path: str
    size: int
    offset: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RelativeFileHandle:
    """Type 6, RelativeFileStateHandle: a whole file named relative to the directory of ``_metadata``."""

    path: str
    size: int
    offset: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SegmentHandle:
    """Type 15, SegmentFileStateHandle (file merging): ``size`` bytes from ``start`` of a physical file."""

    path: str
    start: int
    size: int
    scope: Literal["EXCLUSIVE", "SHARED"]
    logical_id: str
    offset: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EmptySegmentHandle:
    """Type 16, EmptySegmentFileStateHandle: no bytes at all."""

    size = 0


PlainHandle: TypeAlias = ByteStreamHandle | FileHandle | RelativeFileHandle | SegmentHandle | EmptySegmentHandle


@dataclass(frozen=True, slots=True)
class KeyGroupsHandle:
    """Types 3, 12 (KeyGroupsStateHandle) and 7 (KeyGroupsSavepointStateHandle, canonical).

    ``offsets[i]`` is the byte position in ``stream`` of key group ``first_key_group + i``.
    """

    type_byte: int
    first_key_group: int
    offsets: tuple[int, ...]
    stream: StreamHandle
    handle_id: str | None = None

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of the file."""
        return self.stream.size

    @property
    def key_groups(self) -> range:
        return range(self.first_key_group, self.first_key_group + len(self.offsets))

    @property
    def size(self) -> int:
        return self.stream.size


StreamHandle: TypeAlias = PlainHandle | KeyGroupsHandle


def read_stream_handle(cursor: Cursor) -> StreamHandle | None:
    """Read a type byte and its stream handle; None for type 0. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    kind = cursor.u8()
    read = STREAM_READERS.get(kind)
    if read is None:
        refuse_type(cursor, kind, "stream", at)
    return read(cursor)


def write_stream_handle(out: Output, handle: StreamHandle | None) -> None:
    """Write what :func:`read_stream_handle` reads: a type byte and the handle; type 0 for None."""
    match handle:
        case None:
            out.u8(0)
        case ByteStreamHandle():
            out.u8(1)
            out.utf(handle.name)
            out.bytes32(handle.data)
        case FileHandle():
            out.u8(2)
            out.i64(handle.size)
            out.utf(handle.path)
        case RelativeFileHandle():
            out.u8(6)
            out.utf(handle.path)
            out.i64(handle.size)
        case SegmentHandle():
            out.u8(15)
            out.i64(handle.start)
            out.i64(handle.size)
            out.i32(_SCOPES.index(handle.scope))
            out.utf(handle.path)
            out.utf(handle.logical_id)
        case EmptySegmentHandle():
            out.u8(16)
        case _:
            write_key_groups(out, handle)


def required_stream_handle(cursor: Cursor, what: str) -> StreamHandle:
    """Read a stream handle that must not be null; ``what`` names its owner in errors."""
    at = cursor.pos
    handle = read_stream_handle(cursor)
    if handle is None:
        cursor.corrupt(f"{what} has no stream handle", at=at, advice=TAKE_AGAIN)
    return handle


def plain_file_handle(cursor: Cursor) -> FileHandle | None:
    """Read the next handle in one step if it is that of a file with an ASCII path; else return None and read nothing.

    The lists of an incremental handle contain most handles of a ``_metadata``, up to millions, which are read twice as
    fast this way.
    """
    at = cursor.pos
    path_at = at + _PLAIN_FILE.size
    if path_at > cursor.end:
        return None
    kind, size, length = _PLAIN_FILE.unpack_from(cursor.data, at)
    if kind != _FILE_TYPE or size < 0 or path_at + length > cursor.end:
        return None
    path = bytes(cursor.data[path_at : path_at + length])
    if not path.isascii() or b"\0" in path:
        return None
    cursor.pos = path_at + length
    return FileHandle(path.decode("ascii"), size, cursor.base + at)


def size_of(cursor: Cursor, what: str) -> int:
    """Read an i64 number of bytes; refuse a negative one."""
    at = cursor.pos
    size = cursor.i64()
    if size < 0:
        cursor.corrupt(f"negative {what} {size}", at=at, advice=TAKE_AGAIN)
    return size


def write_longs(out: Output, values: tuple[int, ...]) -> None:
    """Write an i32 count and that many i64, which :func:`longs` reads."""
    out.i32(len(values))
    out.raw(struct.pack(f">{len(values)}q", *values))


def longs(cursor: Cursor, count: int, what: str) -> tuple[int, ...]:
    """Read ``count`` i64."""
    return struct.unpack(f">{count}q", cursor.take(8 * count, what))


def refuse_type(cursor: Cursor, kind: int, family: str, at: int) -> NoReturn:
    """Raise for a handle type byte that is not of this family, or that is newer than this library."""
    if kind <= LAST_KNOWN_TYPE:
        cursor.corrupt(f"handle type {kind} where a {family} handle is expected", at=at, advice=TAKE_AGAIN)
    cursor.unsupported(
        f"{family} handle type {kind} (known are 0 to {LAST_KNOWN_TYPE})",
        at=at,
        advice="written by a newer Flink, or the file is damaged; read it with a newer stateproc",
    )


def read_key_groups(cursor: Cursor, kind: int) -> KeyGroupsHandle:
    """Read a KeyGroupsHandle of type ``kind`` (3, 7 or 12); the cursor is after the type byte."""
    first, count = read_key_group_range(cursor)
    offsets = longs(cursor, count, "key-group offsets")
    stream = required_stream_handle(cursor, "a key-groups handle")
    return KeyGroupsHandle(
        type_byte=kind,
        first_key_group=first,
        offsets=offsets,
        stream=stream,
        handle_id=cursor.utf() if kind == 12 else None,
    )


def write_key_groups(out: Output, handle: KeyGroupsHandle) -> None:
    """Write the type byte, the key-group range with its offsets, and the stream; a handle id is the caller's."""
    out.u8(handle.type_byte)
    out.i32(handle.first_key_group)
    write_longs(out, handle.offsets)
    write_stream_handle(out, handle.stream)


def read_key_group_range(cursor: Cursor) -> tuple[int, int]:
    """Read the i32 first key group and the i32 number of key groups, both within MAX_KEY_GROUPS."""
    at = cursor.pos
    first, count = cursor.i32(), cursor.i32()
    if first < 0 or count < 0 or first + count > MAX_KEY_GROUPS:
        cursor.corrupt(f"impossible key groups: {count} from {first}", at=at, advice=TAKE_AGAIN)
    return first, count


LAST_KNOWN_TYPE = 17
_FILE_TYPE = 2
_PLAIN_FILE = struct.Struct(">BqH")
"""A file handle up to its path: type, size, length of the path."""
_SCOPES: tuple[Literal["EXCLUSIVE", "SHARED"], ...] = ("EXCLUSIVE", "SHARED")
"""CheckpointedStateScope by ordinal."""


def _file(cursor: Cursor) -> FileHandle:
    offset = cursor.offset - 1
    size = size_of(cursor, "file size")
    return FileHandle(path=cursor.utf(), size=size, offset=offset)


def _relative_file(cursor: Cursor) -> RelativeFileHandle:
    offset = cursor.offset - 1
    return RelativeFileHandle(path=cursor.utf(), size=size_of(cursor, "file size"), offset=offset)


def _segment(cursor: Cursor) -> SegmentHandle:
    offset = cursor.offset - 1
    start, size = size_of(cursor, "segment start"), size_of(cursor, "segment size")
    at = cursor.pos
    scope = cursor.i32()
    if not 0 <= scope < len(_SCOPES):
        cursor.corrupt(f"unknown scope {scope} of a file segment", at=at, advice=TAKE_AGAIN)
    return SegmentHandle(
        path=cursor.utf(),
        start=start,
        size=size,
        scope=_SCOPES[scope],
        logical_id=cursor.utf(),
        offset=offset,
    )


def _key_groups(cursor: Cursor) -> KeyGroupsHandle:
    """Type 3 is a keyed handle that Flink accepts as a stream as well."""
    cursor.nested("stream handles")
    handle = read_key_groups(cursor, 3)
    cursor.unnested()
    return handle


STREAM_READERS: dict[int, Callable[[Cursor], StreamHandle | None]] = {
    0: lambda cursor: None,
    1: lambda cursor: ByteStreamHandle(name=cursor.utf(), data=cursor.bytes32()),
    _FILE_TYPE: _file,
    3: _key_groups,
    6: _relative_file,
    15: _segment,
    16: lambda cursor: EmptySegmentHandle(),
}
