"""Find out what kind of snapshot a ``_metadata`` describes."""

from __future__ import annotations

from collections.abc import Iterator

from stateproc.flink_versions import LAST, Release
from stateproc.metadata.keyed_handles import (
    ChangelogHandle,
    FileChangelogHandle,
    IncrementalHandle,
    InMemoryChangelogHandle,
    KeyedHandle,
)
from stateproc.metadata.snapshot import SnapshotMetadata
from stateproc.metadata.stream_handles import CANONICAL_TYPE, EmptySegmentHandle, KeyGroupsHandle, SegmentHandle
from stateproc.metadata.walk import walk_stream_handles

CHECKPOINT = "checkpoint"
CANONICAL_SAVEPOINT = "canonical savepoint"
SAVEPOINT_OR_CHECKPOINT = "savepoint or checkpoint"


def snapshot_kind(metadata: SnapshotMetadata) -> str:
    """Return canonical savepoint, native savepoint, checkpoint, or savepoint or checkpoint.

    ``_metadata`` contains it from Flink 1.16 on. Without it the type of the handles decides where it can: no state file
    is read.
    """
    properties = metadata.properties
    if properties is not None and properties.is_savepoint is not None:
        return f"{(properties.format or 'canonical').lower()} savepoint" if properties.is_savepoint else CHECKPOINT
    types = {
        handle.type_byte if isinstance(handle, KeyGroupsHandle) else None
        for operator in metadata.operators
        for subtask in operator.subtasks
        if (handle := subtask.managed_keyed) is not None
    }
    return CANONICAL_SAVEPOINT if types == {CANONICAL_TYPE} else SAVEPOINT_OR_CHECKPOINT


# Derive the range of Flink releases that can have written a snapshot, from its metadata version and handle types.

_BY_VERSION: dict[int, tuple[Release, Release]] = {
    2: (Release(1, 3), Release(1, 10)),
    3: (Release(1, 11), Release(1, 15)),
    4: (Release(1, 16), Release(1, 20)),
    5: (Release(2, 0), Release(2, 0)),
    6: (Release(2, 1), Release(2, 3)),
    7: (Release(2, 4), LAST),
}

_BY_HANDLE: dict[int, tuple[Release, Release]] = {
    3: (Release(1, 3), Release(1, 14)),
    5: (Release(1, 3), Release(1, 14)),
    7: (Release(1, 13), LAST),
    8: (Release(1, 14), Release(1, 15)),
    9: (Release(1, 14), LAST),
    10: (Release(1, 14), Release(1, 15)),
    11: (Release(1, 15), LAST),
    12: (Release(1, 15), LAST),
    13: (Release(1, 16), LAST),
    14: (Release(1, 16), LAST),
    15: (Release(1, 20), LAST),
    16: (Release(1, 20), LAST),
    17: (Release(1, 20), LAST),
}
_FINISHED: tuple[Release, Release] = (Release(1, 14), LAST)


def flink_version_range(metadata: SnapshotMetadata) -> str:
    """Return the Flink releases that write this version with these handles, such as "1.16 – 1.20" or "2.0"."""
    first, last = _BY_VERSION[metadata.version]
    for low, high in set(_evidence(metadata)):
        # Handles carried over from an older snapshot must not contradict the version.
        if max(first, low) <= min(last, high):
            first, last = max(first, low), min(last, high)
    return str(first) if first == last else f"{first} – {last}"


def first_reading_release(handle: KeyedHandle) -> Release:
    """Return the first Flink release that reads a handle of this type in ``_metadata``."""
    return max(_BY_HANDLE[kind][0] for kind in _keyed_types(handle))


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
