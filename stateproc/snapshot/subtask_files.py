"""The keyed state of one subtask: which file, which header, where the key groups lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from stateproc.errors import SnapshotError, UnsupportedSnapshot, Where
from stateproc.metadata.backend import KeyedHeader, read_keyed_header
from stateproc.metadata.handles import (
    ChangelogHandle,
    IncrementalHandle,
    KeyedHandle,
    KeyGroupsHandle,
)
from stateproc.readers.changelog.log_metadata import changelog_header
from stateproc.readers.changelog.splits import changelog_bytes
from stateproc.readers.common.header_reader import MAX_HEADER, SharedHeaders
from stateproc.readers.common.key_group_blocks import KeyGroupRange, group_ranges
from stateproc.readers.common.layout_detection import is_canonical
from stateproc.readers.common.state_descriptor import KeyedState
from stateproc.serializers import Serializer
from stateproc.snapshot.splits import header_states, keyed_header
from stateproc.storage import ByteSource, SnapshotLocation, open_handle


class SharedStates:
    """What the files of one operator have in common: headers, and the states that these describe."""

    def __init__(self) -> None:
        self.headers = SharedHeaders(read_keyed_header)
        self._states: dict[int, tuple[KeyedHeader, tuple[KeyedState | str, ...]]] = {}

    def states(self, header: KeyedHeader) -> tuple[KeyedState | str, ...]:
        """The header's states by id; for one that is no keyed state, its name."""
        known = self._states.get(id(header))
        return (known or self._states.setdefault(id(header), (header, tuple(header_states(header)))))[1]


@dataclass(frozen=True)
class KeyedFile:
    """Managed keyed state of subtask ``subtask``; ``layout`` names how it is stored.

    ``relatives``: of changelogs, materialized parts of other subtasks, which tell the key's serializer, too;
    ``told_key``: the type of keys that the user tells; ``shared``: with the other subtasks' files.
    """

    subtask: int
    handle: KeyedHandle
    location: SnapshotLocation
    max_parallelism: int
    relatives: tuple[KeyedHandle, ...] = ()
    told_key: Serializer | None = None
    shared: SharedStates = field(default_factory=SharedStates, compare=False, repr=False)

    @property
    def layout(self) -> str:
        """canonical, heap, rocksdb or changelog."""
        if isinstance(self.handle, KeyGroupsHandle):
            return "canonical" if self.canonical else "heap"
        return "rocksdb" if isinstance(self.handle, IncrementalHandle) else "changelog"

    @cached_property
    def source(self) -> ByteSource:
        """The KeyGroups file, or the meta stream of an incremental handle."""
        if isinstance(self.handle, IncrementalHandle):
            return open_handle(self.handle.meta, self.location)
        if isinstance(self.handle, KeyGroupsHandle):
            return open_handle(self.handle.stream, self.location)
        raise UnsupportedSnapshot("a changelog handle has no file of its own")

    @cached_property
    def ranges(self) -> tuple[KeyGroupRange, ...]:
        """The non-empty key groups of a KeyGroups file."""
        if not isinstance(self.handle, KeyGroupsHandle):
            return ()
        handle, source = self.handle, self.source
        return tuple(group_ranges(handle.first_key_group, handle.offsets, source.size, source.name))

    @property
    def header_size(self) -> int:
        return self.ranges[0].start if self.ranges else self.source.size

    @property
    def data_bytes(self) -> int:
        """Bytes of state, the header not counted."""
        if isinstance(self.handle, IncrementalHandle):
            return sum(stream.size for _, stream in (*self.handle.shared, *self.handle.private))
        if isinstance(self.handle, ChangelogHandle):
            return changelog_bytes(self.handle)
        return sum(item.stop - item.start for item in self.ranges)

    @cached_property
    def canonical(self) -> bool:
        """Whether a KeyGroups file holds canonical entries."""
        if not isinstance(self.handle, KeyGroupsHandle):
            return False
        return is_canonical(self.handle.type_byte, self.handle.offsets, self.source, self.ranges)

    @cached_property
    def header(self) -> KeyedHeader | None:
        """The backend header; None where there is none to read (a changelog that is empty).

        That of a changelog has the states of its materialized part, then those that only its log declares.
        Raises UnknownSnapshotClass, CorruptSnapshot, MissingFile, UnsupportedSnapshot.
        """
        if isinstance(self.handle, KeyGroupsHandle):
            return keyed_header(self.source, self.header_size, self.shared.headers)
        if isinstance(self.handle, IncrementalHandle):
            return self.shared.headers.whole(self.source.read_all(MAX_HEADER), self.source.name)
        if isinstance(self.handle, ChangelogHandle):
            return changelog_header(self.handle, self.location, self.relatives, self.told_key)
        return None

    @cached_property
    def states(self) -> tuple[KeyedState | str, ...]:
        """The header's states by id; for one that is no keyed state, its name."""
        return () if self.header is None else self.shared.states(self.header)

    @property
    def state_names(self) -> Iterator[str]:
        """The names of the keyed states in the header."""
        return (state.name for state in self.states if isinstance(state, KeyedState))

    def check_readable(self, operator: str, state: str) -> None:
        """Raise UnsupportedSnapshot for layouts whose data no reader is there for."""
        if isinstance(self.handle, KeyGroupsHandle | IncrementalHandle | ChangelogHandle):
            return
        raise UnsupportedSnapshot(
            "segments of a changelog stand here without the changelog that they belong to",
            where=Where(file=self.location.metadata_uri, operator=operator, state=state),
            advice="Flink writes them inside of changelog handles only; take the snapshot again or use a copy",
        )


def header_problem(file: KeyedFile) -> SnapshotError | None:
    """Why the file's header cannot be read; None if it can."""
    try:
        file.header  # noqa: B018  (a cached property that raises)
    except SnapshotError as error:
        return error
    return None
