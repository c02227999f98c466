"""Ops that read Kryo. An op that fails on a value leaves the whole value to the host: see ``ops.RETRY``."""

from __future__ import annotations

import numpy as np

from stateproc.codec import ops
from stateproc.codec.native.jit import inlined, kernel, load_i64, store_64
from stateproc.codec.vm.column_buffers import fill_nulls, operand, put
from stateproc.codec.vm.kryo_json import kryo_json
from stateproc.codec.vm.kryo_kernels import (
    FLAG,
    NEEDS_CAPACITY,
    RESULT,
    begin_kryo,
    flagged_varint,
    kryo_class,
    kryo_mark,
    kryo_marked_text,
    kryo_time,
    kryo_varint,
    new_object,
    word,
)


@inlined
def begin(
    pos: int, code: int, stack: int, top: int, limit: int, columns: int, kryo: int, reg: int
) -> tuple[int, int, int]:
    """KRYO_BEGIN; then the stack's top, above the bytes used of each column to be taken back."""
    first, stop = operand(code, 2), operand(code, 3)
    if top + 8 * (stop - first) > limit:
        return pos, ops.TOO_DEEP, top
    store_64(reg + 8 * ops.GUARD, operand(code, 4))
    store_64(reg + 8 * ops.GUARD_POS, pos)
    store_64(reg + 8 * ops.GUARD_SP, (top - stack) >> 3)
    store_64(reg + 8 * ops.GUARD_FIRST, first)
    store_64(reg + 8 * ops.GUARD_STOP, stop)
    for c in range(first, stop):
        store_64(top, load_i64(columns + 24 * c + 8))
        top += 8
    begin_kryo(kryo)
    return pos, ops.RUNNING, top


@kernel
def restore_lengths(stack: int, columns: int, reg: int) -> None:
    """Columns as they were at KRYO_BEGIN."""
    at = stack + 8 * load_i64(reg + 8 * ops.GUARD_SP)
    for c in range(load_i64(reg + 8 * ops.GUARD_FIRST), load_i64(reg + 8 * ops.GUARD_STOP)):
        store_64(columns + 24 * c + 8, load_i64(at))
        at += 8


@inlined
def class_code(pos: int, end: int, table: int, names: int, kryo: int, reg: int) -> tuple[int, int, int]:
    """KRYO_CLASS; then the class's code, which is the new count."""
    at = kryo_class(pos, end, kryo, table, names, reg)
    if at < 0:
        return pos, ops.BAD_TAG, 0
    return at, ops.RUNNING, word(kryo, RESULT)


@inlined
def mark(pos: int, end: int, pc: int, code: int, columns: int, fills: int, kryo: int, reg: int) -> tuple[int, int, int]:
    """KRYO_MARK."""
    at = kryo_mark(pos, end, kryo, reg)
    if at < 0:
        return pos, ops.BAD_MARK, pc
    found = word(kryo, RESULT)
    if found == 1:
        return at, ops.RUNNING if new_object(kryo, -1) else ops.BAD_COUNT, pc + 3
    if found != 0 or operand(code, 2) < 0:
        return pos, ops.BAD_MARK, pc
    if not fill_nulls(columns, fills, operand(code, 1), reg):
        return pos, ops.GROW, pc
    return at, ops.RUNNING, operand(code, 2)


@inlined
def string(pos: int, end: int, source: int, code: int, columns: int, kryo: int, reg: int) -> tuple[int, int]:
    """KRYO_STRING."""
    form = operand(code, 3)
    keep = form >= ops.KEEP_SURROGATES
    at = kryo_marked_text(pos, end, source, columns, operand(code, 2), form & 1 != 0, keep, kryo, reg)
    if at < 0:
        return pos, ops.GROW if at == NEEDS_CAPACITY else ops.BAD_STRING
    return at, ops.RUNNING if put(columns, operand(code, 1), 4, word(kryo, RESULT), reg) else ops.GROW


@inlined
def counted(
    pos: int, end: int, pc: int, code: int, columns: int, fills: int, kryo: int, reg: int
) -> tuple[int, int, int, int]:
    """KRYO_COUNT; then the count, -1 for null."""
    flagged = operand(code, 1) != 0
    at = flagged_varint(pos, end, kryo) if flagged else kryo_varint(pos, end, kryo, reg)
    if at < 0:
        return pos, ops.BAD_COUNT, pc, 0
    count = word(kryo, RESULT) - 1
    if count < 0:
        if not fill_nulls(columns, fills, operand(code, 2), reg):
            return pos, ops.GROW, pc, count
        return at, ops.RUNNING, operand(code, 3), count
    if count > 0 and flagged and word(kryo, FLAG) != 0:
        return at, ops.RUNNING, operand(code, 4), count
    return at, ops.RUNNING, pc + 5, count


@kernel
def time(pos: int, end: int, col: int, columns: int, kryo: int, reg: int) -> tuple[int, int]:
    """KRYO_TIME."""
    at = kryo_time(pos, end, kryo, reg)
    if at < 0:
        return pos, ops.BAD_COUNT
    return at, ops.RUNNING if put(columns, col, 8, word(kryo, RESULT), reg) else ops.GROW


@kernel
def json(
    pos: int, end: int, source: int, code: int, columns: int, table: int, names: int, kryo: int, reg: int
) -> tuple[int, int]:
    """KRYO_JSON."""
    col = operand(code, 2)
    used = columns + 24 * col + 8
    begin = load_i64(used) if col >= 0 else np.int64(0)
    at = kryo_json(pos, end, source, columns, col, operand(code, 3), kryo, table, names, reg)
    if at < 0:
        return pos, ops.GROW if at == NEEDS_CAPACITY else ops.BAD_TAG
    n = np.int64(0)
    if col >= 0:
        if word(kryo, RESULT) == 1 and operand(code, 4) == 0:
            store_64(used, begin)
            n = np.int64(-1)
        else:
            n = load_i64(used) - begin
    return at, ops.RUNNING if put(columns, operand(code, 1), 4, n, reg) else ops.GROW
