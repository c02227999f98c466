"""Find where ASCII ends, eight bytes at a time."""

from __future__ import annotations

import numpy as np

from stateproc.codec.jit import kernel, load_le64, load_u8

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
