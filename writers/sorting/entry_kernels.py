"""Kernels that sort, spill and compare entries, whose bytes are at any addresses.

Arguments are the number of rows and addresses. Row numbers, addresses and sizes of byte strings are int64, state ids
and key groups int32, one per row.

A temporary file has entries as records, in the byte order of the machine:

    i32 bytes of the key, i32 bytes of the value, i32 state id, key, value
"""

from __future__ import annotations

from stateproc.codec.native.jit import (
    copy_bytes,
    exported,
    kernel,
    load_i32,
    load_i64,
    load_u8,
    store_8,
    store_32,
    store_64,
)

RECORD_BYTES = 4 + 4 + 4
"""Bytes of a record besides key and value."""
LONGEST = 0x7FFFFFFF
"""The most bytes of a key or a value in a record."""


@exported
def take_bytes(n: int, starts: int, sizes: int, rows: int, offsets: int, target: int) -> None:
    """Copy the byte strings of ``n`` rows to ``target``, one after the other, and store their ``n`` + 1 offsets."""
    end = 0
    for k in range(n):
        row = load_i64(rows + 8 * k)
        size = load_i64(sizes + 8 * row)
        store_64(offsets + 8 * k, end)
        copy_bytes(target + end, load_i64(starts + 8 * row), size)
        end += size
    store_64(offsets + 8 * n, end)


@exported
def take_entries(
    n: int,
    rows: int,
    keys: int,
    key_sizes: int,
    values: int,
    sizes: int,
    key_offsets: int,
    key_target: int,
    offsets: int,
    target: int,
) -> None:
    """Do what `take_bytes` does to keys and to values.

    Both of an entry that was spilled are side by side, so that they are one cache miss.
    """
    key_end = end = 0
    for k in range(n):
        row = 8 * load_i64(rows + 8 * k)
        key_size, size = load_i64(key_sizes + row), load_i64(sizes + row)
        store_64(key_offsets + 8 * k, key_end)
        store_64(offsets + 8 * k, end)
        copy_bytes(key_target + key_end, load_i64(keys + row), key_size)
        copy_bytes(target + end, load_i64(values + row), size)
        key_end += key_size
        end += size
    store_64(key_offsets + 8 * n, key_end)
    store_64(offsets + 8 * n, end)


@exported
def put_heads(starts: int, sizes: int, n: int, heads: int) -> None:
    """starts, sizes: addresses of int64 addresses and sizes of ``n`` keys; heads: address of ``n`` 64-bit results."""
    common = load_i64(sizes) if n else 0
    for row in range(1, n):
        common = min(common, load_i64(sizes + 8 * row))
        first, key, k = load_i64(starts), load_i64(starts + 8 * row), 0
        while k < common and load_u8(first + k) == load_u8(key + k):
            k += 1
        common = k
        if common == 0:
            break
    for row in range(n):
        key, left = load_i64(starts + 8 * row) + common, load_i64(sizes + 8 * row) - common
        head = 0
        for k in range(8):
            head = (head << 8) | (load_u8(key + k) if k < left else 0)
        store_64(heads + 8 * row, head)


@exported
def mark_ties(n: int, order: int, groups: int, heads: int, tied: int) -> bool:
    """Mark (a byte of 1) the positions of ``order`` whose row has the group number and head of a neighbour's row.

    groups, heads: int64 of all rows. Returns whether there are any.
    """
    found = False
    for k in range(1, n):
        one, two = load_i64(order + 8 * k - 8), load_i64(order + 8 * k)
        if load_i64(heads + 8 * one) == load_i64(heads + 8 * two) and load_i64(groups + 8 * one) == load_i64(
            groups + 8 * two
        ):
            store_8(tied + k - 1, 1)
            store_8(tied + k, 1)
            found = True
    return found


@exported
def place_records(n: int, order: int, key_sizes: int, sizes: int, edges: int, places: int) -> bool:
    """Give each row the place of its record; records come one after the other in the order of ``order``.

    order: int64 row numbers. edges: ``n`` + 1 int64 results, where the records begin and the last one ends, from 0.
    places: int64, those of the rows. Returns False for a key or a value that is too long.
    """
    at = 0
    for k in range(n):
        row = 8 * load_i64(order + 8 * k)
        key_size, size = load_i64(key_sizes + row), load_i64(sizes + row)
        if key_size > LONGEST or size > LONGEST:
            return False
        store_64(edges + 8 * k, at)
        store_64(places + row, at)
        at += RECORD_BYTES + key_size + size
    store_64(edges + 8 * n, at)
    return True


