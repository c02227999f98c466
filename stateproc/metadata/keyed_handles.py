"""Read and write keyed state handles (org.apache.flink.runtime.state.KeyedStateHandle, MetadataV2V3SerializerBase)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from stateproc.errors import InvalidOption
from stateproc.metadata.stream_handles import (
    TAKE_AGAIN,
    KeyGroupsHandle,
    StreamHandle,
    plain_file_handle,
    read_key_group_range,
    read_key_groups,
    refuse_type,
    required_stream_handle,
    size_of,
    write_key_groups,
    write_stream_handle,
)
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

_WITH_ID = frozenset(range(8, 15))


class OfKeyGroups:
    """A handle of the state of some key groups, which follow one another."""

    __slots__ = ()
    first_key_group: int
    key_group_count: int

    @property
    def key_groups(self) -> range:
        return range(self.first_key_group, self.first_key_group + self.key_group_count)


@dataclass(frozen=True, slots=True)
class IncrementalHandle(OfKeyGroups):
    """Types 5, 11: IncrementalRemoteKeyedStateHandle; RocksDB files by local name, header in ``meta``.

    ``offset``: the byte offset of the handle's type byte in ``_metadata``.
    """

    type_byte: int
    checkpoint_id: int
    backend_id: str
    first_key_group: int
    key_group_count: int
    checkpointed_size: int | None
    meta: StreamHandle
    shared: tuple[tuple[str, StreamHandle], ...]
    private: tuple[tuple[str, StreamHandle], ...]
    handle_id: str | None = None
    offset: int | None = field(default=None, compare=False, repr=False)

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of the database's files."""
        return sum(stream.size for _, stream in (*self.shared, *self.private))


@dataclass(frozen=True, slots=True)
class InMemoryChangelogHandle(OfKeyGroups):
    """Type 9, InMemoryChangelogStateHandle: (key group, change) pairs; key group -1 is metadata."""

    first_key_group: int
    key_group_count: int
    from_sqn: int
    to_sqn: int
    changes: tuple[tuple[int, bytes], ...]
    handle_id: str

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of the changes."""
        return sum(len(data) for _, data in self.changes)


@dataclass(frozen=True, slots=True)
class FileChangelogHandle(OfKeyGroups):
    """Types 10, 13: ChangelogStateHandleStreamImpl; a segment is (offset in the plain content, file)."""

    type_byte: int
    first_key_group: int
    key_group_count: int
    segments: tuple[tuple[int, StreamHandle], ...]
    size: int
    checkpointed_size: int
    handle_id: str
    storage: str | None = None

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of the segments; 0 where the handle does not contain their size."""
        return max(self.size, 0)


@dataclass(frozen=True, slots=True)
class ChangelogHandle(OfKeyGroups):
    """Types 8, 14: ChangelogStateBackendHandle; the inner backend's materialized handles and the log written since."""

    type_byte: int
    first_key_group: int
    key_group_count: int
    checkpointed_size: int
    materialized: tuple[KeyedHandle, ...]
    non_materialized: tuple[InMemoryChangelogHandle | FileChangelogHandle, ...]
    materialization_id: int
    checkpoint_id: int | None
    handle_id: str

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of the materialized part and of the log."""
        return sum(part.stored_bytes for part in (*self.materialized, *self.non_materialized))


KeyedHandle: TypeAlias = (
    "KeyGroupsHandle | IncrementalHandle | InMemoryChangelogHandle | FileChangelogHandle | ChangelogHandle"
)


def read_keyed_handle(cursor: Cursor) -> KeyedHandle | None:
    """Read a type byte and its keyed handle; None for type 0. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    kind = cursor.u8()
    if kind == 0:
        return None
    read = KEYED_READERS.get(kind)
    if read is None:
        refuse_type(cursor, kind, "keyed state", at)
    cursor.nested("keyed state handles")
    handle = read(cursor, kind)
    cursor.unnested()
    return handle


def _incremental(cursor: Cursor, kind: int) -> IncrementalHandle:
    offset = cursor.offset - 1
    checkpoint_id = cursor.i64()
    backend_id = cursor.utf()
    first, count = read_key_group_range(cursor)
    return IncrementalHandle(
        type_byte=kind,
        checkpoint_id=checkpoint_id,
        backend_id=backend_id,
        first_key_group=first,
        key_group_count=count,
        checkpointed_size=cursor.i64() if kind == 11 else None,
        meta=required_stream_handle(cursor, "an incremental handle's header"),
        shared=_named_files(cursor, "shared files"),
        private=_named_files(cursor, "private files"),
        handle_id=cursor.utf() if kind == 11 else None,
        offset=offset,
    )


def _named_files(cursor: Cursor, what: str) -> tuple[tuple[str, StreamHandle], ...]:
    return tuple(
        (cursor.utf(), plain_file_handle(cursor) or required_stream_handle(cursor, what))
        for _ in range(cursor.count(what, 3))
    )


def _changelog(cursor: Cursor, kind: int) -> ChangelogHandle:
    first, count = read_key_group_range(cursor)
    return ChangelogHandle(
        type_byte=kind,
        first_key_group=first,
        key_group_count=count,
        checkpointed_size=cursor.i64(),
        materialized=_materialized(cursor),
        non_materialized=_non_materialized(cursor),
        materialization_id=cursor.i64(),
        checkpoint_id=cursor.i64() if kind == 14 else None,
        handle_id=cursor.utf(),
    )


