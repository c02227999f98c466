"""The kernel that lays raw entries out as canonical key groups: the twin of stateproc.readers.scanning.

Format: org.apache.flink.runtime.state.FullSnapshotAsyncWriter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stateproc.codec.jit import copy_bytes, kernel, load_u8, store_8

# Registers: where the last entry begins, where the bytes end, the last entry's key group (-1: none yet) and state,
# how many key groups began, and on failure the row.
LAST, POS, GROUP, STATE, BEGAN, ROW = 0, 1, 2, 3, 4, 5
REGISTERS = 6
# Outcomes.
DONE, UNORDERED, DUPLICATE, BAD_GROUP, BAD_STATE, TOO_LONG = 0, 1, 2, 3, 4, 5
FLAG = 0x80
END_OF_GROUP = 0xFFFF
_LONGEST = 0x7FFFFFFF


@kernel
def compare(a: int, a_size: int, b: int, b_size: int) -> int:
    """-1, 0 or 1: how the ``a_size`` bytes at ``a`` compare to those at ``b``, unsigned, a prefix first."""
    n = min(a_size, b_size)
    for k in range(n):
        x, y = load_u8(a + k), load_u8(b + k)
        if x != y:
            return -1 if x < y else 1
    if a_size == b_size:
        return 0
    return -1 if a_size < b_size else 1


@kernel
def _put(target: int, value: int, n: int) -> None:
    """``value`` in ``n`` big-endian bytes."""
    for k in range(n):
        store_8(target + k, (value >> (8 * (n - 1 - k))) & 0xFF)


@kernel
def lay(
    first: int,
    last: int,
    groups: Any,
    states: Any,
    keys: int,
    key_offsets: Any,
    values: int,
    value_offsets: Any,
    first_group: int,
    prefix: int,
    out: int,
    reg: Any,
    began: Any,
    counts: Any,
) -> int:
    """Lay the rows ``first`` to ``last`` (exclusive) out behind the entry that ``out`` begins with; an outcome.

    out: address of room for all of it: the last entry of the rows before (from ``reg[LAST]`` = 0 to ``reg[POS]``),
    and 12 + ``prefix`` bytes beside key and value for each row. began: int64 [2, key groups], the key groups that
    begin in these rows, and where in ``out``. counts: int64 [key groups, states], entries added up.
    The last entry's end is left open: whether a state id follows it is known with the entry behind it.
    """
    at, pos, group, state = reg[LAST], reg[POS], reg[GROUP], reg[STATE]
    for row in range(first, last):
        new_group, new_state = np.int64(groups[row]), np.int64(states[row])
        key, key_size = keys + key_offsets[row], key_offsets[row + 1] - key_offsets[row]
        value, value_size = values + value_offsets[row], value_offsets[row + 1] - value_offsets[row]
        outcome = DONE
        if new_group < first_group or new_group >= first_group + counts.shape[0]:
            outcome = BAD_GROUP
        elif new_state < 0 or new_state >= counts.shape[1]:
            outcome = BAD_STATE
        elif key_size > _LONGEST - prefix or value_size > _LONGEST:
            outcome = TOO_LONG
        elif new_group < group or (new_group == group and new_state < state):
            outcome = UNORDERED
        elif new_group == group and new_state == state:
            held = at + 4 + prefix
            held_size = np.int64(0)
            for k in range(4):
                held_size = (held_size << 8) | load_u8(out + at + k)
            order = compare(out + held, held_size - prefix, key, key_size)
            if order >= 0:
                outcome = DUPLICATE if order == 0 else UNORDERED
        else:
            if group >= 0:
                store_8(out + at + 4, load_u8(out + at + 4) | FLAG)
            if new_group != group:
                if group >= 0:
                    _put(out + pos, END_OF_GROUP, 2)
                    pos += 2
                began[0, reg[BEGAN]] = new_group
                began[1, reg[BEGAN]] = pos
                reg[BEGAN] += 1
            _put(out + pos, new_state, 2)
            pos += 2
        if outcome != DONE:
            reg[ROW] = row
            return outcome
        at = pos
        _put(out + pos, key_size + prefix, 4)
        _put(out + pos + 4, new_group, prefix)
        copy_bytes(out + pos + 4 + prefix, key, key_size)
        pos += 4 + prefix + key_size
        _put(out + pos, value_size, 4)
        copy_bytes(out + pos + 4, value, value_size)
        pos += 4 + value_size
        group, state = new_group, new_state
        counts[group - first_group, state] += 1
    reg[LAST], reg[POS], reg[GROUP], reg[STATE] = at, pos, group, state
    return DONE
