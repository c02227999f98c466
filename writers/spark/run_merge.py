"""Sorted runs merged: of each key group and run a piece is in memory at a time, however large the state is."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stateproc.errors import CorruptSnapshot, Where, WriteFailed
from stateproc.writers.formats.common.entry_batches import TARGETED
from stateproc.writers.spark.entry_sort import in_order

ReadRange = Callable[[int, int], bytes]
"""Reads (start, length) of a run's file."""
_Place = tuple[int, bytes]
"""A row's state id and key."""


@dataclass(frozen=True)
class RunChunk:
    """Some entries of one key group in a run: where they lie in its file. A run's pieces are in order, too."""

    target: int
    key_group: int
    start: int
    length: int


@dataclass(frozen=True)
class SortedRun:
    """A run that can be read; ``name`` of its file for errors."""

    pieces: Sequence[RunChunk]
    read: ReadRange
    name: str


def merged(runs: Sequence[SortedRun]) -> Iterator[pa.RecordBatch]:
    """All entries (TARGETED) of the runs in order. Raises WriteFailed where a file is not as it was written."""
    lanes: dict[tuple[int, int], list[_Lane]] = defaultdict(list)
    for run in runs:
        places: dict[tuple[int, int], list[RunChunk]] = defaultdict(list)
        for piece in run.pieces:
            places[piece.target, piece.key_group].append(piece)
        for place, pieces in places.items():
            lanes[place].append(_Lane(run, pieces))
    for place in sorted(lanes):
        yield from _merged(lanes.pop(place))


def _merged(lanes: Sequence[_Lane]) -> Iterator[pa.RecordBatch]:
    """The entries of one key group.

    What is not above the end of any piece behind which more come can be told apart for good; that takes one piece
    whole at least, each time.
    """
    while lanes := [lane for lane in lanes if lane.fill()]:
        bound = min((lane.last for lane in lanes if lane.more), default=None)
        yield in_order([lane.take(bound) for lane in lanes])


class _Lane:
    """One run's pieces of one key group, one at a time."""

    def __init__(self, run: SortedRun, pieces: Sequence[RunChunk]) -> None:
        self._run, self._waiting = run, list(reversed(pieces))
        self._rows: pa.RecordBatch | None = None

    @property
    def more(self) -> bool:
        return bool(self._waiting)

    @property
    def last(self) -> _Place:
        assert self._rows is not None
        return _place(self._rows, self._rows.num_rows - 1)

    def fill(self) -> bool:
        """Whether there are rows at hand; reads the next piece where they are used up."""
        while not (self._rows and self._rows.num_rows) and self._waiting:
            self._rows = _read(self._waiting.pop(), self._run)
        return bool(self._rows and self._rows.num_rows)

    def take(self, bound: _Place | None) -> pa.RecordBatch:
        """The rows at hand up to ``bound``, it included; all without one."""
        rows = self._rows
        assert rows is not None
        n = rows.num_rows
        if bound is not None:
            n = bisect_right(range(n), bound, key=lambda row: _place(rows, row))
        self._rows = rows.slice(n)
        return rows.slice(0, n)


def _place(rows: pa.RecordBatch, row: int) -> _Place:
    return rows.column("state_id")[row].as_py(), rows.column("key")[row].as_py()


def _read(piece: RunChunk, run: SortedRun) -> pa.RecordBatch:
    try:
        return pa.ipc.read_record_batch(pa.py_buffer(run.read(piece.start, piece.length)), TARGETED)
    except (CorruptSnapshot, pa.ArrowInvalid, OSError) as error:
        raise WriteFailed(
            "a file of sorted entries is not as it was written",
            where=Where(file=run.name, offset=piece.start),
            advice="something else changes it, or the disk is full; run the write again",
        ) from error
