"""Move cursors of the merge: one per sorted run of files, each a row of 64-bit fields, read and moved by kernels.

An entry of a data block (RocksDB: table/block_based/block_builder.cc):

    varint shared, varint unshared, varint length of the value, unshared bytes of the key, value

Its internal key (db/dbformat.h): user key, then u64 ``sequence << 8 | type``, little-endian, where the type is
0 deletion, 1 put, 2 merge operand, 7 single deletion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.codec.native.jit import copy_bytes, kernel, load_be64, load_i64, load_le64, load_u8, store_64

# Fields of a row. Addresses: PLAIN (bytes of the blocks), STARTS and ENDS (int64 per block), POS, STOP (in
# the present block), KEY (the present internal key), VALUE.
PLAIN, STARTS, ENDS, BLOCKS, BLOCK, POS, STOP, KEY, KEY_CAPACITY, KEY_SIZE, VALUE, VALUE_SIZE = range(12)
SEQUENCE, KIND, OVERRIDE, LAST, NEED = range(12, 17)
FIELDS = 17
ROW = 8 * FIELDS

# Entry types (ValueType in db/dbformat.h).
DELETION, PUT, MERGE, SINGLE_DELETION = 0, 1, 2, 7
OK, EMPTY, GROW_KEY, BAD_ENTRY = 0, 1, 2, 3
SEQUENCES = (1 << 56) - 1


@kernel
def field(row: int, index: int) -> Any:
    return load_i64(row + 8 * index)


@kernel
def set_field(row: int, index: int, value: int) -> None:
    store_64(row + 8 * index, value)


@kernel
def _number(at: int, stop: int) -> tuple[int, int]:
    """An unsigned varint of 32 bits, and the address after it; -1 if it is cut off or larger."""
    value = np.int64(0)
    shift = 0
    while at < stop and shift <= 28:
        byte = load_u8(at)
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (value if value <= 0xFFFFFFFF else np.int64(-1)), at
        shift += 7
    return np.int64(-1), at


@kernel
def advance(row: int) -> int:
    """Move to the next entry: OK; EMPTY if the blocks are used up; GROW_KEY if the key needs a larger buffer (NEED)."""
    pos, stop = field(row, POS), field(row, STOP)
    size = field(row, KEY_SIZE)
    while pos >= stop:
        block = field(row, BLOCK) + 1
        if block >= field(row, BLOCKS):
            return EMPTY
        plain = field(row, PLAIN)
        pos = plain + load_i64(field(row, STARTS) + 8 * block)
        stop = plain + load_i64(field(row, ENDS) + 8 * block)
        size = np.int64(0)
        set_field(row, BLOCK, block)
        set_field(row, POS, pos)
        set_field(row, STOP, stop)
        set_field(row, KEY_SIZE, size)
    shared, at = _number(pos, stop)
    unshared, at = _number(at, stop)
    length, at = _number(at, stop)
    if shared < 0 or unshared < 0 or length < 0 or shared > size:
        return BAD_ENTRY
    if unshared > stop - at or length > stop - at - unshared or shared + unshared < 8:
        return BAD_ENTRY
    size = shared + unshared
    if size > field(row, KEY_CAPACITY):
        set_field(row, NEED, size)
        return GROW_KEY
    key = field(row, KEY)
    copy_bytes(key + shared, at, unshared)
    set_field(row, KEY_SIZE, size)
    set_field(row, VALUE, at + unshared)
    set_field(row, VALUE_SIZE, length)
    set_field(row, POS, at + unshared + length)
    trailer = np.int64(load_le64(key + size - 8))
    override = field(row, OVERRIDE)
    set_field(row, SEQUENCE, (trailer >> 8) & SEQUENCES if override < 0 else override)
    set_field(row, KIND, trailer & 0xFF)
    return OK


@kernel
def compare(a: int, a_size: int, b: int, b_size: int) -> int:
    """-1, 0 or 1, as the bytes at ``a`` sort before, equal to or after those at ``b``."""
    common = min(a_size, b_size)
    k = 0
    while k + 8 <= common:
        left, right = load_be64(a + k), load_be64(b + k)
        if left != right:
            return -1 if left < right else 1
        k += 8
    while k < common:
        difference = load_u8(a + k) - load_u8(b + k)
        if difference != 0:
            return -1 if difference < 0 else 1
        k += 1
    if a_size == b_size:
        return 0
    return -1 if a_size < b_size else 1


@kernel
def before(a: int, b: int) -> bool:
    """Whether row ``a`` stands at an entry that comes before that of ``b``: by key, newest first."""
    order = compare(field(a, KEY), field(a, KEY_SIZE) - 8, field(b, KEY), field(b, KEY_SIZE) - 8)
    if order != 0:
        return order < 0
    newer: bool = field(a, SEQUENCE) > field(b, SEQUENCE)
    return newer


@kernel
def insert(rows: int, order: Longs, active: int, moved: int) -> int:
    """Put the row ``moved`` into its place among the ``active`` rows that stand at entries; their new number."""
    row = rows + moved * ROW
    k = active
    while k > 0 and before(rows + order[k - 1] * ROW, row):
        order[k] = order[k - 1]
        k -= 1
    order[k] = moved
    return active + 1
