"""The decode VM: one kernel that interprets a program over rows of bytes into columns.

A column is an address, the bytes used and its capacity. A row is all or nothing: when a column is full in the middle,
what the row has written is rolled back, the caller grows the column, and the row starts again. The whole state of a run
is in registers and stack, so that a run can stop (to grow a column, for a value only Python can read) and resume. A
Kryo value that an op cannot read is rolled back, too; the program resumes where the host reads it.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec import ops
from stateproc.codec.native.jit import exported, kernel, load_i64, load_u8, store_64
from stateproc.codec.vm.binary import array, enter, next_element, slot
from stateproc.codec.vm.column_buffers import fill_nulls, operand, put
from stateproc.codec.vm.kryo_ops import begin, class_code, counted, json, mark, string, time
from stateproc.codec.vm.kryo_ops import restore_lengths as restore_kryo_lengths
from stateproc.codec.vm.values import (
    big_endian,
    boolean,
    byte_string,
    constant,
    expected_byte,
    flink_string,
    kept_varint,
    length_suffix,
    little_endian,
    loop,
    marked_number,
    mask_bit,
    next_delimited,
    next_in_block,
    next_item,
    null_if,
    read_count,
    skip_mask,
    skipped,
    span,
    switch,
    switch_name,
    utf_string,
)

# Save the lengths of columns at the start of a row, and restore them where the row fails.


@kernel
def save_lengths(columns: int, n: int, saved: int) -> None:
    """The bytes used of each of ``n`` columns go to the int64s at ``saved``."""
    for c in range(n):
        store_64(saved + 8 * c, load_i64(columns + 24 * c + 8))


@kernel
def restore_lengths(columns: int, n: int, saved: int) -> None:
    """Restore the lengths that save_lengths has saved."""
    for c in range(n):
        store_64(columns + 24 * c + 8, load_i64(saved + 8 * c))


_MARGIN = 16
"""Words of the stack that ops may push without a check."""


@exported
def run(
    prog: int,
    fills: int,
    names: int,
    source: int,
    starts: int,
    start_stride: int,
    ends: int,
    end_stride: int,
    last_row: int,
    stream: bool,
    columns: int,
    n_columns: int,
    saved: int,
    reg: int,
    stack: int,
    kryo: int,
) -> int:
    """Decode rows ``reg[ROW]`` up to ``last_row``; returns an outcome of :mod:`stateproc.codec.ops`.

    prog (int32 code), fills (int32 table), names (padded by 8 bytes), source (the bytes), columns (int64 triples of
    address, used, capacity), saved (int64 per column, the ``used`` at the row's start), reg (int64), stack (STACK_WORDS
    int64): addresses. starts, ends: addresses of int64 per row, one run of rows per segment, ``stride`` bytes apart;
    positions in the source, inside it (checked by the caller). stream: rows follow one another in the range of row 0,
    segment 0. kryo: the address of the block of
    kryo_kernels (0 if the program reads no Kryo).

    Invariant: base <= pos <= end, inside the source, at the start of every instruction; every read is checked
    against end before it is made.
    """
    row = load_i64(reg + 8 * ops.ROW)
    pc = load_i64(reg + 8 * ops.PC)
    pos = source + load_i64(reg + 8 * ops.POS)
    end = source + load_i64(reg + 8 * ops.END)
    top = stack + 8 * load_i64(reg + 8 * ops.SP)
    base = source + load_i64(reg + 8 * ops.BASE)
    count = load_i64(reg + 8 * ops.COUNT)
    budget = load_i64(reg + 8 * ops.RANGE_BUDGET)
    limit = stack + 8 * (ops.STACK_WORDS - _MARGIN)
    table = np.int64(0)
    status = ops.RUNNING
    if load_i64(reg + 8 * ops.STARTED) == 0:
        if row >= last_row:
            return ops.DONE
        store_64(reg + 8 * ops.STARTED, 1)
        if not stream or row == 0:
            pos = source + load_i64(starts + 8 * (0 if stream else row))
            end = source + load_i64(ends + 8 * (0 if stream else row))
        base = pos
        budget = end - pos
        pc = np.int64(0)
        top = stack
        store_64(reg + 8 * ops.ROW_POS, pos - source)
        save_lengths(columns, n_columns, saved)
    while True:
        code = prog + 4 * pc
        op = operand(code, 0)
        if op == ops.F8:
            pc += 2
            pos, status = big_endian(pos, end, 8, operand(code, 1), columns, reg)
        elif op == ops.FLINK_STRING:
            pc += 4
            pos, status = flink_string(pos, end, code, columns, reg)
        elif op == ops.NULL_IF:
            pos, status, pc = null_if(pos, end, pc, code, columns, fills, reg)
        elif op == ops.MARKED_NUMBER:
            pc += 5
            pos, status = marked_number(pos, end, code, columns, reg)
        elif op == ops.PUT1:
            pc += 3
            status = ops.RUNNING if put(columns, operand(code, 1), 1, operand(code, 2), reg) else ops.GROW
        elif op == ops.F4:
            pc += 2
            pos, status = big_endian(pos, end, 4, operand(code, 1), columns, reg)
        elif op == ops.ROW_END:
            if not stream and pos != end:
                status = ops.LEFTOVER
                break
            row += 1
            if row >= last_row:
                store_64(reg + 8 * ops.STARTED, 0)
                status = ops.DONE
                break
            if not stream:
                pos = source + load_i64(starts + 8 * row)
                end = source + load_i64(ends + 8 * row)
            base = pos
            budget = end - pos
            pc = np.int64(0)
            top = stack
            store_64(reg + 8 * ops.ROW_POS, pos - source)
            save_lengths(columns, n_columns, saved)
        elif op == ops.SEGMENT:
            if pos != end:
                status = ops.LEFTOVER
                break
            pos = source + load_i64(starts + operand(code, 1) * start_stride + 8 * row)
            end = source + load_i64(ends + operand(code, 1) * end_stride + 8 * row)
            base = pos
            budget = end - pos
            pc += 2
        elif op == ops.SKIP:
            pc += 2
            pos, status = skipped(pos, end, operand(code, 1))
        elif op == ops.F1:
            pc += 2
            pos, status = big_endian(pos, end, 1, operand(code, 1), columns, reg)
        elif op == ops.BOOL:
            pc += 2
            pos, status = boolean(pos, end, operand(code, 1), columns, reg)
        elif op == ops.F2:
            pc += 2
            pos, status = big_endian(pos, end, 2, operand(code, 1), columns, reg)
        elif op == ops.L2:
            pc += 2
            pos, status = little_endian(pos, end, 2, operand(code, 1), columns, reg)
        elif op == ops.L4:
            pc += 2
            pos, status = little_endian(pos, end, 4, operand(code, 1), columns, reg)
        elif op == ops.L8:
            pc += 2
            pos, status = little_endian(pos, end, 8, operand(code, 1), columns, reg)
        elif op == ops.JUMP:
            pc = operand(code, 1)
        elif op == ops.BYTES:
            pc += 5
            pos, status = byte_string(pos, end, count, operand(code, 3), np.int64(1), code, columns, reg)
        elif op == ops.NUMBERS:
            pc += 4
            pos, status = byte_string(pos, end, count, np.int64(ops.LENGTH_I32), operand(code, 3), code, columns, reg)
        elif op == ops.MODIFIED_UTF8:
            pc += 3
            pos, status = utf_string(pos, end, code, columns, reg)
        elif op == ops.FILL:
            pc += 2
            status = ops.RUNNING if fill_nulls(columns, fills, operand(code, 1), reg) else ops.GROW
        elif op == ops.PUT4:
            pc += 3
            status = ops.RUNNING if put(columns, operand(code, 1), 4, operand(code, 2), reg) else ops.GROW
        elif op == ops.VARINT:
            pc += 4
            pos, status = kept_varint(pos, end, code, columns, reg)
        elif op == ops.SWITCH:
            pos, status, pc, count = switch(pos, end, pc, code, count)
        elif op == ops.SWITCH_NAME:
            pos, status, pc = switch_name(pos, end, pc, code, names)
        elif op == ops.READ_COUNT:
            pc += 2
            pos, status, count = read_count(pos, end, operand(code, 1), reg)
        elif op == ops.LOOP:
            status, pc, top = loop(pos, end, count, pc, code, top, columns, reg)
        elif op == ops.NEXT:
            status, pc, top = next_item(pc, code, top, columns, reg)
        elif op == ops.BLOCKS or op == ops.DELIMITED:
            pc += 1
            store_64(top, 0)
            store_64(top + 8, 0)
            top += 16
        elif op == ops.BLOCK_NEXT:
            pos, status, pc, top = next_in_block(pos, end, pc, code, top, columns, reg)
        elif op == ops.DELIMITED_NEXT:
            pos, status, pc, top = next_delimited(pos, end, pc, code, top, columns, reg)
        elif op == ops.MASK:
            pc += 2
            store_64(top, pos)
            pos, status = skip_mask(pos, end, count, operand(code, 1))
            top += 8
        elif op == ops.MASK_BIT:
            status, pc = mask_bit(load_i64(top - 8), operand(code, 1), pc + 4, code + 4, columns, fills, reg)
        elif op == ops.MASK_LOOP_BIT:
            item = load_i64(top - 16) - load_i64(top - 8)
            status, pc = mask_bit(load_i64(top - 24), item, pc + 3, code, columns, fills, reg)
        elif op == ops.MASK_KIND:
            pc += 2
            bits = load_u8(load_i64(top - 8))
            kind = ((bits >> 7) & 1) | ((bits >> 5) & 2)
            status = ops.RUNNING if put(columns, operand(code, 1), 1, kind, reg) else ops.GROW
        elif op == ops.POP:
            pc += 2
            top -= 8 * operand(code, 1)
        elif op == ops.ENTER:
            pc += 2
            pos, status, n = enter(pos, end, base, budget, operand(code, 1), top, limit)
            base, end, budget = pos, pos + n, n
            top += 32
        elif op == ops.LEAVE:
            pc += 1
            top -= 32
            end, base, pos, budget = load_i64(top), load_i64(top + 8), load_i64(top + 16), load_i64(top + 24)
        elif op == ops.HEADER:
            pc += 2
            status = ops.RUNNING if end - base >= operand(code, 1) else ops.SHORT
        elif op == ops.SLOT:
            pos, status, pc = slot(pos, base, pc, code, columns, fills, reg)
        elif op == ops.ARRAY:
            pc += 3
            pos, status = array(pos, end, base, operand(code, 1), top, limit)
            top += 32
        elif op == ops.ARRAY_NEXT:
            pos, status, pc, top = next_element(pos, end, pc, code, top, columns, fills, reg)
        elif op == ops.SKIP_REST:
            pc += 1
            pos = end
        elif op == ops.EXPECT:
            pc += 2
            pos, status = expected_byte(pos, end, operand(code, 1))
        elif op == ops.MARK:
            pc += 2
            status = ops.RUNNING if put(columns, operand(code, 1), 8, pos - source, reg) else ops.GROW
        elif op == ops.PUSH_POS:
            pc += 1
            store_64(top, pos)
            top += 8
        elif op == ops.LENGTH_SUFFIX:
            pc += 1
            top -= 8
            pos, status = length_suffix(pos, end, load_i64(top))
        elif op == ops.SPAN:
            pc += 3
            top -= 8
            pos, status = span(pos, load_i64(top), code, columns, reg)
        elif op == ops.RANGE_END:
            pc += 1
            status = ops.RUNNING if pos == end else ops.LEFTOVER
        elif op == ops.CONSTANT:
            pc += 4
            pos, status = constant(pos, code, columns, reg)
        elif op == ops.HOST:
            if not put(columns, operand(code, 2), 1, 1, reg):
                status = ops.GROW
                break
            store_64(reg + 8 * ops.AUX, operand(code, 1))
            pc += 3
            status = ops.CALL_HOST
            break
        elif op == ops.KRYO_BEGIN:
            pc += 5
            pos, status, top = begin(pos, code, stack, top, limit, columns, kryo, reg)
            table = fills + 4 * operand(code, 1)
        elif op == ops.KRYO_END:
            if operand(code, 1) != 0 and pos != end:
                status = ops.LEFTOVER
                break
            top = stack + 8 * load_i64(reg + 8 * ops.GUARD_SP)
            store_64(reg + 8 * ops.GUARD, 0)
            pc += 2
        elif op == ops.KRYO_CLASS:
            pc += 1
            pos, status, count = class_code(pos, end, table, names, kryo, reg)
        elif op == ops.KRYO_MARK:
            pos, status, pc = mark(pos, end, pc, code, columns, fills, kryo, reg)
        elif op == ops.KRYO_STRING:
            pc += 4
            pos, status = string(pos, end, source, code, columns, kryo, reg)
        elif op == ops.KRYO_COUNT:
            pos, status, pc, count = counted(pos, end, pc, code, columns, fills, kryo, reg)
        elif op == ops.KRYO_TIME:
            pc += 2
            pos, status = time(pos, end, operand(code, 1), columns, kryo, reg)
        elif op == ops.PUSH_COUNT:
            pc += 1
            store_64(top, count)
            top += 8
        elif op == ops.POP_COUNT:
            pc += 1
            top -= 8
            count = load_i64(top)
        elif op == ops.KRYO_JSON:
            pc += 5
            pos, status = json(pos, end, source, code, columns, table, names, kryo, reg)
        else:
            status = ops.BAD_TAG
        if status != ops.RUNNING:
            break
        if top > limit:
            status = ops.TOO_DEEP
            break
    if load_i64(reg + 8 * ops.GUARD) != 0 and status > ops.CALL_HOST:
        # A Kryo value that the ops cannot read: roll it back; the program resumes where the host reads it.
        restore_kryo_lengths(stack, columns, reg)
        top = stack + 8 * load_i64(reg + 8 * ops.GUARD_SP)
        pos = load_i64(reg + 8 * ops.GUARD_POS)
        pc = load_i64(reg + 8 * ops.GUARD)
        status = ops.RETRY
    store_64(reg + 8 * ops.GUARD, 0)
    if status != ops.DONE and status != ops.CALL_HOST and status != ops.RETRY:
        # Roll back what the row has written; it starts again if the caller resumes.
        restore_lengths(columns, n_columns, saved)
        store_64(reg + 8 * ops.STARTED, 1)
        count = pos - source
        pos = source + load_i64(reg + 8 * ops.ROW_POS)
        pc = np.int64(0)
        top = stack
        # Also in a stream: the row may have stopped inside of a sub-range.
        end = source + load_i64(ends + 8 * (0 if stream else row))
        base = pos
        budget = end - pos
    store_64(reg + 8 * ops.COUNT, count)
    store_64(reg + 8 * ops.ROW, row)
    store_64(reg + 8 * ops.PC, pc)
    store_64(reg + 8 * ops.POS, pos - source)
    store_64(reg + 8 * ops.END, end - source)
    store_64(reg + 8 * ops.SP, (top - stack) >> 3)
    store_64(reg + 8 * ops.BASE, base - source)
    store_64(reg + 8 * ops.RANGE_BUDGET, budget)
    return status
