"""Table API's binary rows, arrays and maps: sub-ranges, slots, elements (org.apache.flink.table.data.binary)."""

from __future__ import annotations

import numpy as np

from stateproc.codec import ops
from stateproc.codec.native.jit import inlined, kernel, load_be32, load_i64, load_le32, load_le64, load_u8, store_64
from stateproc.codec.vm.column_buffers import fill_nulls, operand, put


@inlined
def enter(pos: int, end: int, base: int, budget: int, kind: int, top: int, limit: int) -> tuple[int, int, int]:
    """ENTER: where the sub-range begins, its outcome, and the size of the sub-range.

    Four words on the stack restore the outer range: its end and base, the position after the sub-range, its budget.
    """
    resume = start = pos
    n = np.int64(0)
    if kind == ops.ENTER_REST:
        n = end - pos
        resume = end
    elif kind == ops.ENTER_I32 or kind == ops.ENTER_LE32:
        if end - pos < 4:
            return pos, ops.SHORT, 0
        raw = load_be32(pos) if kind == ops.ENTER_I32 else load_le32(pos)
        n = np.int64(np.int32(np.uint32(raw)))
        start = pos + 4
        if n < 0:
            return pos, ops.BAD_COUNT, 0
        if n > end - start:
            return pos, ops.SHORT, 0
        resume = start + n
    elif kind == ops.ENTER_HALF:
        if end - pos < 4:
            return pos, ops.SHORT, 0
        offset = load_le32(pos)
        n = np.int64(8)
        resume = pos + 4
        if offset > end - base or n > end - base - offset:
            return pos, ops.BAD_OFFSET, 0
        start = base + offset
    else:
        if end - pos < 8:
            return pos, ops.SHORT, 0
        slot = load_le64(pos)
        resume = pos + 8
        if kind == ops.ENTER_SLOT_OR_INLINE and slot >> np.uint64(63):
            n = np.int64((slot >> np.uint64(56)) & np.uint64(0x7F))
            if n > 7:
                return pos, ops.BAD_OFFSET, 0
        else:
            n = np.int64(slot & np.uint64(0xFFFFFFFF))
            offset = np.int64(slot >> np.uint64(32))
            if offset > end - base or n > end - base - offset:
                return pos, ops.BAD_OFFSET, 0
            start = base + offset
    if kind >= ops.ENTER_SLOT and start != pos:
        # Variable parts never overlap in what Flink writes. Overlapping ones could be read again and again,
        # by a factor at every level of nesting.
        budget -= n
        if budget < 0:
            return pos, ops.BAD_OFFSET, 0
    if top + 32 > limit:
        return pos, ops.TOO_DEEP, 0
    store_64(top, end)
    store_64(top + 8, base)
    store_64(top + 16, resume)
    store_64(top + 24, budget)
    return start, ops.RUNNING, n


@kernel
def slot(pos: int, base: int, pc: int, code: int, columns: int, fills: int, reg: int) -> tuple[int, int, int]:
    """SLOT."""
    bit = operand(code, 1)
    if (load_u8(base + (bit >> 3)) >> (bit & 7)) & 1 == 0:
        return base + operand(code, 2), ops.RUNNING, pc + 5
    if not fill_nulls(columns, fills, operand(code, 3), reg):
        return pos, ops.GROW, pc
    return pos, ops.RUNNING, operand(code, 4)


@kernel
def array(pos: int, end: int, base: int, element: int, top: int, limit: int) -> tuple[int, int]:
    """ARRAY; four words on the stack: null bits, first element, number of elements, how many are left."""
    if end - base < 4:
        return pos, ops.SHORT
    n = np.int64(np.int32(np.uint32(load_le32(base))))
    if n < 0:
        return pos, ops.BAD_COUNT
    first = base + 4 + ((n + 31) >> 5) * 4
    if n * element > end - first:
        return pos, ops.SHORT
    if top + 32 > limit:
        return pos, ops.TOO_DEEP
    store_64(top, base + 4)
    store_64(top + 8, first)
    store_64(top + 16, n)
    store_64(top + 24, n)
    return pos, ops.RUNNING


@inlined
def next_element(
    pos: int, end: int, pc: int, code: int, top: int, columns: int, fills: int, reg: int
) -> tuple[int, int, int, int]:
    """ARRAY_NEXT; then the stack's top. Nulls are filled in on the way."""
    n, remaining = load_i64(top - 16), load_i64(top - 8)
    while remaining > 0:
        i = n - remaining
        remaining -= 1
        if (load_u8(load_i64(top - 32) + (i >> 3)) >> (i & 7)) & 1 == 0:
            store_64(top - 8, remaining)
            return load_i64(top - 24) + i * operand(code, 1), ops.RUNNING, pc + 5, top
        if not fill_nulls(columns, fills, operand(code, 2), reg):
            return pos, ops.GROW, pc, top
    if not put(columns, operand(code, 3), 4, n, reg):
        return pos, ops.GROW, pc, top
    return end, ops.RUNNING, operand(code, 4), top - 32
