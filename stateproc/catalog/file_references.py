"""Which files the ``_metadata`` of a snapshot names, as numbers, so that a million references fit into memory.

A file is known by a hash of where it is: 16 bytes per reference, and a collision among a million files has a chance of
one in thirty million. It could only make a size too large, or keep a file out of the list of those nobody needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateproc.errors import CorruptSnapshot, Where
from stateproc.metadata import SnapshotMetadata
from stateproc.metadata.keyed_handles import ChangelogHandle, FileChangelogHandle, IncrementalHandle, KeyedHandle
from stateproc.metadata.stream_handles import (
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
    StreamHandle,
)
from stateproc.storage.layout import CHECKPOINT_NAME, JOB_NAME, is_below_job
from stateproc.storage.uris import absolute, basename, is_within, join, parent, same_store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

_MOST_BYTES = 1 << 60


@dataclass(frozen=True)
class FileReferences:
    """The distinct files (of merged files, the segments) of a snapshot.

    Attributes:
        ids: Hashes of the files' paths, sorted.
        sizes: Their bytes, in the order of ``ids``.
        names: Hashes of their last path components, sorted.
    """

    ids: Numbers
    sizes: Numbers
    names: Numbers

    def has(self, file: int) -> bool:
        """Return whether a file, by its id, is one of these."""
        at = int(self.ids.searchsorted(file))
        return at < len(self.ids) and int(self.ids[at]) == file

    def moved(self, places: Mapping[int, int | None]) -> FileReferences:
        """Return the references with files under other ids; those of None are left out."""
        import numpy as np  # Lazy: start-up.

        pairs = zip(self.ids.tolist(), self.sizes.tolist(), strict=True)
        sizes = {place: size for own, size in pairs if (place := places.get(own, own)) is not None}
        ids = np.fromiter(sizes, np.int64, len(sizes))
        order = np.argsort(ids)
        return FileReferences(ids[order], np.fromiter(sizes.values(), np.int64, len(sizes))[order], self.names)


def file_id(place: str, name: str, segment: tuple[int, int] | None = None) -> int:
    """Return the id of a file.

    Args:
        place: Its directory, as `same_store` spells it.
        name: Its path below it.
        segment: Start and size of a part of a merged file.
    """
    return hash((place, name, segment))


def file_references(metadata: SnapshotMetadata, directory: str, roots: Sequence[str]) -> FileReferences:
    """Collect the files of a snapshot.

    Args:
        metadata: The contents of its ``_metadata``.
        directory: Where the snapshot is.
        roots: The directories that are listed. Paths to files elsewhere are those before a snapshot was moved, as a
            rule: its files are looked for near it.

    Raises:
        CorruptSnapshot: The sizes of its files add up to more than any storage has.
    """
    import numpy as np  # Lazy: start-up.

    places = _Places(directory, roots)
    sizes: dict[int, int] = {}
    names: set[int] = set()
    for handle in stream_handles(metadata):
        while isinstance(handle, KeyGroupsHandle):
            handle = handle.stream
        if isinstance(handle, FileHandle | SegmentHandle):
            head, _, name = handle.path.rpartition("/")
            segment = (handle.start, handle.size) if isinstance(handle, SegmentHandle) else None
            sizes[file_id(places.place_of(head), name, segment)] = handle.size
        elif isinstance(handle, RelativeFileHandle):
            name = handle.path.rpartition("/")[2]
            sizes[file_id(places.own, handle.path)] = handle.size
        else:
            continue
        names.add(hash(name))
    total = sum(sizes.values())
    if total > _MOST_BYTES:
        raise CorruptSnapshot(f"its files have {total} bytes, by their handles", where=Where(file=directory))
    ids = np.fromiter(sizes, np.int64, len(sizes))
    order = np.argsort(ids)
    in_order = np.fromiter(sizes.values(), np.int64, len(sizes))[order]
    return FileReferences(ids[order], in_order, np.sort(np.fromiter(names, np.int64, len(names))))


class _Places:
    """Maps the directories in a snapshot's paths to where they are now; each is looked up once."""

    def __init__(self, directory: str, roots: Sequence[str]) -> None:
        self.own = same_store(directory)
        self._roots = [same_store(root) for root in roots]
        self._places: dict[str, str] = {}
        above = parent(self.own)
        self._is_checkpoint = CHECKPOINT_NAME.fullmatch(basename(self.own)) is not None
        self._job_directory = above if self._is_checkpoint else None
        self._has_job = JOB_NAME.fullmatch(basename(above)) is not None

    def place_of(self, head: str) -> str:
        place = self._places.get(head)
        if place is None:
            place = self._places[head] = self._place_of(head)
        return place

    def _place_of(self, head: str) -> str:
        written = same_store(absolute(head)) if "/" in head else head
        if any(is_within(written, root) for root in self._roots):
            return written
        if self._job_directory is None:
            # Savepoints before 1.11 contain the absolute paths of files beside _metadata.
            return self.own if basename(written) == basename(self.own) else written
        parts = written.split("/")
        if not self._has_job:
            at = next((i for i, part in enumerate(parts) if is_below_job(part)), None)
            return written if at is None else join(self._job_directory, *parts[at:])
        at = next((i for i in range(len(parts) - 1, -1, -1) if JOB_NAME.fullmatch(parts[i])), None)
        return written if at is None else join(parent(self._job_directory), *parts[at:])


def stream_handles(metadata: SnapshotMetadata) -> Iterator[StreamHandle]:
    """Yield all stream handles but those of coordinators, whose state is in ``_metadata``.

    ``walk_stream_handles`` says what each is for, too, which takes three times as long.
    """
    for operator in metadata.operators:
        for subtask in operator.subtasks:
            for managed in (subtask.managed_operator, subtask.raw_operator):
                if managed is not None:
                    yield managed.stream
            for keyed in (subtask.managed_keyed, subtask.raw_keyed):
                if keyed is not None:
                    yield from _of_keyed(keyed)
            for channel in (*subtask.input_channels, *subtask.output_channels):
                yield channel.stream


def _of_keyed(handle: KeyedHandle) -> Iterator[StreamHandle]:
    if isinstance(handle, KeyGroupsHandle):
        yield handle.stream
    elif isinstance(handle, IncrementalHandle):
        yield handle.meta
        for _, stream in handle.shared:
            yield stream
        for _, stream in handle.private:
            yield stream
    elif isinstance(handle, FileChangelogHandle):
        for _, stream in handle.segments:
            yield stream
    elif isinstance(handle, ChangelogHandle):
        for inner in (*handle.materialized, *handle.non_materialized):
            yield from _of_keyed(inner)
