"""Read files of key groups stored one after another: canonical savepoints and native heap snapshots.

    0            header (`stateproc.metadata.backend.read_keyed_header`), up to the first key group
    offsets[k]   key group first + k, in the layout of `canonical.reader` or `heap.reader`; it ends where the next one
                 begins, the last one at the end of the file

First key group and offsets are in the handle (org.apache.flink.runtime.state.KeyGroupsStateHandle). Offset 0 is a
canonical key group without entries. If the header says that the file is compressed, each key group is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from stateproc.errors import CorruptSnapshot, Where
from stateproc.metadata.backend import KeyedHeader, read_keyed_header
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.readers.header_reader import SharedHeaders
from stateproc.readers.key_group_blocks import KeyGroupRange, group_ranges
from stateproc.readers.keyed_file import KeyedFile, SizeRequest, StateSizes
from stateproc.readers.raw_entries import EntryCounts
from stateproc.readers.splits import KeyedSplit, SplitRequest, StateScan, split_ranges
from stateproc.readers.state_descriptor import StateDescriptor, find_state
from stateproc.serializers import Undecodable
from stateproc.storage import ByteSource, InlineSource, open_handle

_MAX_HEADER = 256 << 20


@dataclass(frozen=True)
class KeyGroupsSplit(KeyedSplit):
    """Some key groups of one file.

    Attributes:
        header_size: Bytes before the first key group of the file.
        ranges: The key groups' byte ranges.
        file_header: The file's header if it has been read already; not set where splits are sent to other processes.
    """

    source: ByteSource
    header_size: int
    ranges: tuple[KeyGroupRange, ...]
    file_header: KeyedHeader | None = field(default=None, compare=False, repr=False)

    @property
    def bytes(self) -> int:
        return sum(item.stop - item.start for item in self.ranges)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return tuple(item.key_group for item in self.ranges)

    @property
    def origin(self) -> str:
        return self.source.name

    @cached_property
    def header(self) -> KeyedHeader:
        """Read the file's header, once for this split. Raises CorruptSnapshot, MissingFile, UnknownSnapshotClass."""
        return self.file_header or keyed_header(self.source, self.header_size)

    def declared(self) -> StateDescriptor | None:
        return find_state(self.header, self.scan.state)


def keyed_header(source: ByteSource, size: int, shared: SharedHeaders[KeyedHeader] | None = None) -> KeyedHeader:
    """Read the header in the first ``size`` bytes of ``source``; ``shared`` has the headers of other files."""
    if size > _MAX_HEADER:
        raise CorruptSnapshot(
            f"the first key group begins at byte {size}, beyond the end of any header",
            where=Where(file=source.name, offset=0),
            advice="the offsets in _metadata are damaged",
        )
    return (shared or SharedHeaders(read_keyed_header)).whole(source.read(0, size), source.name)


@dataclass(frozen=True)
class KeyGroupsFile(KeyedFile):
    """A file of key groups."""

    scanned = True
    handle: KeyGroupsHandle

    @property
    @abstractmethod
    def split_type(self) -> type[KeyGroupsSplit]:
        """Return the type of the file's splits."""

    @abstractmethod
    def measure(
        self, source: ByteSource, ranges: Sequence[KeyGroupRange], header: KeyedHeader, request: SizeRequest
    ) -> EntryCounts:
        """Count the entries in key groups of ``source``. Raises CorruptSnapshot, MissingFile, Undecodable."""

    def open_source(self) -> ByteSource:
        return open_handle(self.handle.stream, self.location)

    @property
    def ranges(self) -> tuple[KeyGroupRange, ...]:
        """Return the non-empty key groups. Raises CorruptSnapshot."""
        if self.cache.ranges is None:
            handle, source = self.handle, self.source
            self.cache.ranges = tuple(group_ranges(handle.first_key_group, handle.offsets, source.size, source.name))
        return self.cache.ranges

    @property
    def data_bytes(self) -> int:
        return sum(item.stop - item.start for item in self.ranges)

    def read_header(self) -> KeyedHeader:
        """Read the header, which ends where the first key group begins."""
        return keyed_header(self.source, self.header_size, self.shared.headers)

    def plan_splits(self, request: SplitRequest) -> list[KeyedSplit]:
        """Divide the requested key groups into splits."""
        split_type, source, header_size = self.split_type, self.source, self.header_size
        ranges = [item for item in self.ranges if request.includes(item.key_group)]
        return [split_type(request.scan, source, header_size, run) for run in split_ranges(ranges, request.split_bytes)]

    def split(self, scan: StateScan, key_groups: Collection[int]) -> KeyedSplit:
        ranges = tuple(item for item in self.ranges if item.key_group in key_groups)
        return self.split_type(scan, self.source, self.header_size, ranges, self.header)

    def sizes(self, request: SizeRequest) -> StateSizes:
        """Count the entries, unless the file is too large or a state's values have no known end."""
        key_groups = {item.key_group: item.stop - item.start for item in self.ranges}
        small = request.scan_bytes is None or self.source.size <= request.scan_bytes
        header = self.header if small else None
        if header is None:
            return StateSizes(None, key_groups)
        try:
            counts = self.measure(self.source, self.ranges, header, request)
        except Undecodable:
            return StateSizes(None, key_groups)
        return StateSizes(self._totals(counts), key_groups)

    def sizes_together(self, files: Sequence[KeyedFile], request: SizeRequest) -> StateSizes | None:
        """Measure files of one header by one scan of all their key groups, as if they were in one file.

        Returns None for files that have key groups in common. Raises CorruptSnapshot, Undecodable.
        """
        header = self.header
        if header is None:
            return None
        parts: list[bytes] = []
        ranges: list[KeyGroupRange] = []
        at = 0
        for file in files:
            # Without headers the key groups follow each other, and are scanned as one block.
            skipped, size = file.header_size, file.source.size
            parts.append(file.source.read(skipped, size - skipped))
            moved = at - skipped
            ranges += [KeyGroupRange(item.key_group, moved + item.start, moved + item.stop) for item in file.ranges]
            at += size - skipped
        key_groups = {item.key_group: item.stop - item.start for item in ranges}
        if len(key_groups) < len(ranges):
            return None
        source = InlineSource(self.source.name, b"".join(parts))
        return StateSizes(self._totals(self.measure(source, ranges, header, request)), key_groups)

    def _totals(self, counts: EntryCounts) -> dict[str, tuple[int, int | None]]:
        """Return bytes and entries by the names of the states in the header."""
        names = [state if isinstance(state, str) else state.name for state in self.states]
        totals = zip(counts.bytes.sum(axis=0).tolist(), counts.entries.sum(axis=0).tolist(), strict=True)
        return dict(zip(names, totals, strict=True))
