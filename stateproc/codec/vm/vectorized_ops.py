"""Kernels of the vectorized VM: one op over all selected rows of a chunk.

``positions``, ``ends``: addresses of int64s, each row's position and end, which are addresses themselves.
``selection``: address of int64s, the numbers of the ``n_selected`` rows that the op applies to.

Each kernel checks every read against the row's end. If it rejects a row, the caller drops what the chunk has written,
and the row-by-row VM decodes the chunk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec import ops
from stateproc.codec.native.jit import (
    copy_bytes,
    kernel,
    load_be16,
    load_be32,
    load_be64,
    load_i32,
    load_i64,
    load_le16,
    load_le32,
    load_le64,
    load_u8,
    store_8,
    store_16,
    store_32,
    store_64,
)
from stateproc.codec.ops import BOOL, F2, F4, F8, L2, L4, L8, LENGTH_FIXED, LENGTH_I32, LENGTH_REST, LENGTH_U16
from stateproc.codec.vm.column_buffers import operand
from stateproc.codec.vm.java_strings import decode_varint_units

DECODED, FALLBACK, COLUMN_FULL = 0, 1, 2
"""Outcomes: all rows are decoded; the chunk must be decoded row by row; a column has to grow."""


@kernel
def column_of_chunk(columns: int, col: int) -> Any:
    """The address of the chunk's first value in a column."""
    if col < 0:
        return 0
    return load_i64(columns + 24 * col) + load_i64(columns + 24 * col + 8)


@kernel
def fill_row(columns: int, fill: int, i: int) -> None:
    """Write a null for row ``i`` to every column that the table at ``fill`` lists."""
    for k in range(load_i32(fill)):
        entry = fill + 4 + 12 * k
        width, value = load_i32(entry + 4), load_i32(entry + 8)
        out = column_of_chunk(columns, load_i32(entry)) + i * width
        if width == 1:
            store_8(out, value)
        elif width == 2:
            store_16(out, value)
        elif width == 4:
            store_32(out, value)
        else:
            store_64(out, value)


@kernel
def select_non_null(
    positions: int,
    ends: int,
    selection: int,
    n_selected: int,
    null_mark: int,
    pad: int,
    columns: int,
    fill: int,
    inner_selection: int,
) -> int:
    """Fill the rows that are null, select the others into ``inner_selection``; the number of nulls, -1 for damage."""
    kept = 0
    for k in range(n_selected):
        i = load_i64(selection + 8 * k)
        pos, end = load_i64(positions + 8 * i), load_i64(ends + 8 * i)
        if pos >= end:
            return -1
        mark = load_u8(pos)
        pos += 1
        if mark > 1:
            return -1
        if mark == null_mark:
            if pad > end - pos:
                return -1
            pos = end if pad < 0 else pos + pad
            fill_row(columns, fill, i)
        else:
            store_64(inner_selection + 8 * kept, i)
            kept += 1
        store_64(positions + 8 * i, pos)
    return n_selected - kept


@kernel
def common_branch(prog: int, pc: int, positions: int, ends: int, selection: int, n_selected: int) -> Any:
    """The branch of a one-byte tag that is the same in all selected rows; -1 if it differs."""
    if operand(prog, pc + 1) != 1:
        return -1
    tag = np.int64(-1)
    for k in range(n_selected):
        i = load_i64(selection + 8 * k)
        pos = load_i64(positions + 8 * i)
        if pos >= load_i64(ends + 8 * i):
            return -1
        byte = load_u8(pos)
        if tag < 0:
            tag = byte
        if byte != tag:
            return -1
        store_64(positions + 8 * i, pos + 1)
    for k in range(operand(prog, pc + 2)):
        if operand(prog, pc + 4 + 2 * k) == tag:
            return operand(prog, pc + 5 + 2 * k)
    return operand(prog, pc + 3)


@kernel
def marked_numbers(
    positions: int, ends: int, selection: int, n_selected: int, null_mark: int, valid: int, out: int, width: int
) -> bool:
    """A null mark and a big-endian number of ``width`` bytes in every row."""
    for k in range(n_selected):
        i = load_i64(selection + 8 * k)
        pos, remaining = load_i64(positions + 8 * i), load_i64(ends + 8 * i) - load_i64(positions + 8 * i)
        if remaining < 1:
            return False
        mark = load_u8(pos)
        if mark > 1:
            return False
        present = mark != null_mark
        value = np.int64(0)
        if present:
            if remaining < 1 + width:
                return False
            if width == 8:
                value = np.int64(load_be64(pos + 1))
            elif width == 4:
                value = np.int64(load_be32(pos + 1))
            elif width == 2:
                value = np.int64(load_be16(pos + 1))
            else:
                value = np.int64(load_u8(pos + 1))
        if width == 8:
            store_64(out + 8 * i, value)
        elif width == 4:
            store_32(out + 4 * i, value)
        elif width == 2:
            store_16(out + 2 * i, value)
        else:
            store_8(out + i, value)
        store_8(valid + i, np.int64(present))
        store_64(positions + 8 * i, pos + 1 + (width if present else 0))
    return True


