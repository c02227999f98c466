"""Checks on files that were just written, shared by the verification of all formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.errors import AccessDenied, CorruptSnapshot, MissingFile, StoreUnavailable, Where, WriteFailed
from stateproc.metadata.handles import KeyGroupsHandle
from stateproc.readers.raw_entries import EntryCounts

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


def measured_counts(measure: EntryCounts, handle: KeyGroupsHandle, entries: Longs) -> Longs:
    """The entries that a reader counted, int64 [key groups, states] as ``entries``."""
    counts = np.zeros_like(entries)
    rows = np.array(measure.key_groups, dtype=np.int64) - handle.first_key_group
    counts[rows] = measure.entries
    return counts


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
