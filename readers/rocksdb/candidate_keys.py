"""The keys that may differ between two databases: those in tables that only one of them has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stateproc.codec.array_types import Bytes, Flags, Longs, LongTable
from stateproc.codec.native.jit import copy_bytes, exported, kernel, store_8
from stateproc.readers.rocksdb import merge_kernel
from stateproc.readers.rocksdb.db_iterator import CursorBuffers
from stateproc.readers.rocksdb.key_ranges import KeySpan, SpanTable, span_table
from stateproc.readers.rocksdb.merge_cursors import (
    DELETION,
    KEY,
    KEY_SIZE,
    KIND,
    MERGE,
    OK,
    PUT,
    ROW,
    SEQUENCE,
    SINGLE_DELETION,
    VALUE,
    VALUE_SIZE,
    compare,
    field,
)
from stateproc.readers.rocksdb.merge_kernel import (
    ACTIVE,
    ALL,
    BAD_KEY,
    BAD_KIND,
    DONE,
    ENTRIES,
    FULL,
    GROW_SEEN,
    NEED,
    NO_KEY,
    OPEN,
    OUT_OF_ORDER,
    OUT_USED,
    PENDING,
    SEEN,
    SEEN_CAPACITY,
    SEEN_SEQUENCE,
    SEEN_SIZE,
    SPAN,
    STARTED,
    STATE,
    move_rows,
    span_at,
)
from stateproc.readers.rocksdb.sorted_runs import RunBlocks

# Kernels that find the keys which may differ between two databases, and the blocks of a table that may have them.

# Rows of the table of keys that were found: position and size of the key; for each side see ABSENT and OPERAND.
KEY_AT, KEY_BYTES, NEWEST_LEFT, NEWEST_RIGHT = 0, 1, 2, 3
ABSENT, OPERAND = -2, -1
"""Instead of the sequence number of a side's newest version: there is none; it is a merge operand, which older
versions add to."""


@kernel
def _same_version(one: int, two: int) -> bool:
    """Whether the entries of two rows are the same version of one key: a value or a deletion, not an operand."""
    kind = field(one, KIND)
    if kind == MERGE or kind != field(two, KIND) or field(one, SEQUENCE) != field(two, SEQUENCE):
        return False
    if compare(field(one, KEY), field(one, KEY_SIZE) - 8, field(two, KEY), field(two, KEY_SIZE) - 8) != 0:
        return False
    if kind != PUT:
        return True
    same: bool = compare(field(one, VALUE), field(one, VALUE_SIZE), field(two, VALUE), field(two, VALUE_SIZE)) == 0
    return same


@exported
def changed_keys(
    rows: int,
    n_rows: int,
    sides: Longs,
    order: Longs,
    reg: Longs,
    prefix: int,
    spans: LongTable,
    span_keys: int,
    out: int,
    out_size: int,
    found: LongTable,
) -> int:
    """Find the keys of two sides' tables but those whose newest version is the same on both sides.

    Runs of both sides are merged as ``merge_kernel.merge`` does; an outcome needs the caller, who calls again. After
    FULL, the caller takes what was found, and sets ENTRIES and OUT_USED to 0.

    Args:
        rows: Address of ``n_rows`` cursors.
        n_rows: Their number.
        sides: The side of each row: 0 or 1.
        order: Scratch kept between calls, one more than rows.
        reg: Registers of ``merge_kernel``; ENTRIES and OUT_USED: what ``found`` and ``out`` contain.
        prefix: The width of the key group at the beginning of keys.
        spans: Only keys of these spans, see ``key_ranges.SpanTable``.
        span_keys: Address of the spans' keys.
        out: Address of ``out_size`` bytes for keys, each followed by a byte 0.
        out_size: Their number.
        found: [4, capacity], a column for each key.
    """
    pending, started, active = reg[PENDING], reg[STARTED], reg[ACTIVE]
    state, seen, seen_size, last_sequence = reg[STATE], reg[SEEN], reg[SEEN_SIZE], reg[SEEN_SEQUENCE]
    span, used, n = reg[SPAN], reg[OUT_USED], reg[ENTRIES]
    outcome = ALL
    while True:
        moved, pending, started, active = move_rows(rows, n_rows, order, pending, started, active)
        if moved != OK:
            outcome = moved
            break
        if active == 0:
            break
        row = rows + order[active - 1] * ROW
        key, size, sequence = field(row, KEY), field(row, KEY_SIZE) - 8, field(row, SEQUENCE)
        span = span_at(key, size, spans, span_keys, span)
        if span >= len(spans):
            break
        kind, side = field(row, KIND), sides[order[active - 1]]
        newest = np.int64(OPERAND) if kind == MERGE else sequence
        relation = 1 if state == NO_KEY else compare(key, size, seen, seen_size)
        if relation < 0 or (relation == 0 and sequence > last_sequence):
            outcome = OUT_OF_ORDER
            break
        if relation > 0:
            if size > reg[SEEN_CAPACITY]:
                reg[NEED] = size
                outcome = GROW_SEEN
                break
            state = np.int64(DONE)
            if compare(key, size, span_keys + spans[span, 0], spans[span, 1]) >= 0:
                if size < prefix:
                    outcome = BAD_KEY
                    break
                if kind != PUT and kind != MERGE and kind != DELETION and kind != SINGLE_DELETION:
                    outcome = BAD_KIND
                    break
                other = order[active - 2] if active > 1 else order[active - 1]
                if sides[other] == side or not _same_version(row, rows + other * ROW):
                    if n >= found.shape[1] or size >= out_size - used:
                        reg[NEED] = size + 1
                        outcome = FULL
                        break
                    copy_bytes(out + used, key, size)
                    store_8(out + used + size, 0)
                    found[KEY_AT, n], found[KEY_BYTES, n] = used, size
                    found[NEWEST_LEFT, n], found[NEWEST_RIGHT, n] = ABSENT, ABSENT
                    used += size + 1
                    n += 1
                    state = np.int64(OPEN)
            copy_bytes(seen, key, size)
            seen_size = size
        if state == OPEN and found[NEWEST_LEFT + side, n - 1] == ABSENT:
            found[NEWEST_LEFT + side, n - 1] = newest
        last_sequence = sequence
        active -= 1
        pending = order[active]
    reg[PENDING], reg[STARTED], reg[ACTIVE] = pending, started, active
    reg[STATE], reg[SEEN_SIZE], reg[SEEN_SEQUENCE] = state, seen_size, last_sequence
    reg[SPAN], reg[OUT_USED], reg[ENTRIES] = span, used, n
    return outcome


@exported
def mark_blocks(
    spans: LongTable,
    span_keys: int,
    newest: Longs,
    largest: int,
    keys: int,
    key_starts: Longs,
    key_ends: Longs,
    marks: Flags,
) -> int:
    """Mark the blocks of a table that may have versions of keys that count; return how many are marked.

    Args:
        spans: The keys, see ``key_ranges.SpanTable``.
        span_keys: Address of the spans' keys.
        newest: Of each span the sequence number of a version that hides older ones; negative where none does.
        largest: The largest sequence number in the table.
        keys: Address of the index's separators, see ``index.Index``.
        key_starts: Where each block's separator starts.
        key_ends: Where it ends.
        marks: For each block; filled with false before.
    """
    block, marked = 0, 0
    n = len(key_starts)
    for k in range(len(spans)):
        if newest[k] > largest:
            continue
        start, start_size = span_keys + spans[k, 0], spans[k, 1]
        stop, stop_size = span_keys + spans[k, 2], spans[k, 3]
        while block < n:
            if compare(keys + key_starts[block], key_ends[block] - key_starts[block], start, start_size) >= 0:
                break
            block += 1
        at = block
        while at < n:
            if not marks[at]:
                marks[at] = True
                marked += 1
            if stop_size > 0 and compare(keys + key_starts[at], key_ends[at] - key_starts[at], stop, stop_size) >= 0:
                break
            at += 1
    return marked


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
    return CandidateKeys(span_table(spans), np.full((2, len(spans)), ABSENT, dtype=np.int64))


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
            outcome = changed_keys(
                buffers.rows.ctypes.data,
                len(sources),
                side_of_row,
                buffers.order,
                reg,
                prefix,
                limits.bounds,
                limits.keys.ctypes.data,
                out.ctypes.data,
                len(out),
                found,
            )
            if outcome in (merge_kernel.ALL, merge_kernel.FULL):
                break
            buffers.serve(outcome)
        n = int(reg[merge_kernel.ENTRIES])
        if n:
            yield _points(out, found[:, :n])
        size = max(_KEY_BYTES, int(reg[merge_kernel.NEED])) if outcome == merge_kernel.FULL else _KEY_BYTES


def _points(out: Bytes, found: LongTable) -> CandidateKeys:
    """Return keys as spans: each from the key up to the same with the byte 0 that follows it."""
    at, sizes = found[KEY_AT], found[KEY_BYTES]
    bounds = np.stack([at, sizes, at, sizes + 1], axis=1)
    return CandidateKeys(SpanTable(bounds, out), np.ascontiguousarray(found[NEWEST_LEFT:]))