@kernel
def numbers(positions: int, ends: int, selection: int, n_selected: int, op: int, columns: int, col: int) -> bool:
    """Read a number in every row; its width and byte order follow from ``op``."""
    out = column_of_chunk(columns, col)
    width = 8 if op in (F8, L8) else 4 if op in (F4, L4) else 2 if op in (F2, L2) else 1
    for k in range(n_selected):
        i = load_i64(selection + 8 * k)
        pos = load_i64(positions + 8 * i)
        if load_i64(ends + 8 * i) - pos < width:
            return False
        store_64(positions + 8 * i, pos + width)
        if op == BOOL and load_u8(pos) > 1:
            return False
        if col < 0:
            continue
        if op == F8:
            store_64(out + 8 * i, np.int64(load_be64(pos)))
        elif op == L8:
            store_64(out + 8 * i, np.int64(load_le64(pos)))
        elif op == F4:
            store_32(out + 4 * i, np.int64(load_be32(pos)))
        elif op == L4:
            store_32(out + 4 * i, np.int64(load_le32(pos)))
        elif op == F2:
            store_16(out + 2 * i, np.int64(load_be16(pos)))
        elif op == L2:
            store_16(out + 2 * i, np.int64(load_le16(pos)))
        else:
            store_8(out + i, np.int64(load_u8(pos)))
    return True


@kernel
def _request_capacity(reg: int, col: int, needed: int) -> int:
    store_64(reg + 8 * ops.AUX, col)
    store_64(reg + 8 * ops.NEED, needed)
    return COLUMN_FULL


@kernel
def flink_strings(
    positions: int,
    ends: int,
    selection: int,
    n_selected: int,
    columns: int,
    lengths: int,
    data: int,
    form: int,
    reg: int,
) -> int:
    """Flink strings in every row; an outcome. ``form``: the op's last operand."""
    if data < 0 or lengths < 0:
        return FALLBACK
    entry = columns + 24 * data
    out, first = column_of_chunk(columns, data), column_of_chunk(columns, data)
    capacity_end = load_i64(entry) + load_i64(entry + 16)
    sizes = column_of_chunk(columns, lengths)
    for k in range(n_selected):
        i = load_i64(selection + 8 * k)
        pos, end = load_i64(positions + 8 * i), load_i64(ends + 8 * i)
        if pos >= end:
            return FALLBACK
        n = np.int64(load_u8(pos))
        pos += 1
        if n >= 0x80:
            # Two bytes of length are for strings of up to 16,383 units; longer ones are rare.
            if pos >= end or load_u8(pos) >= 0x80:
                return FALLBACK
            n = (n & 0x7F) | (np.int64(load_u8(pos)) << 7)
            pos += 1
        n -= form & 1
        if n <= 0:
            store_32(sizes + 4 * i, n)
        else:
            if n > end - pos:
                return FALLBACK
            if out + 3 * n + 8 > capacity_end:
                return _request_capacity(reg, data, out - first + 3 * n + 8)
            pos, written = decode_varint_units(pos, end, n, out, form >= ops.KEEP_SURROGATES)
            if written < 0:
                return FALLBACK
            store_32(sizes + 4 * i, written)
            out += written
        store_64(positions + 8 * i, pos)
    store_64(entry + 8, out - load_i64(entry))
    return DECODED


@kernel
def byte_strings(
    positions: int,
    ends: int,
    selection: int,
    n_selected: int,
    columns: int,
    lengths: int,
    data: int,
    kind: int,
    fixed: int,
    reg: int,
) -> int:
    """Read bytes whose length follows from ``kind`` in every row; an outcome."""
    if data < 0 or lengths < 0 or kind not in (LENGTH_I32, LENGTH_U16, LENGTH_REST, LENGTH_FIXED):
        return FALLBACK
    entry = columns + 24 * data
    out, first = column_of_chunk(columns, data), column_of_chunk(columns, data)
    capacity_end = load_i64(entry) + load_i64(entry + 16)
    sizes = column_of_chunk(columns, lengths)
    head = 4 if kind == LENGTH_I32 else 2 if kind == LENGTH_U16 else 0
    for k in range(n_selected):
        i = load_i64(selection + 8 * k)
        pos, end = load_i64(positions + 8 * i), load_i64(ends + 8 * i)
        if end - pos < head:
            return FALLBACK
        n = end - pos
        if kind == LENGTH_I32:
            n = np.int64(np.int32(np.uint32(load_be32(pos))))
        elif kind == LENGTH_U16:
            n = np.int64(load_be16(pos))
        elif kind == LENGTH_FIXED:
            n = np.int64(fixed)
        pos += head
        if n < 0 or n > end - pos:
            return FALLBACK
        if out + n > capacity_end:
            return _request_capacity(reg, data, out - first + n)
        copy_bytes(out, pos, n)
        store_32(sizes + 4 * i, n)
        out += n
        store_64(positions + 8 * i, pos + n)
    store_64(entry + 8, out - load_i64(entry))
    return DECODED
