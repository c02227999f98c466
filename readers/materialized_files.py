"""Open the handles that a changelog may contain as its materialized part: files of key groups, RocksDB databases.

handle                               layout
KeyGroupsHandle of type 7            canonical
KeyGroupsHandle of type 3 or 12      canonical if RocksDB wrote it, else native heap: only the bytes show which
IncrementalHandle (type 5 or 11)     a RocksDB database
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stateproc.errors import UnsupportedSnapshot
from stateproc.metadata.backend import KeyedHeader
from stateproc.metadata.keyed_handles import IncrementalHandle, KeyedHandle
from stateproc.metadata.stream_handles import CANONICAL_TYPE, KeyGroupsHandle
from stateproc.readers.canonical.reader import CanonicalFile
from stateproc.readers.heap.reader import HeapFile
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.key_groups_file import KeyGroupsFile, KeyGroupsSplit
from stateproc.readers.keyed_file import ErrorsByKeyGroup, KeyedFile, SharedStates, SizeRequest
from stateproc.readers.raw_entries import EntryCounts
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.rocksdb.splits import RocksDbFile
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.storage import ByteSource, SnapshotLocation, read_ranges
from stateproc.storage.ranges import is_remote

# Whether a KeyGroups file of handle type 3 or 12 holds canonical entries or native heap state.
#
# The handle does not say: RocksDB wrote canonical entries under these types up to 1.15, heap backends their own
# format. Every key group of a heap file begins with its i32 number; a canonical one with a state id and a length.

_NUMBER = 4
_GAP = 2 << 10
"""Little key groups share a request; all that is read of 32,768 of them stays under 64 MiB."""
_LENGTH_SHIFT = 16
"""The number is read as a canonical state id of 0 and the upper half of a key's length."""


def is_canonical(type_byte: int, offsets: Sequence[int], source: ByteSource, ranges: Sequence[KeyGroupRange]) -> bool:
    """True for canonical entries. ``ranges``: the non-empty key groups of ``offsets`` (0 is an empty canonical one)."""
    if type_byte == CANONICAL_TYPE or not ranges:
        return True
    if any(offset == 0 for offset in offsets):
        return True
    if any(item.stop - item.start < _NUMBER for item in ranges):
        return True
    conclusive = next(filter(_is_conclusive, ranges), None)
    if conclusive is not None:
        return not _begins_with_number(source.read(conclusive.start, _NUMBER), conclusive)
    if not is_remote(source):
        return not all(_begins_with_number(source.read(item.start, _NUMBER), item) for item in ranges)
    # Most canonical files are known by the first key group.
    for items in (ranges[:1], ranges[1:]):
        heads = read_ranges(source, [(item.start, _NUMBER) for item in items], _GAP)
        if not all(_begins_with_number(head, item) for head, item in zip(heads, items, strict=True)):
            return True
    return False


def _is_conclusive(item: KeyGroupRange) -> bool:
    """Whether canonical entries that begin with the key group's number would have a key longer than the key group."""
    return item.key_group << _LENGTH_SHIFT > item.stop - item.start


def _begins_with_number(head: bytes | memoryview, item: KeyGroupRange) -> bool:
    return int.from_bytes(head, "big") == item.key_group


@dataclass(frozen=True)
class HeapOrCanonicalFile(KeyGroupsFile):
    """A file of key groups whose bytes have to be read to know its layout."""

    @property
    def known(self) -> KeyGroupsFile:
        """Return the file as what it is. Raises CorruptSnapshot, MissingFile."""
        handle, cache = self.handle, self.cache
        if cache.is_canonical is None:
            cache.is_canonical = is_canonical(handle.type_byte, handle.offsets, self.source, self.ranges)
        file_type = CanonicalFile if cache.is_canonical else HeapFile
        return file_type(self.subtask, handle, self.location, self.max_parallelism, self.shared, cache)

    @property
    def layout(self) -> str:
        return self.known.layout

    @property
    def split_type(self) -> type[KeyGroupsSplit]:
        return self.known.split_type

    def measure(
        self, source: ByteSource, ranges: Sequence[KeyGroupRange], header: KeyedHeader, request: SizeRequest
    ) -> EntryCounts:
        return self.known.measure(source, ranges, header, request)

    def find_unreadable_states(self, options: ReadOptions) -> Mapping[str, ErrorsByKeyGroup]:
        return self.known.find_unreadable_states(options)

    def stores_lengths(self, state: StateDescriptor) -> bool:
        return self.known.stores_lengths(state)


def open_materialized_file(
    handle: KeyedHandle,
    location: SnapshotLocation,
    max_parallelism: int = 0,
    subtask: int = 0,
    shared: SharedStates | None = None,
) -> KeyedFile:
    """Return the file of a handle that a changelog may contain; reads nothing.

    Args:
        max_parallelism: The operator's number of key groups; not needed to read the header only.
        subtask: The subtask's index.
        shared: Headers shared with the other subtasks' files.

    Raises:
        UnsupportedSnapshot: Changelogs do not contain handles of this type.
    """
    shared = shared or SharedStates()
    if isinstance(handle, IncrementalHandle):
        return RocksDbFile(subtask, handle, location, max_parallelism, shared)
    if isinstance(handle, KeyGroupsHandle):
        file_type = CanonicalFile if handle.type_byte == CANONICAL_TYPE else HeapOrCanonicalFile
        return file_type(subtask, handle, location, max_parallelism, shared)
    raise UnsupportedSnapshot(f"a changelog whose materialized part is a {type(handle).__name__}")
