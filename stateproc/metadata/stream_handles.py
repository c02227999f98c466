"""Stream handles: where a run of state bytes lies (org.apache.flink.runtime.state.StreamStateHandle)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

if TYPE_CHECKING:
    from stateproc.metadata.keyed_handles import KeyGroupsHandle

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
    """Type 2, FileStateHandle: a whole file by absolute URI; ``size`` in bytes, ``at`` the handle's own offset."""

    path: str
    size: int
    at: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RelativeFileHandle:
    """Type 6, RelativeFileStateHandle: a whole file named relative to the directory of ``_metadata``."""

    path: str
    size: int
    at: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SegmentHandle:
    """Type 15, SegmentFileStateHandle (file merging): ``size`` bytes from ``start`` of a physical file."""

    path: str
    start: int
    size: int
    scope: Literal["EXCLUSIVE", "SHARED"]
    logical_id: str
    at: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EmptySegmentHandle:
    """Type 16, EmptySegmentFileStateHandle: no bytes at all."""

    @property
    def size(self) -> int:
        return 0


PlainHandle: TypeAlias = ByteStreamHandle | FileHandle | RelativeFileHandle | SegmentHandle | EmptySegmentHandle
StreamHandle: TypeAlias = "PlainHandle | KeyGroupsHandle"


def read_stream_handle(cursor: Cursor) -> StreamHandle | None:
    """A type byte and its stream handle; None for type 0. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    kind = cursor.u8()
    read = STREAM_READERS.get(kind)
    if read is None:
        refuse_type(cursor, kind, "stream", at)
    return read(cursor)


def write_stream_handle(out: Output, handle: StreamHandle | None) -> None:
    """The twin of :func:`read_stream_handle`: a type byte and the handle; type 0 for None."""
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
            from stateproc.metadata.keyed_handles import write_keyed_handle

            write_keyed_handle(out, handle)


def required_stream_handle(cursor: Cursor, what: str) -> StreamHandle:
    """As :func:`read_stream_handle`, where null is not an option."""
    at = cursor.pos
    handle = read_stream_handle(cursor)
    if handle is None:
        cursor.corrupt(f"{what} has no stream handle", at=at, advice=TAKE_AGAIN)
    return handle


def size_of(cursor: Cursor, what: str) -> int:
    """An i64 number of bytes, refused if negative."""
    at = cursor.pos
    size = cursor.i64()
    if size < 0:
        cursor.corrupt(f"negative {what} {size}", at=at, advice=TAKE_AGAIN)
    return size


def write_longs(out: Output, values: tuple[int, ...]) -> None:
    """The twin of :func:`longs` and the i32 count in front of it."""
    out.i32(len(values))
    out.raw(struct.pack(f">{len(values)}q", *values))


def longs(cursor: Cursor, count: int, what: str) -> tuple[int, ...]:
    """``count`` i64 in one go."""
    return struct.unpack(f">{count}q", cursor.take(8 * count, what))


def refuse_type(cursor: Cursor, kind: int, family: str, at: int) -> NoReturn:
    """Raise for a handle type byte that does not belong here, or that is newer than this library."""
    if kind <= LAST_KNOWN_TYPE:
        cursor.corrupt(f"handle type {kind} where a {family} handle belongs", at=at, advice=TAKE_AGAIN)
    cursor.unsupported(
        f"{family} handle type {kind} (known are 0 to {LAST_KNOWN_TYPE})",
        at=at,
        advice="written by a newer Flink, or the file is damaged; read it with a newer stateproc",
    )


LAST_KNOWN_TYPE = 17
_SCOPES: tuple[Literal["EXCLUSIVE", "SHARED"], ...] = ("EXCLUSIVE", "SHARED")
"""CheckpointedStateScope by ordinal."""


def _null(cursor: Cursor) -> None:
    return None


def _byte_stream(cursor: Cursor) -> ByteStreamHandle:
    return ByteStreamHandle(name=cursor.utf(), data=cursor.bytes32())


def _file(cursor: Cursor) -> FileHandle:
    at = cursor.offset
    size = size_of(cursor, "file size")
    return FileHandle(path=cursor.utf(), size=size, at=at)


def _relative_file(cursor: Cursor) -> RelativeFileHandle:
    at = cursor.offset
    return RelativeFileHandle(path=cursor.utf(), size=size_of(cursor, "file size"), at=at)


def _segment(cursor: Cursor) -> SegmentHandle:
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
        at=at,
    )


def _empty_segment(cursor: Cursor) -> EmptySegmentHandle:
    return EmptySegmentHandle()


def _key_groups(cursor: Cursor) -> KeyGroupsHandle:
    """Type 3 stands among keyed handles, but Flink accepts it as a stream as well."""
    from stateproc.metadata.keyed_handles import read_key_groups

    cursor.nested("stream handles")
    handle = read_key_groups(cursor, 3)
    cursor.unnested()
    return handle


STREAM_READERS: dict[int, Callable[[Cursor], StreamHandle | None]] = {
    0: _null,
    1: _byte_stream,
    2: _file,
    3: _key_groups,
    6: _relative_file,
    15: _segment,
    16: _empty_segment,
}
