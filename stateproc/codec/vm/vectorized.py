"""Run decode programs vectorized: each op over a chunk of rows before the next op.

So the cost of reading the program and of checking capacities is shared by a thousand rows. A selection holds the rows
that ops apply to: rows with a null value are left out up to the end of that value. Chunks that need anything else
(loops, branches that differ between rows, damage) are not decoded here; nothing of them is kept, and
:func:`stateproc.codec.vm.dispatch.run` decodes them row by row and reports errors. Records of numbers and strings are
decoded at three to four times the rate of that VM.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec import ops
from stateproc.codec.native.jit import exported, kernel, load_i32, load_i64, load_u8, store_8, store_32, store_64
from stateproc.codec.ops import (
    BOOL,
    BYTES,
    EXPECT,
    F1,
    F2,
    F4,
    F8,
    FILL,
    FLINK_STRING,
    JUMP,
    L2,
    L4,
    L8,
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
from stateproc.codec.vm.column_buffers import operand
from stateproc.codec.vm.vectorized_ops import (
    COLUMN_FULL,
    DECODED,
    FALLBACK,
    byte_strings,
    column_of_chunk,
    common_branch,
    fill_row,
    flink_strings,
    marked_numbers,
    numbers,
    select_non_null,
)

CHUNK = 1024
"""Rows per chunk."""
LEAST_CHUNK = 64
CHUNK_BYTES = 128 << 10
"""Decoded bytes per chunk: rows of hundreds of columns come in smaller chunks, which stay in the CPU's cache while one
column after another is decoded."""
_DEPTH = 8
"""Nested selections: how many nullable values may contain one another."""
SCRATCH_WORDS = (2 + _DEPTH + 1) * CHUNK + 2 * _DEPTH
"""int64 words of scratch memory: position and end of each row, the selection at every depth, and for each depth the
program position where the outer selection resumes and its size."""


@exported
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
    int64 per column. reg: for COLUMN_FULL, AUX is the column and NEED the bytes it needs. scratch: SCRATCH_WORDS.
    """
    row_bytes = 1
    for c in range(n_columns):
        row_bytes += load_i32(widths + 4 * c)
    most = min(CHUNK, max(LEAST_CHUNK, CHUNK_BYTES // row_bytes))
    row = first
    while row < last:
        n = min(most, last - row)
        for c in range(n_columns):
            width = load_i32(widths + 4 * c)
            entry = columns + 24 * c
            used = load_i64(entry + 8)
            store_64(saved + 8 * c, used)
            if used + n * width > load_i64(entry + 16):
                store_64(reg + 8 * ops.AUX, c)
                store_64(reg + 8 * ops.NEED, n * width)
                return COLUMN_FULL, row
        outcome = _chunk(
            prog, fills, source, starts + 8 * row, start_stride, ends + 8 * row, end_stride, n, columns, reg, scratch
        )
        for c in range(n_columns):
            entry = columns + 24 * c + 8
            if outcome != DECODED:
                store_64(entry, load_i64(saved + 8 * c))
            else:
                store_64(entry, load_i64(entry) + n * load_i32(widths + 4 * c))
        if outcome != DECODED:
            return outcome, row
        row += n
    return DECODED, row


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
    """Decode ``n`` rows, for whose fixed-width values the columns have capacity; an outcome.

    Where a row is null, its columns are filled and it is left out of the selection up to the end of the value.
    Fixed-width values are written at the index of their row, bytes of variable length one after another.
    """
    positions, row_ends, selection = scratch, scratch + 8 * CHUNK, scratch + 16 * CHUNK
    resumes = selection + 8 * (_DEPTH + 1) * CHUNK
    n_selected, depth, pc = n, 0, 0
    resume_pc = np.int64(-1)
    for k in range(n):
        store_64(positions + 8 * k, source + load_i64(starts + 8 * k))
        store_64(row_ends + 8 * k, source + load_i64(ends + 8 * k))
        store_64(selection + 8 * k, k)
    while True:
        while pc == resume_pc:
            depth -= 1
            selection -= 8 * CHUNK
            n_selected = load_i64(resumes + 16 * depth + 8)
            resume_pc = load_i64(resumes + 16 * depth)
        op = operand(prog, pc)
        if op == MARKED_NUMBER:
            valid, out = (
                column_of_chunk(columns, operand(prog, pc + 2)),
                column_of_chunk(columns, operand(prog, pc + 3)),
            )
            if operand(prog, pc + 2) < 0 or not marked_numbers(
                positions, row_ends, selection, n_selected, operand(prog, pc + 1), valid, out, operand(prog, pc + 4)
            ):
                return FALLBACK
            pc += 5
        elif op in (F8, F4, F2, F1, BOOL, L8, L4, L2):
            if not numbers(positions, row_ends, selection, n_selected, op, columns, operand(prog, pc + 1)):
                return FALLBACK
            pc += 2
        elif op == FLINK_STRING:
            outcome = flink_strings(
                positions,
                row_ends,
                selection,
                n_selected,
                columns,
                operand(prog, pc + 1),
                operand(prog, pc + 2),
                operand(prog, pc + 3),
                reg,
            )
            if outcome != DECODED:
                return outcome
            pc += 4
        elif op == BYTES:
            outcome = byte_strings(
                positions,
                row_ends,
                selection,
                n_selected,
                columns,
                operand(prog, pc + 1),
                operand(prog, pc + 2),
                operand(prog, pc + 3),
                operand(prog, pc + 4),
                reg,
            )
            if outcome != DECODED:
                return outcome
            pc += 5
        elif op == NULL_IF:
            if depth == _DEPTH:
                return FALLBACK
            inner_selection = selection + 8 * CHUNK
            n_nulls = select_non_null(
                positions,
                row_ends,
                selection,
                n_selected,
                operand(prog, pc + 1),
                operand(prog, pc + 4),
                columns,
                fills + 4 * operand(prog, pc + 2),
                inner_selection,
            )
            if n_nulls < 0:
                return FALLBACK
            if n_nulls == 0:
                pc += 5
            elif n_nulls == n_selected:
                pc = operand(prog, pc + 3)
            else:
                store_64(resumes + 16 * depth, resume_pc)
                store_64(resumes + 16 * depth + 8, n_selected)
                depth += 1
                selection = inner_selection
                n_selected -= n_nulls
                resume_pc = np.int64(operand(prog, pc + 3))
                pc += 5
        elif op in (PUT1, PUT4):
            col, value = operand(prog, pc + 1), operand(prog, pc + 2)
            if col >= 0:
                out = column_of_chunk(columns, col)
                for k in range(n_selected):
                    i = load_i64(selection + 8 * k)
                    if op == PUT1:
                        store_8(out + i, value)
                    else:
                        store_32(out + 4 * i, value)
            pc += 3
        elif op in (SKIP, SKIP_REST, EXPECT):
            needed = operand(prog, pc + 1) if op == SKIP else 1
            for k in range(n_selected):
                i = load_i64(selection + 8 * k)
                pos, end = load_i64(positions + 8 * i), load_i64(row_ends + 8 * i)
                if op == SKIP_REST:
                    store_64(positions + 8 * i, end)
                    continue
                if end - pos < needed or (op == EXPECT and load_u8(pos) != operand(prog, pc + 1)):
                    return FALLBACK
                store_64(positions + 8 * i, pos + needed)
            pc += 1 if op == SKIP_REST else 2
        elif op == SWITCH:
            target = common_branch(prog, pc, positions, row_ends, selection, n_selected)
            if target < 0:
                return FALLBACK
            pc = target
        elif op == JUMP:
            pc = operand(prog, pc + 1)
        elif op == FILL:
            for k in range(n_selected):
                fill_row(columns, fills + 4 * operand(prog, pc + 1), load_i64(selection + 8 * k))
            pc += 2
        elif op == MARK:
            if operand(prog, pc + 1) >= 0:
                out = column_of_chunk(columns, operand(prog, pc + 1))
                for k in range(n_selected):
                    i = load_i64(selection + 8 * k)
                    store_64(out + 8 * i, load_i64(positions + 8 * i) - source)
            pc += 2
        elif op in (SEGMENT, ROW_END):
            for k in range(n):
                if load_i64(positions + 8 * k) != load_i64(row_ends + 8 * k):
                    return FALLBACK
            if op == ROW_END:
                return DECODED
            segment = operand(prog, pc + 1)
            for k in range(n):
                store_64(positions + 8 * k, source + load_i64(starts + segment * start_stride + 8 * k))
                store_64(row_ends + 8 * k, source + load_i64(ends + segment * end_stride + 8 * k))
            pc += 2
        else:
            return FALLBACK
