"""A kernel that writes a Kryo graph of JDK collections, strings and numbers as JSON text.

It writes what ``kryo.values.json_text`` does. Objects of other classes, references to anything but strings, too
deep or too many values: FAILED, and the walker over Kryo graphs reads the value.
"""

from __future__ import annotations

import math

import numpy as np

from stateproc.codec import ops
from stateproc.codec.native.jit import (
    double_of,
    float_of,
    inlined,
    kernel,
    load_be16,
    load_be32,
    load_be64,
    load_i64,
    load_le16,
    load_le32,
    load_le64,
    load_u8,
    store_8,
)
from stateproc.codec.vm.column_buffers import advance, append_address, has_capacity, put, read_varint
from stateproc.codec.vm.java_strings import put_utf16_unit
from stateproc.codec.vm.kryo_kernels import (
    AS_LIST,
    BIG_INTEGER,
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    EMPTY_COLLECTION,
    EMPTY_MAP,
    FAILED,
    FIRST_FRAME,
    FLAG,
    FLOAT,
    FRAME_WORDS,
    IMMUTABLE_COLLECTION,
    INT,
    LONG,
    MAP,
    MAX_FRAMES,
    NEEDS_CAPACITY,
    NO_CLASS,
    RESULT,
    SHORT,
    SORTED_COLLECTION,
    SORTED_MAP,
    STRING,
    flagged_varint,
    kryo_class,
    kryo_mark,
    kryo_text,
    kryo_varint,
    new_object,
    put_escaped,
    referenced_text,
    set_word,
    word,
)

# Kernels that write Kryo's numbers, characters and booleans as JSON text.

# Text as little-endian numbers.
_TRUE, _FALS, _E, _QUOTE = 0x65757274, 0x736C6166, 0x65, 0x22


@kernel
def _digits(at: int, value: int) -> int:
    """Write a decimal number at the address; the new end."""
    rest = np.uint64(value)
    if value < 0:
        store_8(at, 0x2D)
        at += 1
        rest = np.uint64(0) - rest
    n = 1
    probe = rest // np.uint64(10)
    while probe != np.uint64(0):
        n += 1
        probe //= np.uint64(10)
    for k in range(n):
        store_8(at + n - 1 - k, 0x30 + np.int64(rest % np.uint64(10)))
        rest //= np.uint64(10)
    return at + n


@kernel
def _put_number(columns: int, col: int, value: int, quoted: bool, reg: int) -> bool:
    if col < 0:
        return True
    if not has_capacity(columns, col, 24, reg):
        return False
    start = append_address(columns, col)
    at = start
    if quoted:
        store_8(at, _QUOTE)
        at += 1
    at = _digits(at, value)
    if quoted:
        store_8(at, _QUOTE)
        at += 1
    advance(columns, col, at - start)
    return True


