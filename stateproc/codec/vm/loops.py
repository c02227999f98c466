"""Counted loops: a loop has two words on the stack, how many items there are and how many are left."""

from __future__ import annotations

import numpy as np

from stateproc.codec import ops
from stateproc.codec.jit import inlined, kernel, load_be16, load_be32, load_i64, load_u8, store_64
from stateproc.codec.vm.column_buffers import operand, put, read_varint

MAX_EMPTY_ITEMS = 0x100000
"""Items without bytes that a count may promise: nothing else bounds them."""


@inlined
def read_count(pos: int, end: int, kind: int, reg: int) -> tuple[int, int, int]:
    """READ_COUNT; then the count."""
    if kind == ops.COUNT_I32:
        if end - pos < 4:
            return pos, ops.SHORT, 0
        return pos + 4, ops.RUNNING, np.int64(np.int32(np.uint32(load_be32(pos))))
    if kind == ops.COUNT_U16:
        if end - pos < 2:
            return pos, ops.SHORT, 0
        return pos + 2, ops.RUNNING, load_be16(pos)
    count = read_varint(pos, end, ops.VARINT_U32, reg)
    at = load_i64(reg + 8 * ops.NEED)
    if at < 0:
        return pos, ops.SHORT if at == -1 else ops.BAD_COUNT, 0
    return at, ops.RUNNING, count


@kernel
def loop(pos: int, end: int, count: int, pc: int, code: int, top: int, columns: int, reg: int) -> tuple[int, int, int]:
    """LOOP: outcome, ``pc``, the stack's top."""
    cost = operand(code, 2)
    if count < 0 or (cost == 0 and count > MAX_EMPTY_ITEMS):
        return ops.BAD_COUNT, pc, top
    if count * cost > end - pos:
        return ops.SHORT, pc, top
    if count == 0:
        if not put(columns, operand(code, 1), 4, 0, reg):
            return ops.GROW, pc, top
        return ops.RUNNING, operand(code, 3), top
    store_64(top, count)
    store_64(top + 8, count)
    return ops.RUNNING, pc + 4, top + 16


@kernel
def next_item(pc: int, code: int, top: int, columns: int, reg: int) -> tuple[int, int, int]:
    """NEXT: outcome, ``pc``, the stack's top."""
    remaining = load_i64(top - 8) - 1
    if remaining > 0:
        store_64(top - 8, remaining)
        return ops.RUNNING, operand(code, 2), top
    if not put(columns, operand(code, 1), 4, load_i64(top - 16), reg):
        return ops.GROW, pc, top
    return ops.RUNNING, pc + 3, top - 16


@inlined
def next_in_block(
    pos: int, end: int, pc: int, code: int, top: int, columns: int, reg: int
) -> tuple[int, int, int, int]:
    """BLOCK_NEXT; then the stack's top."""
    n_items, remaining = load_i64(top - 16), load_i64(top - 8)
    if remaining == 0:
        remaining = read_varint(pos, end, ops.VARINT_U64, reg)
        at = load_i64(reg + 8 * ops.NEED)
        if at < 0:
            return pos, ops.SHORT, pc, top
        cost = operand(code, 2)
        if remaining < 0 or (cost == 0 and remaining + n_items > MAX_EMPTY_ITEMS) or remaining > 0x7FFFFFFF:
            return pos, ops.BAD_COUNT, pc, top
        if remaining * cost > end - at:
            return pos, ops.SHORT, pc, top
        pos = at
        if remaining == 0:
            if not put(columns, operand(code, 1), 4, n_items, reg):
                return pos, ops.GROW, pc, top
            return pos, ops.RUNNING, operand(code, 3), top - 16
    store_64(top - 8, remaining - 1)
    store_64(top - 16, n_items + 1)
    return pos, ops.RUNNING, pc + 4, top


@kernel
def next_delimited(
    pos: int, end: int, pc: int, code: int, top: int, columns: int, reg: int
) -> tuple[int, int, int, int]:
    """DELIMITED_NEXT; then the stack's top."""
    n_items = load_i64(top - 16)
    if n_items > 0 and pos < end:
        if load_u8(pos) != 0x2C:
            return pos, ops.BAD_MARK, pc, top
        pos += 1
    if pos >= end:
        if not put(columns, operand(code, 1), 4, n_items, reg):
            return pos, ops.GROW, pc, top
        return pos, ops.RUNNING, operand(code, 2), top - 16
    store_64(top - 16, n_items + 1)
    return pos, ops.RUNNING, pc + 3, top
