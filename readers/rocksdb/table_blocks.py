"""The data blocks of one table that several passes over some spans of keys need, each read from storage once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.readers.rocksdb.blocks import PlainBlocks
from stateproc.readers.rocksdb.candidate_kernel import mark_blocks
from stateproc.readers.rocksdb.candidate_keys import CandidateKeys
from stateproc.readers.rocksdb.database import SstFile
from stateproc.readers.rocksdb.format import MAX_SEQUENCE
from stateproc.readers.rocksdb.index import Index
from stateproc.readers.rocksdb.key_ranges import KeySpan
from stateproc.readers.rocksdb.sorted_runs import OpenFile, RunBlocks, open_file
from stateproc.readers.rocksdb.tombstones import Tombstone, read_tombstones
from stateproc.storage.ranges import DEFAULT_GAP, is_remote

_LOCAL_GAP = 4 << 10
"""Bytes between blocks of a local file that are read along: reading them costs as much as another request."""
_HELD_BYTES = 24 << 20


@dataclass
class HeldBytes:
    """How many bytes of decompressed blocks may still be kept for further passes; shared by tables."""

    left: int = _HELD_BYTES

    def take(self, size: int) -> bool:
        """Take so many bytes if they are left."""
        if size > self.left:
            return False
        self.left -= size
        return True


@dataclass(frozen=True)
class _Kept:
    """Decompressed blocks and their positions in the index."""

    positions: Longs
    blocks: PlainBlocks

    def only(self, chosen: Longs) -> Longs:
        """Return which of some positions are among these."""
        return self.positions[np.isin(self.positions, chosen, assume_unique=True)]

    def at(self, positions: Longs) -> PlainBlocks:
        """Return some of the blocks, by their positions."""
        which, blocks = np.searchsorted(self.positions, positions), self.blocks
        return PlainBlocks(blocks.plain, blocks.starts[which], blocks.ends[which], blocks.offsets[which], blocks.file)


class TableBlocks:
    """Opens a table at its first use, and keeps its blocks while memory lasts.

    Args:
        sst: The table.
        wanted: The spans of all passes.
        held: The memory for blocks.
        verify: Whether checksums are checked.
    """

    def __init__(self, sst: SstFile, wanted: Sequence[KeySpan], held: HeldBytes, *, verify: bool) -> None:
        self._sst, self._wanted, self._held, self._verify = sst, wanted, held, verify
        self._kept: list[_Kept] = []

    @property
    def largest_sequence(self) -> int | None:
        """The largest sequence number in the table; None if it is not known."""
        return None if self._sst.live is None else self._sst.live.largest_sequence

    @cached_property
    def opened(self) -> OpenFile:
        """Open the table. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
        return open_file(self._sst, verify=self._verify)

    @cached_property
    def tombstones(self) -> list[Tombstone]:
        """Read the deleted ranges. Raises CorruptSnapshot."""
        return read_tombstones(self.opened.table, self._sst.live, self.opened.override)

    @cached_property
    def index(self) -> Index:
        """Read the index of the wanted spans. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
        return self.opened.table.index(self._wanted)

    def may_have(self, keys: CandidateKeys, side: int) -> bool:
        """Return whether the table may have versions of some of the keys that count on a side."""
        live = self._sst.live
        assert live is not None
        return keys.any_within(keys.visible_below(side, self.largest_sequence), live.smallest.key, live.largest.key)

    def chosen(self, keys: CandidateKeys, side: int) -> Longs:
        """Return the positions of the blocks that may have such versions."""
        index, largest = self.index, self.largest_sequence
        marks = np.zeros(len(index), dtype=np.bool_)
        mark_blocks(
            keys.spans.bounds, keys.spans.keys.ctypes.data, keys.newest[side],
            MAX_SEQUENCE if largest is None else largest,
            index.keys.ctypes.data, index.key_starts, index.key_ends, marks,
        )  # fmt: skip
        return np.flatnonzero(marks)

    def reads(self, limit: int, positions: Longs | None = None) -> Iterator[Callable[[], Iterable[RunBlocks]]]:
        """Yield what reads the blocks, ``limit`` stored bytes at a time, in ascending order.

        Args:
            limit: Stored bytes.
            positions: Which blocks of the index; None means all.

        What it yields raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
        """
        wanted = np.arange(len(self.index)) if positions is None else positions
        if not len(wanted):
            return
        parts = [(kept, kept.only(wanted)) for kept in sorted(self._kept, key=lambda kept: int(kept.positions[0]))]
        if self._kept and np.array_equal(np.concatenate([found for _, found in parts]), wanted):
            for kept, found in parts:
                if len(found):
                    yield partial(self._from_memory, kept, found)
            return
        before = np.cumsum(self.index.sizes[wanted])
        at = 0
        while at < len(wanted):
            base = int(before[at] - self.index.sizes[wanted[at]])
            stop = max(at + 1, int(np.searchsorted(before, base + limit, side="right")))
            yield partial(self._from_storage, wanted[at:stop])
            at = stop

    def _from_memory(self, kept: _Kept, positions: Longs) -> Iterable[RunBlocks]:
        return [RunBlocks(kept.at(positions), self._override)]

    def _from_storage(self, wanted: Longs) -> Iterable[RunBlocks]:
        gap = DEFAULT_GAP if is_remote(self._sst.source) else _LOCAL_GAP
        reader = self.opened.table.reader
        parts = reader.scattered(self.index.offsets[wanted], self.index.sizes[wanted], gap)
        if isinstance(parts, list):
            is_new = not any(len(kept.only(wanted)) for kept in self._kept)
            if is_new and self._held.take(len(parts[0].plain)):
                self._kept.append(_Kept(wanted, parts[0]))
        return (RunBlocks(blocks, self._override) for blocks in parts)

    @property
    def _override(self) -> int:
        return -1 if self.opened.override is None else self.opened.override
