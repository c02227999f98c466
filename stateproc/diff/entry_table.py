"""Tables of keys and values as addresses of bytes, and their matching by key."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Flags, Longs, LongTable
from stateproc.codec.arrow_arrays import RowBytes
from stateproc.codec.native.jit import copy_bytes, exported, inlined, kernel, load_i64, load_u8
from stateproc.readers.raw_entries import RawEntries

# Kernels over byte strings given by address and size: match equal keys, compare values, copy rows.
#
# Tables are int64 [4, n]: address and size of each entry's key, address and size of its value.

_WINDOW = 8
"""How far the matching in order looks ahead for the entry that follows an added or a removed one."""
_MULTIPLIER = -7046029254386353131
_LOW_32 = (1 << 32) - 1


@inlined
def _same(one: int, one_size: int, two: int, two_size: int) -> bool:
    """Whether two byte strings are equal."""
    if one_size != two_size:
        return False
    k = np.int64(0)
    while k + 8 <= one_size:
        if load_i64(one + k) != load_i64(two + k):
            return False
        k += 8
    while k < one_size:
        if load_u8(one + k) != load_u8(two + k):
            return False
        k += 1
    return True


@kernel
def _hash(at: int, size: int, seed: int) -> int:
    """A hash of the bytes, not negative; equal bytes are compared anyway, so that it need not be a strong one."""
    found = seed ^ (size * _MULTIPLIER)
    k = np.int64(0)
    while k + 8 <= size:
        found = (found ^ load_i64(at + k)) * _MULTIPLIER
        found ^= (found >> 32) & _LOW_32
        k += 8
    last = np.int64(0)
    while k < size:
        last = (last << 8) | load_u8(at + k)
        k += 1
    found = (found ^ last) * _MULTIPLIER
    found ^= (found >> 29) & _LOW_32
    found *= _MULTIPLIER
    folded: int = ((found >> 20) & ((1 << 43) - 1)) ^ (found & _LOW_32)
    return folded


@exported
def match_in_order(left: LongTable, right: LongTable, partners: Longs, taken: Flags) -> int:
    """Match the entries of equal keys of two tables that have almost the same order; return how many were found.

    Entries out of order stay unmatched. Where too many are, the walk ends early: ``match_by_hash`` finds the rest.

    Args:
        left: One table.
        right: The other one.
        partners: For each entry of ``left`` that of ``right``; filled with -1 before.
        taken: Whether an entry of ``right`` has a partner; filled with false before.
    """
    n, m = left.shape[1], right.shape[1]
    i, j, found, missed = 0, 0, 0, 0
    while i < n and j < m:
        if _same(left[0, i], left[1, i], right[0, j], right[1, j]):
            partners[i] = j
            taken[j] = True
            found += 1
            i += 1
            j += 1
            continue
        missed += 1
        if missed > 256 and missed > found // 2:
            break
        ahead = 1
        while ahead <= _WINDOW:
            if i + ahead < n and _same(left[0, i + ahead], left[1, i + ahead], right[0, j], right[1, j]):
                i += ahead
                break
            if j + ahead < m and _same(left[0, i], left[1, i], right[0, j + ahead], right[1, j + ahead]):
                j += ahead
                break
            ahead += 1
        if ahead > _WINDOW:
            i += 1
            j += 1
    return found


@exported
def match_by_hash(
    left: LongTable,
    right: LongTable,
    left_rows: Longs,
    right_rows: Longs,
    slots: Longs,
    first: Longs,
    after: Longs,
    seed: int,
    partners: Longs,
    taken: Flags,
) -> int:
    """Match the entries of equal keys among some rows of two tables in any order; return how many were found.

    Of n equal entries in one table and m in the other, the first min(n, m) of each become pairs.

    Args:
        left: One table.
        right: The other one.
        left_rows: The rows of ``left``.
        right_rows: The rows of ``right``.
        slots: A power of two more than the rows of ``left``, filled with -1: an entry with the key of the slot.
        first: As many: the first unmatched entry of this key (position in ``left_rows``), -1 if there is none.
        after: For each of ``left_rows`` the next entry of the same key, -1 if there is none.
        seed: A number that nobody could know when the keys were made.
        partners: As of ``match_in_order``.
        taken: As of ``match_in_order``.
    """
    mask = len(slots) - 1
    k = len(left_rows) - 1
    while k >= 0:
        row = left_rows[k]
        slot = _hash(left[0, row], left[1, row], seed) & mask
        while slots[slot] >= 0:
            other = left_rows[slots[slot]]
            if _same(left[0, row], left[1, row], left[0, other], left[1, other]):
                break
            slot = (slot + 1) & mask
        after[k] = first[slot] if slots[slot] >= 0 else -1
        slots[slot] = k
        first[slot] = k
        k -= 1
    found = 0
    for k in range(len(right_rows)):
        row = right_rows[k]
        slot = _hash(right[0, row], right[1, row], seed) & mask
        while slots[slot] >= 0:
            other = left_rows[slots[slot]]
            if _same(right[0, row], right[1, row], left[0, other], left[1, other]):
                if first[slot] >= 0:
                    partners[left_rows[first[slot]]] = row
                    taken[row] = True
                    first[slot] = after[first[slot]]
                    found += 1
                break
            slot = (slot + 1) & mask
    return found


@exported
def find_changed(left: LongTable, right: LongTable, partners: Longs, marked: bool, ignored: int, changed: Flags) -> int:
    """Find the matched entries whose values differ; return how many.

    Args:
        left: One table.
        right: The other one.
        partners: For each entry of ``left`` that of ``right``, or -1.
        marked: Whether values begin with a byte that is not 0 if the value is null, whatever bytes follow.
        ignored: A number of bytes at the start of the value (after the mark) that make no difference.
        changed: For each entry of ``left``; filled with false before.
    """
    found = 0
    for i in range(left.shape[1]):
        j = partners[i]
        if j < 0:
            continue
        one, one_size, two, two_size = left[2, i], left[3, i], right[2, j], right[3, j]
        skipped = ignored
        if marked and one_size > 0 and two_size > 0:
            nulls = (1 if load_u8(one) != 0 else 0) + (1 if load_u8(two) != 0 else 0)
            if nulls == 2:
                continue
            if nulls == 1:
                changed[i] = True
                found += 1
                continue
            skipped += 1
        if skipped <= one_size and skipped <= two_size:
            one, one_size, two, two_size = one + skipped, one_size - skipped, two + skipped, two_size - skipped
        if not _same(one, one_size, two, two_size):
            changed[i] = True
            found += 1
    return found


@exported
def place(at: Longs, sizes: Longs, out: int, positions: Longs) -> None:
    """Copy row k to ``out + positions[k]``, and move that position after it."""
    for k in range(len(at)):
        copy_bytes(out + positions[k], at[k], sizes[k])
        positions[k] += sizes[k]


@exported
def hash_buckets(table: LongTable, seed: int, mask: int, buckets: Longs) -> None:
    """Divide entries by a hash of their keys into ``mask + 1`` buckets, a power of two."""
    for k in range(table.shape[1]):
        buckets[k] = _hash(table[0, k], table[1, k], seed) & mask


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

    def part(self, rows: Longs) -> EntryTable:
        """Return some entries in this order, copied if they alone would keep much larger buffers in memory."""
        found = EntryTable(np.ascontiguousarray(self.table[:, rows]), self.key_groups[rows], self.buffers)
        if found.content_bytes * _SPARSE >= sum(map(_size_of, self.buffers)):
            return found
        return entries_of_chunk(found.packed())

    def packed(self, rows: Longs | None = None) -> RawEntries:
        """Copy entries into one buffer. ``rows``: which ones, in this order; None: all."""
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
    table = np.empty((4, len(chunk)), dtype=np.int64)
    for low, high, row in ((starts, stops, KEY_AT), (at, ends, VALUE_AT)):
        np.add(low, base, out=table[row])
        np.subtract(high, low, out=table[row + 1])
    data: object = chunk.data
    if int(table[KEY_SIZE].sum() + table[VALUE_SIZE].sum()) * _SPARSE < len(chunk.data):
        copied, ranges = _copied(table)
        data, base = copied, copied.ctypes.data
        table[KEY_AT], table[VALUE_AT] = base + ranges[0], base + ranges[2]
    return EntryTable(table, chunk.key_groups.copy(), (data,))


def _size_of(buffer: object) -> int:
    return int(buffer.nbytes) if isinstance(buffer, np.ndarray) else 0


def joined_tables(tables: Sequence[EntryTable]) -> EntryTable:
    """Return the entries of tables, one after another, without copying their keys and values."""
    if not tables:
        return EntryTable(np.empty((4, 0), dtype=np.int64), np.empty(0, dtype=np.int32), ())
    if len(tables) == 1:
        return tables[0]
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

    @property
    def left_rows(self) -> Longs:
        """The rows of the first table that are not equal to one of the second, in ascending order."""
        return np.sort(np.concatenate([self.deleted, self.before]))

    @property
    def right_rows(self) -> Longs:
        """The rows of the second table that are not equal to one of the first, in ascending order."""
        return np.sort(np.concatenate([self.inserted, self.after]))


def match(left: EntryTable, right: EntryTable, form: ValueForm | None = PLAIN) -> Matches:
    """Match two tables by their keys, which may be in any order; of equal keys within a table each is one entry.

    Args:
        left: One table.
        right: The other one.
        form: How values are compared; None: the values of all matched entries count as different.
    """
    partners, taken, found = _in_order(left, right)
    if found < len(left) and found < len(right):
        _match_rest(left.table, right.table, partners, taken)
    return _matches(left, right, partners, taken, form)


def match_beginnings(left: EntryTable, right: EntryTable, form: ValueForm | None = PLAIN) -> tuple[Matches, int, int]:
    """Match two tables by their keys as far as these have almost the same order, as what follows is not read yet.

    Returns the matches, and the rows up to which they are of either table. Where the order is another one that is up to
    the end, and few are matched.
    """
    n, m = len(left), len(right)
    partners, taken, found = _in_order(left, right)
    if found and 2 * found >= min(n, m):
        n, m = (int(np.flatnonzero(rows)[-1]) + 1 for rows in (partners >= 0, taken))
    return _matches(left, right, partners[:n], taken[:m], form), n, m


def _in_order(left: EntryTable, right: EntryTable) -> tuple[Longs, Flags, int]:
    """Return the partner of each entry of the first table, whether each of the second has one, and how many have."""
    partners = np.full(len(left), -1, dtype=np.int64)
    taken: Flags = np.zeros(len(right), dtype=np.bool_)
    return partners, taken, match_in_order(left.table, right.table, partners, taken)


def _matches(left: EntryTable, right: EntryTable, partners: Longs, taken: Flags, form: ValueForm | None) -> Matches:
    """Compare the values of partners."""
    changed = partners >= 0
    deleted, inserted = np.flatnonzero(~changed), np.flatnonzero(~taken)
    different = len(partners) - len(deleted)
    if form is not None:
        changed[:] = False
        part = np.ascontiguousarray(left.table[:, : len(partners)])
        different = find_changed(part, right.table, partners, form.is_marked, form.ignored, changed)
    before = np.flatnonzero(changed)
    return Matches(deleted, inserted, before, partners[before], len(partners) - len(deleted) - different)


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
