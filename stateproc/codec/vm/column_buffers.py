"""Kernels that ops share: appending to columns within their capacity, varints, names.

``columns`` is the address of int64 triples (address, bytes used, capacity in bytes), ``reg`` that of the registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec import ops
from stateproc.codec.native.jit import (
    copy_bytes,
    kernel,
    load_be16,
    load_i32,
    load_i64,
    load_u8,
    store_8,
    store_16,
    store_32,
    store_64,
)


@kernel
def operand(prog: int, index: int) -> Any:
    """The word ``index`` of the program at the address ``prog``."""
    return load_i32(prog + 4 * index)


@kernel
def has_capacity(columns: int, col: int, n: int, reg: int) -> bool:
    """Whether ``n`` more bytes fit into the column; if not, AUX and NEED are the column and the bytes it needs."""
    entry = columns + 24 * col
    if load_i64(entry + 8) + n <= load_i64(entry + 16):
        return True
    store_64(reg + 8 * ops.AUX, col)
    store_64(reg + 8 * ops.NEED, n)
    return False


@kernel
def append_address(columns: int, col: int) -> Any:
    """The address after the column's last value."""
    entry = columns + 24 * col
    return load_i64(entry) + load_i64(entry + 8)


@kernel
def advance(columns: int, col: int, n: int) -> None:
    entry = columns + 24 * col + 8
    store_64(entry, load_i64(entry) + n)


@kernel
def put(columns: int, col: int, width: int, value: int, reg: int) -> bool:
    """Append ``value`` in ``width`` bytes; False if it has to grow."""
    if col < 0:
        return True
    if not has_capacity(columns, col, width, reg):
        return False
    at = append_address(columns, col)
    if width == 1:
        store_8(at, value)
    elif width == 2:
        store_16(at, value)
    elif width == 4:
        store_32(at, value)
    else:
        store_64(at, value)
    advance(columns, col, width)
    return True


@kernel
def fill_nulls(columns: int, fills: int, at: int, reg: int) -> bool:
    """Append one null to every column of a subtree: the ``at``-th word counts triples (column, width, value)."""
    entry = fills + 4 * at
    for _ in range(load_i32(entry)):
        if not put(columns, load_i32(entry + 4), load_i32(entry + 8), load_i32(entry + 12), reg):
            return False
        entry += 12
    return True


@kernel
def append_bytes(columns: int, col: int, source: int, n: int, reg: int) -> bool:
    """Append ``n`` bytes from the address ``source`` to the column."""
    if col < 0:
        return True
    if not has_capacity(columns, col, n, reg):
        return False
    copy_bytes(append_address(columns, col), source, n)
    advance(columns, col, n)
    return True


@kernel
def read_varint(pos: int, end: int, kind: int, reg: int) -> Any:
    """A varint of the kind; the new position goes to ``reg[NEED]`` (-1: too short, -2: too long)."""
    wide = kind == ops.VARINT_U64 or kind == ops.VARINT_Z64
    value = np.uint64(0)
    shift = 0
    while True:
        if pos >= end:
            store_64(reg + 8 * ops.NEED, -1)
            return 0
        byte = np.uint64(load_u8(pos))
        pos += 1
        if wide and shift == 56:
            # Kryo's ninth byte has no continuation bit: it carries eight bits.
            value |= byte << np.uint64(56)
            break
        value |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        if byte < np.uint64(0x80):
            break
        shift += 7
        if not wide and shift > 28:
            store_64(reg + 8 * ops.NEED, -2)
            return 0
    store_64(reg + 8 * ops.NEED, pos)
    if kind == ops.VARINT_Z64:
        return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))
    if kind == ops.VARINT_U64:
        return np.int64(value)
    value &= np.uint64(0xFFFFFFFF)
    if kind == ops.VARINT_Z32:
        return np.int64(np.int32(np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))))
    return np.int64(np.int32(np.uint32(value)))


@kernel
def name_matches(pos: int, n: int, name: int) -> bool:
    """Whether the ``n`` bytes at ``pos`` are the name at the address ``name`` (u16 length, bytes)."""
    if np.int64(load_be16(name)) != n:
        return False
    for k in range(n):
        if load_u8(name + 2 + k) != load_u8(pos + k):
            return False
    return True
