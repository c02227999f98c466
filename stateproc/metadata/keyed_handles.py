"""Keyed state handles (org.apache.flink.runtime.state.KeyedStateHandle), by MetadataV2V3SerializerBase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from stateproc.metadata.stream_handles import (
    TAKE_AGAIN,
    StreamHandle,
    longs,
    refuse_type,
    required_stream_handle,
    size_of,
)
from stateproc.wire.cursor import Cursor

MAX_KEY_GROUPS = 1 << 15
"""KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM."""


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
    def key_groups(self) -> range:
        return range(self.first_key_group, self.first_key_group + len(self.offsets))

    @property
    def size(self) -> int:
        return self.stream.size


@dataclass(frozen=True, slots=True)
class IncrementalHandle:
    """Types 5, 11: IncrementalRemoteKeyedStateHandle; RocksDB files by local name, header in ``meta``."""

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

    @property
    def key_groups(self) -> range:
        return range(self.first_key_group, self.first_key_group + self.key_group_count)


@dataclass(frozen=True, slots=True)
class InMemoryChangelogHandle:
    """Type 9, InMemoryChangelogStateHandle: (key group, change) pairs; key group -1 is metadata."""

    first_key_group: int
    key_group_count: int
    from_sqn: int
    to_sqn: int
    changes: tuple[tuple[int, bytes], ...]
    handle_id: str

    @property
    def key_groups(self) -> range:
        return range(self.first_key_group, self.first_key_group + self.key_group_count)


@dataclass(frozen=True, slots=True)
class FileChangelogHandle:
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
    def key_groups(self) -> range:
        return range(self.first_key_group, self.first_key_group + self.key_group_count)


@dataclass(frozen=True, slots=True)
class ChangelogHandle:
    """Types 8, 14: ChangelogStateBackendHandle; the inner backend's handles, and the log written since."""

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
    def key_groups(self) -> range:
        return range(self.first_key_group, self.first_key_group + self.key_group_count)


KeyedHandle: TypeAlias = (
    "KeyGroupsHandle | IncrementalHandle | InMemoryChangelogHandle | FileChangelogHandle | ChangelogHandle"
)


def read_keyed_handle(cursor: Cursor) -> KeyedHandle | None:
    """A type byte and its keyed handle; None for type 0. Raises CorruptSnapshot, UnsupportedSnapshot."""
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


def read_key_groups(cursor: Cursor, kind: int) -> KeyGroupsHandle:
    """Types 3, 7 and 12 behind the type byte."""
    first, count = _key_group_range(cursor)
    offsets = longs(cursor, count, "key-group offsets")
    stream = required_stream_handle(cursor, "a key-groups handle")
    return KeyGroupsHandle(
        type_byte=kind,
        first_key_group=first,
        offsets=offsets,
        stream=stream,
        handle_id=cursor.utf() if kind == 12 else None,
    )


def _incremental(cursor: Cursor, kind: int) -> IncrementalHandle:
    checkpoint_id = cursor.i64()
    backend_id = cursor.utf()
    first, count = _key_group_range(cursor)
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
    )


def _named_files(cursor: Cursor, what: str) -> tuple[tuple[str, StreamHandle], ...]:
    return tuple((cursor.utf(), required_stream_handle(cursor, what)) for _ in range(cursor.count(what, 3)))


def _changelog(cursor: Cursor, kind: int) -> ChangelogHandle:
    first, count = _key_group_range(cursor)
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
    first, count = _key_group_range(cursor)
    return InMemoryChangelogHandle(
        first_key_group=first,
        key_group_count=count,
        from_sqn=cursor.i64(),
        to_sqn=cursor.i64(),
        changes=tuple((cursor.i32(), cursor.bytes32()) for _ in range(cursor.count("changes", 8))),
        handle_id=cursor.utf(),
    )


def _file_changelog(cursor: Cursor, kind: int) -> FileChangelogHandle:
    first, count = _key_group_range(cursor)
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


def _key_group_range(cursor: Cursor) -> tuple[int, int]:
    """i32 first key group, i32 number of key groups; both within Flink's 32768."""
    at = cursor.pos
    first, count = cursor.i32(), cursor.i32()
    if first < 0 or count < 0 or first + count > MAX_KEY_GROUPS:
        cursor.corrupt(f"impossible key groups: {count} from {first}", at=at, advice=TAKE_AGAIN)
    return first, count


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
