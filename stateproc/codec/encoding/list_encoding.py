"""Write lists: counts, sizes, items, delimiters."""

from __future__ import annotations

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, Unencodable
from stateproc.codec.encoding.kernels import place_items
from stateproc.codec.encoding.sized_writers import SizedWriter, concatenate, fixed, write_rows, zeros
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.codec.native.jit import exported, load_i64, load_u8, store_8

COMMA = 0x2C


def joined(offsets: Longs, items: SizedWriter, delimiter: int = -1) -> SizedWriter:
    """Row i: the items offsets[i] to offsets[i + 1] (from 0, rising), with the byte ``delimiter`` between them."""
    offsets = np.ascontiguousarray(offsets)
    n, n_items = len(offsets) - 1, int(offsets[-1])
    counts: Longs = np.diff(offsets)
    lengths: Longs
    by_item = None if isinstance(items.lengths, int) else items.lengths
    if isinstance(items.lengths, int):
        lengths = counts * items.lengths
    else:
        ends = np.zeros(n_items + 1, dtype=np.int64)
        np.cumsum(items.lengths, out=ends[1:])
        lengths = np.diff(ends[offsets])
    if delimiter >= 0:
        lengths = lengths + np.maximum(counts - 1, 0)

    def write(at: Longs) -> None:
        places = np.empty(n_items, dtype=np.int64)
        sizes = 0 if by_item is None else by_item.ctypes.data
        size = items.lengths if isinstance(items.lengths, int) else 0
        place_items(at.ctypes.data, n, offsets.ctypes.data, sizes, size, places.ctypes.data, delimiter)
        items.write(places)

    return SizedWriter(lengths, write)


def counts_of(offsets: Longs, limit: int, what: str) -> Longs:
    """The number of items of each row. Raises Unencodable for more than ``limit``."""
    counts: Longs = np.diff(offsets)
    if len(counts) and counts.max() > limit:
        raise Unencodable(f"{counts.max()} {what}, where {limit} is the most", int(np.argmax(counts)))
    return counts


def counted(offsets: Longs, items: SizedWriter) -> SizedWriter:
    """An i32 count and the items."""
    return concatenate([fixed(counts_of(offsets, 2**31 - 1, "items").astype(np.int32)), joined(offsets, items)])


def sized(inner: SizedWriter, n: int) -> SizedWriter:
    """An i32 size in bytes, then so many."""
    if isinstance(inner.lengths, int):
        sizes = np.full(n, inner.lengths, dtype=np.int32)
    else:
        if n and inner.lengths.max() > 2**31 - 1:
            raise Unencodable("a value of 2 GiB and more", int(np.argmax(inner.lengths)))
        sizes = inner.lengths.astype(np.int32)
    return concatenate([fixed(sizes), inner])


def delimited(items: RowBytes, list_offsets: Longs) -> RowBytes:
    """List state in canonical and RocksDB entries: the items of each list with one ',' between them.

    ``list_offsets``: int64 [lists + 1], rising, positions in ``items``; the first item of all is the first of them.
    An empty list has no bytes (and no place in a savepoint).
    """
    first, last = int(list_offsets[0]), int(list_offsets[-1])
    part = RowBytes(items.data, items.offsets[first : last + 1])
    return write_rows(joined(list_offsets - first, row_bytes_writer(part), COMMA), len(list_offsets) - 1)


# Writers of null masks of rows and lists.


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
