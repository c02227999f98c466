"""The steps of a pass over canonical key groups: the beginning of a key group, and an entry.

Format: org.apache.flink.runtime.state.FullSnapshotAsyncWriter; see docs for the layout.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec.array_types import Ints, Longs
from stateproc.codec.jit import inlined, load_be16, load_be32, load_u8

# The registers of a pass.
POS, GROUP, STATE, KEY_GROUP = 0, 1, 2, 3
BETWEEN_GROUPS = -1
# Outcomes of a pass; of a step besides: it is done.
ALL, MORE, FULL = 0, 1, 2
BAD_START, BAD_STATE, BAD_LENGTH, BAD_PREFIX = 3, 4, 5, 6
STEPPED = 7
MESSAGES = {
    BAD_START: "a key group does not end where the next one begins",
    BAD_STATE: "an entry is of a state that the header does not list",
    BAD_LENGTH: "an entry has an impossible length",
    BAD_PREFIX: "an entry's key is of another key group",
}
_END = 0xFFFF


@inlined
def begin_key_group(
    source: int, size: int, pos: int, group: int, groups: Ints, starts: Longs, n_states: int
) -> tuple[int, int]:
    """Read the state with which a key group begins: (outcome, state).

    source: address of ``size`` bytes. group: the index of the next one in groups and starts, which are those that begin
    in these bytes.
    """
    if group >= len(groups):
        return (ALL if pos == size else BAD_START), BETWEEN_GROUPS
    if pos != starts[group]:
        return BAD_START, BETWEEN_GROUPS
    if size - pos < 2:
        return MORE, BETWEEN_GROUPS
    state = load_be16(source + pos)
    if state >= n_states:
        return BAD_STATE, BETWEEN_GROUPS
    return STEPPED, state


@inlined
def read_entry(
    source: int, size: int, pos: int, state: int, key_group: int, prefix: int, n_states: int
) -> tuple[int, int, int, int, int]:
    """Read the lengths of an entry and what follows it: (outcome, key size, value size, end, next state).

    The key begins four bytes after ``pos``, the value four bytes after the key. prefix: bytes of key group before the
    key, part of its size. end: where the next entry or key group begins.
    """
    if size - pos < 4:
        return MORE, 0, 0, pos, state
    key_size = np.int64(np.int32(np.uint32(load_be32(source + pos))))
    if key_size < prefix:
        return BAD_LENGTH, 0, 0, pos, state
    key_at = pos + 4
    if size - key_at < key_size + 4:
        return MORE, 0, 0, pos, state
    value_at = key_at + key_size + 4
    value_size = np.int64(np.int32(np.uint32(load_be32(source + value_at - 4))))
    if value_size < 0:
        return BAD_LENGTH, 0, 0, pos, state
    if size - value_at < value_size:
        return MORE, 0, 0, pos, state
    first = load_u8(source + key_at)
    found = first & 0x7F if prefix == 1 else ((first & 0x7F) << 8) | load_u8(source + key_at + 1)
    if found != key_group:
        return BAD_PREFIX, 0, 0, pos, state
    end = value_at + value_size
    next_state = state
    # The highest bit of the last entry of a state is set: the next state follows, or the end of the key group.
    if first & 0x80:
        if size - end < 2:
            return MORE, 0, 0, pos, state
        next_state = load_be16(source + end)
        if next_state != _END and next_state >= n_states:
            return BAD_STATE, 0, 0, pos, state
        end += 2
        if next_state == _END:
            next_state = BETWEEN_GROUPS
    return STEPPED, key_size, value_size, end, next_state
