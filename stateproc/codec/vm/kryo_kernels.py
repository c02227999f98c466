"""Kernels for Kryo: class references, reference marks, strings. Values of other classes are left to the host.

The state of one Kryo value is a block of int64 words, whose address is ``kryo``: numbers of objects and class
names seen so far, the class code of each name, the position of each string. Each kernel returns the new position
(an address), or FAILED (the host reads the value, and reports damage) or NEEDS_CAPACITY; a
second result is left in the word RESULT.

A class table (address ``table``, int32) holds: n, the class codes of ids 0 to n - 1 (-1: not known here), m,
then m pairs of an offset in the name table and a code.
"""

from __future__ import annotations

from typing import Any

from stateproc.codec import ops
from stateproc.codec.native.jit import copy_bytes, kernel, load_be16, load_i32, load_i64, load_u8, store_8, store_64
from stateproc.codec.vm.column_buffers import advance, append_address, has_capacity, read_varint
from stateproc.codec.vm.java_strings import ascii_end, put_utf8, put_utf16_unit

FAILED, NEEDS_CAPACITY = -1, -2

OBJECTS, NAMES, RESULT, FLAG, TEXT_END, REPEATED = 0, 1, 3, 4, 5, 6
FIRST_NAME, MAX_NAMES = 8, 256
FIRST_FRAME, MAX_FRAMES, FRAME_WORDS = 264, 60, 8
FIRST_OBJECT, MAX_OBJECTS = 1024, 1 << 20
BLOCK_WORDS = FIRST_OBJECT + MAX_OBJECTS
MAX_REPEATED = 1 << 25
"""Bytes of text that references may repeat in one value."""

NO_CLASS = 0
INT, STRING, FLOAT, BOOLEAN, BYTE, CHAR, SHORT, LONG, DOUBLE = 1, 2, 3, 4, 5, 6, 7, 8, 9
COLLECTION, SORTED_COLLECTION, IMMUTABLE_COLLECTION, AS_LIST = 10, 11, 12, 13
MAP, SORTED_MAP, EMPTY_COLLECTION, EMPTY_MAP = 14, 15, 16, 17
BIG_INTEGER = 18
FIRST_OTHER = 32


@kernel
def word(kryo: int, index: int) -> Any:
    return load_i64(kryo + 8 * index)


@kernel
def set_word(kryo: int, index: int, value: int) -> None:
    store_64(kryo + 8 * index, value)


@kernel
def begin_kryo(kryo: int) -> None:
    """A new value: no objects, no class names."""
    set_word(kryo, OBJECTS, 0)
    set_word(kryo, NAMES, 0)
    set_word(kryo, TEXT_END, 0)
    set_word(kryo, REPEATED, 0)


@kernel
def kryo_varint(pos: int, end: int, kryo: int, reg: int) -> Any:
    """An unsigned varint below 2^31."""
    if pos < end and load_u8(pos) < 0x80:
        set_word(kryo, RESULT, load_u8(pos))
        return pos + 1
    value = read_varint(pos, end, ops.VARINT_U32, reg)
    at = load_i64(reg + 8 * ops.NEED)
    if at < 0 or value < 0:
        return FAILED
    set_word(kryo, RESULT, value)
    return at


@kernel
def flagged_varint(pos: int, end: int, kryo: int) -> int:
    """A varint whose first byte holds a flag (FLAG), a continuation bit and six bits."""
    if pos >= end:
        return FAILED
    first = load_u8(pos)
    pos += 1
    set_word(kryo, FLAG, first >> 7)
    value, shift = first & 0x3F, 6
    more = first & 0x40
    while more != 0:
        if pos >= end or shift > 27:
            return FAILED
        byte = load_u8(pos)
        pos += 1
        value |= (byte & 0x7F) << shift
        more = byte & 0x80
        shift += 7
    if value > 0x7FFFFFFF:
        return FAILED
    set_word(kryo, RESULT, value)
    return pos


@kernel
def marked_ascii_end(pos: int, end: int) -> int:
    """Return the position after the first byte with its top bit set, the last of an ASCII string; FAILED if none."""
    pos = ascii_end(pos, end)
    return pos + 1 if pos < end else FAILED


