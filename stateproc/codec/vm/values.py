"""Ops for numbers, marks, varints, constants, and the bytes between two positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec import ops
from stateproc.codec.jit import (
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
)
from stateproc.codec.vm.column_buffers import append_bytes, operand, put, read_varint


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
