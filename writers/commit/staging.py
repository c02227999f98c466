"""A write in progress: its directory, the names of its files, and whether it is still valid.

Files are written to the target's directory directly, under names that no other write and no other attempt of a task
has: relative handles are valid, and nothing has to be moved on object stores. ``_metadata``, written last, makes them a
snapshot. Until then a marker file shows that the write is in progress; without the marker the write is over.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from types import TracebackType

from stateproc.errors import InvalidOption, Where, WriteFailed
from stateproc.metadata.stream_handles import ByteStreamHandle, RelativeFileHandle
from stateproc.storage.layout import METADATA
from stateproc.storage.paths import SnapshotLocation
from stateproc.storage.store import StorePath
from stateproc.storage.uris import scheme_of
from stateproc.storage.writing import OutputFile, remove_quietly

INLINE_THRESHOLD = 20 << 10
"""Flink's default of ``execution.checkpointing.data-inline-threshold``: less state is kept in ``_metadata`` itself."""


def new_run() -> str:
    return uuid.uuid4().hex[:16]


@dataclass(frozen=True)
class Staging:
    """One write to a directory. Picklable: tasks create their files with it."""

    directory: StorePath
    run: str

    @property
    def directory_uri(self) -> str:
        return self.directory.uri

    @property
    def marker(self) -> StorePath:
        return self.directory / f".stateproc-{self.run}"

    @property
    def unfinished(self) -> StorePath:
        """``_metadata``, or a manifest, until it is complete, where stores rename."""
        return self.directory / f".stateproc-{self.run}-metadata"

    @property
    def metadata(self) -> StorePath:
        return self.directory / METADATA

    @property
    def location(self) -> SnapshotLocation:
        """The directory as readers receive it."""
        return SnapshotLocation(self.metadata)

    @property
    def under_way(self) -> bool:
        # What another process removed must not be seen in a listing kept from before.
        return self.marker.exists(fresh=True)

    def check_shared(self) -> None:
        """Raise InvalidOption for a directory in the memory of this process, which tasks cannot reach."""
        if scheme_of(self.directory_uri) == "memory":
            raise InvalidOption(
                "memory:// is the memory of one process, and Spark's tasks run in others",
                where=Where(file=self.directory_uri),
                advice="write to a directory, or a file system that all Spark hosts reach",
            )

    def check_under_way(self) -> None:
        """Raise WriteFailed if the write is over."""
        if not self.under_way:
            raise WriteFailed(
                "the write is over: it was aborted, or a later one to the same directory took over",
                where=Where(file=self.directory_uri),
                advice="run one write at a time to a directory; a task that ends late can be ignored",
            )

    def new_file(self, inline_threshold: int = INLINE_THRESHOLD) -> StateFile:
        """A new state file, for one attempt of one task. Raises WriteFailed."""
        return StateFile(self, f"stateproc-{self.run}-{uuid.uuid4().hex}", inline_threshold)


class StateFile:
    """A state file being written, under a unique name, used as a context: left with an error, the file is removed.

    A state of up to ``inline_threshold`` bytes becomes a part of ``_metadata`` instead of a file.
    """

    def __init__(self, staging: Staging, name: str, inline_threshold: int) -> None:
        self._staging, self.name, self._threshold = staging, name, inline_threshold
        self._held = bytearray()
        self._file: OutputFile | None = None
        self.handle: ByteStreamHandle | RelativeFileHandle | None = None
        """The finished file's handle."""

    def __enter__(self) -> StateFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def write(self, data: bytes | memoryview) -> None:
        """Raises WriteFailed."""
        if self._file is None and len(self._held) + len(data) <= self._threshold:
            self._held += data
        else:
            self._opened().write(data)

    def append(self, path: StorePath, start: int, size: int) -> int:
        """Append bytes of a local file with the system's own copy; return how many it copied. Raises WriteFailed."""
        if self._file is None and len(self._held) + size <= self._threshold:
            return 0
        return self._opened().append(path, start, size)

    def _opened(self) -> OutputFile:
        if self._file is None:
            self._staging.check_under_way()
            self._file = OutputFile(self._staging.directory / self.name)
            self._file.write(bytes(self._held))
            self._held = bytearray()
        return self._file

    def close(self) -> ByteStreamHandle | RelativeFileHandle:
        """Finish the file and return its handle. Raises WriteFailed, also if the write has ended meanwhile."""
        if self.handle is not None:
            return self.handle
        if self._file is None:
            self.handle = ByteStreamHandle(self.name, bytes(self._held))
            return self.handle
        try:
            self._file.close()
            self._staging.check_under_way()
        except WriteFailed:
            self.discard()
            raise
        self.handle = RelativeFileHandle(self.name, self._file.size)
        return self.handle

    def discard(self) -> None:
        """Abandon the file and remove it."""
        self._held = bytearray()
        if self._file is not None and self.handle is None:
            self._file.discard()
        elif self._file is not None:
            remove_quietly(self._file.path)
