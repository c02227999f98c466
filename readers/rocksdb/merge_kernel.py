"""The kernel that merges sorted runs into the newest visible values (RocksDB: db_iter.cc, merge_helper.cc).

Merge operands are joined with a comma as by StringAppendTESTOperator, the operator of list states in Flink.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec.array_types import Ints, Longs, LongTable
from stateproc.codec.native.jit import (
    copy_bytes,
    exported,
    inlined,
    kernel,
    load_be16,
    load_le64,
    load_u8,
    store_8,
    store_64,
)
from stateproc.readers.rocksdb.merge_cursors import (
    DELETION,
    EMPTY,
    KEY,
    KEY_CAPACITY,
    KEY_SIZE,
    KIND,
    LAST,
    MERGE,
    OK,
    OVERRIDE,
    POS,
    PUT,
    ROW,
    SEQUENCE,
    SEQUENCES,
    SINGLE_DELETION,
    STOP,
    VALUE,
    VALUE_SIZE,
    advance,
    compare,
    field,
    insert,
    set_field,
)

# The kernel that copies entries of one sorted run while no other run has a smaller key.
#
# Most entries of a database are the only version of their key, in a row of such keys. They need none of what the merge
# does for others: no second version, operand or deletion. The kernel stops before the first entry that does.
#
# A block stores of each key how many bytes it shares with the key before it, and the others. These numbers also show,
# mostly without comparing keys, that keys ascend and remain below a limit.

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


# Registers. PENDING: the row to be moved, or -1. STARTED, ACTIVE: rows begun, rows at an entry. STATE: of the
# present key. SEEN: buffer of the present key. STASH: buffer of operands, filled from its end. NEED: bytes
# wanted. OUT_USED, ENTRIES: bytes and entries given out by the last call. SPAN: the first span
# that is not passed.
PENDING, STARTED, ACTIVE, STATE, SEEN, SEEN_CAPACITY, SEEN_SIZE, SEEN_SEQUENCE = range(8)
STASH, STASH_CAPACITY, STASH_SIZE, FRAGMENT, NEED, OUT_USED, ENTRIES, SPAN = range(8, 16)
REGISTERS = 16
# States.
NO_KEY, OPEN, MERGING, DONE = 0, 1, 2, 3
# Outcomes, besides those of cursors.advance (EMPTY, GROW_KEY, BAD_ENTRY).
ALL, FULL, GROW_SEEN, GROW_STASH, OUT_OF_ORDER, BAD_KEY, BAD_KIND = 0, 4, 5, 6, 7, 8, 9
# What is done with an entry. END_KEY: give out the key before it, and look at the entry again.
_PASS, _END_KEY, _DELETE, _PUT, _MERGE = 0, 1, 2, 3, 4
_NO_SEQUENCE = 1 << 62
_COMMA = 0x2C


@kernel
def _at_or_after(key: int, size: int, sequence: int, keys: int, row: Any, at: int) -> bool:
    """Return whether a version is at or after the position in columns ``at`` to ``at + 2`` of a fragment."""
    order = compare(key, size, keys + row[at], row[at + 1])
    if order != 0:
        return order > 0
    return bool(sequence <= row[at + 2])


@inlined
def move_rows(
    rows: int, n_rows: int, order: Longs, pending: int, started: int, active: int
) -> tuple[int, int, int, int]:
    """Move the pending row to its next entry, and begin all that have not begun: (outcome, pending, started, active).

    OK: no row is pending. With another outcome the row is pending still.
    """
    while True:
        if pending >= 0:
            row = rows + pending * ROW
            moved = advance(row)
            if moved == OK:
                active = insert(rows, order, active, pending)
            elif moved != EMPTY or field(row, LAST) == 0:
                return moved, pending, started, active
        if started >= n_rows:
            return np.int64(OK), np.int64(-1), started, active
        pending = started
        started += 1


@inlined
def span_at(key: int, size: int, spans: LongTable, span_keys: int, span: int) -> Any:
    """Return the first span from ``span`` on that does not end before the key."""
    while span < len(spans) and (
        spans[span, 3] > 0 and compare(key, size, span_keys + spans[span, 2], spans[span, 3]) >= 0
    ):
        span += 1
    return span


@exported
def merge(
    rows: int,
    n_rows: int,
    order: Longs,
    reg: Longs,
    prefix: int,
    spans: LongTable,
    span_keys: int,
    fragments: LongTable,
    fragment_keys: int,
    out: int,
    out_size: int,
    ranges: LongTable,
    key_groups: Ints,
    first: int,
) -> int:
    """Merge until an outcome needs the caller; go on by calling again.

    rows: address of ``n_rows`` cursors. order: int64 per row, scratch kept between calls. Only keys in the
    spans (ascending, see key_ranges.SpanTable) are given out; the first ``prefix`` bytes of a key are its key group.
    fragments: see tombstones.Fragments. out: address of ``out_size`` bytes for keys (without prefix) and values.
    ranges: int64 [4, capacity], see RawEntries. first: the first entry to fill there and in key_groups.

    Invariants: order[:ACTIVE] are the rows that stand at entries, first entry last; the last one's entry is
    consumed only together with all its effects, so that a call cut short can be repeated.
    """
    pending, started, active = reg[PENDING], reg[STARTED], reg[ACTIVE]
    state, seen, seen_size, last_sequence = reg[STATE], reg[SEEN], reg[SEEN_SIZE], reg[SEEN_SEQUENCE]
    stash_end = reg[STASH] + reg[STASH_CAPACITY]
    stash_size, fragment, span = reg[STASH_SIZE], reg[FRAGMENT], reg[SPAN]
    used, n = np.int64(0), first
    outcome = ALL
    while True:
        moved, pending, started, active = move_rows(rows, n_rows, order, pending, started, active)
        if moved != OK:
            outcome = moved
            break

        # What is to be done with the next entry.
        action = _PASS
        key, size, sequence = np.int64(0), np.int64(0), np.int64(0)
        over = active == 0
        if not over:
            row = rows + order[active - 1] * ROW
            key, size, sequence = field(row, KEY), field(row, KEY_SIZE) - 8, field(row, SEQUENCE)
            span = span_at(key, size, spans, span_keys, span)
            over = span >= len(spans)
        if (
            not over
            and state == DONE
            and fragment >= len(fragments)
            and compare(key, size, span_keys + spans[span, 0], spans[span, 1]) >= 0
        ):
            limit, limit_size = span_keys + spans[span, 2], spans[span, 3] if spans[span, 3] > 0 else np.int64(-1)
            if active > 1:
                rival = rows + order[active - 2] * ROW
                rival_key, rival_size = field(rival, KEY), field(rival, KEY_SIZE) - 8
                if limit_size < 0 or compare(rival_key, rival_size, limit, limit_size) < 0:
                    limit, limit_size = rival_key, rival_size
            n, used, seen_size, last, exhausted = copy_run(
                row,
                limit,
                limit_size,
                seen,
                reg[SEEN_CAPACITY],
                seen_size,
                prefix,
                out,
                out_size,
                ranges,
                key_groups,
                n,
                used,
            )
            if last >= 0:
                last_sequence = last
                # Read on, or put into its place among the others.
                active -= 1
                pending = order[active]
                if not exhausted:
                    active = insert(rows, order, active, pending)
                    pending = np.int64(-1)
                continue
        if over:
            if state != MERGING:
                outcome = ALL
                break
            action = _END_KEY
        else:
            relation = 1 if state == NO_KEY else compare(key, size, seen, seen_size)
            if relation < 0 or (relation == 0 and sequence >= last_sequence):
                outcome = OUT_OF_ORDER
                break
            if relation > 0 and state == MERGING:
                action = _END_KEY
            else:
                if relation > 0:
                    if size > reg[SEEN_CAPACITY]:
                        reg[NEED] = size
                        outcome = GROW_SEEN
                        break
                    copy_bytes(seen, key, size)
                    seen_size = size
                    last_sequence = np.int64(_NO_SEQUENCE)
                    state = np.int64(DONE)
                    if compare(key, size, span_keys + spans[span, 0], spans[span, 1]) >= 0:
                        if size < prefix:
                            outcome = BAD_KEY
                            break
                        state = np.int64(OPEN)
                if state != DONE:
                    kind = field(row, KIND)
                    while fragment < len(fragments) and _at_or_after(
                        key, size, sequence, fragment_keys, fragments[fragment], 3
                    ):
                        fragment += 1
                    if (
                        fragment < len(fragments)
                        and sequence < fragments[fragment, 6]
                        and _at_or_after(key, size, sequence, fragment_keys, fragments[fragment], 0)
                    ):
                        action = _DELETE
                    elif kind == PUT:
                        action = _PUT
                    elif kind == MERGE:
                        action = _MERGE
                    elif kind in (DELETION, SINGLE_DELETION):
                        action = _DELETE
                    else:
                        outcome = BAD_KIND
                        break

        # Give out the present key's value: operands on top of the entry's value (a put), or operands alone.
        if action == _PUT or (state == MERGING and (action in (_END_KEY, _DELETE))):
            base = field(row, VALUE_SIZE) if action == _PUT else np.int64(0)
            comma = 1 if action == _PUT and state == MERGING else 0
            key_size = seen_size - prefix
            total = key_size + base + comma + stash_size
            if n >= len(key_groups) or total > out_size - used:
                reg[NEED] = total
                outcome = FULL
                break
            at = out + used
            copy_bytes(at, seen + prefix, key_size)
            ranges[0, n], ranges[1, n], ranges[2, n] = used, used + key_size, used + key_size
            ranges[3, n] = used + total
            if action == _PUT:
                copy_bytes(at + key_size, field(row, VALUE), base)
                if comma:
                    store_8(at + key_size + base, _COMMA)
            copy_bytes(at + key_size + base + comma, stash_end - stash_size, stash_size)
            key_groups[n] = load_u8(seen) if prefix == 1 else load_be16(seen)
            used += total
            n += 1
            stash_size = np.int64(0)
        if action == _END_KEY:
            state = np.int64(DONE)
            continue
        if action in (_DELETE, _PUT):
            state = np.int64(DONE)
        elif action == _MERGE:
            length = field(row, VALUE_SIZE)
            comma = 1 if state == MERGING else 0
            if stash_size + length + comma > reg[STASH_CAPACITY]:
                reg[NEED] = stash_size + length + comma
                outcome = GROW_STASH
                break
            if comma:
                store_8(stash_end - stash_size - 1, _COMMA)
            stash_size += length + comma
            copy_bytes(stash_end - stash_size, field(row, VALUE), length)
            state = np.int64(MERGING)
        last_sequence = sequence
        active -= 1
        pending = order[active]
    reg[PENDING], reg[STARTED], reg[ACTIVE] = pending, started, active
    reg[STATE], reg[SEEN_SIZE], reg[SEEN_SEQUENCE] = state, seen_size, last_sequence
    reg[STASH_SIZE], reg[FRAGMENT], reg[OUT_USED], reg[ENTRIES] = stash_size, fragment, used, n - first
    reg[SPAN] = span
    return outcome
