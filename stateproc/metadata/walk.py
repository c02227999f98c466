"""Iterate over all stream handles of a snapshot, with their roles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stateproc.metadata.keyed_handles import ChangelogHandle, FileChangelogHandle, IncrementalHandle, KeyedHandle
from stateproc.metadata.snapshot import OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.metadata.stream_handles import KeyGroupsHandle, RelativeFileHandle, StreamHandle

SEGMENT = "changelog segment"
"""The role of a file of a log."""


class StreamUse(NamedTuple):
    """A stream handle and its role, such as "managed keyed" or "rocksdb shared 000012.sst".

    ``subtask`` is None for coordinator state. In-memory changelog handles have no stream and are not listed.
    ``bytes`` is how much of the stream this use accounts for: since Flink 1.20 channels of several subtasks share
    a file (AbstractChannelStateHandle.getStateSize is one channel's size).
    """

    operator: OperatorEntry
    subtask: int | None
    role: str
    handle: StreamHandle
    bytes: int


def walk_stream_handles(metadata: SnapshotMetadata) -> Iterator[StreamUse]:
    """Yield all stream handles of ``metadata`` in file order; a shared file once for each reference."""
    for operator in metadata.operators:
        yield from walk_operator(operator)


def walk_operator(operator: OperatorEntry) -> Iterator[StreamUse]:
    """Yield all stream handles of an operator in file order; a shared file once for each reference."""
    if operator.coordinator is not None:
        coordinator = operator.coordinator
        yield StreamUse(operator, None, "coordinator", coordinator, coordinator.size)
    for subtask in operator.subtasks:
        for role, handle in _of_subtask(subtask):
            yield StreamUse(operator, subtask.index, role, handle, handle.size)
        for channel in (*subtask.input_channels, *subtask.output_channels):
            role = f"channel {channel.direction}"
            yield StreamUse(operator, subtask.index, role, channel.stream, channel.size)


def file_bytes(metadata: SnapshotMetadata) -> int:
    """Return the bytes of all files and of the state in ``_metadata``; shared files count once."""
    sizes = {use.handle: use.handle.size for use in walk_stream_handles(metadata)}
    return sum(sizes.values())


def _of_subtask(subtask: SubtaskState) -> Iterator[tuple[str, StreamHandle]]:
    if subtask.managed_operator is not None:
        yield "managed operator", subtask.managed_operator.stream
    if subtask.raw_operator is not None:
        yield "raw operator", subtask.raw_operator.stream
    if subtask.managed_keyed is not None:
        yield from _of_keyed("managed keyed", subtask.managed_keyed)
    if subtask.raw_keyed is not None:
        yield from _of_keyed("raw keyed", subtask.raw_keyed)


def _of_keyed(role: str, handle: KeyedHandle) -> Iterator[tuple[str, StreamHandle]]:
    if isinstance(handle, KeyGroupsHandle):
        yield role, handle.stream
    elif isinstance(handle, IncrementalHandle):
        yield "rocksdb meta", handle.meta
        yield from ((f"rocksdb shared {name}", stream) for name, stream in handle.shared)
        yield from ((f"rocksdb private {name}", stream) for name, stream in handle.private)
    elif isinstance(handle, FileChangelogHandle):
        yield from ((SEGMENT, stream) for _, stream in handle.segments)
    elif isinstance(handle, ChangelogHandle):
        for inner in (*handle.materialized, *handle.non_materialized):
            yield from _of_keyed(role, inner)


# Find the handles whose files may be those of a native savepoint that the job claimed; see storage/claimed_files.py.
#
# Flink writes what incremental checkpoints share into the directory ``shared``, with absolute handles. Only a native
# savepoint has handles of shared files that are relative, and checkpoints of a job that claimed one.


def relative_shared_files(operators: Iterable[OperatorEntry]) -> Iterator[RelativeFileHandle]:
    """Yield the relative handles of files that checkpoints share."""
    for operator in operators:
        for subtask in operator.subtasks:
            if subtask.managed_keyed is not None:
                yield from _relative_files(subtask.managed_keyed)


def _relative_files(handle: KeyedHandle) -> Iterator[RelativeFileHandle]:
    if isinstance(handle, IncrementalHandle):
        yield from (stream for _, stream in handle.shared if isinstance(stream, RelativeFileHandle))
    elif isinstance(handle, ChangelogHandle):
        for inner in handle.materialized:
            yield from _relative_files(inner)
