"""Combine streams of entries that are ordered by key group, without buffering more than a few key groups.

The splits of a state file return key group after key group, though not in the order of state ids or keys within it. So
the entries of a key group are complete when all streams have passed it, and nothing has to be spilled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of


class NotByKeyGroup(Exception):
    """A stream is not ordered by key group."""


def key_group_portions(streams: Sequence[Iterable[pa.RecordBatch]], at_once: int) -> Iterator[Iterable[pa.RecordBatch]]:
    """Yield all entries of the streams in portions of whole key groups, unsorted within a portion.

    Args:
        streams: Batches of entries with a column ``key_group``, each stream ordered by it.
        at_once: The bytes of a portion, about. A portion has more if a single key group has more; it is then read while
            it is consumed.

    Yields:
        Portions in the order of key groups, each to be consumed before the next.

    Raises:
        NotByKeyGroup: A stream is not ordered.
    """
    cursors = [cursor for cursor in map(_Cursor, streams) if cursor.rows is not None]
    held: list[pa.RecordBatch] = []
    size = 0
    while cursors:
        rows = _rows_up_to(cursors, min(cursor.last for cursor in cursors))
        for batch in rows:
            held.append(batch)
            size += batch.nbytes
            if size >= 2 * at_once:
                yield itertools.chain(held, rows)
                held, size = [], 0
        if size >= at_once:
            yield held
            held, size = [], 0
        cursors = [cursor for cursor in cursors if cursor.rows is not None]
    if held:
        yield held


def _rows_up_to(cursors: Sequence[_Cursor], bound: int) -> Iterator[pa.RecordBatch]:
    for cursor in cursors:
        yield from cursor.take(bound)


class _Cursor:
    """The batches of one stream, with one batch in memory."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self.rows: pa.RecordBatch | None = None
        """The rows that were not taken yet; None at the end."""
        self._groups = np.empty(0, dtype=np.int32)
        self.last = -1
        """The key group of the last row in memory."""
        self._advance()

    def take(self, bound: int) -> Iterator[pa.RecordBatch]:
        """Yield all rows of key groups up to ``bound``, inclusive."""
        while self.rows is not None and self._groups[0] <= bound:
            n = int(np.searchsorted(self._groups, bound, side="right"))
            taken = self.rows.slice(0, n)
            if n < len(self._groups):
                self.rows, self._groups = self.rows.slice(n), self._groups[n:]
            else:
                self._advance()
            yield taken

    def _advance(self) -> None:
        for batch in self._batches:
            if not batch.num_rows:
                continue
            groups = numbers_of(batch.column("key_group"))
            if groups[0] < self.last or (groups[1:] < groups[:-1]).any():
                raise NotByKeyGroup
            self.rows, self._groups, self.last = batch, groups, int(groups[-1])
            return
        self.rows = None