@exported
def put_records(
    n: int, target: int, places: int, states: int, keys: int, key_sizes: int, values: int, sizes: int
) -> None:
    """Write the record of each row at its int64 place after ``target``.

    Rows are read in their order, whatever that of the records is: reading each of them would be a cache miss.
    """
    for row in range(n):
        out = target + load_i64(places + 8 * row)
        key_size, size = load_i64(key_sizes + 8 * row), load_i64(sizes + 8 * row)
        store_32(out, key_size)
        store_32(out + 4, size)
        store_32(out + 8, load_i32(states + 4 * row))
        out += RECORD_BYTES
        copy_bytes(out, load_i64(keys + 8 * row), key_size)
        copy_bytes(out + key_size, load_i64(values + 8 * row), size)


@exported
def find_records(at: int, end: int, n: int, states: int, keys: int, key_sizes: int, values: int, sizes: int) -> bool:
    """Store the parts of ``n`` records, as `put_records` gets them; return whether these end at ``end``."""
    for row in range(n):
        if end - at < RECORD_BYTES:
            return False
        key_size, size = load_i32(at), load_i32(at + 4)
        store_32(states + 4 * row, load_i32(at + 8))
        at += RECORD_BYTES
        if key_size < 0 or size < 0 or key_size > end - at or size > end - at - key_size:
            return False
        store_64(keys + 8 * row, at)
        store_64(key_sizes + 8 * row, key_size)
        at += key_size
        store_64(values + 8 * row, at)
        store_64(sizes + 8 * row, size)
        at += size
    return at == end


@kernel
def _repeats(data: int, offsets: int, row: int) -> bool:
    """Whether the byte string of a row, which is not the first, equals that of the row before."""
    start, middle, end = load_i64(offsets + 8 * row - 8), load_i64(offsets + 8 * row), load_i64(offsets + 8 * row + 8)
    if middle - start != end - middle:
        return False
    at, other, stop = data + start, data + middle, data + middle
    while stop - at >= 8:
        if load_i64(at) != load_i64(other):
            return False
        at += 8
        other += 8
    while at < stop:
        if load_u8(at) != load_u8(other):
            return False
        at += 1
        other += 1
    return True


@exported
def mark_changes(n: int, keys: int, key_offsets: int, values: int, offsets: int, changed: int) -> int:
    """Mark (a byte of 1) the rows whose key or value differs from that of the row before; return how many there are.

    keys, values: addresses that the ``n`` + 1 offsets of both count from.
    """
    count = 0
    for row in range(n):
        if row == 0 or not (_repeats(keys, key_offsets, row) and _repeats(values, offsets, row)):
            store_8(changed + row, 1)
            count += 1
    return count


@exported
def find_other_value(n: int, groups: int, keys: int, key_offsets: int, values: int, offsets: int) -> int:
    """Return the first row that has the key group and key of the row before, and another value; -1 if there is none."""
    for row in range(1, n):
        if load_i32(groups + 4 * row - 4) != load_i32(groups + 4 * row):
            continue
        if _repeats(keys, key_offsets, row) and not _repeats(values, offsets, row):
            return row
    return -1


@exported
def splice_bytes(
    n: int, data: int, starts: int, firsts: int, seconds: int, stops: int, parts: int, offsets: int, out: int
) -> None:
    """Write byte strings with another part in place of the bytes from ``firsts`` to ``seconds``, one after the other.

    data: the address that the int64 starts, firsts, seconds and stops of ``n`` byte strings count from. parts: the
    address that the ``n`` + 1 offsets of the other parts count from.
    """
    for row in range(n):
        start, first = load_i64(starts + 8 * row), load_i64(firsts + 8 * row)
        second, stop = load_i64(seconds + 8 * row), load_i64(stops + 8 * row)
        at = load_i64(offsets + 8 * row)
        size = load_i64(offsets + 8 * row + 8) - at
        copy_bytes(out, data + start, first - start)
        out += first - start
        copy_bytes(out, parts + at, size)
        out += size
        copy_bytes(out, data + second, stop - second)
        out += stop - second
