"""The kernel that finds the entries of one state in canonical key groups.

Format: org.apache.flink.runtime.state.FullSnapshotAsyncWriter; see docs for the layout.
"""

from __future__ import annotations

from stateproc.codec.array_types import Ints, Longs, LongTable
from stateproc.codec.jit import exported
from stateproc.readers.canonical.entry_step import (
    ALL,
    BETWEEN_GROUPS,
    FULL,
    GROUP,
    KEY_GROUP,
    POS,
    STATE,
    STEPPED,
    begin_key_group,
    read_entry,
)


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
            outcome, state = begin_key_group(source, size, pos, group, groups, starts, n_states)
            if outcome != STEPPED:
                break
            key_group = groups[group]
            group += 1
            pos += 2
            continue
        if n >= len(key_groups):
            outcome = FULL
            break
        outcome, key_size, value_size, end, next_state = read_entry(
            source, size, pos, state, key_group, prefix, n_states
        )
        if outcome != STEPPED:
            break
        if state == target:
            key_at = pos + 4
            out[0, n] = key_at + prefix
            out[1, n] = key_at + key_size
            out[2, n] = key_at + key_size + 4
            out[3, n] = key_at + key_size + 4 + value_size
            key_groups[n] = key_group
            n += 1
        state = next_state
        pos = end
    reg[POS], reg[GROUP], reg[STATE], reg[KEY_GROUP] = pos, group, state, key_group
    return outcome, n
