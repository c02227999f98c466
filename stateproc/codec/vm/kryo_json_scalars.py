"""Kernels that write Kryo's numbers, characters and booleans as JSON text."""

from __future__ import annotations

import math

import numpy as np

from stateproc.codec import ops
from stateproc.codec.jit import (
    double_of,
    float_of,
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
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    FAILED,
    FLOAT,
    INT,
    LONG,
    NEEDS_CAPACITY,
    RESULT,
    SHORT,
    kryo_varint,
    word,
)
from stateproc.codec.vm.kryo_strings import put_escaped

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