@kernel
def kryo_class(pos: int, end: int, kryo: int, table: int, names: int, reg: int) -> Any:
    """A class reference; RESULT is its code, NO_CLASS for null."""
    pos = kryo_varint(pos, end, kryo, reg)
    if pos < 0:
        return FAILED
    reference = word(kryo, RESULT)
    code = -1
    n_ids = load_i32(table)
    if reference == 0:
        code = NO_CLASS
    elif reference >= 2:
        if reference - 2 < n_ids:
            code = load_i32(table + 4 + 4 * (reference - 2))
    else:
        pos = kryo_varint(pos, end, kryo, reg)
        if pos < 0:
            return FAILED
        number = word(kryo, RESULT)
        seen = word(kryo, NAMES)
        if number < seen:
            code = word(kryo, FIRST_NAME + number)
        elif number == seen and seen < MAX_NAMES:
            pos = _class_name(pos, end, kryo)
            if pos < 0:
                return FAILED
            length = word(kryo, RESULT)
            code = _code_of_name(pos - length, length, table + 4 + 4 * n_ids, names)
            set_word(kryo, FIRST_NAME + seen, code)
            set_word(kryo, NAMES, seen + 1)
    if code < 0:
        return FAILED
    set_word(kryo, RESULT, code)
    return pos


@kernel
def _class_name(pos: int, end: int, kryo: int) -> Any:
    """Pass an ASCII string; RESULT is its length. Its last byte may have its top bit set."""
    if pos >= end:
        return FAILED
    if load_u8(pos) < 0x80:
        stop = marked_ascii_end(pos, end)
        if stop < 0:
            return FAILED
        set_word(kryo, RESULT, stop - pos)
        return stop
    pos = flagged_varint(pos, end, kryo)
    length = word(kryo, RESULT) - 1
    if pos < 0 or length < 1 or length > end - pos:
        return FAILED
    if load_u8(pos + length - 1) >= 0x80:
        return FAILED
    set_word(kryo, RESULT, length)
    return pos + length


@kernel
def _code_of_name(pos: int, length: int, table: int, names: int) -> Any:
    for k in range(load_i32(table)):
        name = names + load_i32(table + 4 + 8 * k)
        if load_be16(name) != length:
            continue
        if load_u8(name + 1 + length) != load_u8(pos + length - 1) & 0x7F:
            continue
        same = True
        for i in range(length - 1):
            if load_u8(name + 2 + i) != load_u8(pos + i):
                same = False
                break
        if same:
            return load_i32(table + 8 + 8 * k)
    return -1


@kernel
def kryo_mark(pos: int, end: int, kryo: int, reg: int) -> Any:
    """A reference mark; RESULT is 0 for null, 1 for a new object, else 2 + the number of an object seen."""
    return kryo_varint(pos, end, kryo, reg)


@kernel
def new_object(kryo: int, text_at: int) -> bool:
    """Count one more object; ``text_at`` is the position of a string's body in the source, -1 for others."""
    number = word(kryo, OBJECTS)
    if number >= MAX_OBJECTS:
        return False
    set_word(kryo, FIRST_OBJECT + number, text_at)
    set_word(kryo, OBJECTS, number + 1)
    return True


@kernel
def referenced_text(kryo: int, mark: int) -> Any:
    """The position of the string that a back reference stands for; negative if it is none."""
    number = mark - 2
    if number >= word(kryo, OBJECTS):
        return FAILED
    return word(kryo, FIRST_OBJECT + number)


@kernel
def kryo_time(pos: int, end: int, kryo: int, reg: int) -> int:
    """Kryo 5's LocalTime; RESULT is nanoseconds of the day. The last part written is complemented."""
    nanos, unit = 0, 3_600_000_000_000
    for index in range(3):
        if pos >= end:
            return FAILED
        part = load_u8(pos)
        pos += 1
        last = part >= 0x80
        if last:
            part = 0xFF - part
        if part > (23 if index == 0 else 59):
            return FAILED
        nanos += part * unit
        unit //= 60
        if last:
            set_word(kryo, RESULT, nanos)
            return pos
    pos = kryo_varint(pos, end, kryo, reg)
    if pos < 0 or word(kryo, RESULT) > 999_999_999:
        return FAILED
    set_word(kryo, RESULT, nanos + word(kryo, RESULT))
    return pos


# Kernels that read Kryo's strings: ASCII with a mark on its last byte, or UTF-16 units of one to three bytes.

_QUOTE, _BACKSLASH = 0x22, 0x5C


@kernel
def _is_bounded(at: int, end: int, kryo: int) -> Any:
    """Whether text read again for references to it, from ``at`` on, is still of a size to be shown."""
    if at >= word(kryo, TEXT_END):
        set_word(kryo, TEXT_END, end)
        return True
    repeated = word(kryo, REPEATED) + end - at
    set_word(kryo, REPEATED, repeated)
    return repeated <= MAX_REPEATED


