"""Kernels that write one part of every row: ``at`` is the address of int64 addresses, one per row, moved on by each.

The caller has measured the rows and allocated their bytes; sources are addresses, too.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec.native.jit import (
    copy_bytes,
    exported,
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
    store_16,
    store_32,
    store_64,
)


@kernel
def fill_zero(target: int, n: int) -> None:
    """Write ``n`` zero bytes."""
    k = 0
    while k + 8 <= n:
        store_64(target + k, 0)
        k += 8
    while k < n:
        store_8(target + k, 0)
        k += 1


@exported
def put_same(source: int, size: int, at: int, n: int) -> None:
    """The same ``size`` bytes in every row."""
    if size == 1:
        byte = np.int64(load_u8(source))
        for i in range(n):
            target = load_i64(at + 8 * i)
            store_8(target, byte)
            store_64(at + 8 * i, target + 1)
        return
    for i in range(n):
        target = load_i64(at + 8 * i)
        copy_bytes(target, source, size)
        store_64(at + 8 * i, target + size)


@exported
def put_numbers(source: int, width: int, swap: bool, at: int, n: int) -> None:
    """Numbers of 1, 2, 4 or 8 bytes stored at ``source``; ``swap``: in the other byte order."""
    if width == 8:
        for i in range(n):
            target = load_i64(at + 8 * i)
            number = np.int64(load_be64(source + 8 * i)) if swap else np.int64(load_le64(source + 8 * i))
            store_64(target, number)
            store_64(at + 8 * i, target + 8)
    elif width == 4:
        for i in range(n):
            target = load_i64(at + 8 * i)
            number = np.int64(load_be32(source + 4 * i)) if swap else np.int64(load_le32(source + 4 * i))
            store_32(target, number)
            store_64(at + 8 * i, target + 4)
    elif width == 2:
        for i in range(n):
            target = load_i64(at + 8 * i)
            number = np.int64(load_be16(source + 2 * i)) if swap else np.int64(load_le16(source + 2 * i))
            store_16(target, number)
            store_64(at + 8 * i, target + 2)
    else:
        for i in range(n):
            target = load_i64(at + 8 * i)
            store_8(target, np.int64(load_u8(source + i)))
            store_64(at + 8 * i, target + 1)


@kernel
def varint_size(value: int) -> int:
    """The bytes of an unsigned varint; ``value`` is not negative."""
    size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@kernel
def put_varint(target: int, value: int) -> int:
    """Write ``value`` (not negative) as a varint, the lowest 7 bits first; the address after it."""
    while value >= 0x80:
        store_8(target, (value & 0x7F) | 0x80)
        value >>= 7
        target += 1
    store_8(target, value)
    return target + 1


@exported
def put_varints(source: int, at: int, n: int) -> None:
    """int64s, none negative, as varints."""
    for i in range(n):
        store_64(at + 8 * i, put_varint(load_i64(at + 8 * i), load_i64(source + 8 * i)))


@exported
def varint_sizes(source: int, sizes: int, n: int) -> None:
    """The sizes of what put_varints writes, as int64s at ``sizes``."""
    for i in range(n):
        store_64(sizes + 8 * i, varint_size(load_i64(source + 8 * i)))


@exported
def put_blobs(data: int, offsets: int, at: int, n: int) -> None:
    """Row i: the bytes data[offsets[i]:offsets[i + 1]]."""
    for i in range(n):
        start = load_i64(offsets + 8 * i)
        size = load_i64(offsets + 8 * i + 8) - start
        target = load_i64(at + 8 * i)
        copy_bytes(target, data + start, size)
        store_64(at + 8 * i, target + size)


@exported
def put_zeros(sizes: int, size: int, at: int, n: int) -> None:
    """Zero bytes: ``sizes`` the address of as many int64s, or 0 for ``size`` in every row."""
    for i in range(n):
        target = load_i64(at + 8 * i)
        many = load_i64(sizes + 8 * i) if sizes != 0 else size
        fill_zero(target, many)
        store_64(at + 8 * i, target + many)


@exported
def place_items(at: int, n: int, offsets: int, lengths: int, length: int, item_at: int, delimiter: int) -> None:
    """Addresses of the items offsets[i] to offsets[i + 1] of each row, which are written one after another.

    ``lengths``: address of int64 item lengths, or 0 for ``length`` each; ``delimiter``: a byte written between items,
    -1 for none.
    """
    item = load_i64(offsets)
    for i in range(n):
        first, stop = item, load_i64(offsets + 8 * i + 8)
        target = load_i64(at + 8 * i)
        while item < stop:
            if delimiter >= 0 and item > first:
                store_8(target, delimiter)
                target += 1
            store_64(item_at + 8 * item, target)
            target += load_i64(lengths + 8 * item) if lengths != 0 else length
            item += 1
        store_64(at + 8 * i, target)
