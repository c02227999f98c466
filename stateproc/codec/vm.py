"""The decode VM: one kernel that interprets a program over rows of bytes into columns.

A column is an address, the bytes used there and the bytes of room. A row is all or nothing: when room runs out in the
middle, what the row has written is taken back, the caller makes room, and the row starts again. The whole state of a
run is in ``reg`` and ``stack``, so that a run can stop (for room, for a value only Python can read) and go on. A Kryo
value that an op cannot read is taken back, too; the program goes on where the host reads it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec import ops
from stateproc.codec.jit import (
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
)  # fmt: skip
from stateproc.codec.kryo_json import kryo_json
from stateproc.codec.kryo_kernels import (
    FLAG,
    NO_ROOM,
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
)  # fmt: skip
from stateproc.codec.ops import (
    ARRAY,
    ARRAY_NEXT,
    BAD_COUNT,
    BAD_MARK,
    BAD_OFFSET,
    BAD_STRING,
    BAD_TAG,
    BLOCK_NEXT,
    BLOCKS,
    BOOL,
    BYTES,
    CALL_HOST,
    CONSTANT,
    COUNT_I32,
    COUNT_U16,
    DELIMITED,
    DELIMITED_NEXT,
    DONE,
    ENTER,
    ENTER_HALF,
    ENTER_I32,
    ENTER_LE32,
    ENTER_REST,
    ENTER_SLOT,
    ENTER_SLOT_OR_INLINE,
    EXPECT,
    F1,
    F2,
    F4,
    F8,
    FILL,
    FSTR,
    GROW,
    HEADER,
    HOST,
    JUMP,
    KRYO_BEGIN,
    KRYO_CLASS,
    KRYO_COUNT,
    KRYO_END,
    KRYO_JSON,
    KRYO_MARK,
    KRYO_STRING,
    KRYO_TIME,
    L2,
    L4,
    L8,
    LEAVE,
    LEFTOVER,
    LENGTH_I32,
    LENGTH_REGISTER,
    LENGTH_REST,
    LENGTH_REST_BUT,
    LENGTH_SUFFIX,
    LENGTH_TAG_MINUS_4,
    LENGTH_U16,
    LOOP,
    MARK,
    MARKED_NUMBER,
    MASK,
    MASK_BIT,
    MASK_KIND,
    MASK_LOOP_BIT,
    MUTF,
    NEXT,
    NULL_IF,
    NUMBERS,
    POP,
    POP_COUNT,
    PUSH_COUNT,
    PUSH_POS,
    PUT1,
    PUT4,
    RANGE_END,
    READ_COUNT,
    RETRY,
    ROW_END,
    RUNNING,
    SEGMENT,
    SHORT,
    SKIP,
    SKIP_REST,
    SLOT,
    SPAN,
    SWITCH,
    SWITCH_NAME,
    TOO_DEEP,
    VARINT,
    VARINT_U32,
    VARINT_U64,
)
from stateproc.codec.room import advance, copy_in, fill_nulls, fits, name_matches, operand, place, put, varint
from stateproc.codec.text import TOO_SHORT, modified_utf8, varint_units

STACK_WORDS = 4096
_MARGIN = 16


@kernel
def run(
    prog: int,
    fills: int,
    names: int,
    source: int,
    starts: Any,
    ends: Any,
    last_row: int,
    stream: bool,
    columns: int,
    n_columns: int,
    saved: Any,
    reg: Any,
    reg_at: int,
    stack: Any,
    kryo: int,
) -> int:
    """Decode rows ``reg[ROW]`` up to ``last_row``; returns an outcome of :mod:`stateproc.codec.ops`.

    prog (int32 code), fills (int32 table), names (padded by 8 bytes), source (the bytes), columns (int64 triples of
    address, used, room), reg_at (``reg``): addresses. starts, ends: int64 [segments, rows], positions in the
    source, inside it (checked by the caller). stream: rows follow one another in the range of row 0, segment 0.
    saved: int64 per column, the ``used`` at the row's start. reg, stack: int64. kryo: the address of the block of
    kryo_kernels (0 if the program reads no Kryo).

    Invariant: base <= pos <= end, inside the source, at the start of every instruction; every read is checked
    against end before it is made.
    """
    row = reg[ops.ROW]
    pc = reg[ops.PC]
    pos = source + reg[ops.POS]
    end = source + reg[ops.END]
    sp = reg[ops.SP]
    base = source + reg[ops.BASE]
    count = reg[ops.COUNT]
    table = np.int64(0)
    room = reg[ops.ROOM]
    status = ops.RUNNING
    if reg[ops.STARTED] == 0:
        if row >= last_row:
            return ops.DONE
        reg[ops.STARTED] = 1
        if not stream or row == 0:
            pos = source + starts[0, 0 if stream else row]
            end = source + ends[0, 0 if stream else row]
        base = pos
        room = end - pos
        pc = 0
        sp = 0
        reg[ops.ROW_POS] = pos - source
        for c in range(n_columns):
            saved[c] = load_i64(columns + 24 * c + 8)
    while True:
        op = operand(prog, pc)
        if op == F8:
            if end - pos < 8:
                status = SHORT
                break
            if not put(columns, operand(prog, pc + 1), 8, np.int64(load_be64(pos)), reg_at):
                status = GROW
                break
            pos += 8
            pc += 2
        elif op == FSTR:
            # The varint is one byte for all but long strings.
            if pos >= end:
                status = SHORT
                break
            n = np.int64(load_u8(pos))
            at = pos + 1
            if n >= 0x80:
                n = varint(pos, end, VARINT_U32, reg_at)
                at = reg[ops.NEED]
                if at < 0:
                    status = SHORT if at == -1 else BAD_STRING
                    break
                if n < 0:
                    status = BAD_STRING
                    break
            n -= operand(prog, pc + 3)
            if n > end - at:
                status = SHORT
                break
            col = operand(prog, pc + 2)
            if n <= 0:
                if not put(columns, operand(prog, pc + 1), 4, n, reg_at):
                    status = GROW
                    break
            elif col < 0:
                for _ in range(n):
                    while at < end and load_u8(at) >= 0x80:
                        at += 1
                    at += 1
                if at > end:
                    status = SHORT
                    break
            else:
                if not fits(columns, col, 3 * n + 8, reg_at):
                    status = GROW
                    break
                at, written = varint_units(at, end, n, place(columns, col))
                if written < 0:
                    status = SHORT if written == TOO_SHORT else BAD_STRING
                    break
                if not put(columns, operand(prog, pc + 1), 4, written, reg_at):
                    status = GROW
                    break
                advance(columns, col, written)
            pos = at
            pc += 4
        elif op == NULL_IF:
            if pos >= end:
                status = SHORT
                break
            mark = load_u8(pos)
            if mark > 1:
                status = BAD_MARK
                break
            pos += 1
            if mark == operand(prog, pc + 1):
                if not fill_nulls(columns, fills, operand(prog, pc + 2), reg_at):
                    status = GROW
                    break
                pad = operand(prog, pc + 4)
                if pad < 0:
                    pos = end
                elif pad > end - pos:
                    status = SHORT
                    break
                else:
                    pos += pad
                pc = operand(prog, pc + 3)
            else:
                pc += 5
        elif op == MARKED_NUMBER:
            if pos >= end:
                status = SHORT
                break
            mark = load_u8(pos)
            width = operand(prog, pc + 4)
            value = np.int64(0)
            present = mark != operand(prog, pc + 1)
            if mark > 1:
                status = BAD_MARK
                break
            if present:
                if end - pos - 1 < width:
                    status = SHORT
                    break
                if width == 8:
                    value = np.int64(load_be64(pos + 1))
                elif width == 4:
                    value = np.int64(load_be32(pos + 1))
                elif width == 2:
                    value = np.int64(load_be16(pos + 1))
                else:
                    value = np.int64(load_u8(pos + 1))
            if not put(columns, operand(prog, pc + 3), width, value, reg_at):
                status = GROW
                break
            if not put(columns, operand(prog, pc + 2), 1, np.int64(present), reg_at):
                status = GROW
                break
            pos += 1 + (width if present else 0)
            pc += 5
        elif op == PUT1:
            if not put(columns, operand(prog, pc + 1), 1, operand(prog, pc + 2), reg_at):
                status = GROW
                break
            pc += 3
        elif op == F4:
            if end - pos < 4:
                status = SHORT
                break
            if not put(columns, operand(prog, pc + 1), 4, np.int32(np.uint32(load_be32(pos))), reg_at):
                status = GROW
                break
            pos += 4
            pc += 2
        elif op == ROW_END:
            if not stream and pos != end:
                status = LEFTOVER
                break
            row += 1
            if row >= last_row:
                reg[ops.STARTED] = 0
                status = DONE
                break
            if not stream:
                pos = source + starts[0, row]
                end = source + ends[0, row]
            base = pos
            room = end - pos
            pc = 0
            sp = 0
            reg[ops.ROW_POS] = pos - source
            for c in range(n_columns):
                saved[c] = load_i64(columns + 24 * c + 8)
        elif op == SEGMENT:
            if pos != end:
                status = LEFTOVER
                break
            pos = source + starts[operand(prog, pc + 1), row]
            end = source + ends[operand(prog, pc + 1), row]
            base = pos
            room = end - pos
            pc += 2
        elif op == SKIP:
            if end - pos < operand(prog, pc + 1):
                status = SHORT
                break
            pos += operand(prog, pc + 1)
            pc += 2
        elif op == F1:
            if pos >= end:
                status = SHORT
                break
            if not put(columns, operand(prog, pc + 1), 1, load_u8(pos), reg_at):
                status = GROW
                break
            pos += 1
            pc += 2
        elif op == BOOL:
            if pos >= end:
                status = SHORT
                break
            if load_u8(pos) > 1:
                status = BAD_MARK
                break
            if not put(columns, operand(prog, pc + 1), 1, load_u8(pos), reg_at):
                status = GROW
                break
            pos += 1
            pc += 2
        elif op == F2 or op == L2:
            if end - pos < 2:
                status = SHORT
                break
            value = load_be16(pos) if op == F2 else load_le16(pos)
            if not put(columns, operand(prog, pc + 1), 2, np.int16(np.uint16(value)), reg_at):
                status = GROW
                break
            pos += 2
            pc += 2
        elif op == L4:
            if end - pos < 4:
                status = SHORT
                break
            if not put(columns, operand(prog, pc + 1), 4, np.int32(np.uint32(load_le32(pos))), reg_at):
                status = GROW
                break
            pos += 4
            pc += 2
        elif op == L8:
            if end - pos < 8:
                status = SHORT
                break
            if not put(columns, operand(prog, pc + 1), 8, np.int64(load_le64(pos)), reg_at):
                status = GROW
                break
            pos += 8
            pc += 2
        elif op == JUMP:
            pc = operand(prog, pc + 1)
        elif op == BYTES or op == NUMBERS:
            kind = operand(prog, pc + 3)
            width = 1
            n = np.int64(0)
            at = pos
            if op == NUMBERS:
                width = kind
                kind = LENGTH_I32
            if kind == LENGTH_I32:
                if end - pos < 4:
                    status = SHORT
                    break
                n = np.int64(np.int32(np.uint32(load_be32(pos))))
                at += 4
            elif kind == LENGTH_U16:
                if end - pos < 2:
                    status = SHORT
                    break
                n = np.int64(load_be16(pos))
                at += 2
            elif kind == LENGTH_REST:
                n = end - pos
            elif kind == LENGTH_REST_BUT:
                n = end - pos - np.int64(operand(prog, pc + 4))
            elif kind == LENGTH_TAG_MINUS_4:
                n = count - 4
            elif kind == LENGTH_REGISTER:
                n = count
            else:
                n = np.int64(operand(prog, pc + 4))
            if n < 0:
                status = BAD_COUNT
                break
            if n * width > end - at:
                status = SHORT
                break
            if not copy_in(columns, operand(prog, pc + 2), at, n * width, reg_at):
                status = GROW
                break
            if not put(columns, operand(prog, pc + 1), 4, n, reg_at):
                status = GROW
                break
            pos = at + n * width
            pc += 4 if op == NUMBERS else 5
        elif op == MUTF:
            if end - pos < 2:
                status = SHORT
                break
            n = np.int64(load_be16(pos))
            if n > end - pos - 2:
                status = SHORT
                break
            col = operand(prog, pc + 2)
            if col >= 0:
                if not fits(columns, col, n + 8, reg_at):
                    status = GROW
                    break
                written = modified_utf8(pos + 2, pos + 2 + n, place(columns, col))
                if written < 0:
                    status = BAD_STRING
                    break
                if not put(columns, operand(prog, pc + 1), 4, written, reg_at):
                    status = GROW
                    break
                advance(columns, col, written)
            pos += 2 + n
            pc += 3
        elif op == FILL:
            if not fill_nulls(columns, fills, operand(prog, pc + 1), reg_at):
                status = GROW
                break
            pc += 2
        elif op == PUT4:
            if not put(columns, operand(prog, pc + 1), 4, operand(prog, pc + 2), reg_at):
                status = GROW
                break
            pc += 3
        elif op == VARINT:
            value = varint(pos, end, operand(prog, pc + 3), reg_at)
            at = reg[ops.NEED]
            if at < 0:
                status = SHORT if at == -1 else BAD_COUNT
                break
            if operand(prog, pc + 2) == 4:
                ok = put(columns, operand(prog, pc + 1), 4, value, reg_at)
            else:
                ok = put(columns, operand(prog, pc + 1), 8, value, reg_at)
            if not ok:
                status = GROW
                break
            pos = at
            pc += 4
        elif op == SWITCH:
            kind = operand(prog, pc + 1)
            if end - pos < kind:
                status = SHORT
                break
            tag = count
            if kind == 1:
                tag = np.int64(load_u8(pos))
            elif kind == 4:
                tag = np.int64(np.int32(np.uint32(load_be32(pos))))
            target = operand(prog, pc + 3)
            for k in range(operand(prog, pc + 2)):
                if operand(prog, pc + 4 + 2 * k) == tag:
                    target = operand(prog, pc + 5 + 2 * k)
                    break
            if target < 0:
                status = BAD_TAG
                break
            count = tag
            pos += kind
            pc = target
        elif op == SWITCH_NAME:
            if end - pos < 2:
                status = SHORT
                break
            n = np.int64(load_be16(pos))
            if n > end - pos - 2:
                status = SHORT
                break
            target = operand(prog, pc + 2)
            for k in range(operand(prog, pc + 1)):
                if name_matches(pos + 2, n, names + operand(prog, pc + 3 + 2 * k)):
                    target = operand(prog, pc + 4 + 2 * k)
                    pos += 2 + n
                    break
            if target < 0:
                status = BAD_TAG
                break
            pc = target
        elif op == READ_COUNT:
            kind = operand(prog, pc + 1)
            if kind == COUNT_I32:
                if end - pos < 4:
                    status = SHORT
                    break
                count = np.int64(np.int32(np.uint32(load_be32(pos))))
                pos += 4
            elif kind == COUNT_U16:
                if end - pos < 2:
                    status = SHORT
                    break
                count = np.int64(load_be16(pos))
                pos += 2
            else:
                count = varint(pos, end, VARINT_U32, reg_at)
                at = reg[ops.NEED]
                if at < 0:
                    status = SHORT if at == -1 else BAD_COUNT
                    break
                pos = at
            pc += 2
        elif op == LOOP:
            cost = np.int64(operand(prog, pc + 2))
            if count < 0 or (cost == 0 and count > 0x100000):
                status = BAD_COUNT
                break
            if count * cost > end - pos:
                status = SHORT
                break
            if count == 0:
                if not put(columns, operand(prog, pc + 1), 4, 0, reg_at):
                    status = GROW
                    break
                pc = operand(prog, pc + 3)
            else:
                stack[sp] = count
                stack[sp + 1] = count
                sp += 2
                pc += 4
        elif op == NEXT:
            stack[sp - 1] -= 1
            if stack[sp - 1] > 0:
                pc = operand(prog, pc + 2)
            else:
                if not put(columns, operand(prog, pc + 1), 4, stack[sp - 2], reg_at):
                    status = GROW
                    break
                sp -= 2
                pc += 3
        elif op == BLOCKS or op == DELIMITED:
            stack[sp] = 0
            stack[sp + 1] = 0
            sp += 2
            pc += 1
        elif op == BLOCK_NEXT:
            if stack[sp - 1] == 0:
                n = varint(pos, end, VARINT_U64, reg_at)
                at = reg[ops.NEED]
                if at < 0:
                    status = SHORT
                    break
                cost = np.int64(operand(prog, pc + 2))
                if n < 0 or (cost == 0 and n + stack[sp - 2] > 0x100000) or n > 0x7FFFFFFF:
                    status = BAD_COUNT
                    break
                if n * cost > end - at:
                    status = SHORT
                    break
                pos = at
                stack[sp - 1] = n
                if n == 0:
                    if not put(columns, operand(prog, pc + 1), 4, stack[sp - 2], reg_at):
                        status = GROW
                        break
                    sp -= 2
                    pc = operand(prog, pc + 3)
                    continue
            stack[sp - 1] -= 1
            stack[sp - 2] += 1
            pc += 4
        elif op == DELIMITED_NEXT:
            if stack[sp - 2] > 0 and pos < end:
                if load_u8(pos) != 0x2C:
                    status = BAD_MARK
                    break
                pos += 1
            if pos >= end:
                if not put(columns, operand(prog, pc + 1), 4, stack[sp - 2], reg_at):
                    status = GROW
                    break
                sp -= 2
                pc = operand(prog, pc + 2)
            else:
                stack[sp - 2] += 1
                pc += 3
        elif op == MASK:
            n = np.int64(operand(prog, pc + 1))
            if n < 0:
                if count < 0:
                    status = BAD_COUNT
                    break
                n = (count + 7) >> 3
            if end - pos < n:
                status = SHORT
                break
            stack[sp] = pos
            sp += 1
            pos += n
            pc += 2
        elif op == MASK_BIT or op == MASK_LOOP_BIT:
            shift = 0
            if op == MASK_BIT:
                i = np.int64(operand(prog, pc + 1))
                at = stack[sp - 1]
                shift = 1
            else:
                i = stack[sp - 2] - stack[sp - 1]
                at = stack[sp - 3]
            if (load_u8(at + (i >> 3)) >> (7 - (i & 7))) & 1:
                if not fill_nulls(columns, fills, operand(prog, pc + 1 + shift), reg_at):
                    status = GROW
                    break
                pc = operand(prog, pc + 2 + shift)
            else:
                pc += 3 + shift
        elif op == MASK_KIND:
            bits = load_u8(stack[sp - 1])
            if not put(columns, operand(prog, pc + 1), 1, ((bits >> 7) & 1) | ((bits >> 5) & 2), reg_at):
                status = GROW
                break
            pc += 2
        elif op == POP:
            sp -= operand(prog, pc + 1)
            pc += 2
        elif op == ENTER:
            kind = operand(prog, pc + 1)
            resume = pos
            start = pos
            n = np.int64(0)
            if kind == ENTER_REST:
                n = end - pos
                resume = end
            elif kind == ENTER_I32 or kind == ENTER_LE32:
                if end - pos < 4:
                    status = SHORT
                    break
                raw = load_be32(pos) if kind == ENTER_I32 else load_le32(pos)
                n = np.int64(np.int32(np.uint32(raw)))
                start = pos + 4
                if n < 0:
                    status = BAD_COUNT
                    break
                if n > end - start:
                    status = SHORT
                    break
                resume = start + n
            elif kind == ENTER_HALF:
                if end - pos < 4:
                    status = SHORT
                    break
                offset = np.int64(load_le32(pos))
                n = 8
                resume = pos + 4
                if offset > end - base or n > end - base - offset:
                    status = BAD_OFFSET
                    break
                start = base + offset
            else:
                if end - pos < 8:
                    status = SHORT
                    break
                slot = load_le64(pos)
                resume = pos + 8
                if kind == ENTER_SLOT_OR_INLINE and slot >> np.uint64(63):
                    n = np.int64((slot >> np.uint64(56)) & np.uint64(0x7F))
                    start = pos
                    if n > 7:
                        status = BAD_OFFSET
                        break
                else:
                    n = np.int64(slot & np.uint64(0xFFFFFFFF))
                    offset = np.int64(slot >> np.uint64(32))
                    if offset > end - base or n > end - base - offset:
                        status = BAD_OFFSET
                        break
                    start = base + offset
            if kind >= ENTER_SLOT and start != pos:
                # Variable parts never overlap in what Flink writes. Overlapping ones could be read again and again,
                # by a factor at every level of nesting.
                room -= n
                if room < 0:
                    status = BAD_OFFSET
                    break
            if sp + 4 + _MARGIN > STACK_WORDS:
                status = TOO_DEEP
                break
            stack[sp] = end
            stack[sp + 1] = base
            stack[sp + 2] = resume
            stack[sp + 3] = room
            sp += 4
            room = n
            pos = start
            base = start
            end = start + n
            pc += 2
        elif op == LEAVE:
            sp -= 4
            end = stack[sp]
            base = stack[sp + 1]
            pos = stack[sp + 2]
            room = stack[sp + 3]
            pc += 1
        elif op == HEADER:
            if end - base < operand(prog, pc + 1):
                status = SHORT
                break
            pc += 2
        elif op == SLOT:
            bit = np.int64(operand(prog, pc + 1))
            if (load_u8(base + (bit >> 3)) >> (bit & 7)) & 1:
                if not fill_nulls(columns, fills, operand(prog, pc + 3), reg_at):
                    status = GROW
                    break
                pc = operand(prog, pc + 4)
            else:
                pos = base + operand(prog, pc + 2)
                pc += 5
        elif op == ARRAY:
            if end - base < 4:
                status = SHORT
                break
            n = np.int64(np.int32(np.uint32(load_le32(base))))
            if n < 0:
                status = BAD_COUNT
                break
            first = base + 4 + ((n + 31) >> 5) * 4
            if n * np.int64(operand(prog, pc + 1)) > end - first:
                status = SHORT
                break
            if sp + 4 + _MARGIN > STACK_WORDS:
                status = TOO_DEEP
                break
            stack[sp] = base + 4
            stack[sp + 1] = first
            stack[sp + 2] = n
            stack[sp + 3] = n
            sp += 4
            pc += 3
        elif op == ARRAY_NEXT:
            if stack[sp - 1] == 0:
                if not put(columns, operand(prog, pc + 3), 4, stack[sp - 2], reg_at):
                    status = GROW
                    break
                sp -= 4
                pos = end
                pc = operand(prog, pc + 4)
            else:
                i = stack[sp - 2] - stack[sp - 1]
                stack[sp - 1] -= 1
                if (load_u8(stack[sp - 4] + (i >> 3)) >> (i & 7)) & 1:
                    if not fill_nulls(columns, fills, operand(prog, pc + 2), reg_at):
                        status = GROW
                        break
                else:
                    pos = stack[sp - 3] + i * operand(prog, pc + 1)
                    pc += 5
        elif op == SKIP_REST:
            pos = end
            pc += 1
        elif op == EXPECT:
            if pos >= end:
                status = SHORT
                break
            if load_u8(pos) != operand(prog, pc + 1):
                status = BAD_TAG
                break
            pos += 1
            pc += 2
        elif op == MARK:
            if not put(columns, operand(prog, pc + 1), 8, pos - source, reg_at):
                status = GROW
                break
            pc += 2
        elif op == PUSH_POS:
            stack[sp] = pos
            sp += 1
            pc += 1
        elif op == LENGTH_SUFFIX:
            sp -= 1
            n = pos - stack[sp]
            while True:
                if pos >= end:
                    status = SHORT
                    break
                if load_u8(pos) != n & 0xFF:
                    status = BAD_TAG
                    break
                pos += 1
                n >>= 8
                if n == 0:
                    break
            if status != RUNNING:
                break
            pc += 1
        elif op == SPAN:
            n = pos - stack[sp - 1]
            if not copy_in(columns, operand(prog, pc + 2), stack[sp - 1], n, reg_at):
                status = GROW
                break
            if not put(columns, operand(prog, pc + 1), 4, n, reg_at):
                status = GROW
                break
            sp -= 1
            pc += 3
        elif op == RANGE_END:
            if pos != end:
                status = LEFTOVER
                break
            pc += 1
        elif op == CONSTANT:
            col = operand(prog, pc + 2)
            if not put(columns, col, 1, operand(prog, pc + 3), reg_at):
                status = GROW
                break
            if not put(columns, operand(prog, pc + 1), 4, 1, reg_at):
                status = GROW
                break
            pc += 4
        elif op == HOST:
            if not put(columns, operand(prog, pc + 2), 1, 1, reg_at):
                status = GROW
                break
            reg[ops.AUX] = operand(prog, pc + 1)
            pc += 3
            status = CALL_HOST
            break
        elif op == KRYO_BEGIN:
            first, stop = np.int64(operand(prog, pc + 2)), np.int64(operand(prog, pc + 3))
            if sp + stop - first + _MARGIN > STACK_WORDS:
                status = TOO_DEEP
                break
            reg[ops.GUARD] = operand(prog, pc + 4)
            reg[ops.GUARD_POS] = pos
            reg[ops.GUARD_SP] = sp
            reg[ops.GUARD_FIRST] = first
            reg[ops.GUARD_STOP] = stop
            for c in range(first, stop):
                stack[sp] = load_i64(columns + 24 * c + 8)
                sp += 1
            table = fills + 4 * np.int64(operand(prog, pc + 1))
            begin_kryo(kryo)
            pc += 5
        elif op == KRYO_END:
            if operand(prog, pc + 1) != 0 and pos != end:
                status = LEFTOVER
                break
            sp = reg[ops.GUARD_SP]
            reg[ops.GUARD] = 0
            pc += 2
        elif op == KRYO_CLASS:
            pos = kryo_class(pos, end, kryo, table, names, reg_at)
            if pos < 0:
                status = BAD_TAG
                break
            count = word(kryo, RESULT)
            pc += 1
        elif op == KRYO_MARK:
            pos = kryo_mark(pos, end, kryo, reg_at)
            if pos < 0:
                status = BAD_MARK
                break
            mark = word(kryo, RESULT)
            if mark == 1:
                if not new_object(kryo, -1):
                    status = BAD_COUNT
                    break
                pc += 3
            elif mark == 0 and operand(prog, pc + 2) >= 0:
                if not fill_nulls(columns, fills, operand(prog, pc + 1), reg_at):
                    status = GROW
                    break
                pc = operand(prog, pc + 2)
            else:
                status = BAD_MARK
                break
        elif op == KRYO_STRING:
            nullable = operand(prog, pc + 3) != 0
            pos = kryo_marked_text(pos, end, source, columns, operand(prog, pc + 2), nullable, kryo, reg_at)
            if pos < 0:
                status = GROW if pos == NO_ROOM else BAD_STRING
                break
            if not put(columns, operand(prog, pc + 1), 4, word(kryo, RESULT), reg_at):
                status = GROW
                break
            pc += 4
        elif op == KRYO_COUNT:
            flagged = operand(prog, pc + 1) != 0
            pos = flagged_varint(pos, end, kryo) if flagged else kryo_varint(pos, end, kryo, reg_at)
            if pos < 0:
                status = BAD_COUNT
                break
            count = word(kryo, RESULT) - 1
            if count < 0:
                if not fill_nulls(columns, fills, operand(prog, pc + 2), reg_at):
                    status = GROW
                    break
                pc = operand(prog, pc + 3)
            elif count > 0 and flagged and word(kryo, FLAG) != 0:
                pc = operand(prog, pc + 4)
            else:
                pc += 5
        elif op == KRYO_TIME:
            pos = kryo_time(pos, end, kryo, reg_at)
            if pos < 0:
                status = BAD_COUNT
                break
            if not put(columns, operand(prog, pc + 1), 8, word(kryo, RESULT), reg_at):
                status = GROW
                break
            pc += 2
        elif op == PUSH_COUNT:
            stack[sp] = count
            sp += 1
            pc += 1
        elif op == POP_COUNT:
            sp -= 1
            count = stack[sp]
            pc += 1
        elif op == KRYO_JSON:
            col = operand(prog, pc + 2)
            begin = load_i64(columns + 24 * col + 8) if col >= 0 else 0
            version = np.int64(operand(prog, pc + 3))
            pos = kryo_json(pos, end, source, columns, col, version, kryo, table, names, reg_at)
            if pos < 0:
                status = GROW if pos == NO_ROOM else BAD_TAG
                break
            n = np.int64(0)
            if col >= 0:
                if word(kryo, RESULT) == 1 and operand(prog, pc + 4) == 0:
                    store_64(columns + 24 * col + 8, begin)
                    n = -1
                else:
                    n = load_i64(columns + 24 * col + 8) - begin
            if not put(columns, operand(prog, pc + 1), 4, n, reg_at):
                status = GROW
                break
            pc += 5
        else:
            status = BAD_TAG
            break
        if sp + _MARGIN > STACK_WORDS:
            status = TOO_DEEP
            break
    if reg[ops.GUARD] != 0 and status > CALL_HOST:
        # A Kryo value that the ops cannot read: take it back; the program goes on where the host reads it.
        sp = reg[ops.GUARD_SP]
        first = reg[ops.GUARD_FIRST]
        for c in range(first, reg[ops.GUARD_STOP]):
            store_64(columns + 24 * c + 8, stack[sp + c - first])
        pos = reg[ops.GUARD_POS]
        pc = reg[ops.GUARD]
        status = RETRY
    reg[ops.GUARD] = 0
    if status != DONE and status != CALL_HOST and status != RETRY:
        # Take back what the row has written; it starts again if the caller resumes.
        for c in range(n_columns):
            store_64(columns + 24 * c + 8, saved[c])
        reg[ops.STARTED] = 1
        failed_at = pos
        pos = source + reg[ops.ROW_POS]
        pc = 0
        sp = 0
        # Also in a stream: the row may have stopped inside of a sub-range.
        end = source + ends[0, 0 if stream else row]
        base = pos
        room = end - pos
        reg[ops.COUNT] = failed_at - source
    else:
        reg[ops.COUNT] = count
    reg[ops.ROW] = row
    reg[ops.PC] = pc
    reg[ops.POS] = pos - source
    reg[ops.END] = end - source
    reg[ops.SP] = sp
    reg[ops.BASE] = base - source
    reg[ops.ROOM] = room
    return status
