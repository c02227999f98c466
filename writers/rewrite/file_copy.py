"""Copy the files of unchanged operators to the new snapshot, and replace the streams of their handles by the copies.

Each file, or segment of a merged file, is copied once, however many handles refer to it. State inside ``_metadata``
stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from stateproc.errors import InvalidOption, MissingFile, UnsupportedSnapshot, Where, located
from stateproc.metadata.keyed_handles import ChangelogHandle, FileChangelogHandle, IncrementalHandle, KeyedHandle
from stateproc.metadata.operator_handles import OperatorHandle
from stateproc.metadata.snapshot import OperatorEntry, SubtaskState
from stateproc.metadata.stream_handles import ByteStreamHandle, KeyGroupsHandle, RelativeFileHandle, StreamHandle
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.storage.sources import FileSource
from stateproc.writers.commit.staging import Staging

# Replace the streams of an operator's handles.

StreamRewrite = Callable[[StreamHandle, bool], StreamHandle]
"""(stream handle, whether it is a changelog file, of which handles describe a part only) → its replacement."""
_FILE_MERGING, _PLAIN = 17, 4


def with_streams(operator: OperatorEntry, swap: StreamRewrite) -> OperatorEntry:
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


_AT_ONCE = 8 << 20


@dataclass(frozen=True)
class FileCopy:
    """One file or segment to copy. Picklable; each run writes a new file, so that it can be repeated.

    ``to_end``: the whole file, which may be longer than ``source`` says (changelog files). ``operator``: an operator
    whose state it is, for errors.
    """

    source: FileSource
    to_end: bool = False
    operator: str | None = None

    @property
    def bytes(self) -> int:
        return self.source.size

    def run(self, staging: Staging) -> RelativeFileHandle | ByteStreamHandle:
        """Copy the file and return the handle of the copy. Raises MissingFile, CorruptSnapshot, WriteFailed."""
        with located(operator=self.operator):
            return self._run(staging)

    def _run(self, staging: Staging) -> RelativeFileHandle | ByteStreamHandle:
        source = _whole(self.source) if self.to_end else self.source
        source.read(0, 0)  # finds it, and sees that it is long enough
        with staging.new_file(inline_threshold=0) as file:
            done = file.append(source.path.at(source.name), source.base, source.size)
            buffer = np.empty(min(_AT_ONCE, source.size - done), dtype=np.uint8).data
            for at in range(done, source.size, _AT_ONCE):
                part = buffer[: min(_AT_ONCE, source.size - at)]
                source.read_into(at, part)
                file.write(part)
            return file.close()


def _whole(source: FileSource) -> FileSource:
    """The whole of the file that ``source`` is a part of."""
    source.read(0, 0)  # finds it
    path = source.path.at(source.name)
    status = path.status()
    if status is None:
        raise MissingFile("the file is gone", where=Where(file=source.name))
    return FileSource(path, status.size)


@dataclass(frozen=True)
class CopyPlan:
    """Files to copy, and the operators whose handles refer to the copies after `finish`."""

    copies: tuple[FileCopy, ...]
    operators: tuple[OperatorEntry, ...]
    location: SnapshotLocation
    _indexes: Mapping[tuple[str, int, int], int] = field(repr=False)

    @property
    def bytes(self) -> int:
        """Bytes to copy, about (changelog files may be longer than handles say)."""
        return sum(copy.bytes for copy in self.copies)

    def finish(self, handles: Sequence[RelativeFileHandle | ByteStreamHandle]) -> tuple[OperatorEntry, ...]:
        """Return the operators with handles of the copies, given in the order of ``copies``."""
        if len(handles) != len(self.copies):
            raise InvalidOption(f"{len(handles)} copies where {len(self.copies)} were planned")

        def swap(handle: StreamHandle, changelog: bool) -> StreamHandle:
            source = open_handle(handle, self.location, whole=not changelog)
            return (
                handles[self._indexes[_location_key(source, changelog)]] if isinstance(source, FileSource) else handle
            )

        return tuple(with_streams(operator, swap) for operator in self.operators)


def copy_plan(
    operators: Iterable[OperatorEntry], location: SnapshotLocation, *, drop_channel_state: bool = False
) -> CopyPlan:
    """Plan the copy of operators, which keep format, max parallelism and compression.

    drop_channel_state: leave records in flight out, which then are lost. Raises UnsupportedSnapshot where there are any
    and they are not to be dropped; CorruptSnapshot for handles that point out of the snapshot.
    """
    chosen = tuple(operators)
    if not drop_channel_state:
        for operator in chosen:
            refuse_channel_state(operator, location)
    copies: list[FileCopy] = []
    indexes: dict[tuple[str, int, int], int] = {}

    def note(handle: StreamHandle, changelog: bool, operator: OperatorEntry) -> StreamHandle:
        source = open_handle(handle, location, whole=not changelog)
        if isinstance(source, FileSource) and indexes.setdefault(_location_key(source, changelog), len(copies)) == len(
            copies
        ):
            copies.append(FileCopy(source, changelog, operator.uid or operator.operator_id))
        return handle

    for operator in chosen:
        with_streams(operator, partial(note, operator=operator))
    return CopyPlan(tuple(copies), chosen, location, indexes)


def _location_key(source: FileSource, changelog: bool) -> tuple[str, int, int]:
    """A key that is equal for handles of the same bytes."""
    return (source.uri, 0, -1) if changelog else (source.uri, source.base, source.size)


def refuse_channel_state(operator: OperatorEntry, location: SnapshotLocation) -> None:
    """Raise UnsupportedSnapshot if an operator has records in flight (of unaligned checkpoints)."""
    for subtask in operator.subtasks:
        handles = (*subtask.input_channels, *subtask.output_channels)
        if handles:
            raise UnsupportedSnapshot(
                f"subtask {subtask.index} has records in flight ({sum(handle.size for handle in handles)} bytes of "
                "channel state), which belong to the job's network as it was",
                where=Where(file=location.metadata_uri, operator=operator.uid or operator.operator_id),
                advice="take a savepoint, or a checkpoint with aligned barriers, and rewrite that; or drop the records "
                "in flight, knowing that they are lost (drop_in_flight_data())",
            )