@kernel
def _put_short_decimal(columns: int, col: int, value: float, reg: int) -> int:
    """A float of at most 15 digits as Python prints it: only one decimal of so few digits is nearest to it.

    1 if written, 0 if the column has to grow, -1 if the float is not of that kind.
    """
    size = abs(value)
    if not (size == 0.0 or 1e-4 <= size < 1e15):
        return -1
    scale, power = 0, 1
    whole = math.floor(size + 0.5)
    while np.float64(whole) / np.float64(power) != size:
        scale += 1
        power *= 10
        if scale > 18 or size * power >= 1e15:
            return -1
        whole = math.floor(size * power + 0.5)
    if whole >= 1e15:
        return -1
    if col < 0:
        return 1
    if not has_capacity(columns, col, 48, reg):
        return 0
    start = append_address(columns, col)
    at = start
    if math.copysign(1.0, value) < 0:
        store_8(at, 0x2D)
        at += 1
    number = np.int64(whole)
    at = _digits(at, number // power)
    store_8(at, 0x2E)
    at += 1
    fraction = number % power
    for k in range(max(scale, 1)):
        digit = fraction % 10 if scale else np.int64(0)
        store_8(at + max(scale, 1) - 1 - k, 0x30 + digit)
        fraction //= 10
    advance(columns, col, at + max(scale, 1) - start)
    return 1


@kernel
def _put_char(columns: int, col: int, unit: int, reg: int) -> bool:
    if col < 0:
        return True
    if not has_capacity(columns, col, 16, reg):
        return False
    start = append_address(columns, col)
    store_8(start, _QUOTE)
    at = put_escaped(start + 1, unit) if unit < 0x80 else put_utf16_unit(start + 1, unit, 0, False)
    store_8(at, _QUOTE)
    advance(columns, col, at + 1 - start)
    return True


@kernel
def put_literal(columns: int, col: int, text: int, n: int, reg: int) -> bool:
    """Append ``n`` bytes of ``text``, a little-endian number of at most eight."""
    if col < 0:
        return True
    if not has_capacity(columns, col, n, reg):
        return False
    at = append_address(columns, col)
    for k in range(n):
        store_8(at + k, (text >> (8 * k)) & 0xFF)
    advance(columns, col, n)
    return True


@kernel
def put_box(pos: int, end: int, code: int, version: int, columns: int, col: int, reg: int) -> int:
    """The body of a boxed primitive as JSON."""
    big = version < 5
    if code in (INT, LONG):
        value = read_varint(pos, end, ops.VARINT_Z32 if code == INT else ops.VARINT_Z64, reg)
        pos = load_i64(reg + 8 * ops.NEED)
        if pos < 0:
            return FAILED
        return pos if _put_number(columns, col, value, False, reg) else NEEDS_CAPACITY
    size = 1
    if code in (SHORT, CHAR):
        size = 2
    elif code == FLOAT:
        size = 4
    elif code == DOUBLE:
        size = 8
    if end - pos < size:
        return FAILED
    ok = True
    if code == BOOLEAN:
        if load_u8(pos) > 1:
            return FAILED
        if load_u8(pos) == 1:
            ok = put(columns, col, 4, _TRUE, reg)
        else:
            ok = put(columns, col, 4, _FALS, reg) and put(columns, col, 1, _E, reg)
    elif code == BYTE:
        ok = _put_number(columns, col, np.int64(np.int8(np.uint8(load_u8(pos)))), False, reg)
    elif code == SHORT:
        raw = load_be16(pos) if big else load_le16(pos)
        ok = _put_number(columns, col, np.int64(np.int16(np.uint16(raw))), False, reg)
    elif code == CHAR:
        ok = _put_char(columns, col, load_be16(pos) if big else load_le16(pos), reg)
    else:
        if code == FLOAT:
            done = _put_short_decimal(columns, col, float_of(load_be32(pos) if big else load_le32(pos)), reg)
        else:
            done = _put_short_decimal(columns, col, double_of(np.int64(load_be64(pos) if big else load_le64(pos))), reg)
        if done < 0:
            return FAILED
        ok = done == 1
    return pos + size if ok else NEEDS_CAPACITY


@kernel
def put_big_integer(pos: int, end: int, columns: int, col: int, kryo: int, reg: int) -> int:
    """A BigInteger of up to eight bytes, as a string of digits."""
    pos = kryo_varint(pos, end, kryo, reg)
    if pos < 0:
        return FAILED
    n = word(kryo, RESULT) - 1
    if n < 1 or n > 8 or n > end - pos:
        return FAILED
    value = np.int64(np.int8(np.uint8(load_u8(pos))))
    for k in range(1, n):
        value = (value << 8) | load_u8(pos + k)
    return pos + n if _put_number(columns, col, value, True, reg) else NEEDS_CAPACITY


# Kernels that read the headers of collections and maps in Kryo: the number of elements and their class.

BY_CLASS = -1
"""The class of elements that each name their own."""
KIND, REMAINING, CLASS, NULLABLE, AT_VALUE = 0, 1, 2, 3, 4
"""Words of a frame, one per collection around."""
LIST, NEW_MAP, OBJECT, PAIRS = 0, 1, 2, 3
"""Kinds of frames; which a map is, is known from its first key."""
_MAX_NULLS = 4096


@kernel
def _skip_null_comparator(pos: int, end: int) -> int:
    """Skip a null comparator; any other is left to the host."""
    return pos + 1 if pos < end and load_u8(pos) == 0 else FAILED


@kernel
def collection_header(
    pos: int, end: int, code: int, version: int, kryo: int, table: int, names: int, reg: int, frame: int
) -> int:
    """Read the header of a collection into a new frame; REMAINING is -1 for a null body."""
    set_word(frame, KIND, LIST)
    set_word(frame, CLASS, BY_CLASS)
    set_word(frame, NULLABLE, 0)
    set_word(frame, REMAINING, 0)
    if code == EMPTY_COLLECTION:
        return pos
    header = code == SORTED_COLLECTION
    if version < 5:
        if header:
            pos = _skip_null_comparator(pos, end)
            if pos < 0:
                return FAILED
        pos = kryo_varint(pos, end, kryo, reg)
        if pos < 0:
            return FAILED
        n = word(kryo, RESULT)
        if n > end - pos:
            return FAILED
        set_word(frame, REMAINING, n)
        return kryo_class(pos, end, kryo, table, names, reg) if code == AS_LIST else pos
    pos = flagged_varint(pos, end, kryo)
    if pos < 0:
        return FAILED
    n = word(kryo, RESULT) - 1
    flag = word(kryo, FLAG) != 0
    if n >= 0 and header:
        pos = _skip_null_comparator(pos, end)
        if pos < 0:
            return FAILED
    set_word(frame, REMAINING, n)
    if n <= 0:
        return pos
    if flag:
        pos = kryo_class(pos, end, kryo, table, names, reg)
        if pos < 0:
            return FAILED
        set_word(frame, CLASS, word(kryo, RESULT))
        if word(kryo, RESULT) == NO_CLASS:
            return pos if n <= _MAX_NULLS else FAILED
        if code != IMMUTABLE_COLLECTION:
            if pos >= end or load_u8(pos) > 1:
                return FAILED
            set_word(frame, NULLABLE, load_u8(pos))
            pos += 1
    return pos if n <= end - pos else FAILED


@kernel
def map_header(pos: int, end: int, code: int, version: int, kryo: int, reg: int, frame: int) -> int:
    """Read the header of a map into a new frame; REMAINING is -1 for a null body."""
    set_word(frame, KIND, NEW_MAP)
    set_word(frame, CLASS, BY_CLASS)
    set_word(frame, NULLABLE, 0)
    set_word(frame, AT_VALUE, 0)
    set_word(frame, REMAINING, 0)
    if code == EMPTY_MAP:
        return pos
    header = code == SORTED_MAP
    if header and version < 5:
        pos = _skip_null_comparator(pos, end)
        if pos < 0:
            return FAILED
    pos = kryo_varint(pos, end, kryo, reg)
    if pos < 0:
        return FAILED
    n = word(kryo, RESULT) - (1 if version >= 5 else 0)
    if header and version >= 5 and n >= 0:
        pos = _skip_null_comparator(pos, end)
        if pos < 0:
            return FAILED
    set_word(frame, REMAINING, n)
    return pos if 2 * n <= end - pos else FAILED


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
