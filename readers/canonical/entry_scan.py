"""The kernel that finds the entries of one state in canonical key groups.

Format: org.apache.flink.runtime.state.FullSnapshotAsyncWriter; see docs for the layout.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec.array_types import Ints, Longs, LongTable
from stateproc.codec.jit import exported, load_be16, load_be32, load_u8

# The scan's registers.
POS, GROUP, STATE, KEY_GROUP = 0, 1, 2, 3
BETWEEN_GROUPS = -1
# Outcomes.
ALL, MORE, FULL = 0, 1, 2
BAD_START, BAD_STATE, BAD_LENGTH, BAD_PREFIX = 3, 4, 5, 6
MESSAGES = {
    BAD_START: "a key group does not end where the next one begins",
    BAD_STATE: "an entry is of a state that the header does not list",
    BAD_LENGTH: "an entry has an impossible length",
    BAD_PREFIX: "an entry's key is of another key group",
}
_END = 0xFFFF


@exported
def scan(
    source: int,
    size: int,
    reg: Longs,
    groups: Ints,
    starts: Longs,
    prefix: int,
    target: int,
    n_states: int,
    out: LongTable,
    key_groups: Ints,
) -> tuple[int, int]:
    """Find entries of the state ``target`` from ``reg`` on; returns (outcome, number of entries found).

    source: address of ``size`` bytes. groups, starts: int32/int64 per key group that begins in them. prefix: bytes
    of key group before each key. out: int64 [4, capacity] key start, key end, value start, value end (positions
    without the prefix). key_groups: int32 [capacity].
    MORE: ``reg[POS]`` is where an entry begins that the bytes do not hold wholly.
    """
    pos, group, state, key_group = reg[POS], reg[GROUP], reg[STATE], reg[KEY_GROUP]
    n = 0
    outcome = ALL
    while True:
        if state == BETWEEN_GROUPS:
            if group >= len(groups):
                outcome = ALL if pos == size else BAD_START
                break
            if pos != starts[group]:
                outcome = BAD_START
                break
            if size - pos < 2:
                outcome = MORE
                break
            state = load_be16(source + pos)
            if state >= n_states:
                state = BETWEEN_GROUPS
                outcome = BAD_STATE
                break
            key_group = groups[group]
            group += 1
            pos += 2
            continue
        if n >= len(key_groups):
            outcome = FULL
            break
        if size - pos < 4:
            outcome = MORE
            break
        key_size = np.int64(np.int32(np.uint32(load_be32(source + pos))))
        if key_size < prefix:
            outcome = BAD_LENGTH
            break
        key_at = pos + 4
        if size - key_at < key_size + 4:
            outcome = MORE
            break
        value_at = key_at + key_size + 4
        value_size = np.int64(np.int32(np.uint32(load_be32(source + value_at - 4))))
        if value_size < 0:
            outcome = BAD_LENGTH
            break
        if size - value_at < value_size:
            outcome = MORE
            break
        first = load_u8(source + key_at)
        found = first & 0x7F if prefix == 1 else ((first & 0x7F) << 8) | load_u8(source + key_at + 1)
        if found != key_group:
            outcome = BAD_PREFIX
            break
        end = value_at + value_size
        next_state = state
        if first & 0x80:
            if size - end < 2:
                outcome = MORE
                break
            next_state = load_be16(source + end)
            if next_state != _END and next_state >= n_states:
                outcome = BAD_STATE
                break
            end += 2
            if next_state == _END:
                next_state = BETWEEN_GROUPS
        if state == target:
            out[0, n] = key_at + prefix
            out[1, n] = key_at + key_size
            out[2, n] = value_at
            out[3, n] = value_at + value_size
            key_groups[n] = key_group
            n += 1
        state = next_state
        pos = end
    reg[POS], reg[GROUP], reg[STATE], reg[KEY_GROUP] = pos, group, state, key_group
    return outcome, n
