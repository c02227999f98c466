"""Read canonical keyed savepoints: the raw entries of one state, or of several in one pass.

A key group (org.apache.flink.runtime.state.FullSnapshotAsyncWriter, FullSnapshotRestoreOperation), big-endian:

    u16 state id                         the state's position in the header
    repeated:
        i32 length, key                  bit 0x80 of the first byte: this is the last entry of its state
        i32 length, value
        after such an entry:
            u16 state id                 of the following entries; 0xFFFF: the key group ends

The key begins with the key group: one byte up to a max parallelism of 128, else two. Key, namespace and user key follow
as `changelog.composite_keys` describes them. Compressed, all of this is one stream of snappy frames per key group.
See docs/formats/canonical.md.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter

import numpy as np

from stateproc.errors import CorruptSnapshot, Where
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.backend import KeyedHeader
from stateproc.readers.canonical import entry_scan as scanning
from stateproc.readers.canonical.entry_scan import BETWEEN_GROUPS, FULL, GROUP, MESSAGES, POS, STATE, measure_canonical
from stateproc.readers.key_group_blocks import Block, BlockSizing, KeyGroupRange, fed, plain_blocks, snappy_blocks
from stateproc.readers.key_groups_file import KeyGroupsFile, KeyGroupsSplit
from stateproc.readers.keyed_file import SizeRequest
from stateproc.readers.raw_entries import EntryCounts, RawEntries
from stateproc.storage import ByteSource

_ENTRIES_AT_ONCE = 1 << 16
_MOST_RUNS = 16
"""Runs of entries of one key group and state in a block up to which they are returned in the order of the file, in
which they need not be sorted to be written. More would be small batches."""


def canonical_entries(
    source: ByteSource,
    ranges: Sequence[KeyGroupRange],
    *,
    compressed: bool,
    prefix: int,
    state_id: int,
    n_states: int,
) -> Iterator[RawEntries]:
    """Read the entries of one state in file order, at most 65,536 at a time.

    Args:
        compressed: Whether the key groups are compressed.
        prefix: Width of the key-group prefix, 1 or 2 bytes.
        state_id: The state's position in the header.
        n_states: The number of states in the header.

    Raises:
        CorruptSnapshot, MissingFile: The file cannot be read.
    """
    together = canonical_entries_of(
        source, ranges, compressed=compressed, prefix=prefix, state_ids=(state_id,), n_states=n_states
    )
    for _, entries in together:
        yield entries


def canonical_entries_of(
    source: ByteSource,
    ranges: Sequence[KeyGroupRange],
    *,
    compressed: bool,
    prefix: int,
    state_ids: Sequence[int],
    n_states: int,
) -> Iterator[tuple[int, RawEntries]]:
    """Read (state id, entries) of several states in one pass: by blocks, and by state within each block.

    The arguments are those of `canonical_entries`, with several state ids.
    """
    scans = [(state_id, _StateScanner(source.name, prefix, state_id, n_states)) for state_id in state_ids]

    def feed(block: Block) -> Generator[tuple[int, RawEntries], None, int]:
        unused = 0  # the same for all states: each scan stops at the last whole entry
        found: list[tuple[int, RawEntries]] = []
        for state_id, scan in scans:
            scanned = _numbered(state_id, scan.feed(block))
            unused = (yield from scanned) if len(scans) == 1 else _collected(scanned, found)
        yield from _in_file_order(found)
        sizing.adapt(sum(scan.entries for _, scan in scans))
        return unused

    sizing = BlockSizing(source)
    blocks = snappy_blocks(source, ranges) if compressed else plain_blocks(source, ranges, sizing=sizing)
    yield from fed(blocks, feed)
    for _, scan in scans:
        scan.finish()


def _numbered(state_id: int, entries: Generator[RawEntries, None, int]) -> Generator[tuple[int, RawEntries], None, int]:
    while True:
        try:
            found = next(entries)
        except StopIteration as end:
            return int(end.value)
        yield state_id, found


def _collected(entries: Generator[tuple[int, RawEntries], None, int], found: list[tuple[int, RawEntries]]) -> int:
    """Add entries to a list, and return what the generator returns."""
    while True:
        try:
            found.append(next(entries))
        except StopIteration as end:
            return int(end.value)


def _in_file_order(found: Sequence[tuple[int, RawEntries]]) -> Iterator[tuple[int, RawEntries]]:
    """Yield the entries of a block by key group and state id."""
    runs: list[tuple[int, int, RawEntries]] = []
    for state_id, chunk in found:
        edges = [0, *(np.flatnonzero(np.diff(chunk.key_groups)) + 1).tolist(), len(chunk)]
        for start, stop in pairwise(edges):
            groups, ranges = chunk.key_groups[start:stop], chunk.ranges[:, start:stop]
            runs.append((int(groups[0]), state_id, replace(chunk, key_groups=groups, ranges=ranges)))
            if len(runs) > _MOST_RUNS:
                yield from found
                return
    for _, state_id, chunk in sorted(runs, key=itemgetter(0, 1)):
        yield state_id, chunk


class _StateScanner:
    """Run the scan kernel over blocks; an entry cut off at a block's end is continued in the next block.

    Attributes:
        entries: The number of entries in the last block.
    """

    def __init__(self, file: str, prefix: int, state_id: int, n_states: int) -> None:
        self._file, self._prefix, self._state_id, self._n_states = file, prefix, state_id, n_states
        self._reg = np.zeros(4, dtype=np.int64)
        self._reg[STATE] = BETWEEN_GROUPS
        self._unused = 0
        self._unbegun = False
        self._at = 0
        self.entries = 0

    def feed(self, block: Block) -> Generator[RawEntries, None, int]:
        """Yield the entries that end in the block; return how many of its last bytes the next block must begin with."""
        data, file_at = block.data, block.file_at
        groups = np.array([key_group for key_group, _ in block.groups], dtype=np.int32)
        starts = np.array([at for _, at in block.groups], dtype=np.int64)
        reg = self._reg
        reg[POS], reg[GROUP] = 0, 0
        self.entries = 0
        while True:
            out = np.empty((4, _ENTRIES_AT_ONCE), dtype=np.int64)
            key_groups = np.empty(_ENTRIES_AT_ONCE, dtype=np.int32)
            outcome, n = scanning.scan(
                data.ctypes.data,
                len(data),
                reg,
                groups,
                starts,
                self._prefix,
                self._state_id,
                self._n_states,
                out,
                key_groups,
            )
            self.entries += n
            if n:
                yield RawEntries(data, key_groups[:n], out[:, :n], self._file, file_at, not block.compressed)
            if outcome in MESSAGES:
                at = file_at + int(reg[POS]) if not block.compressed else file_at
                raise CorruptSnapshot(
                    MESSAGES[outcome],
                    where=Where(file=self._file, offset=at),
                    advice="the file is damaged; use a copy or take the snapshot again",
                )
            if outcome != FULL:
                break
        pos = int(reg[POS])
        self._unused, self._at = len(data) - pos, file_at + pos if not block.compressed else file_at
        ahead = starts[int(reg[GROUP]) :]
        self._unbegun = len(ahead) > 0
        if block.last or (ahead > pos).any():
            self.finish()
        return self._unused

    def finish(self) -> None:
        """Raise CorruptSnapshot for an entry or a key group that has begun and not ended."""
        if self._unused or self._unbegun or self._reg[STATE] != BETWEEN_GROUPS:
            raise CorruptSnapshot(
                "a key group is cut off in the middle of an entry",
                where=Where(file=self._file, offset=self._at),
                advice="the file is truncated, or a length in it is damaged; use a copy or take the snapshot again",
            )


# Splits of canonical keyed savepoints, and the file that plans them.


@dataclass(frozen=True)
class CanonicalSplit(KeyGroupsSplit):
    """Some key groups of a canonical file."""

    def raw_entries(self) -> Iterator[RawEntries]:
        header = self.header
        names = [info.name for info in header.states]
        if self.scan.state not in names:
            return
        yield from canonical_entries(
            self.source,
            self.ranges,
            compressed=header.compressed,
            prefix=prefix_width(self.scan.max_parallelism),
            state_id=names.index(self.scan.state),
            n_states=len(names),
        )

    def raw_entries_of(self, states: Mapping[str, int]) -> Iterator[tuple[int, RawEntries]]:
        """Read the entries of several states in one pass.

        Args:
            states: State name → the number that its entries are returned with.

        Raises:
            CorruptSnapshot, MissingFile: As ``raw_entries``.
        """
        header = self.header
        names = [info.name for info in header.states]
        numbers = {names.index(name): number for name, number in states.items()}
        entries = canonical_entries_of(
            self.source,
            self.ranges,
            compressed=header.compressed,
            prefix=prefix_width(self.scan.max_parallelism),
            state_ids=tuple(numbers),
            n_states=len(names),
        )
        for state_id, chunk in entries:
            yield numbers[state_id], chunk


@dataclass(frozen=True)
class CanonicalFile(KeyGroupsFile):
    """A file of key groups with canonical entries."""

    layout = "canonical"
    split_type = CanonicalSplit

    def measure(
        self, source: ByteSource, ranges: Sequence[KeyGroupRange], header: KeyedHeader, request: SizeRequest
    ) -> EntryCounts:
        return measure_canonical(
            source,
            ranges,
            compressed=header.compressed,
            prefix=prefix_width(self.max_parallelism),
            n_states=len(header.states),
            advance=request.advance,
        )
