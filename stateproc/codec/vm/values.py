"""Ops for single values and what is around them: numbers, strings, null marks and masks, tags, counted loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec import ops
from stateproc.codec.native.jit import (
    inlined,
    kernel,
    load_be16,
    load_be32,
    load_be64,
    load_i64,
    load_le16,
    load_le32,
    load_le64,
    load_u8,
    store_64,
)
from stateproc.codec.vm.column_buffers import (
    advance,
    append_address,
    append_bytes,
    fill_nulls,
    has_capacity,
    name_matches,
    operand,
    put,
    read_varint,
)
from stateproc.codec.vm.java_strings import TOO_SHORT, decode_modified_utf8, decode_varint_units


@kernel
def load_big_endian(pos: int, width: int) -> Any:
    """The 1, 2, 4 or 8 bytes at ``pos``, which are there; the upper bits of narrow ones are 0."""
    if width == 8:
        return np.int64(load_be64(pos))
    if width == 4:
        return load_be32(pos)
    if width == 2:
        return load_be16(pos)
    return load_u8(pos)


@kernel
def big_endian(pos: int, end: int, width: int, col: int, columns: int, reg: int) -> tuple[int, int]:
    """F1 to F8: a number of ``width`` bytes, kept in the column."""
    if end - pos < width:
        return pos, ops.SHORT
    if not put(columns, col, width, load_big_endian(pos, width), reg):
        return pos, ops.GROW
    return pos + width, ops.RUNNING


@kernel
def little_endian(pos: int, end: int, width: int, col: int, columns: int, reg: int) -> tuple[int, int]:
    """L2 to L8."""
    if end - pos < width:
        return pos, ops.SHORT
    if width == 8:
        value = np.int64(load_le64(pos))
    elif width == 4:
        value = load_le32(pos)
    else:
        value = load_le16(pos)
    if not put(columns, col, width, value, reg):
        return pos, ops.GROW
    return pos + width, ops.RUNNING


@kernel
def boolean(pos: int, end: int, col: int, columns: int, reg: int) -> tuple[int, int]:
    """BOOL."""
    if pos < end and load_u8(pos) > 1:
        return pos, ops.BAD_MARK
    return big_endian(pos, end, 1, col, columns, reg)


@inlined
def marked_number(pos: int, end: int, code: int, columns: int, reg: int) -> tuple[int, int]:
    """MARKED_NUMBER."""
    if pos >= end:
        return pos, ops.SHORT
    mark = load_u8(pos)
    if mark > 1:
        return pos, ops.BAD_MARK
    width = operand(code, 4)
    present = mark != operand(code, 1)
    value = np.int64(0)
    next_pos = pos + 1
    if present:
        if end - next_pos < width:
            return pos, ops.SHORT
        value = load_big_endian(next_pos, width)
        next_pos += width
    if not put(columns, operand(code, 3), width, value, reg):
        return pos, ops.GROW
    if not put(columns, operand(code, 2), 1, np.int64(present), reg):
        return pos, ops.GROW
    return next_pos, ops.RUNNING


@kernel
def kept_varint(pos: int, end: int, code: int, columns: int, reg: int) -> tuple[int, int]:
    """VARINT."""
    value = read_varint(pos, end, operand(code, 3), reg)
    at = load_i64(reg + 8 * ops.NEED)
    if at < 0:
        return pos, ops.SHORT if at == -1 else ops.BAD_COUNT
    if not put(columns, operand(code, 1), 4 if operand(code, 2) == 4 else 8, value, reg):
        return pos, ops.GROW
    return at, ops.RUNNING


@kernel
def skipped(pos: int, end: int, n: int) -> tuple[int, int]:
    """SKIP."""
    if end - pos < n:
        return pos, ops.SHORT
    return pos + n, ops.RUNNING


@kernel
def expected_byte(pos: int, end: int, byte: int) -> tuple[int, int]:
    """EXPECT."""
    if pos >= end:
        return pos, ops.SHORT
    if load_u8(pos) != byte:
        return pos, ops.BAD_TAG
    return pos + 1, ops.RUNNING


@kernel
def constant(pos: int, code: int, columns: int, reg: int) -> tuple[int, int]:
    """CONSTANT."""
    if not put(columns, operand(code, 2), 1, operand(code, 3), reg):
        return pos, ops.GROW
    if not put(columns, operand(code, 1), 4, 1, reg):
        return pos, ops.GROW
    return pos, ops.RUNNING


@kernel
def span(pos: int, since: int, code: int, columns: int, reg: int) -> tuple[int, int]:
    """SPAN: the bytes from ``since`` up to here."""
    if not append_bytes(columns, operand(code, 2), since, pos - since, reg):
        return pos, ops.GROW
    if not put(columns, operand(code, 1), 4, pos - since, reg):
        return pos, ops.GROW
    return pos, ops.RUNNING


@kernel
def length_suffix(pos: int, end: int, since: int) -> tuple[int, int]:
    """LENGTH_SUFFIX; of its several bytes one is where it fails."""
    n = pos - since
    while True:
        if pos >= end:
            return pos, ops.SHORT
        if load_u8(pos) != n & 0xFF:
            return pos, ops.BAD_TAG
        pos += 1
        n >>= 8
        if n == 0:
            return pos, ops.RUNNING


@inlined
def flink_string(pos: int, end: int, code: int, columns: int, reg: int) -> tuple[int, int]:
    """FSTR."""
    # The varint is one byte for all but long strings.
    if pos >= end:
        return pos, ops.SHORT
    n = np.int64(load_u8(pos))
    at = pos + 1
    if n >= 0x80:
        n = read_varint(pos, end, ops.VARINT_U32, reg)
        at = load_i64(reg + 8 * ops.NEED)
        if at < 0:
            return pos, ops.SHORT if at == -1 else ops.BAD_STRING
        if n < 0:
            return pos, ops.BAD_STRING
    n -= operand(code, 3) & 1
    if n > end - at:
        return pos, ops.SHORT
    col = operand(code, 2)
    if n <= 0:
        if not put(columns, operand(code, 1), 4, n, reg):
            return pos, ops.GROW
        return at, ops.RUNNING
    if col < 0:
        at = skip_units(at, end, n)
        if at > end:
            return pos, ops.SHORT
        return at, ops.RUNNING
    if not has_capacity(columns, col, 3 * n + 8, reg):
        return pos, ops.GROW
    at, written = decode_varint_units(at, end, n, append_address(columns, col), operand(code, 3) >= ops.KEEP_SURROGATES)
    if written < 0:
        return pos, ops.SHORT if written == TOO_SHORT else ops.BAD_STRING
    if not put(columns, operand(code, 1), 4, written, reg):
        return pos, ops.GROW
    advance(columns, col, written)
    return at, ops.RUNNING


@kernel
def skip_units(at: int, end: int, n: int) -> int:
    """Skip ``n`` UTF-16 units stored as varints; the position is after ``end`` if there are too few."""
    for _ in range(n):
        while at < end and load_u8(at) >= 0x80:
            at += 1
        at += 1
    return at


@kernel
def utf_string(pos: int, end: int, code: int, columns: int, reg: int) -> tuple[int, int]:
    """MUTF."""
    if end - pos < 2:
        return pos, ops.SHORT
    n = load_be16(pos)
    if n > end - pos - 2:
        return pos, ops.SHORT
    col = operand(code, 2)
    if col >= 0:
        if not has_capacity(columns, col, n + 8, reg):
            return pos, ops.GROW
        written = decode_modified_utf8(pos + 2, pos + 2 + n, append_address(columns, col))
        if written < 0:
            return pos, ops.BAD_STRING
        if not put(columns, operand(code, 1), 4, written, reg):
            return pos, ops.GROW
        advance(columns, col, written)
    return pos + 2 + n, ops.RUNNING


@inlined
def byte_string(
    pos: int, end: int, count: int, kind: int, width: int, code: int, columns: int, reg: int
) -> tuple[int, int]:
    """BYTES, and NUMBERS with their ``width``: ``width`` bytes times the length of LENGTH_* ``kind``."""
    n = np.int64(0)
    at = pos
    if kind == ops.LENGTH_I32:
        if end - pos < 4:
            return pos, ops.SHORT
        n = np.int64(np.int32(np.uint32(load_be32(pos))))
        at += 4
    elif kind == ops.LENGTH_U16:
        if end - pos < 2:
            return pos, ops.SHORT
        n = load_be16(pos)
        at += 2
    elif kind == ops.LENGTH_REST:
        n = end - pos
    elif kind == ops.LENGTH_REST_BUT:
        n = end - pos - operand(code, 4)
    elif kind == ops.LENGTH_TAG_MINUS_4:
        n = count - 4
    elif kind == ops.LENGTH_REGISTER:
        n = count
    else:
        n = operand(code, 4)
    if n < 0:
        return pos, ops.BAD_COUNT
    if n * width > end - at:
        return pos, ops.SHORT
    if not append_bytes(columns, operand(code, 2), at, n * width, reg):
        return pos, ops.GROW
    if not put(columns, operand(code, 1), 4, n, reg):
        return pos, ops.GROW
    return at + n * width, ops.RUNNING


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
