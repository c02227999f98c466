"""The decode VM's fast lanes: the same programs, an op for many rows at a time.

A thousand rows are decoded side by side: each op runs over all of them before the next op is looked at, so that reading
the program and asking for room cost next to nothing. Rows of which a value is null leave the lanes up to where their
values join again. What the lanes do not know (loops, choices that rows take differently, damage) they leave alone:
nothing of these rows is kept, and :func:`stateproc.codec.vm.run` decodes them one by one, errors and all.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec import ops
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
)  # fmt: skip
from stateproc.codec.ops import (
    BOOL,
    BYTES,
    EXPECT,
    F1,
    F2,
    F4,
    F8,
    FILL,
    FSTR,
    JUMP,
    L2,
    L4,
    L8,
    LENGTH_FIXED,
    LENGTH_I32,
    LENGTH_REST,
    LENGTH_U16,
    MARK,
    MARKED_NUMBER,
    NULL_IF,
    PUT1,
    PUT4,
    ROW_END,
    SEGMENT,
    SKIP,
    SKIP_REST,
    SWITCH,
)
from stateproc.codec.room import operand
from stateproc.codec.text import varint_units

CHUNK = 1024
"""Rows decoded side by side."""
_DEPTH = 8
"""How many nulls within one another leave the lanes."""
SCRATCH_WORDS = (2 + _DEPTH + 1) * CHUNK + 2 * _DEPTH
"""int64 words of scratch memory: position and end of each row, the rows in the lanes at every depth, where rows that
left come back and how many there are then."""
ALL, LEFT, FULL = 0, 1, 2
"""Outcomes: all rows are decoded; a chunk is left to the VM; a column has no room."""


@kernel
def run(
    prog: int,
    fills: int,
    source: int,
    starts: int,
    start_stride: int,
    ends: int,
    end_stride: int,
    first: int,
    last: int,
    columns: int,
    widths: int,
    n_columns: int,
    saved: int,
    reg: int,
    scratch: int,
) -> tuple[int, int]:
    """Decode rows ``first`` to ``last``; returns (outcome, row reached). All arguments but counts are addresses.

    starts, ends: int64 per row, one such run per segment, ``stride`` bytes apart; positions in ``source`` and inside
    it. widths: int32 per column, the bytes of each value (0: bytes of which another column has the lengths). saved:
    int64 per column. reg: where AUX and NEED tell which column needs how many bytes (FULL). scratch: SCRATCH_WORDS.
    """
    row = first
    while row < last:
        n = min(CHUNK, last - row)
        for c in range(n_columns):
            width = load_i32(widths + 4 * c)
            entry = columns + 24 * c
            used = load_i64(entry + 8)
            store_64(saved + 8 * c, used)
            if used + n * width > load_i64(entry + 16):
                store_64(reg + 8 * ops.AUX, c)
                store_64(reg + 8 * ops.NEED, n * width)
                return FULL, row
        outcome = _chunk(
            prog, fills, source, starts + 8 * row, start_stride, ends + 8 * row, end_stride, n, columns, reg, scratch
        )
        for c in range(n_columns):
            entry = columns + 24 * c + 8
            if outcome != ALL:
                store_64(entry, load_i64(saved + 8 * c))
            else:
                store_64(entry, load_i64(entry) + n * load_i32(widths + 4 * c))
        if outcome != ALL:
            return outcome, row
        row += n
    return ALL, row


@kernel
def _chunk(
    prog: int,
    fills: int,
    source: int,
    starts: int,
    start_stride: int,
    ends: int,
    end_stride: int,
    n: int,
    columns: int,
    reg: int,
    scratch: int,
) -> int:
    """Decode ``n`` rows, for whose fixed-width values there is room; an outcome.

    A row that leaves the lanes at a null has its nulls filled in there and then; it comes back where the program goes
    on behind the value. Fixed-width values are written where their row has its place, bytes one behind the other.
    """
    at, end, lanes = scratch, scratch + 8 * CHUNK, scratch + 16 * CHUNK
    joins = lanes + 8 * (_DEPTH + 1) * CHUNK
    active, depth, pc = n, 0, 0
    join = np.int64(-1)
    for k in range(n):
        store_64(at + 8 * k, source + load_i64(starts + 8 * k))
        store_64(end + 8 * k, source + load_i64(ends + 8 * k))
        store_64(lanes + 8 * k, k)
    while True:
        while pc == join:
            depth -= 1
            lanes -= 8 * CHUNK
            active = load_i64(joins + 16 * depth + 8)
            join = load_i64(joins + 16 * depth)
        op = operand(prog, pc)
        if op == MARKED_NUMBER:
            valid, out = _column(columns, operand(prog, pc + 2)), _column(columns, operand(prog, pc + 3))
            if operand(prog, pc + 2) < 0 or not _marked_numbers(
                at, end, lanes, active, operand(prog, pc + 1), valid, out, operand(prog, pc + 4)
            ):
                return LEFT
            pc += 5
        elif op == F8 or op == F4 or op == F2 or op == F1 or op == BOOL or op == L8 or op == L4 or op == L2:
            if not _numbers(at, end, lanes, active, op, columns, operand(prog, pc + 1)):
                return LEFT
            pc += 2
        elif op == FSTR:
            outcome = _strings(
                at, end, lanes, active, columns, operand(prog, pc + 1), operand(prog, pc + 2), operand(prog, pc + 3), reg
            )
            if outcome != ALL:
                return outcome
            pc += 4
        elif op == BYTES:
            outcome = _bytes(
                at, end, lanes, active, columns, operand(prog, pc + 1), operand(prog, pc + 2), operand(prog, pc + 3),
                operand(prog, pc + 4), reg,
            )  # fmt: skip
            if outcome != ALL:
                return outcome
            pc += 5
        elif op == NULL_IF:
            if depth == _DEPTH:
                return LEFT
            inner = lanes + 8 * CHUNK
            left = _leave(
                at, end, lanes, active, operand(prog, pc + 1), operand(prog, pc + 4), columns,
                fills + 4 * operand(prog, pc + 2), inner,
            )  # fmt: skip
            if left < 0:
                return LEFT
            if left == 0:
                pc += 5
            elif left == active:
                pc = operand(prog, pc + 3)
            else:
                store_64(joins + 16 * depth, join)
                store_64(joins + 16 * depth + 8, active)
                depth += 1
                lanes = inner
                active -= left
                join = np.int64(operand(prog, pc + 3))
                pc += 5
        elif op == PUT1 or op == PUT4:
            col, value = operand(prog, pc + 1), operand(prog, pc + 2)
            if col >= 0:
                out = _column(columns, col)
                for k in range(active):
                    i = load_i64(lanes + 8 * k)
                    if op == PUT1:
                        store_8(out + i, value)
                    else:
                        store_32(out + 4 * i, value)
            pc += 3
        elif op == SKIP or op == SKIP_REST or op == EXPECT:
            wanted = operand(prog, pc + 1) if op == SKIP else 1
            for k in range(active):
                i = load_i64(lanes + 8 * k)
                place, stop = load_i64(at + 8 * i), load_i64(end + 8 * i)
                if op == SKIP_REST:
                    store_64(at + 8 * i, stop)
                    continue
                if stop - place < wanted or (op == EXPECT and load_u8(place) != operand(prog, pc + 1)):
                    return LEFT
                store_64(at + 8 * i, place + wanted)
            pc += 1 if op == SKIP_REST else 2
        elif op == SWITCH:
            target = _common_way(prog, pc, at, end, lanes, active)
            if target < 0:
                return LEFT
            pc = target
        elif op == JUMP:
            pc = operand(prog, pc + 1)
        elif op == FILL:
            for k in range(active):
                _fill(columns, fills + 4 * operand(prog, pc + 1), load_i64(lanes + 8 * k))
            pc += 2
        elif op == MARK:
            if operand(prog, pc + 1) >= 0:
                out = _column(columns, operand(prog, pc + 1))
                for k in range(active):
                    i = load_i64(lanes + 8 * k)
                    store_64(out + 8 * i, load_i64(at + 8 * i) - source)
            pc += 2
        elif op == SEGMENT or op == ROW_END:
            for k in range(n):
                if load_i64(at + 8 * k) != load_i64(end + 8 * k):
                    return LEFT
            if op == ROW_END:
                return ALL
            segment = operand(prog, pc + 1)
            for k in range(n):
                store_64(at + 8 * k, source + load_i64(starts + segment * start_stride + 8 * k))
                store_64(end + 8 * k, source + load_i64(ends + segment * end_stride + 8 * k))
            pc += 2
        else:
            return LEFT


@kernel
def _column(columns: int, col: int) -> int:
    """The address of the chunk's first value in a column."""
    if col < 0:
        return 0
    return load_i64(columns + 24 * col) + load_i64(columns + 24 * col + 8)


