"""Ops that branch: null marks, null masks, tags, names."""

from __future__ import annotations

import numpy as np

from stateproc.codec import ops
from stateproc.codec.jit import inlined, kernel, load_be16, load_be32, load_u8
from stateproc.codec.vm.column_buffers import fill_nulls, name_matches, operand


@inlined
def null_if(pos: int, end: int, pc: int, code: int, columns: int, fills: int, reg: int) -> tuple[int, int, int]:
    """NULL_IF."""
    if pos >= end:
        return pos, ops.SHORT, pc
    mark = load_u8(pos)
    if mark > 1:
        return pos, ops.BAD_MARK, pc
    pos += 1
    if mark != operand(code, 1):
        return pos, ops.RUNNING, pc + 5
    if not fill_nulls(columns, fills, operand(code, 2), reg):
        return pos, ops.GROW, pc
    pad = operand(code, 4)
    if pad < 0:
        return end, ops.RUNNING, operand(code, 3)
    if pad > end - pos:
        return pos, ops.SHORT, pc
    return pos + pad, ops.RUNNING, operand(code, 3)


@kernel
def switch(pos: int, end: int, pc: int, code: int, count: int) -> tuple[int, int, int, int]:
    """SWITCH; then the tag, which is the new count."""
    width = operand(code, 1)
    if end - pos < width:
        return pos, ops.SHORT, pc, count
    tag = np.int64(count)
    if width == 1:
        tag = load_u8(pos)
    elif width == 4:
        tag = np.int64(np.int32(np.uint32(load_be32(pos))))
    target = operand(code, 3)
    for k in range(operand(code, 2)):
        if operand(code, 4 + 2 * k) == tag:
            target = operand(code, 5 + 2 * k)
            break
    if target < 0:
        return pos, ops.BAD_TAG, pc, count
    return pos + width, ops.RUNNING, target, tag


@kernel
def switch_name(pos: int, end: int, pc: int, code: int, names: int) -> tuple[int, int, int]:
    """SWITCH_NAME."""
    if end - pos < 2:
        return pos, ops.SHORT, pc
    n = load_be16(pos)
    if n > end - pos - 2:
        return pos, ops.SHORT, pc
    for k in range(operand(code, 1)):
        if name_matches(pos + 2, n, names + operand(code, 3 + 2 * k)):
            return pos + 2 + n, ops.RUNNING, operand(code, 4 + 2 * k)
    target = operand(code, 2)
    return pos, ops.RUNNING if target >= 0 else ops.BAD_TAG, target


@kernel
def skip_mask(pos: int, end: int, count: int, n: int) -> tuple[int, int]:
    """MASK of ``n`` bytes."""
    if n < 0:
        if count < 0:
            return pos, ops.BAD_COUNT
        n = (count + 7) >> 3
    if end - pos < n:
        return pos, ops.SHORT
    return pos + n, ops.RUNNING


@kernel
def mask_bit(at: int, bit: int, following: int, choice: int, columns: int, fills: int, reg: int) -> tuple[int, int]:
    """MASK_BIT and MASK_LOOP_BIT of the mask at the address ``at``: outcome and ``pc``.

    ``choice``: the address of the word in front of the operands fill and pc; ``following``: the next instruction.
    """
    if (load_u8(at + (bit >> 3)) >> (7 - (bit & 7))) & 1 == 0:
        return ops.RUNNING, following
    if not fill_nulls(columns, fills, operand(choice, 1), reg):
        return ops.GROW, following
    return ops.RUNNING, operand(choice, 2)
