"""A kernel that writes a Kryo graph of JDK collections, strings and numbers as JSON text.

It writes what ``kryo.values.json_text`` does. Objects of other classes, references to anything but strings, too
deep or too many values: FAILED, and the walker over Kryo graphs reads the value.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec.jit import inlined, kernel, load_u8
from stateproc.codec.vm.column_buffers import put
from stateproc.codec.vm.kryo_headers import (
    AT_VALUE,
    BY_CLASS,
    CLASS,
    KIND,
    LIST,
    NEW_MAP,
    NULLABLE,
    OBJECT,
    PAIRS,
    REMAINING,
    collection_header,
    map_header,
)
from stateproc.codec.vm.kryo_json_scalars import put_big_integer, put_box, put_literal
from stateproc.codec.vm.kryo_kernels import (
    BIG_INTEGER,
    CHAR,
    DOUBLE,
    EMPTY_MAP,
    FAILED,
    FIRST_FRAME,
    FRAME_WORDS,
    MAP,
    MAX_FRAMES,
    NEEDS_CAPACITY,
    NO_CLASS,
    RESULT,
    SORTED_MAP,
    STRING,
    kryo_class,
    kryo_mark,
    new_object,
    referenced_text,
    set_word,
    word,
)
from stateproc.codec.vm.kryo_strings import kryo_text

_MAX_VALUES = 1_000_000
# Text as little-endian numbers.
_NULL, _EMPTY_LIST, _EMPTY_OBJECT = 0x6C6C756E, 0x5D5B, 0x7D7B
_COMMA, _COLON, _OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = 0x2C, 0x3A, 0x5B, 0x5D, 0x7B, 0x7D


@kernel
def _before_key(columns: int, col: int, reg: int) -> bool:
    """{"key": of an entry with its own object."""
    return put_literal(columns, col, 0x3A2279656B227B, 7, reg)


@kernel
def _before_value(columns: int, col: int, reg: int) -> bool:
    return put_literal(columns, col, 0x6C6176222C, 5, reg) and put_literal(columns, col, 0x3A226575, 4, reg)


@inlined
def kryo_json(
    pos: int, end: int, source: int, columns: int, col: int, version: int, kryo: int, table: int, names: int, reg: int
) -> int:
    """One object by class, appended to the column as JSON; RESULT is 1 if it is null, else 0."""
    depth = 0
    values = 0
    frame = kryo + 8 * FIRST_FRAME
    while True:
        values += 1
        if values > _MAX_VALUES:
            return FAILED
        code, nullable = BY_CLASS, False
        is_key = False
        if depth > 0:
            code, nullable = word(frame, CLASS), word(frame, NULLABLE) != 0
            is_key = word(frame, KIND) != LIST and word(frame, AT_VALUE) == 0
        null = False
        text_at = 0
        if code == BY_CLASS:
            pos = kryo_class(pos, end, kryo, table, names, reg)
            if pos < 0:
                return FAILED
            code = word(kryo, RESULT)
        if code == NO_CLASS:
            null = True
        elif code != STRING and code <= DOUBLE:
            if nullable:
                if pos >= end or load_u8(pos) > 1:
                    return FAILED
                null = load_u8(pos) == 0
                pos += 1
        else:
            pos = kryo_mark(pos, end, kryo, reg)
            if pos < 0:
                return FAILED
            mark = word(kryo, RESULT)
            if mark == 0:
                if not nullable:
                    return FAILED
                null = True
            elif mark == 1:
                text_at = pos
                if not new_object(kryo, pos - source if code == STRING else -1):
                    return FAILED
            else:
                text_at = referenced_text(kryo, mark) if code == STRING else FAILED
                if text_at < 0:
                    return FAILED
                text_at += source
        is_text = not null and (code in (STRING, CHAR))
        if is_key:
            kind = word(frame, KIND)
            if kind == NEW_MAP:
                kind = OBJECT if is_text else PAIRS
                set_word(frame, KIND, kind)
                ok = put(columns, col, 1, _OPEN if is_text else _OPEN_LIST, reg)
                if not ok or not (is_text or _before_key(columns, col, reg)):
                    return NEEDS_CAPACITY
            elif kind == OBJECT and not is_text:
                return FAILED
        opened = False
        if null:
            if not put(columns, col, 4, _NULL, reg):
                return NEEDS_CAPACITY
        elif code == STRING:
            text_end = kryo_text(text_at, end, columns, col, True, False, kryo, reg)
            if text_end < 0:
                return text_end
            if text_at == pos:
                pos = text_end
            if word(kryo, RESULT) < 0:
                if is_key:
                    return FAILED
                null = True
                if not put(columns, col, 4, _NULL, reg):
                    return NEEDS_CAPACITY
        elif code <= DOUBLE:
            pos = put_box(pos, end, code, version, columns, col, reg)
            if pos < 0:
                return pos
        elif code == BIG_INTEGER:
            pos = put_big_integer(pos, end, columns, col, kryo, reg)
            if pos < 0:
                return pos
        elif code <= EMPTY_MAP:
            if depth >= MAX_FRAMES:
                return FAILED
            frame = kryo + 8 * (FIRST_FRAME + FRAME_WORDS * depth)
            depth += 1
            a_map = code in (MAP, SORTED_MAP, EMPTY_MAP)
            if a_map:
                pos = map_header(pos, end, code, version, kryo, reg, frame)
            else:
                pos = collection_header(pos, end, code, version, kryo, table, names, reg, frame)
            if pos < 0:
                return FAILED
            remaining = word(frame, REMAINING)
            opened = remaining > 0
            ok = True
            if remaining < 0:
                null = True
                ok = put(columns, col, 4, _NULL, reg)
            elif remaining == 0:
                ok = put(columns, col, 2, _EMPTY_OBJECT if a_map else _EMPTY_LIST, reg)
            elif not a_map:
                ok = put(columns, col, 1, _OPEN_LIST, reg)
            if not ok:
                return NEEDS_CAPACITY
            if not opened:
                depth -= 1
                frame = kryo + 8 * (FIRST_FRAME + FRAME_WORDS * max(depth - 1, 0))
        else:
            return FAILED
        top_null = null and depth == 0
        while not opened:
            if depth == 0:
                set_word(kryo, RESULT, np.int64(top_null))
                return pos
            kind = word(frame, KIND)
            ok = True
            if kind != LIST and word(frame, AT_VALUE) == 0:
                set_word(frame, AT_VALUE, 1)
                if kind == OBJECT:
                    ok = put(columns, col, 1, _COLON, reg)
                else:
                    ok = _before_value(columns, col, reg)
                opened = True
            else:
                set_word(frame, AT_VALUE, 0)
                remaining = word(frame, REMAINING) - 1
                set_word(frame, REMAINING, remaining)
                if kind == PAIRS:
                    ok = put(columns, col, 1, _CLOSE, reg)
                if remaining > 0:
                    ok = ok and put(columns, col, 1, _COMMA, reg)
                    if kind == PAIRS:
                        ok = ok and _before_key(columns, col, reg)
                    opened = True
                else:
                    ok = ok and put(columns, col, 1, _CLOSE if kind == OBJECT else _CLOSE_LIST, reg)
                    depth -= 1
                    frame = kryo + 8 * (FIRST_FRAME + FRAME_WORDS * max(depth - 1, 0))
            if not ok:
                return NEEDS_CAPACITY
