"""Kernel that encodes raw entries as canonical key groups; the decoder is stateproc.readers.entry_scan.

Format: org.apache.flink.runtime.state.FullSnapshotAsyncWriter.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec.array_types import Ints, Longs, LongTable
from stateproc.codec.native.jit import copy_bytes, exported, kernel, load_u8, store_8

# Registers: the offset of the last entry, the end of the bytes, the last entry's key group (-1: none yet) and state,
# the number of key groups that began.
LAST, POS, GROUP, STATE, BEGAN = 0, 1, 2, 3, 4
REGISTERS = 5
FLAG = 0x80
END_OF_GROUP = 0xFFFF
OVERHEAD = 12
"""Most bytes of an entry besides prefix, key and value: two lengths, an end mark, a state id."""


@kernel
def _put(target: int, value: int, n: int) -> None:
    """Store ``value`` in ``n`` big-endian bytes."""
    for k in range(n):
        store_8(target + k, (value >> (8 * (n - 1 - k))) & 0xFF)


@exported
def encode_entries(
    first: int,
    last: int,
    groups: Ints,
    states: Ints,
    keys: int,
    key_offsets: Longs,
    values: int,
    value_offsets: Longs,
    first_group: int,
    prefix: int,
    out: int,
    reg: Longs,
    began: LongTable,
    counts: LongTable,
) -> None:
    """Encode rows ``first`` to ``last`` (exclusive), which are in order, after the entry at the start of ``out``.

    out: address of a buffer for the last entry of the rows before (from ``reg[LAST]`` = 0 to ``reg[POS]``) and, per
    row, OVERHEAD + ``prefix`` bytes besides key and value. began: int64 [2, key groups], the key groups that begin in
    these rows and their offsets in ``out``. counts: int64 [key groups, states], to which entries are added.
    The last entry stays open: whether a state id follows it is known with the next entry.
    """
    at, pos, group, state = reg[LAST], reg[POS], reg[GROUP], reg[STATE]
    for row in range(first, last):
        new_group, new_state = np.int64(groups[row]), np.int64(states[row])
        key_size = key_offsets[row + 1] - key_offsets[row]
        value_size = value_offsets[row + 1] - value_offsets[row]
        if new_group != group or new_state != state:
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
        at = pos
        _put(out + pos, key_size + prefix, 4)
        _put(out + pos + 4, new_group, prefix)
        copy_bytes(out + pos + 4 + prefix, keys + key_offsets[row], key_size)
        pos += 4 + prefix + key_size
        _put(out + pos, value_size, 4)
        copy_bytes(out + pos + 4, values + value_offsets[row], value_size)
        pos += 4 + value_size
        group, state = new_group, new_state
        counts[group - first_group, state] += 1
    reg[LAST], reg[POS], reg[GROUP], reg[STATE] = at, pos, group, state
