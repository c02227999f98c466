"""Kernels of the fast lanes: one op over all rows that are in them.

``at`` and ``end``: addresses of each row's position and end (int64, addresses themselves). ``lanes``: the address of
the numbers of the ``active`` rows (int64). Each kernel checks what it reads against the row's end before it reads;
what it says no to, and whatever it has done until then, is left to the VM.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec import ops
from stateproc.codec.column_buffers import operand
from stateproc.codec.jit import (
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
from stateproc.codec.text import varint_units

ALL, LEFT, FULL = 0, 1, 2
"""Outcomes: all rows are decoded; a chunk is left to the VM; a column has no room."""


@kernel
def column_of_chunk(columns: int, col: int) -> Any:
    """The address of the chunk's first value in a column."""
    if col < 0:
        return 0
    return load_i64(columns + 24 * col) + load_i64(columns + 24 * col + 8)


@kernel
def fill_row(columns: int, fill: int, i: int) -> None:
    """A null in the place of row ``i`` in every column that the table at ``fill`` lists."""
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
def leave_lanes(
    at: int, end: int, lanes: int, active: int, null_mark: int, pad: int, columns: int, fill: int, inner: int
) -> int:
    """How many rows are null, -1 for damage; ``inner`` gets the others. Those that are null are filled."""
    kept = 0
    for k in range(active):
        i = load_i64(lanes + 8 * k)
        place, stop = load_i64(at + 8 * i), load_i64(end + 8 * i)
        if place >= stop:
            return -1
        mark = load_u8(place)
        place += 1
        if mark > 1:
            return -1
        if mark == null_mark:
            if pad > stop - place:
                return -1
            place = stop if pad < 0 else place + pad
            fill_row(columns, fill, i)
        else:
            store_64(inner + 8 * kept, i)
            kept += 1
        store_64(at + 8 * i, place)
    return active - kept


@kernel
def common_way(prog: int, pc: int, at: int, end: int, lanes: int, active: int) -> Any:
    """Where the program goes on behind a choice by one byte that is the same in all rows; -1 if it is not."""
    if operand(prog, pc + 1) != 1:
        return -1
    tag = np.int64(-1)
    for k in range(active):
        i = load_i64(lanes + 8 * k)
        place = load_i64(at + 8 * i)
        if place >= load_i64(end + 8 * i):
            return -1
        found = load_u8(place)
        if tag < 0:
            tag = found
        if found != tag:
            return -1
        store_64(at + 8 * i, place + 1)
    for k in range(operand(prog, pc + 2)):
        if operand(prog, pc + 4 + 2 * k) == tag:
            return operand(prog, pc + 5 + 2 * k)
    return operand(prog, pc + 3)


@kernel
def marked_numbers(
    at: int, end: int, lanes: int, active: int, null_mark: int, valid: int, out: int, width: int
) -> bool:
    """A null mark and a big-endian number of ``width`` bytes in every row."""
    for k in range(active):
        i = load_i64(lanes + 8 * k)
        place, left = load_i64(at + 8 * i), load_i64(end + 8 * i) - load_i64(at + 8 * i)
        if left < 1:
            return False
        mark = load_u8(place)
        if mark > 1:
            return False
        present = mark != null_mark
        value = np.int64(0)
        if present:
            if left < 1 + width:
                return False
            if width == 8:
                value = np.int64(load_be64(place + 1))
            elif width == 4:
                value = np.int64(load_be32(place + 1))
            elif width == 2:
                value = np.int64(load_be16(place + 1))
            else:
                value = np.int64(load_u8(place + 1))
        if width == 8:
            store_64(out + 8 * i, value)
        elif width == 4:
            store_32(out + 4 * i, value)
        elif width == 2:
            store_16(out + 2 * i, value)
        else:
            store_8(out + i, value)
        store_8(valid + i, np.int64(present))
        store_64(at + 8 * i, place + 1 + (width if present else 0))
    return True


