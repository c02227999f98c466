"""Apply range tombstones: deleted ranges of keys (RocksDB: db/range_del_aggregator.cc).

They are the entries of a table's block ``rocksdb.range_del``:

    key      user key of the range's begin, u64 ``sequence << 8 | 15``
    value    user key of the range's end, which is not deleted

One hides older versions of the keys in its range: those with a smaller sequence number.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stateproc.readers.rocksdb.format import MAX_SEQUENCE, damaged
from stateproc.readers.rocksdb.manifest import LiveFile
from stateproc.readers.rocksdb.meta_blocks import entries_of
from stateproc.readers.rocksdb.table import SstTable

RANGE_DELETION = 15

Position = tuple[bytes, int]
"""(user key, MAX_SEQUENCE - sequence number): sorts as RocksDB sorts versions, newest first."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Deletes versions older than ``sequence`` that lie from ``start`` up to, not including, ``end``."""

    start: Position
    end: Position
    sequence: int


def read_tombstones(table: SstTable, live: LiveFile | None, override: int | None) -> list[Tombstone]:
    """The tombstones of a table, cut off at the bounds that the MANIFEST gives the file.

    Compactions write one tombstone into several files, and drop it from each at another time: beyond a file's
    bounds its tombstones say nothing (TruncatedRangeDelIterator). Raises CorruptSnapshot.
    """
    handle = table.tombstones_handle
    if handle is None:
        return []
    entries = entries_of(table.reader, handle)
    if entries and live is None:
        raise damaged(table.file, handle.offset, "deleted ranges cannot be bounded: the MANIFEST is not there")
    found = []
    for key, end in entries:
        trailer = int.from_bytes(key[-8:], "little")
        if len(key) < 8 or trailer & 0xFF != RANGE_DELETION:
            raise damaged(table.file, handle.offset, "an entry among the deleted ranges is none")
        sequence = trailer >> 8 if override is None else override
        found.append(Tombstone((key[:-8], 0), (end, 0), sequence))
    return [cut for item in found if live is not None and (cut := _cut(item, live)) is not None]


def _cut(item: Tombstone, live: LiveFile) -> Tombstone | None:
    smallest: Position = (live.smallest.key, MAX_SEQUENCE - min(live.smallest.sequence, MAX_SEQUENCE))
    last = live.largest
    if last.kind == RANGE_DELETION and last.sequence >= MAX_SEQUENCE:
        largest: Position = (last.key, 0)  # only a tombstone reaches there
    else:
        # The largest key itself is covered, older versions of it in the next file are not.
        largest = (last.key, MAX_SEQUENCE - max(last.sequence - 1, 0))
    start, end = max(item.start, smallest), min(item.end, largest)
    return Tombstone(start, end, item.sequence) if start < end else None


@dataclass(frozen=True)
class Fragments:
    """Disjoint ranges in order, with the newest tombstone over each.

    table: int64 [n, 7]: start key's position in ``keys``, its length, sequence; the same of the end; the
    tombstone's sequence.
    """

    table: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint8]


def fragments(tombstones: Sequence[Tombstone]) -> Fragments:
    """Cut overlapping tombstones into disjoint ranges."""
    pieces: list[Tombstone] = []
    edges = sorted({edge for item in tombstones for edge in (item.start, item.end)})
    waiting = sorted(tombstones, key=lambda item: item.start)
    active: list[tuple[int, Position]] = []
    index = 0
    for start, end in itertools.pairwise(edges):
        while index < len(waiting) and waiting[index].start <= start:
            heapq.heappush(active, (-waiting[index].sequence, waiting[index].end))
            index += 1
        while active and active[0][1] <= start:
            heapq.heappop(active)
        if active:
            sequence = -active[0][0]
            if pieces and pieces[-1].end == start and pieces[-1].sequence == sequence:
                pieces[-1] = Tombstone(pieces[-1].start, end, sequence)
            else:
                pieces.append(Tombstone(start, end, sequence))
    table = np.zeros((len(pieces), 7), dtype=np.int64)
    keys = bytearray()
    for row, piece in zip(table, pieces, strict=True):
        for column, (key, inverse) in ((0, piece.start), (3, piece.end)):
            row[column : column + 3] = len(keys), len(key), MAX_SEQUENCE - inverse
            keys += key
        row[6] = piece.sequence
    return Fragments(table, np.frombuffer(bytes(keys), dtype=np.uint8))
