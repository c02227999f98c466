"""Strings and bytes: their lengths in one column, their bytes in another."""

from __future__ import annotations

import numpy as np

from stateproc.codec import ops
from stateproc.codec.jit import inlined, kernel, load_be16, load_be32, load_i64, load_u8
from stateproc.codec.vm.column_buffers import (
    advance,
    append_address,
    append_bytes,
    has_capacity,
    operand,
    put,
    read_varint,
)
from stateproc.codec.vm.java_strings import TOO_SHORT, decode_modified_utf8, decode_varint_units


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
