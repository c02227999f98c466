"""Writers of null masks of rows and lists."""

from __future__ import annotations

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.codec.encoding.numbers import zeros
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.jit import exported, load_i64, load_u8, store_8


@exported
def set_bits(at: int, bits: int, flip: int, n: int) -> None:
    """Set bit bits[i] (int64) of the bytes at at[i], counted from a byte's lowest bit, with ``flip`` 7 its highest."""
    for i in range(n):
        bit = load_i64(bits + 8 * i)
        target = load_i64(at + 8 * i) + (bit >> 3)
        store_8(target, np.int64(load_u8(target)) | (1 << ((bit & 7) ^ flip)))


def mark(at: Longs, bits: Longs, *, highest_first: bool) -> None:
    """Set one bit of the mask at each address."""
    at, bits = np.ascontiguousarray(at), np.ascontiguousarray(bits)
    set_bits(at.ctypes.data, bits.ctypes.data, 7 if highest_first else 0, len(at))


def mask(sizes: int | Longs, rows: Longs, bits: Longs) -> SizedWriter:
    """A mask of ``sizes`` bytes per row, the highest bit of a byte first; bits[i] of row rows[i] are set."""
    blank = zeros(sizes)

    def write(at: Longs) -> None:
        marked = at[rows]
        blank.write(at)
        mark(marked, bits, highest_first=True)

    return SizedWriter(blank.lengths, write)