def _materialized(cursor: Cursor) -> tuple[KeyedHandle, ...]:
    read = [read_keyed_handle(cursor) for _ in range(cursor.count("materialized handles"))]
    return tuple(handle for handle in read if handle is not None)


def _non_materialized(cursor: Cursor) -> tuple[InMemoryChangelogHandle | FileChangelogHandle, ...]:
    found: list[InMemoryChangelogHandle | FileChangelogHandle] = []
    for _ in range(cursor.count("changelog handles")):
        at = cursor.pos
        handle = read_keyed_handle(cursor)
        if not isinstance(handle, InMemoryChangelogHandle | FileChangelogHandle):
            cursor.corrupt("a handle that is no changelog among the changelog's", at=at, advice=TAKE_AGAIN)
        found.append(handle)
    return tuple(found)


def _in_memory_changelog(cursor: Cursor, kind: int) -> InMemoryChangelogHandle:
    first, count = read_key_group_range(cursor)
    return InMemoryChangelogHandle(
        first_key_group=first,
        key_group_count=count,
        from_sqn=cursor.i64(),
        to_sqn=cursor.i64(),
        changes=tuple((cursor.i32(), cursor.bytes32()) for _ in range(cursor.count("changes", 8))),
        handle_id=cursor.utf(),
    )


def _file_changelog(cursor: Cursor, kind: int) -> FileChangelogHandle:
    first, count = read_key_group_range(cursor)
    return FileChangelogHandle(
        type_byte=kind,
        first_key_group=first,
        key_group_count=count,
        segments=tuple(
            (size_of(cursor, "changelog offset"), required_stream_handle(cursor, "a changelog segment"))
            for _ in range(cursor.count("changelog segments", 9))
        ),
        size=cursor.i64(),
        checkpointed_size=cursor.i64(),
        handle_id=cursor.utf(),
        storage=cursor.utf() if kind == 13 else None,
    )


KEYED_READERS: dict[int, Callable[[Cursor, int], KeyedHandle]] = {
    3: read_key_groups,
    5: _incremental,
    7: read_key_groups,
    8: _changelog,
    9: _in_memory_changelog,
    10: _file_changelog,
    11: _incremental,
    12: read_key_groups,
    13: _file_changelog,
    14: _changelog,
}


def write_keyed_handle(out: Output, handle: KeyedHandle | None) -> None:
    """Write what :func:`read_keyed_handle` reads: a type byte and the handle; type 0 for None.

    Raises InvalidOption for an id where the type has none, or none where it has one.
    """
    if handle is not None and (handle.handle_id is None) == (_type_of(handle) in _WITH_ID):
        has = "has no id" if handle.handle_id is not None else "needs an id"
        raise InvalidOption(
            f"a keyed state handle of type {_type_of(handle)} {has}",
            advice="types 3, 5 and 7 have no id, types 8 to 14 have one that no other handle has",
        )
    match handle:
        case None:
            out.u8(0)
        case KeyGroupsHandle():
            write_key_groups(out, handle)
        case IncrementalHandle():
            _write_incremental(out, handle)
        case InMemoryChangelogHandle():
            _write_in_memory_changelog(out, handle)
        case FileChangelogHandle():
            _write_file_changelog(out, handle)
        case _:
            _write_changelog(out, handle)
    if handle is not None and handle.handle_id is not None:
        out.utf(handle.handle_id)
    if isinstance(handle, FileChangelogHandle) and handle.storage is not None:
        out.utf(handle.storage)


def _type_of(handle: KeyedHandle) -> int:
    return 9 if isinstance(handle, InMemoryChangelogHandle) else handle.type_byte


def _write_incremental(out: Output, handle: IncrementalHandle) -> None:
    out.u8(handle.type_byte)
    out.i64(handle.checkpoint_id)
    out.utf(handle.backend_id)
    _write_key_group_range(out, handle)
    if handle.checkpointed_size is not None:
        out.i64(handle.checkpointed_size)
    write_stream_handle(out, handle.meta)
    for files in (handle.shared, handle.private):
        out.i32(len(files))
        for name, stream in files:
            out.utf(name)
            write_stream_handle(out, stream)


def _write_changelog(out: Output, handle: ChangelogHandle) -> None:
    out.u8(handle.type_byte)
    _write_key_group_range(out, handle)
    out.i64(handle.checkpointed_size)
    for handles in (handle.materialized, handle.non_materialized):
        out.i32(len(handles))
        for inner in handles:
            write_keyed_handle(out, inner)
    out.i64(handle.materialization_id)
    if handle.checkpoint_id is not None:
        out.i64(handle.checkpoint_id)


def _write_in_memory_changelog(out: Output, handle: InMemoryChangelogHandle) -> None:
    out.u8(9)
    _write_key_group_range(out, handle)
    out.i64(handle.from_sqn)
    out.i64(handle.to_sqn)
    out.i32(len(handle.changes))
    for key_group, change in handle.changes:
        out.i32(key_group)
        out.bytes32(change)


def _write_file_changelog(out: Output, handle: FileChangelogHandle) -> None:
    out.u8(handle.type_byte)
    _write_key_group_range(out, handle)
    out.i32(len(handle.segments))
    for offset, stream in handle.segments:
        out.i64(offset)
        write_stream_handle(out, stream)
    out.i64(handle.size)
    out.i64(handle.checkpointed_size)


def _write_key_group_range(out: Output, handle: OfKeyGroups) -> None:
    out.i32(handle.first_key_group)
    out.i32(handle.key_group_count)
