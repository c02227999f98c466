"""The kernel that lays raw entries out as data blocks of a table (RocksDB: table/block_based/block_builder.cc).

A block is entries, each ``varint shared, varint unshared, varint value length, key's tail, value``, then where its
restarts begin (u32 each) and their number. At a restart, every 16 entries, a key stands whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec.encoding.kernels import put_varint
from stateproc.codec.jit import copy_bytes, kernel, load_u8, store_8, store_32, store_64

# Registers: where the open block begins, where the bytes end, how many restarts the open block has, how many entries
# since the last of them, the last entry's key group (-1: none), how many blocks were closed.
START, POS, RESTARTS, RUN, GROUP, CLOSED = 0, 1, 2, 3, 4, 5
REGISTERS = 6
RESTART_INTERVAL = 16
TRAILER = 8
"""Behind each user key: u64 little-endian ``sequence << 8 | type``."""
PUT = 1
"""A Put with the sequence number 0, which compactions give to what no snapshot tells apart any more."""
OVERHEAD = 15 + TRAILER + 8
"""Bytes that an entry needs beside prefix, key and value, at most: three varints, a restart, a block's end."""
LEAST_ENTRY = 3 + TRAILER


@kernel
def close_block(out: int, restarts: Any, reg: Any, ends: Any, rows: Any, row: int) -> None:
    """End the open block, whose last entry is ``row``: its restarts and their number."""
    pos = reg[POS]
    for k in range(reg[RESTARTS]):
        store_32(out + pos, restarts[k])
        pos += 4
    store_32(out + pos, reg[RESTARTS])
    pos += 4
    ends[reg[CLOSED]] = pos
    rows[reg[CLOSED]] = row
    reg[CLOSED] += 1
    reg[START] = reg[POS] = pos
    reg[RESTARTS] = reg[RUN] = 0


@kernel
def fill(
    first: int,
    last: int,
    groups: Any,
    keys: int,
    key_offsets: Any,
    values: int,
    value_offsets: Any,
    prefix: int,
    block_size: int,
    before: int,
    before_size: int,
    out: int,
    restarts: Any,
    reg: Any,
    ends: Any,
    rows: Any,
) -> None:
    """Put rows ``first`` to ``last`` (exclusive), which are in order, into blocks of about ``block_size`` bytes.

    before: the key, without prefix, of the entry before the first. out: address of room for all of it: the open block
    up to ``reg[POS]``, and OVERHEAD + ``prefix`` bytes beside key and value for each row. restarts: int64, of the open
    block. ends, rows: int64, for each block that is closed its end in ``out`` and the row of its last entry, -1 for
    the entry before. A block that does not fit one entry has that one only.
    """
    for row in range(first, last):
        group = np.int64(groups[row])
        key, size = keys + key_offsets[row], key_offsets[row + 1] - key_offsets[row]
        value_size = value_offsets[row + 1] - value_offsets[row]
        used = reg[POS] - reg[START]
        if used > 0 and used + 4 * reg[RESTARTS] + 4 + LEAST_ENTRY + prefix + size + value_size > block_size:
            close_block(out, restarts, reg, ends, rows, row - 1 if row > first else -1)
        shared = np.int64(0)
        if reg[RESTARTS] == 0 or reg[RUN] == RESTART_INTERVAL:
            restarts[reg[RESTARTS]] = reg[POS] - reg[START]
            reg[RESTARTS] += 1
            reg[RUN] = 0
        elif group == reg[GROUP]:
            n = min(size, before_size)
            while shared < n and load_u8(key + shared) == load_u8(before + shared):
                shared += 1
            shared += prefix
        at = put_varint(out + reg[POS], shared)
        at = put_varint(at, prefix + size + TRAILER - shared)
        at = put_varint(at, value_size)
        if shared == 0:
            for k in range(prefix):
                store_8(at, (group >> (8 * (prefix - 1 - k))) & 0xFF)
                at += 1
            shared = np.int64(prefix)
        copy_bytes(at, key + shared - prefix, size + prefix - shared)
        at += size + prefix - shared
        store_64(at, PUT)
        copy_bytes(at + TRAILER, values + value_offsets[row], value_size)
        reg[POS] = at + TRAILER + value_size - out
        reg[RUN] += 1
        reg[GROUP] = group
        before, before_size = key, size
