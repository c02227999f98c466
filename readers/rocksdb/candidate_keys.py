"""The keys that may differ between two databases: those in tables that only one of them has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stateproc.codec.array_types import Bytes, Longs, LongTable
from stateproc.readers.rocksdb import candidate_kernel, merge_kernel
from stateproc.readers.rocksdb.cursor_buffers import CursorBuffers
from stateproc.readers.rocksdb.key_ranges import KeySpan, SpanTable, span_table
from stateproc.readers.rocksdb.sorted_runs import RunBlocks

_KEYS_AT_ONCE = 1 << 17
_KEY_BYTES = 8 << 20


@dataclass(frozen=True)
class CandidateKeys:
    """Keys that may differ.

    Attributes:
        spans: Each key as a span of its own, or ranges of keys.
        newest: int64 [2, n]: of each side the sequence number of the newest version in tables that only this side
            has, if that hides all older versions; else negative.
    """

    spans: SpanTable
    newest: LongTable

    def __len__(self) -> int:
        return len(self.spans)

    def visible_below(self, side: int, largest: int | None) -> Longs:
        """Return the spans to which versions up to a sequence number may count on a side."""
        if largest is None:
            return np.arange(len(self))
        return np.flatnonzero(self.newest[side] <= largest)

    def any_within(self, chosen: Longs, smallest: bytes, largest: bytes) -> bool:
        """Return whether any of some spans has keys from ``smallest`` to ``largest`` (inclusive)."""
        low, high = 0, len(chosen)
        while low < high:
            middle = (low + high) // 2
            stop = self.spans.stop(int(chosen[middle]))
            if stop is None or stop > smallest:
                high = middle
            else:
                low = middle + 1
        return low < len(chosen) and self.spans.start(int(chosen[low])) <= largest


def candidate_ranges(spans: Sequence[KeySpan]) -> CandidateKeys:
    """Return ranges all keys of which may differ."""
    return CandidateKeys(span_table(spans), np.full((2, len(spans)), candidate_kernel.ABSENT, dtype=np.int64))


def candidate_keys(
    sources: Sequence[Iterator[RunBlocks]], sides: Sequence[int], wanted: Sequence[KeySpan], prefix: int
) -> Iterator[CandidateKeys]:
    """Collect the keys in sorted runs of both sides, ascending, but those whose newest version is the same in both.

    Args:
        sources: The blocks of the runs.
        sides: The side of each run, 0 or 1.
        wanted: The spans of keys to collect.
        prefix: The width of the key group before each key.

    Raises CorruptSnapshot, UnsupportedSnapshot, and what the sources raise.
    """
    buffers = CursorBuffers(sources)
    reg, limits = buffers.reg, span_table(wanted)
    side_of_row = np.array([*sides, 0], dtype=np.int64)
    outcome, size = merge_kernel.FULL, _KEY_BYTES
    while outcome != merge_kernel.ALL:
        reg[merge_kernel.ENTRIES] = reg[merge_kernel.OUT_USED] = 0
        out = np.empty(size, dtype=np.uint8)
        found = np.empty((4, _KEYS_AT_ONCE), dtype=np.int64)
        while True:
            outcome = candidate_kernel.changed_keys(
                buffers.rows.ctypes.data, len(sources), side_of_row, buffers.order, reg, prefix,
                limits.bounds, limits.keys.ctypes.data, out.ctypes.data, len(out), found,
            )  # fmt: skip
            if outcome in (merge_kernel.ALL, merge_kernel.FULL):
                break
            buffers.serve(outcome)
        n = int(reg[merge_kernel.ENTRIES])
        if n:
            yield _points(out, found[:, :n])
        size = max(_KEY_BYTES, int(reg[merge_kernel.NEED])) if outcome == merge_kernel.FULL else _KEY_BYTES


def _points(out: Bytes, found: LongTable) -> CandidateKeys:
    """Return keys as spans: each from the key up to the same with the byte 0 that follows it."""
    at, sizes = found[candidate_kernel.KEY_AT], found[candidate_kernel.KEY_BYTES]
    bounds = np.stack([at, sizes, at, sizes + 1], axis=1)
    return CandidateKeys(SpanTable(bounds, out), np.ascontiguousarray(found[candidate_kernel.NEWEST_LEFT :]))
