"""Check the order of raw entries: by key group, state id and key bytes (unsigned), without duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from stateproc.codec.array_types import Ints, Longs
from stateproc.codec.native.jit import exported, kernel, load_u8
from stateproc.errors import (
    AccessDenied,
    CorruptSnapshot,
    DuplicateKey,
    InvalidEntries,
    MissingFile,
    StoreUnavailable,
    UnorderedEntries,
    Where,
    WriteFailed,
)
from stateproc.readers.raw_entries import EntryCounts
from stateproc.writers.formats.entry_batches import EntryColumns

IN_ORDER, UNORDERED, DUPLICATE, BAD_GROUP, BAD_STATE, TOO_LONG = 0, 1, 2, 3, 4, 5
_LONGEST = 0x7FFFFFFF - 2
"""An entry's key, with its prefix, and its value have lengths of i32."""
_LONGEST_KEY_SHOWN = 32
_GROUP, _STATE, _ROW = 0, 1, 2


@kernel
def compare(a: int, a_size: int, b: int, b_size: int) -> int:
    """Compare ``a_size`` bytes at ``a`` with those at ``b``, unsigned, a prefix first: -1, 0 or 1."""
    n = min(a_size, b_size)
    for k in range(n):
        x, y = load_u8(a + k), load_u8(b + k)
        if x != y:
            return -1 if x < y else 1
    if a_size == b_size:
        return 0
    return -1 if a_size < b_size else 1


@exported
def check(
    groups: Ints,
    states: Ints,
    keys: int,
    key_offsets: Longs,
    value_offsets: Longs,
    first_group: int,
    n_groups: int,
    n_states: int,
    last: int,
    last_size: int,
    reg: Longs,
) -> int:
    """Return the outcome for all rows; ``reg[_ROW]`` is the first row that is not in order.

    reg: key group (-1: none) and state of the entry before, whose key is the ``last_size`` bytes at ``last``.
    """
    group, state = reg[_GROUP], reg[_STATE]
    before, before_size = last, last_size
    for row in range(len(groups)):
        new_group, new_state = np.int64(groups[row]), np.int64(states[row])
        key, size = keys + key_offsets[row], key_offsets[row + 1] - key_offsets[row]
        outcome = IN_ORDER
        if new_group < first_group or new_group >= first_group + n_groups:
            outcome = BAD_GROUP
        elif new_state < 0 or new_state >= n_states:
            outcome = BAD_STATE
        elif size > _LONGEST or value_offsets[row + 1] - value_offsets[row] > _LONGEST:
            outcome = TOO_LONG
        elif new_group < group or (new_group == group and new_state < state):
            outcome = UNORDERED
        elif new_group == group and new_state == state:
            order = compare(before, before_size, key, size)
            if order >= 0:
                outcome = DUPLICATE if order == 0 else UNORDERED
        if outcome != IN_ORDER:
            reg[_ROW] = row
            return outcome
        group, state, before, before_size = new_group, new_state, key, size
    reg[_GROUP], reg[_STATE] = group, state
    return IN_ORDER


class OrderCheck:
    """Checks that consecutive batches of entries are in order. states: names by state id."""

    def __init__(self, states: Sequence[str], key_groups: range) -> None:
        self._states, self._key_groups = states, key_groups
        self._reg = np.array([-1, 0, 0], dtype=np.int64)
        self._last = np.empty(0, dtype=np.uint8)

    def check(self, columns: EntryColumns) -> None:
        """Raises DuplicateKey, UnorderedEntries; InvalidEntries for an unknown state or other key groups."""
        keys, values = columns.keys, columns.values
        outcome = check(
            columns.key_groups,
            columns.state_ids,
            keys.address,
            keys.offsets,
            values.offsets,
            self._key_groups.start,
            len(self._key_groups),
            len(self._states),
            self._last.ctypes.data,
            len(self._last),
            self._reg,
        )
        if outcome != IN_ORDER:
            raise self._failure(outcome, columns, int(self._reg[_ROW]))
        if len(columns):
            self._last = np.frombuffer(keys.row(len(columns) - 1), dtype=np.uint8)

    def _failure(self, outcome: int, columns: EntryColumns, row: int) -> InvalidEntries:
        group, state = int(columns.key_groups[row]), int(columns.state_ids[row])
        where = Where(state=self._states[state] if 0 <= state < len(self._states) else None)
        key = columns.keys.row(row)
        shown = key[:_LONGEST_KEY_SHOWN].hex() + ("…" if len(key) > _LONGEST_KEY_SHOWN else "")
        entry = f"key group {group}, key bytes {shown}"
        if outcome == DUPLICATE:
            duplicate = DuplicateKey(
                f"two entries with the same key ({entry})",
                where=where,
                advice="a state has one entry per key, namespace and user key: aggregate the rows, or drop all but one",
            )
            duplicate.entry = group, state, key, columns.values.row(row)
            return duplicate
        groups = f"{self._key_groups.start} to {self._key_groups.stop - 1}"
        message = {
            UNORDERED: f"an entry ({entry}) comes after one that belongs after it",
            BAD_GROUP: f"an entry ({entry}) in a file of the key groups {groups}",
            BAD_STATE: f"an entry ({entry}) of state {state}, where the header has {len(self._states)} states",
            TOO_LONG: f"an entry ({entry}) whose key or value is longer than 2 GiB",
        }[outcome]
        kind = UnorderedEntries if outcome == UNORDERED else InvalidEntries
        return kind(
            message, where=where, advice="entries are written in the order of key group, state id and key bytes"
        )


# Checks on files that were just written, shared by the verification of all formats.

ADVICE = "the storage has not kept what was written, or something else changes the file; run the write again"


@contextmanager
def reading_back(file: str) -> Iterator[None]:
    """Raise WriteFailed for errors of reading a file that was just written."""
    try:
        yield
    except (AccessDenied, CorruptSnapshot, MissingFile, StoreUnavailable) as error:
        raise WriteFailed(
            f"what was written cannot be read: {error.message}", where=error.at(file=file).where, advice=ADVICE
        ) from error


def compare_measured(
    measure: EntryCounts, entries: Longs, first_key_group: int, states: Sequence[str], file: str
) -> None:
    """Raise WriteFailed unless a reader counted as many entries; arguments as for `compare_counts`."""
    counts = np.zeros_like(entries)
    counts[np.array(measure.key_groups, dtype=np.int64) - first_key_group] = measure.entries
    compare_counts(counts, entries, first_key_group, states, file)


def compare_counts(counts: Longs, entries: Longs, first_key_group: int, states: Sequence[str], file: str) -> None:
    """Raise WriteFailed unless the counted entries are the written ones.

    Args:
        counts: entries that were read back, int64 [key groups, states].
        entries: entries that were written, of the same shape.
        first_key_group: the key group of row 0.
        states: names by state id.
        file: the file, for errors.
    """
    wrong = np.argwhere(counts != entries)
    if len(wrong):
        row, state = wrong[0].tolist()
        raise WriteFailed(
            f"{int(counts[row, state])} entries are in key group {first_key_group + row} where "
            f"{int(entries[row, state])} were written",
            where=Where(file=file, state=states[state]),
            advice=ADVICE,
        )