@kernel
def _fill(columns: int, fill: int, i: int) -> None:
    """A null in the place of row ``i`` in every column that the table at ``fill`` lists."""
    for k in range(load_i32(fill)):
        entry = fill + 4 + 12 * k
        width, value = load_i32(entry + 4), load_i32(entry + 8)
        out = _column(columns, load_i32(entry)) + i * width
        if width == 1:
            store_8(out, value)
        elif width == 2:
            store_16(out, value)
        elif width == 4:
            store_32(out, value)
        else:
            store_64(out, value)


@kernel
def _leave(
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
            _fill(columns, fill, i)
        else:
            store_64(inner + 8 * kept, i)
            kept += 1
        store_64(at + 8 * i, place)
    return active - kept


@kernel
def _common_way(prog: int, pc: int, at: int, end: int, lanes: int, active: int) -> int:
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
def _marked_numbers(
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
def _numbers(at: int, end: int, lanes: int, active: int, op: int, columns: int, col: int) -> bool:
    """A number in every row; ``op`` tells its width and byte order."""
    out = _column(columns, col)
    width = 8 if op == F8 or op == L8 else 4 if op == F4 or op == L4 else 2 if op == F2 or op == L2 else 1
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
def _strings(
    at: int, end: int, lanes: int, active: int, columns: int, lengths: int, data: int, bias: int, reg: int
) -> int:
    """Flink strings in every row; an outcome."""
    if data < 0 or lengths < 0:
        return LEFT
    entry = columns + 24 * data
    out, first = _column(columns, data), _column(columns, data)
    room = load_i64(entry) + load_i64(entry + 16)
    sizes = _column(columns, lengths)
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
def _bytes(
    at: int, end: int, lanes: int, active: int, columns: int, lengths: int, data: int, kind: int, fixed: int, reg: int
) -> int:
    """Bytes of a told length in every row; an outcome."""
    if data < 0 or lengths < 0 or not (
        kind == LENGTH_I32 or kind == LENGTH_U16 or kind == LENGTH_REST or kind == LENGTH_FIXED
    ):
        return LEFT
    entry = columns + 24 * data
    out, first = _column(columns, data), _column(columns, data)
    room = load_i64(entry) + load_i64(entry + 16)
    sizes = _column(columns, lengths)
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