@kernel
def numbers(at: int, end: int, lanes: int, active: int, op: int, columns: int, col: int) -> bool:
    """A number in every row; ``op`` tells its width and byte order."""
    out = column_of_chunk(columns, col)
    width = 8 if op in (F8, L8) else 4 if op in (F4, L4) else 2 if op in (F2, L2) else 1
    for k in range(active):
        i = load_i64(lanes + 8 * k)
        place = load_i64(at + 8 * i)
        if load_i64(end + 8 * i) - place < width:
            return False
        store_64(at + 8 * i, place + width)
        if op == BOOL and load_u8(place) > 1:
            return False
        if col < 0:
            continue
        if op == F8:
            store_64(out + 8 * i, np.int64(load_be64(place)))
        elif op == L8:
            store_64(out + 8 * i, np.int64(load_le64(place)))
        elif op == F4:
            store_32(out + 4 * i, np.int64(load_be32(place)))
        elif op == L4:
            store_32(out + 4 * i, np.int64(load_le32(place)))
        elif op == F2:
            store_16(out + 2 * i, np.int64(load_be16(place)))
        elif op == L2:
            store_16(out + 2 * i, np.int64(load_le16(place)))
        else:
            store_8(out + i, np.int64(load_u8(place)))
    return True


@kernel
def _no_room(reg: int, col: int, wanted: int) -> int:
    store_64(reg + 8 * ops.AUX, col)
    store_64(reg + 8 * ops.NEED, wanted)
    return FULL


@kernel
def flink_strings(
    at: int, end: int, lanes: int, active: int, columns: int, lengths: int, data: int, bias: int, reg: int
) -> int:
    """Flink strings in every row; an outcome."""
    if data < 0 or lengths < 0:
        return LEFT
    entry = columns + 24 * data
    out, first = column_of_chunk(columns, data), column_of_chunk(columns, data)
    room = load_i64(entry) + load_i64(entry + 16)
    sizes = column_of_chunk(columns, lengths)
    for k in range(active):
        i = load_i64(lanes + 8 * k)
        place, stop = load_i64(at + 8 * i), load_i64(end + 8 * i)
        if place >= stop:
            return LEFT
        n = np.int64(load_u8(place))
        place += 1
        if n >= 0x80:
            # Two bytes of length are for strings of up to 16,383 units; longer ones are rare.
            if place >= stop or load_u8(place) >= 0x80:
                return LEFT
            n = (n & 0x7F) | (np.int64(load_u8(place)) << 7)
            place += 1
        n -= bias
        if n <= 0:
            store_32(sizes + 4 * i, n)
        else:
            if n > stop - place:
                return LEFT
            if out + 3 * n + 8 > room:
                return _no_room(reg, data, out - first + 3 * n + 8)
            place, written = varint_units(place, stop, n, out)
            if written < 0:
                return LEFT
            store_32(sizes + 4 * i, written)
            out += written
        store_64(at + 8 * i, place)
    store_64(entry + 8, out - load_i64(entry))
    return ALL


@kernel
def byte_strings(
    at: int, end: int, lanes: int, active: int, columns: int, lengths: int, data: int, kind: int, fixed: int, reg: int
) -> int:
    """Bytes of a told length in every row; an outcome."""
    if data < 0 or lengths < 0 or kind not in (LENGTH_I32, LENGTH_U16, LENGTH_REST, LENGTH_FIXED):
        return LEFT
    entry = columns + 24 * data
    out, first = column_of_chunk(columns, data), column_of_chunk(columns, data)
    room = load_i64(entry) + load_i64(entry + 16)
    sizes = column_of_chunk(columns, lengths)
    head = 4 if kind == LENGTH_I32 else 2 if kind == LENGTH_U16 else 0
    for k in range(active):
        i = load_i64(lanes + 8 * k)
        place, stop = load_i64(at + 8 * i), load_i64(end + 8 * i)
        if stop - place < head:
            return LEFT
        n = stop - place
        if kind == LENGTH_I32:
            n = np.int64(np.int32(np.uint32(load_be32(place))))
        elif kind == LENGTH_U16:
            n = np.int64(load_be16(place))
        elif kind == LENGTH_FIXED:
            n = np.int64(fixed)
        place += head
        if n < 0 or n > stop - place:
            return LEFT
        if out + n > room:
            return _no_room(reg, data, out - first + n)
        copy_bytes(out, place, n)
        store_32(sizes + 4 * i, n)
        out += n
        store_64(at + 8 * i, place + n)
    store_64(entry + 8, out - load_i64(entry))
    return ALL