@kernel
def put_escaped(at: int, char: int) -> int:
    """Write an ASCII character of a JSON string; the new end."""
    if char >= 0x20 and char != _QUOTE and char != _BACKSLASH:
        store_8(at, char)
        return at + 1
    store_8(at, _BACKSLASH)
    short = 0
    if char in (_QUOTE, _BACKSLASH):
        short = char
    elif char == 8:
        short = 0x62
    elif char == 9:
        short = 0x74
    elif char == 10:
        short = 0x6E
    elif char == 12:
        short = 0x66
    elif char == 13:
        short = 0x72
    if short != 0:
        store_8(at + 1, short)
        return at + 2
    store_8(at + 1, 0x75)
    store_8(at + 2, 0x30)
    store_8(at + 3, 0x30)
    store_8(at + 4, 0x30 + (char >> 4))
    low = char & 15
    store_8(at + 5, 0x30 + low if low < 10 else 0x57 + low)
    return at + 6


@kernel
def kryo_text(pos: int, end: int, columns: int, col: int, quoted: bool, keep: bool, kryo: int, reg: int) -> int:
    """A string's body, appended to the column; RESULT is the bytes written, -1 for null.

    ``quoted``: as JSON; ``keep``: as in put_utf16_unit.
    """
    if pos >= end:
        return FAILED
    begin = pos
    if load_u8(pos) < 0x80:
        stop = marked_ascii_end(pos, end)
        if stop >= 0 and not _is_bounded(pos, stop, kryo):
            return FAILED
        return _ascii_text(pos, stop, columns, col, quoted, kryo, reg)
    pos = flagged_varint(pos, end, kryo)
    n = word(kryo, RESULT) - 1
    if pos < 0 or n > end - pos:
        return FAILED
    if n < 0:
        set_word(kryo, RESULT, -1)
        return pos
    if not _is_bounded(begin, pos + n, kryo):
        return FAILED
    at = 0
    if col >= 0:
        if not has_capacity(columns, col, (6 if quoted else 3) * n + 16, reg):
            return NEEDS_CAPACITY
        at = append_address(columns, col)
    start = at
    if quoted and col >= 0:
        store_8(at, _QUOTE)
        at += 1
    high = 0
    for _ in range(n):
        if pos >= end:
            return FAILED
        unit = load_u8(pos)
        extra = 0
        if unit >= 0x80:
            extra = 1 if 0xC0 <= unit < 0xE0 else 2 if 0xE0 <= unit < 0xF0 else -1
            if extra < 0 or end - pos <= extra:
                return FAILED
            unit &= 0x1F if extra == 1 else 0x0F
            for k in range(1, extra + 1):
                trail = load_u8(pos + k)
                if trail & 0xC0 != 0x80:
                    return FAILED
                unit = (unit << 6) | (trail & 0x3F)
        pos += 1 + extra
        if col >= 0:
            if unit >= 0x80:
                at = put_utf16_unit(at, unit, high, keep)
            elif quoted:
                at = put_escaped(at, unit)
            else:
                at += put_utf8(at, unit)
            high = unit if 0xD800 <= unit < 0xDC00 else 0
    if quoted and col >= 0:
        store_8(at, _QUOTE)
        at += 1
    if col >= 0:
        advance(columns, col, at - start)
    set_word(kryo, RESULT, at - start)
    return pos


@kernel
def _ascii_text(pos: int, stop: int, columns: int, col: int, quoted: bool, kryo: int, reg: int) -> int:
    """ASCII whose last byte has its top bit set."""
    if stop < 0:
        return FAILED
    n = stop - pos
    if col < 0:
        set_word(kryo, RESULT, n)
        return stop
    if not has_capacity(columns, col, (6 if quoted else 1) * n + 16, reg):
        return NEEDS_CAPACITY
    at = append_address(columns, col)
    start = at
    if quoted:
        store_8(at, _QUOTE)
        at += 1
        for k in range(n):
            at = put_escaped(at, load_u8(pos + k) & 0x7F)
        store_8(at, _QUOTE)
        at += 1
    else:
        copy_bytes(at, pos, n)
        at += n
        store_8(at - 1, load_u8(stop - 1) & 0x7F)
    advance(columns, col, at - start)
    set_word(kryo, RESULT, at - start)
    return stop


@kernel
def kryo_marked_text(
    pos: int, end: int, source: int, columns: int, col: int, nullable: bool, keep: bool, kryo: int, reg: int
) -> int:
    """A reference mark and a string, or a reference to one; RESULT as in :func:`kryo_text`."""
    pos = kryo_mark(pos, end, kryo, reg)
    if pos < 0:
        return FAILED
    mark = word(kryo, RESULT)
    if mark == 0:
        set_word(kryo, RESULT, -1)
        return pos if nullable else FAILED
    if mark == 1:
        if not new_object(kryo, pos - source):
            return FAILED
        return kryo_text(pos, end, columns, col, False, keep, kryo, reg)
    text_at = referenced_text(kryo, mark)
    if text_at < 0:
        return FAILED
    status = kryo_text(source + text_at, end, columns, col, False, keep, kryo, reg)
    return pos if status >= 0 else status
