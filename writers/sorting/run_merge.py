"""Merge sorted runs with bounded memory: one chunk per run of the key group that is merged."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stateproc.errors import CorruptSnapshot, Where, WriteFailed
from stateproc.writers.formats.common.entry_batches import TARGETED
from stateproc.writers.sorting.entry_sort import in_order

ReadRange = Callable[[int, int], bytes]
"""Reads (start, length) of a run's file."""
_Position = tuple[int, bytes]
"""The order within a key group: state id and key."""


@dataclass(frozen=True)
class RunChunk:
    """A range of a run's file with entries of one key group; the chunks of a run are in order, too."""

    target: int
    key_group: int
    start: int
    length: int


@dataclass(frozen=True)
class SortedRun:
    """A run that can be read; ``name``: of its file, for errors."""

    chunks: Sequence[RunChunk]
    read: ReadRange
    name: str


def merged(runs: Sequence[SortedRun]) -> Iterator[pa.RecordBatch]:
    """Merge all entries (TARGETED) of the runs. Raises WriteFailed for a file that differs from what was written."""
    cursors: dict[tuple[int, int], list[_RunCursor]] = defaultdict(list)
    for run in runs:
        groups: dict[tuple[int, int], list[RunChunk]] = defaultdict(list)
        for chunk in run.chunks:
            groups[chunk.target, chunk.key_group].append(chunk)
        for group, chunks in groups.items():
            cursors[group].append(_RunCursor(run, chunks))
    for group in sorted(cursors):
        yield from _merged(cursors.pop(group))


def _merged(cursors: Sequence[_RunCursor]) -> Iterator[pa.RecordBatch]:
    """The entries of one key group.

    Entries up to the smallest last entry of all chunks that are followed by others are complete in memory: they are
    sorted and returned, which uses up at least one chunk each time.
    """
    while cursors := [cursor for cursor in cursors if cursor.fill()]:
        bound = min((cursor.last for cursor in cursors if cursor.more), default=None)
        yield in_order([cursor.take(bound) for cursor in cursors])


class _RunCursor:
    """A cursor over the chunks of one key group in one run, with one chunk in memory."""

    def __init__(self, run: SortedRun, chunks: Sequence[RunChunk]) -> None:
        self._run, self._waiting = run, list(reversed(chunks))
        self._rows: pa.RecordBatch | None = None

    @property
    def more(self) -> bool:
        return bool(self._waiting)

    @property
    def last(self) -> _Position:
        assert self._rows is not None
        return self._rows.column("state_id")[-1].as_py(), self._rows.column("key")[-1].as_py()

    def fill(self) -> bool:
        """Return whether rows are left; read the next chunk if those in memory are used up."""
        while not (self._rows and self._rows.num_rows) and self._waiting:
            self._rows = _read(self._waiting.pop(), self._run)
        return bool(self._rows and self._rows.num_rows)

    def take(self, bound: _Position | None) -> pa.RecordBatch:
        """Remove and return the rows in memory up to ``bound``, inclusive; all if it is None."""
        rows = self._rows
        assert rows is not None
        n = rows.num_rows
        if bound is not None:
            states, keys = rows.column("state_id"), rows.column("key")
            n = bisect_right(range(n), bound, key=lambda row: (states[row].as_py(), keys[row].as_py()))
        self._rows = rows.slice(n)
        return rows.slice(0, n)


def _read(chunk: RunChunk, run: SortedRun) -> pa.RecordBatch:
    try:
        return pa.ipc.read_record_batch(pa.py_buffer(run.read(chunk.start, chunk.length)), TARGETED)
    except (CorruptSnapshot, pa.ArrowInvalid, OSError) as error:
        raise WriteFailed(
            "a file of sorted entries is not as it was written",
            where=Where(file=run.name, offset=chunk.start),
            advice="something else changes it, or the disk is full; run the write again",
        ) from error
