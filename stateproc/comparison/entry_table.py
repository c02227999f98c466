"""Tables of keys and values as addresses of bytes, and their matching by key."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Flags, Longs, LongTable
from stateproc.codec.byte_arrays import RowBytes
from stateproc.comparison.byte_kernels import find_changed, match_by_hash, match_in_order, place
from stateproc.readers.raw_entries import RawEntries

SEED = secrets.randbits(62)
"""Of the hashes of keys: nobody could know it when the keys were made."""
KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE = range(4)
_SPARSE = 2
"""Entries are copied out of a buffer that has more than so many times their bytes: other states' entries are in it."""


@dataclass(frozen=True)
class EntryTable:
    """Keys and values of entries.

    Attributes:
        table: int64 [4, n]: address and size of the key, address and size of the value.
        key_groups: The key group of each entry; empty where entries have none.
        buffers: What the addresses point into.
    """

    table: LongTable
    key_groups: npt.NDArray[np.int32]
    buffers: tuple[object, ...]

    def __len__(self) -> int:
        return int(self.table.shape[1])

    @property
    def content_bytes(self) -> int:
        """The bytes of all keys and values."""
        return int(self.table[KEY_SIZE].sum() + self.table[VALUE_SIZE].sum())

    def packed(self, rows: Longs | None = None) -> RawEntries:
        """Copy entries into one buffer.

        Args:
            rows: Which ones, in this order; None: all.
        """
        table = self.table if rows is None else np.ascontiguousarray(self.table[:, rows])
        groups = self.key_groups if rows is None else self.key_groups[rows]
        data, ranges = _copied(table)
        return RawEntries(data, groups, ranges, "", 0, exact=False)


def _copied(table: LongTable) -> tuple[npt.NDArray[np.uint8], LongTable]:
    """Copy each key followed by its value; return the bytes and their ranges, as RawEntries has them."""
    sizes = table[KEY_SIZE] + table[VALUE_SIZE]
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    data = np.empty(int(starts[-1]) + 1, dtype=np.uint8)
    positions = starts[:-1].copy()
    for at, size in ((KEY_AT, KEY_SIZE), (VALUE_AT, VALUE_SIZE)):
        place(table[at], table[size], data.ctypes.data, positions)
    middles = starts[:-1] + table[KEY_SIZE]
    return data[:-1], np.stack([starts[:-1], middles, middles, starts[1:]])


def entries_of_chunk(chunk: RawEntries) -> EntryTable:
    """Return entries as a table: in the buffer that they were read into, if most of it is theirs, else copied."""
    starts, stops, at, ends = chunk.ranges
    base = chunk.data.ctypes.data
    table = np.stack([base + starts, stops - starts, base + at, ends - at])
    data: object = chunk.data
    if int(table[KEY_SIZE].sum() + table[VALUE_SIZE].sum()) * _SPARSE < len(chunk.data):
        copied, ranges = _copied(table)
        data, base = copied, copied.ctypes.data
        table[KEY_AT], table[VALUE_AT] = base + ranges[0], base + ranges[2]
    return EntryTable(table, chunk.key_groups.copy(), (data,))


def joined_tables(tables: Sequence[EntryTable]) -> EntryTable:
    """Return the entries of tables, one after another, without copying their keys and values."""
    if not tables:
        return EntryTable(np.empty((4, 0), dtype=np.int64), np.empty(0, dtype=np.int32), ())
    return EntryTable(
        np.concatenate([item.table for item in tables], axis=1),
        np.concatenate([item.key_groups for item in tables]),
        tuple(buffer for item in tables for buffer in item.buffers),
    )


def table_of_rows(keys: RowBytes, values: RowBytes) -> EntryTable:
    """Make a table of rows whose keys and values are encoded."""
    parts = []
    for column in (keys, values):
        parts += [column.data.ctypes.data + column.offsets[:-1], column.lengths]
    return EntryTable(np.stack(parts), np.empty(0, dtype=np.int32), (keys, values))


@dataclass(frozen=True)
class ValueForm:
    """How values are compared.

    Attributes:
        is_marked: Values begin with a byte that says whether they are null (map entries).
        ignored: The number of bytes after it that make no difference (times of last access).
    """

    is_marked: bool = False
    ignored: int = 0


PLAIN = ValueForm()


@dataclass(frozen=True)
class Matches:
    """What differs between two tables, as row numbers.

    Attributes:
        deleted: Rows of the first table whose keys the second does not have.
        inserted: Rows of the second table whose keys the first does not have.
        before: Rows of the first table whose values differ.
        after: For each of these the row of the second table.
        equal: The number of entries that are equal.
    """

    deleted: Longs
    inserted: Longs
    before: Longs
    after: Longs
    equal: int


def match(left: EntryTable, right: EntryTable, form: ValueForm = PLAIN) -> Matches:
    """Match two tables by their keys, which may be in any order; of equal keys within a table each is one entry."""
    n, m = len(left), len(right)
    partners = np.full(n, -1, dtype=np.int64)
    taken = np.zeros(m, dtype=np.bool_)
    found = match_in_order(left.table, right.table, partners, taken)
    if found < n and found < m:
        _match_rest(left.table, right.table, partners, taken)
    changed: Flags = np.zeros(n, dtype=np.bool_)
    different = find_changed(left.table, right.table, partners, form.is_marked, form.ignored, changed)
    before = np.flatnonzero(changed)
    deleted, inserted = np.flatnonzero(partners < 0), np.flatnonzero(~taken)
    return Matches(deleted, inserted, before, partners[before], n - len(deleted) - different)


def _match_rest(left: LongTable, right: LongTable, partners: Longs, taken: Flags) -> None:
    left_rows, right_rows = np.flatnonzero(partners < 0), np.flatnonzero(~taken)
    slots = np.full(1 << (2 * len(left_rows)).bit_length(), -1, dtype=np.int64)
    first, after = np.full_like(slots, -1), np.full(len(left_rows), -1, dtype=np.int64)
    match_by_hash(left, right, left_rows, right_rows, slots, first, after, SEED, partners, taken)


def joined(parts: Sequence[RowBytes]) -> RowBytes:
    """Join the bytes of each row, part after part."""
    rows = len(parts[0])
    offsets = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(sum(part.lengths for part in parts), out=offsets[1:])
    data = np.empty(int(offsets[-1]) + 1, dtype=np.uint8)
    positions = offsets[:-1].copy()
    for part in parts:
        place(part.data.ctypes.data + part.offsets[:-1], part.lengths, data.ctypes.data, positions)
    return RowBytes(data, offsets)


def taken_rows(source: RowBytes, rows: Longs) -> RowBytes:
    """Return some rows in this order."""
    lengths = source.lengths[rows]
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(int(offsets[-1]) + 1, dtype=np.uint8)
    place(source.data.ctypes.data + source.offsets[:-1][rows], lengths, data.ctypes.data, offsets[:-1].copy())
    return RowBytes(data, offsets)
