"""Replace the streams of an operator's handles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stateproc.metadata.handles import (
    ChangelogHandle,
    FileChangelogHandle,
    IncrementalHandle,
    KeyedHandle,
    KeyGroupsHandle,
    OperatorHandle,
    StreamHandle,
)
from stateproc.metadata.snapshot import OperatorState, SubtaskState

StreamRewrite = Callable[[StreamHandle, bool], StreamHandle]
"""(stream handle, whether it is a changelog file, of which handles describe a part only) → its replacement."""
_FILE_MERGING, _PLAIN = 17, 4


def with_streams(operator: OperatorState, swap: StreamRewrite) -> OperatorState:
    """The operator with ``swap`` of each stream; channel state is left out. Streams of `swap` may be of any kind: file
    merging operator handles (type 17, segments only) become plain ones (type 4), empty ones nothing.
    """
    subtasks = tuple(_subtask(subtask, swap) for subtask in operator.subtasks)
    return replace(operator, subtasks=subtasks)


def _subtask(subtask: SubtaskState, swap: StreamRewrite) -> SubtaskState:
    return replace(
        subtask,
        managed_operator=_operator(subtask.managed_operator, swap),
        raw_operator=_operator(subtask.raw_operator, swap),
        managed_keyed=None if subtask.managed_keyed is None else _keyed(subtask.managed_keyed, swap),
        raw_keyed=None if subtask.raw_keyed is None else _keyed(subtask.raw_keyed, swap),
        input_channels=(),
        output_channels=(),
    )


def _operator(handle: OperatorHandle | None, swap: StreamRewrite) -> OperatorHandle | None:
    if handle is None or handle.is_empty:
        return None
    stream = swap(handle.stream, False)
    if handle.type_byte != _FILE_MERGING:
        return replace(handle, stream=stream)
    return replace(handle, type_byte=_PLAIN, stream=stream, task_owned_dir=None, shared_dir=None)


def _keyed(handle: KeyedHandle, swap: StreamRewrite) -> KeyedHandle:
    if isinstance(handle, KeyGroupsHandle):
        return replace(handle, stream=_stream(handle.stream, swap))
    if isinstance(handle, IncrementalHandle):
        return replace(
            handle,
            meta=_stream(handle.meta, swap),
            shared=tuple((name, _stream(stream, swap)) for name, stream in handle.shared),
            private=tuple((name, _stream(stream, swap)) for name, stream in handle.private),
        )
    if isinstance(handle, FileChangelogHandle):
        return _changelog_files(handle, swap)
    if isinstance(handle, ChangelogHandle):
        return replace(
            handle,
            materialized=tuple(_keyed(inner, swap) for inner in handle.materialized),
            non_materialized=tuple(
                _changelog_files(part, swap) if isinstance(part, FileChangelogHandle) else part
                for part in handle.non_materialized
            ),
        )
    return handle


def _changelog_files(handle: FileChangelogHandle, swap: StreamRewrite) -> FileChangelogHandle:
    return replace(handle, segments=tuple((offset, swap(stream, True)) for offset, stream in handle.segments))


def _stream(handle: StreamHandle, swap: StreamRewrite) -> StreamHandle:
    """The stream of a key-groups handle that is used as a stream is the one inside of it."""
    if isinstance(handle, KeyGroupsHandle):
        return replace(handle, stream=_stream(handle.stream, swap))
    return swap(handle, False)
