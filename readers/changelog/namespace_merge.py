"""Compact changes that merge namespaces: kernels apply them one after another.

Format: MERGE_NS of org.apache.flink.state.changelog.StateChangeOperation; what it does is what mergeNamespaces of
Flink's InternalMergingState does: sources hold nothing afterwards, lists are appended to the target's in the order of
the sources. Of several values only the job's own function knows what they become.
"""

from __future__ import annotations

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.codec.jit import copy_bytes, exported, store_8
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.state_descriptor import KeyedState, StateKind

PUT, APPEND, REMOVE, CLEAR, MERGE = range(5)
"""What a row does: it sets all there is (of a map one user key), adds to a list, removes one user key or timer, removes
all, or moves what one source holds to the row's key."""
NOTHING, UNSETTLED = -1, -2


@exported
def last_values(does: Longs, orders: Longs, keys: Longs, sources: Longs, held: Longs) -> None:
    """Of each key the row of its value, NOTHING, or UNSETTLED where two values were merged.

    does, orders, keys, sources: int64 [rows] in their order; keys and sources are numbers below len(held). Rows of one
    merge are neighbours of one order. held: int64 [keys], filled in.
    """
    held[:] = NOTHING
    n = len(does)
    row = 0
    while row < n:
        if does[row] != MERGE:
            held[keys[row]] = row if does[row] == PUT else NOTHING
            row += 1
            continue
        order, target, found = orders[row], keys[row], NOTHING
        while row < n and does[row] == MERGE and orders[row] == order:
            value = held[sources[row]]
            held[sources[row]] = NOTHING
            if value != NOTHING:
                found = value if found == NOTHING else UNSETTLED
            row += 1
        if found != NOTHING:
            held[target] = found if held[target] == NOTHING else UNSETTLED


@exported
def chained(does: Longs, orders: Longs, keys: Longs, sources: Longs, heads: Longs, after: Longs, tails: Longs) -> None:
    """Of each key the rows that make its list, as a chain: heads int64 [keys] its first row or NOTHING, after int64
    [rows] the row after a row, or NOTHING. tails: int64 [keys], scratch. The rest as in `last_values`."""
    heads[:] = NOTHING
    after[:] = NOTHING
    n = len(does)
    row = 0
    while row < n:
        key = keys[row]
        if does[row] != MERGE:
            if does[row] == APPEND and heads[key] != NOTHING:
                after[tails[key]] = row
            else:
                heads[key] = NOTHING if does[row] == CLEAR else row
            tails[key] = row
            row += 1
            continue
        order, head, tail = orders[row], NOTHING, NOTHING
        while row < n and does[row] == MERGE and orders[row] == order:
            source = sources[row]
            if heads[source] != NOTHING:
                if head == NOTHING:
                    head = heads[source]
                else:
                    after[tail] = heads[source]
                tail = tails[source]
                heads[source] = NOTHING
            row += 1
        if head != NOTHING:
            if heads[key] == NOTHING:
                heads[key] = head
            else:
                after[tails[key]] = head
            tails[key] = tail


@exported
def unchained(heads: Longs, after: Longs, rows: Longs, bounds: Longs) -> int:
    """Write the chains one after another: rows int64 [all], bounds int64 [keys + 1]. Returns the number of rows."""
    used = 0
    for key in range(len(heads)):
        bounds[key] = used
        row = heads[key]
        while row != NOTHING:
            rows[used] = row
            used += 1
            row = after[row]
    bounds[len(heads)] = used
    return used


@exported
def composed(
    key_at: Longs, key_sizes: Longs, space_at: Longs, space_sizes: Longs, suffixes: bool, out: int, offsets: Longs
) -> None:
    """Write keys and namespaces (by address and size) as composite keys; ``suffixes``: each followed by its length,
    lowest byte first, no zeros. offsets: int64 [n + 1], filled in."""
    used = np.int64(0)
    for k in range(len(key_at)):
        offsets[k] = used
        for part in range(2):
            at, size = (key_at[k], key_sizes[k]) if part == 0 else (space_at[k], space_sizes[k])
            copy_bytes(out + used, at, size)
            used += size
            left = size
            while suffixes:
                store_8(out + used, left & 0xFF)
                used += 1
                left >>= 8
                if left == 0:
                    break
    offsets[len(key_at)] = used


def check_settled(held: Longs, groups: Longs, state: KeyedState, file: str) -> None:
    """Raise UnsupportedSnapshot if only the job's reduce or aggregate function can compute a value.

    held: of `last_values`; groups: int64, the keys' key groups.
    """
    unsettled = groups[held == UNSETTLED]
    if state.kind not in (StateKind.REDUCING, StateKind.AGGREGATING) or not len(unsettled):
        return
    group = int(unsettled.min())
    count = int((unsettled == group).sum())
    raise UnsupportedSnapshot(
        f"MERGE_NS: the changelog merges namespaces of this {state.kind.value} state ({count} in key group {group}), "
        f"and only the job's own function knows what their values become",
        where=Where(file=file, state=state.name),
        advice="take a savepoint of the job, or open a checkpoint taken after the next materialization",
    )
