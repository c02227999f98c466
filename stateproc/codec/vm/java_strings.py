"""Kernels that decode Java's string encodings to UTF-8. A lone surrogate becomes U+FFFD, or is kept as three bytes.

Positions (``pos``, ``end``, ``at``) are addresses; ``end`` bounds the input. Each returns the number of bytes written
or, negative, why not. The caller has reserved three bytes per input byte, and eight more.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec.native.jit import kernel, load_le64, load_u8, store_8, store_64

# Find where ASCII ends, eight bytes at a time.

HIGH_BITS = np.uint64(0x8080808080808080)
"""The top bit of each byte of a word: set in bytes that are not ASCII."""


@kernel
def ascii_end(pos: int, end: int) -> int:
    """The position of the first byte from ``pos`` that is not ASCII, or ``end``."""
    while pos + 8 <= end and (load_le64(pos) & HIGH_BITS) == 0:
        pos += 8
    while pos < end and load_u8(pos) < 0x80:
        pos += 1
    return pos


NOT_A_STRING = -1
TOO_SHORT = -2


@kernel
def put_utf8(at: int, code: int) -> int:
    """Write the code point ``code`` at ``at``; the number of bytes."""
    if code < 0x80:
        store_8(at, code)
        return 1
    if code < 0x800:
        store_8(at, 0xC0 | (code >> 6))
        store_8(at + 1, 0x80 | (code & 0x3F))
        return 2
    if code < 0x10000:
        store_8(at, 0xE0 | (code >> 12))
        store_8(at + 1, 0x80 | ((code >> 6) & 0x3F))
        store_8(at + 2, 0x80 | (code & 0x3F))
        return 3
    store_8(at, 0xF0 | (code >> 18))
    store_8(at + 1, 0x80 | ((code >> 12) & 0x3F))
    store_8(at + 2, 0x80 | ((code >> 6) & 0x3F))
    store_8(at + 3, 0x80 | (code & 0x3F))
    return 4


@kernel
def put_utf16_unit(at: int, unit: int, high: int, keep: bool) -> int:
    """Write one UTF-16 unit; ``high`` is the surrogate still open before it (0: none).

    An open surrogate is in the output as U+FFFD, or with ``keep`` by its own number, which is no UTF-8; it is
    overwritten when its partner comes. Returns the new end of the output.
    """
    if 0xDC00 <= unit < 0xE000 and high != 0:
        return at - 3 + put_utf8(at - 3, 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00))
    if 0xD800 <= unit < 0xE000 and not keep:
        return at + put_utf8(at, 0xFFFD)
    return at + put_utf8(at, unit)


@kernel
def decode_varint_units(pos: int, end: int, n: int, at: int, keep: bool) -> tuple[int, int]:
    """Flink's StringValue body: ``n`` UTF-16 units as varints. Returns (new pos, bytes written or reason)."""
    start = at
    i = 0
    # ASCII is its own encoding: eight bytes at a time, as long as no top bit is set.
    while i + 8 <= n and pos + 8 <= end and (load_le64(pos) & HIGH_BITS) == 0:
        store_64(at, np.int64(load_le64(pos)))
        i += 8
        pos += 8
        at += 8
    left = n - i
    if 0 < left < 8 and pos + 8 <= end and (load_le64(pos) & (HIGH_BITS >> np.uint64(8 * (8 - left)))) == 0:
        # The bytes stored after the last of them are overwritten later.
        store_64(at, np.int64(load_le64(pos)))
        return pos + left, at + left - start
    high = 0
    while i < n:
        if pos >= end:
            return pos, TOO_SHORT
        unit = np.int64(load_u8(pos))
        pos += 1
        if unit < 0x80:
            store_8(at, unit)
            at += 1
            i += 1
            high = 0
            continue
        unit &= 0x7F
        shift = 7
        while True:
            if pos >= end:
                return pos, TOO_SHORT
            byte = np.int64(load_u8(pos))
            pos += 1
            unit |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 14:
                return pos, NOT_A_STRING
        if unit > 0xFFFF:
            return pos, NOT_A_STRING
        at = put_utf16_unit(at, unit, high, keep)
        high = unit if 0xD800 <= unit < 0xDC00 else 0
        i += 1
    return pos, at - start


@kernel
def decode_modified_utf8(pos: int, end: int, at: int) -> int:
    """DataOutput.writeUTF's body, all of [pos, end). Returns the bytes written or the reason."""
    start = at
    high = 0
    while pos < end:
        lead = np.int64(load_u8(pos))
        if lead < 0x80:
            unit = lead
            pos += 1
        elif lead & 0xE0 == 0xC0 and pos + 1 < end:
            unit = ((lead & 0x1F) << 6) | (np.int64(load_u8(pos + 1)) & 0x3F)
            if np.int64(load_u8(pos + 1)) & 0xC0 != 0x80:
                return NOT_A_STRING
            pos += 2
        elif lead & 0xF0 == 0xE0 and pos + 2 < end:
            unit = (
                ((lead & 0x0F) << 12) | ((np.int64(load_u8(pos + 1)) & 0x3F) << 6) | (np.int64(load_u8(pos + 2)) & 0x3F)
            )
            if np.int64(load_u8(pos + 1)) & 0xC0 != 0x80 or np.int64(load_u8(pos + 2)) & 0xC0 != 0x80:
                return NOT_A_STRING
            pos += 3
        else:
            return NOT_A_STRING
        at = put_utf16_unit(at, unit, high, False)
        high = unit if 0xD800 <= unit < 0xDC00 else 0
    return at - start
