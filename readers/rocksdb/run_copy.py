"""The kernel that copies entries of one sorted run while no other run has a smaller key.

Most entries of a database are the only version of their key, in a row of such keys. They need none of what the merge
does for others: no second version, operand or deletion. The kernel stops before the first entry that does.

A block stores of each key how many bytes it shares with the key before it, and the others. These numbers also show,
mostly without comparing keys, that keys ascend and remain below a limit.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec.array_types import Ints, LongTable
from stateproc.codec.jit import copy_bytes, kernel, load_be16, load_le64, load_u8, store_8, store_64
from stateproc.readers.rocksdb.merge_cursors import (
    KEY,
    KEY_CAPACITY,
    KEY_SIZE,
    KIND,
    OVERRIDE,
    POS,
    PUT,
    SEQUENCE,
    SEQUENCES,
    STOP,
    VALUE,
    VALUE_SIZE,
    compare,
    field,
    set_field,
)

_TRAILER = 8


@kernel
def _shared_bytes(a: int, a_size: int, b: int, b_size: int) -> int:
    """How many bytes are equal at the beginning of both."""
    common = min(a_size, b_size)
    k = 0
    while k < common and load_u8(a + k) == load_u8(b + k):
        k += 1
    return k


@kernel
def copy_run(
    row: int,
    limit: int,
    limit_size: int,
    seen: int,
    seen_capacity: int,
    seen_size: int,
    prefix: int,
    out: int,
    out_size: int,
    ranges: LongTable,
    key_groups: Ints,
    n: int,
    used: int,
) -> tuple[int, int, int, int, bool]:
    """Give out the puts from the row's entry on; (entries, bytes given out, size of ``seen``, sequence, exhausted).

    Stops before an entry that is no put, whose key is not greater than ``seen``, or not smaller than ``limit`` (of
    ``limit_size`` bytes, -1: no limit), or for which there is no space. ``seen`` becomes the last key given out;
    sequence is that entry's, -1 if there is none. exhausted: the row's entry is given out, and the next one is not
    read yet: it is in another block, or has long lengths, or is damaged.

    out: address of ``out_size`` bytes, of which ``used`` are taken. ranges, key_groups: see merge; ``n`` are taken.
    """
    key, size, value, value_size = field(row, KEY), field(row, KEY_SIZE), field(row, VALUE), field(row, VALUE_SIZE)
    capacity = min(field(row, KEY_CAPACITY), seen_capacity + _TRAILER)
    user = size - _TRAILER
    total = user - prefix + value_size
    if (
        field(row, KIND) != PUT
        or user < prefix
        or size > capacity
        or n >= len(key_groups)
        or total > out_size - used
        or compare(key, user, seen, seen_size) <= 0
        or (limit_size >= 0 and compare(key, user, limit, limit_size) >= 0)
    ):
        return n, used, seen_size, np.int64(-1), False
    # Of the last key given out: its place in the output (without its key group), size, trailer.
    last, trailer = out + used, np.int64(load_le64(key + user))
    group = np.int64(load_u8(key)) if prefix == 1 else np.int64(load_be16(key))
    copy_bytes(last, key + prefix, user - prefix)
    copy_bytes(last + user - prefix, value, value_size)
    ranges[0, n], ranges[1, n], ranges[2, n] = used, used + user - prefix, used + user - prefix
    ranges[3, n] = used + total
    key_groups[n] = group
    used += total
    n += 1
    common = _shared_bytes(key, user, limit, limit_size) if limit_size >= 0 else np.int64(-1)
    pos, stop = field(row, POS), field(row, STOP)
    exhausted = True
    shared, unshared, at, length = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while stop - pos >= 3:
        # The three lengths of an entry are mostly of one byte each.
        shared, unshared, length = load_u8(pos), load_u8(pos + 1), load_u8(pos + 2)
        at = pos + 3
        next_user = shared + unshared - _TRAILER
        if (shared | unshared | length) >= 0x80 or unshared + length > stop - at or next_user + _TRAILER > capacity:
            break
        # Keys of which only a part of the key group differs are left to the merge.
        if shared > user or shared > next_user or next_user < prefix or 0 < shared < prefix:
            break
        rest = next_user - shared
        if shared > 0:
            # Only bytes of the last key that the output has: after its key group.
            before, before_size = last + shared - prefix, user - shared
            if rest > 0 and before_size > 0 and load_u8(at) != load_u8(before):
                if load_u8(at) < load_u8(before):
                    break
            elif compare(at, rest, before, before_size) <= 0:
                break
        else:
            first = np.int64(load_u8(at)) if prefix == 1 else np.int64(load_be16(at))
            if first < group or (first == group and compare(at + prefix, rest - prefix, last, user - prefix) <= 0):
                break
        exhausted = False
        if shared <= common and (shared < common or rest == 0 or load_u8(at) >= load_u8(limit + shared)):
            if compare(at, rest, limit + shared, limit_size - shared) >= 0:
                break
            common = shared + _shared_bytes(at, rest, limit + shared, limit_size - shared)
        total = next_user - prefix + length
        if n >= len(key_groups) or total > out_size - used:
            break
        if load_u8(at + rest) != PUT:
            break
        target = out + used
        if shared > 0:
            copy_bytes(target, last, shared - prefix)
            copy_bytes(target + shared - prefix, at, rest)
        else:
            group = np.int64(load_u8(at)) if prefix == 1 else np.int64(load_be16(at))
            copy_bytes(target, at + prefix, rest - prefix)
        copy_bytes(target + next_user - prefix, at + unshared, length)
        ranges[0, n], ranges[1, n], ranges[2, n] = used, used + next_user - prefix, used + next_user - prefix
        ranges[3, n] = used + total
        key_groups[n] = group
        used += total
        n += 1
        last, user, trailer = target, next_user, np.int64(load_le64(at + rest))
        pos = at + unshared + length
        exhausted = True
    override = field(row, OVERRIDE)
    sequence = (trailer >> 8) & SEQUENCES if override < 0 else override
    _restore_key(key, prefix, group, last, user, trailer)
    copy_bytes(seen, key, user)
    if exhausted:
        set_field(row, KEY_SIZE, user + _TRAILER)
        set_field(row, POS, pos)
        return n, used, user, sequence, exhausted
    copy_bytes(key + shared, at, unshared)
    size, trailer = shared + unshared, np.int64(load_le64(at + unshared - _TRAILER))
    set_field(row, KEY_SIZE, size)
    set_field(row, VALUE, at + unshared)
    set_field(row, VALUE_SIZE, length)
    set_field(row, POS, at + unshared + length)
    set_field(row, SEQUENCE, (trailer >> 8) & SEQUENCES if override < 0 else override)
    set_field(row, KIND, trailer & 0xFF)
    return n, used, user, sequence, exhausted


@kernel
def _restore_key(key: int, prefix: int, group: int, last: int, user: int, trailer: int) -> None:
    """Write the internal key to the row's buffer: its key group, what the output has of it, its trailer."""
    if prefix == 1:
        store_8(key, group)
    else:
        store_8(key, group >> 8)
        store_8(key + 1, group & 0xFF)
    copy_bytes(key + prefix, last, user - prefix)
    store_64(key + user, trailer)
