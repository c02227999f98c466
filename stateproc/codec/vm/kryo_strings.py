"""Kernels that read Kryo's strings: ASCII with a mark on its last byte, or UTF-16 units of one to three bytes."""

from __future__ import annotations

from typing import Any

from stateproc.codec.jit import copy_bytes, kernel, load_u8, store_8
from stateproc.codec.vm.column_buffers import advance, append_address, has_capacity
from stateproc.codec.vm.java_strings import put_utf8, put_utf16_unit
from stateproc.codec.vm.kryo_kernels import (
    FAILED,
    MAX_REPEATED,
    NEEDS_CAPACITY,
    REPEATED,
    RESULT,
    TEXT_END,
    flagged_varint,
    kryo_mark,
    marked_ascii_end,
    new_object,
    referenced_text,
    set_word,
    word,
)

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
