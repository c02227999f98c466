"""Derive the range of Flink releases that can have written a snapshot, from its metadata version and handle types."""

from __future__ import annotations

from collections.abc import Iterator

from stateproc.metadata.handles import (
    ChangelogHandle,
    EmptySegmentHandle,
    FileChangelogHandle,
    IncrementalHandle,
    InMemoryChangelogHandle,
    KeyedHandle,
    KeyGroupsHandle,
    SegmentHandle,
)
from stateproc.metadata.snapshot import SnapshotMetadata
from stateproc.metadata.walk import walk_stream_handles

Release = tuple[int, int]

_BY_VERSION: dict[int, tuple[Release, Release]] = {
    2: ((1, 3), (1, 10)),
    3: ((1, 11), (1, 15)),
    4: ((1, 16), (1, 20)),
    5: ((2, 0), (2, 0)),
    6: ((2, 1), (2, 3)),
}

_BY_HANDLE: dict[int, tuple[Release, Release]] = {
    3: ((1, 3), (1, 14)),
    5: ((1, 3), (1, 14)),
    7: ((1, 13), (2, 3)),
    8: ((1, 14), (1, 15)),
    9: ((1, 14), (2, 3)),
    10: ((1, 14), (1, 15)),
    11: ((1, 15), (2, 3)),
    12: ((1, 15), (2, 3)),
    13: ((1, 16), (2, 3)),
    14: ((1, 16), (2, 3)),
    15: ((1, 20), (2, 3)),
    16: ((1, 20), (2, 3)),
    17: ((1, 20), (2, 3)),
}
_FINISHED: tuple[Release, Release] = ((1, 14), (2, 3))


def flink_version_range(metadata: SnapshotMetadata) -> str:
    """Return the Flink releases that write this version with these handles, such as "1.16 – 1.20" or "2.0"."""
    first, last = _BY_VERSION[metadata.version]
    for low, high in set(_evidence(metadata)):
        # Handles carried over from an older snapshot must not contradict the version.
        if max(first, low) <= min(last, high):
            first, last = max(first, low), min(last, high)
    return _text(first) if first == last else f"{_text(first)} – {_text(last)}"


def first_reading_release(handle: KeyedHandle) -> Release:
    """Return the first Flink release that reads a handle of this type in ``_metadata``, as (major, minor)."""
    return max(_BY_HANDLE[kind][0] for kind in _keyed_types(handle))


def _text(release: Release) -> str:
    return f"{release[0]}.{release[1]}"


def _evidence(metadata: SnapshotMetadata) -> Iterator[tuple[Release, Release]]:
    for operator in metadata.operators:
        if operator.finished or any(subtask.finished for subtask in operator.subtasks):
            yield _FINISHED
        for subtask in operator.subtasks:
            for keyed in (subtask.managed_keyed, subtask.raw_keyed):
                if keyed is not None:
                    yield from (_BY_HANDLE[kind] for kind in _keyed_types(keyed))
            if subtask.managed_operator is not None and subtask.managed_operator.type_byte in _BY_HANDLE:
                yield _BY_HANDLE[subtask.managed_operator.type_byte]
    for use in walk_stream_handles(metadata):
        if isinstance(use.handle, SegmentHandle | EmptySegmentHandle):
            yield _BY_HANDLE[15]


def _keyed_types(handle: KeyedHandle) -> Iterator[int]:
    if isinstance(handle, InMemoryChangelogHandle):
        yield 9
    elif isinstance(handle, KeyGroupsHandle | IncrementalHandle | FileChangelogHandle):
        yield handle.type_byte
    elif isinstance(handle, ChangelogHandle):
        yield handle.type_byte
        for inner in (*handle.materialized, *handle.non_materialized):
            yield from _keyed_types(inner)
