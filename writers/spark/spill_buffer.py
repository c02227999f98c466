"""ScatteredEntries that wait until all of their file are there, then come back key group by key group.

They are not sorted before: a task has all of a key group's when it writes them, so that each is sorted once. What is
over a bound waits in a temporary file, each batch by key group, so that some key groups are read at a time.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.errors import WriteFailed
from stateproc.storage.writing import writing
from stateproc.writers.formats.common.entry_batches import TARGET, TARGETED, Longs, byte_column, cuts, portions
from stateproc.writers.spark.entry_sort import ScatteredEntries

TEMPORARY = "<temporary file>"
_PLACE_BITS = 16
"""A key group's; its target's stand above."""
_ROW_BYTES, _BATCH_BYTES = 3 * 4 + 2 * 8, 2 * 8
"""What a row has beside its key and value, and a batch beside its rows."""
_LEAST_AT_ONCE = 16 << 10
"""Bytes of a key group in a batch: with fewer on the average, batches are put together before they are written."""


@contextmanager
def temporary_file() -> Iterator[IO[bytes]]:
    """A file that is gone when it is closed. Raises WriteFailed."""
    with ExitStack() as stack:
        with writing(TEMPORARY):
            file = stack.enter_context(tempfile.TemporaryFile(prefix="stateproc-"))
        yield file


class SpillBuffer:
    """Takes batches of entries (TARGETED) and gives them back by target and key group, unsorted within.

    Holds about ``held_bytes`` of them; close it with ``stack``. Raises WriteFailed.
    """

    def __init__(self, stack: ExitStack, held_bytes: int) -> None:
        self._stack, self._held_bytes = stack, held_bytes
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._file: _File | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """One more batch, of entries in any order."""
        if not batch.num_rows:
            return
        self._held.append(batch)
        self._size += batch.nbytes
        if self._size >= self._held_bytes:
            self._put_down()

    def portions(self) -> Iterator[Iterable[pa.RecordBatch]]:
        """All entries: of one or more key groups at a time, about ``held_bytes``, more only if one has more."""
        if self._file is None:
            if self._held:
                yield self._held
            return
        self._put_down()
        yield from self._file.portions(self._held_bytes)

    def _put_down(self) -> None:
        if not self._held:
            return
        if self._file is None:
            self._file = _File(self._stack.enter_context(temporary_file()))
        with writing(TEMPORARY):
            for batch in _by_place(self._held, self._size):
                self._file.add(batch)
        self._held, self._size = [], 0


def _by_place(batches: list[pa.RecordBatch], size: int) -> list[pa.RecordBatch]:
    """The batches with the entries of each key group side by side; one batch where they are in little pieces."""
    places = [_places(batch) for batch in batches]
    pieces = sum(len(cuts(column)) for column in places)
    if pieces * _LEAST_AT_ONCE <= size and all((np.diff(column) >= 0).all() for column in places):
        return batches
    entries = ScatteredEntries.of(batches)
    return [entries.taken(entries.by_key_group())]


def _places(batch: pa.RecordBatch) -> Longs:
    target, group = (batch.column(name).to_numpy().astype(np.int64) for name in (TARGET, "key_group"))
    places: Longs = (target << _PLACE_BITS) | group
    return places


@dataclass(frozen=True)
class _Rest:
    """A batch in the file, ordered by place. ``starts``: of state ids, key offsets, keys, value offsets, values."""

    places: Longs
    edges: Longs
    """Where the rows of each place begin, and their number."""
    starts: tuple[int, ...]


class _File:
    """Batches one behind the other, their columns apart, so that rows of one place lie together in each."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._at = file, 0
        self._batches: list[_Rest] = []
        self._sizes: list[Longs] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """A batch whose entries are ordered by place."""
        places, states = _places(batch), batch.column("state_id").to_numpy()
        keys, values = byte_column(batch.column("key")), byte_column(batch.column("value"))
        edges = np.array(cuts(places))
        columns = (states, keys.offsets, keys.data, values.offsets, values.data)
        starts = [self._write(np.ascontiguousarray(column)) for column in columns]
        ends = keys.offsets + values.offsets
        self._sizes.append(np.diff(ends[edges]) + _ROW_BYTES * np.diff(edges) + _BATCH_BYTES)
        # Offsets tell where bytes lie, counted from where those of offset 0 would.
        starts[2] -= int(keys.offsets[0])
        starts[4] -= int(values.offsets[0])
        self._batches.append(_Rest(places[edges[:-1]], edges, tuple(starts)))

    def portions(self, at_once: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """The batches' entries, of one or more places at a time."""
        owners = np.repeat(np.arange(len(self._batches)), [len(rest.places) for rest in self._batches])
        pieces = np.concatenate([np.arange(len(rest.places)) for rest in self._batches])
        places = np.concatenate([rest.places for rest in self._batches])
        sizes = np.concatenate(self._sizes)
        order = np.lexsort((owners, places))
        owners, pieces, places, sizes = owners[order], pieces[order], places[order], sizes[order]
        edges = np.array(cuts(places))
        ends = np.cumsum(np.add.reduceat(sizes, edges[:-1]))
        for first, last in portions(ends, (0, len(ends)), at_once):
            start, stop = int(edges[first]), int(edges[last])
            yield self._read(owners[start:stop], pieces[start:stop])

    def _read(self, owners: Longs, pieces: Longs) -> Iterator[pa.RecordBatch]:
        """Pieces of batches; neighbours in a batch are read at once."""
        order = np.lexsort((pieces, owners))
        owners, pieces = owners[order], pieces[order]
        for start, stop in itertools.pairwise(cuts(owners, pieces - np.arange(len(pieces)))):
            rest = self._batches[int(owners[start])]
            yield self._rows(rest, int(pieces[start]), int(pieces[stop - 1]) + 1)

    def _rows(self, rest: _Rest, first: int, last: int) -> pa.RecordBatch:
        """The rows of the places ``first`` up to ``last`` of a batch, it not included."""
        start, stop = int(rest.edges[first]), int(rest.edges[last])
        states, key_offsets, keys, value_offsets, values = rest.starts
        places = np.repeat(rest.places[first:last], np.diff(rest.edges[first : last + 1]))
        arrays = [
            pa.array((places >> _PLACE_BITS).astype(np.int32)),
            pa.array((places & ((1 << _PLACE_BITS) - 1)).astype(np.int32)),
            pa.array(np.frombuffer(self._bytes(states + 4 * start, 4 * (stop - start)), np.int32)),
            self._column(key_offsets, keys, start, stop),
            self._column(value_offsets, values, start, stop),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=TARGETED)

    def _column(self, offsets: int, data: int, start: int, stop: int) -> pa.LargeBinaryArray:
        mine = np.frombuffer(self._bytes(offsets + 8 * start, 8 * (stop - start + 1)), np.int64)
        low, high = int(mine[0]), int(mine[-1])
        buffers = [None, pa.py_buffer(mine - low), pa.py_buffer(self._bytes(data + low, high - low))]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), stop - start, buffers)

    def _write(self, column: npt.NDArray[np.generic]) -> int:
        start = self._at
        self._file.write(column.data)
        self._at += column.nbytes
        return start

    def _bytes(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        data = self._file.read(length)
        if len(data) != length:
            raise WriteFailed(
                "a temporary file of entries is shorter than it was written",
                advice="the disk may be full or failing; run the write again",
            )
        return data
