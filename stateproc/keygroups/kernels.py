"""Hash kernels over Arrow buffers: Java's 31-polynomials and Flink's murmur3_32.

Invariant: offsets ascend and end within ``data``; `stateproc.keygroups.buffers` checks that before.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec.array_types import Bytes, Ints, Longs
from stateproc.codec.native.jit import exported


@exported
def utf16_hashes(offsets: Longs, data: Bytes, out: Ints) -> None:
    """String.hashCode of UTF-8 strings: the polynomial over the UTF-16 units they have in Java."""
    for row in range(out.size):
        at, end = offsets[row], offsets[row + 1]
        h = np.uint32(0)
        while at < end:
            lead = np.uint32(data[at])
            # A lead byte whose tail is cut off counts as one unit, so nothing is read past the row.
            if lead < 0xC0 or (lead < 0xE0 and at + 2 > end) or (0xE0 <= lead < 0xF0 and at + 3 > end):
                unit = lead
                at += 1
            elif lead < 0xE0:
                unit = ((lead & np.uint32(0x1F)) << np.uint32(6)) | (np.uint32(data[at + 1]) & np.uint32(0x3F))
                at += 2
            elif lead < 0xF0:
                unit = (
                    ((lead & np.uint32(0x0F)) << np.uint32(12))
                    | ((np.uint32(data[at + 1]) & np.uint32(0x3F)) << np.uint32(6))
                    | (np.uint32(data[at + 2]) & np.uint32(0x3F))
                )
                at += 3
            elif at + 4 > end:
                unit = lead
                at += 1
            else:
                point = (
                    ((lead & np.uint32(0x07)) << np.uint32(18))
                    | ((np.uint32(data[at + 1]) & np.uint32(0x3F)) << np.uint32(12))
                    | ((np.uint32(data[at + 2]) & np.uint32(0x3F)) << np.uint32(6))
                    | (np.uint32(data[at + 3]) & np.uint32(0x3F))
                )
                # In 32 bits, also where bytes that are no UTF-8 make a smaller number.
                point = np.uint32(point - np.uint32(0x10000))
                h = np.uint32(h * np.uint32(31)) + (np.uint32(0xD800) | (point >> np.uint32(10)))
                unit = np.uint32(0xDC00) | (point & np.uint32(0x3FF))
                at += 4
            h = np.uint32(np.uint32(h * np.uint32(31)) + unit)
        out[row] = np.int32(h)


@exported
def polynomial_hashes(offsets: Longs, elements: Ints, out: Ints) -> None:
    """Arrays.hashCode / List.hashCode: 31 * h + element, from 1, per row of elements."""
    for row in range(out.size):
        h = np.uint32(1)
        for at in range(offsets[row], offsets[row + 1]):
            h = np.uint32(np.uint32(h * np.uint32(31)) + np.uint32(elements[at]))
        out[row] = np.int32(h)


@exported
def sums(offsets: Longs, elements: Ints, out: Ints) -> None:
    """Wrapping int sum of each row's elements."""
    for row in range(out.size):
        h = np.uint32(0)
        for at in range(offsets[row], offsets[row + 1]):
            h = np.uint32(h + np.uint32(elements[at]))
        out[row] = np.int32(h)


@exported
def murmur3_hashes(offsets: Longs, data: Bytes, out: Ints) -> None:
    """MurmurHashUtils.hashBytes, seed 42: little-endian words, then each byte left over as a word."""
    for row in range(out.size):
        at, end = offsets[row], offsets[row + 1]
        length = end - at
        h = np.uint32(42)
        while at < end:
            if end - at >= 4:
                k = (
                    np.uint32(data[at])
                    | (np.uint32(data[at + 1]) << np.uint32(8))
                    | (np.uint32(data[at + 2]) << np.uint32(16))
                    | (np.uint32(data[at + 3]) << np.uint32(24))
                )
                at += 4
            else:
                k = np.uint32(np.int8(data[at]))
                at += 1
            k = np.uint32(k * np.uint32(0xCC9E2D51))
            k = np.uint32((k << np.uint32(15)) | (k >> np.uint32(17)))
            k = np.uint32(k * np.uint32(0x1B873593))
            h = np.uint32(h ^ k)
            h = np.uint32((h << np.uint32(13)) | (h >> np.uint32(19)))
            h = np.uint32(np.uint32(h * np.uint32(5)) + np.uint32(0xE6546B64))
        h = np.uint32(h ^ np.uint32(length))
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        out[row] = np.int32(h ^ (h >> np.uint32(16)))
