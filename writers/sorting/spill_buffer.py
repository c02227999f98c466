"""Buffer a task's entries until all have arrived, then return them by key group.

Each key group is sorted once, when all its entries are known. Entries over a bound are spilled to a temporary file in
batches ordered by key group, from which a few key groups are read at a time. Several threads may fill a buffer each,
and read all their entries afterwards (`SpilledEntries`).
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import numbers_of, values_array
from stateproc.errors import WriteFailed
from stateproc.storage.store import StorePath
from stateproc.storage.writing import writing
from stateproc.writers.formats.entry_batches import FILE, FILE_ENTRIES, byte_column, cuts, portions
from stateproc.writers.sorting.entry_sort import ScatteredEntries

TEMPORARY = StorePath("<temporary file>")
_GROUP_BITS = 16
"""The low bits of a group number, which hold the key group; the file's number is in the bits above."""
_ROW_BYTES, _BATCH_BYTES = 3 * 4 + 2 * 8, 2 * 8
"""Bytes of a row apart from its key and value, and of a batch apart from its rows."""
_FEW_BYTES = 16 << 10
"""With fewer bytes of a key group in a batch on average, batches are combined before they are spilled."""


@contextmanager
def temporary_file() -> Iterator[IO[bytes]]:
    """Open a file that is deleted when it is closed. Raises WriteFailed."""
    with ExitStack() as stack:
        with writing(TEMPORARY):
            file = stack.enter_context(tempfile.TemporaryFile(prefix="stateproc-"))
        yield file


class SpillBuffer:
    """Buffers batches of entries (FILE_ENTRIES) and returns them by file and key group, unsorted within.

    Holds about ``held_bytes`` of them; close it with ``stack``. Raises WriteFailed.
    """

    def __init__(self, stack: ExitStack, held_bytes: int) -> None:
        self._stack, self._held_bytes = stack, held_bytes
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._file: _SpillFile | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of entries in any order."""
        if not batch.num_rows:
            return
        self._held.append(batch)
        self._size += batch.nbytes
        if self._size >= self._held_bytes:
            self._spill()

    def portions(self) -> Iterator[Iterable[pa.RecordBatch]]:
        """Return all entries, about ``held_bytes`` at a time; more only if a single key group has more."""
        if self._file is None:
            if self._held:
                yield self._held
            return
        yield from SpilledEntries(self.finish()).portions(self._held_bytes)

    def finish(self) -> Sequence[SpilledBatch]:
        """Spill what is held, too, and return all batches of the temporary file."""
        self._spill()
        return () if self._file is None else self._file.finish()

    def _spill(self) -> None:
        if not self._held:
            return
        if self._file is None:
            self._file = _SpillFile(self._stack.enter_context(temporary_file()))
        with writing(TEMPORARY):
            for batch in _by_group(self._held, self._size):
                self._file.add(batch)
        self._held, self._size = [], 0


def _by_group(batches: list[pa.RecordBatch], size: int) -> list[pa.RecordBatch]:
    """Order each batch by key group; combine all into one batch if their key groups are small."""
    groups = [_group_numbers(batch) for batch in batches]
    indices = sum(len(cuts(column)) for column in groups)
    if indices * _FEW_BYTES <= size and all((np.diff(column) >= 0).all() for column in groups):
        return batches
    entries = ScatteredEntries.of(batches)
    return [entries.taken(entries.by_key_group())]


def _group_numbers(batch: pa.RecordBatch) -> Longs:
    file, group = (numbers_of(batch.column(name)).astype(np.int64) for name in (FILE, "key_group"))
    groups: Longs = (file << _GROUP_BITS) | group
    return groups


@dataclass(frozen=True)
class SpilledBatch:
    """A batch in a file, ordered by group number. ``starts``: file offsets of state ids, key offsets, keys, value
    offsets, values."""

    file: IO[bytes]
    groups: Longs
    edges: Longs
    """The first row of each group number, and the number of rows."""
    starts: tuple[int, ...]
    sizes: Longs
    """The bytes of each group number's rows."""

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Read the rows of the group numbers from ``first`` to ``last``, exclusive. Raises WriteFailed."""
        start, stop = int(self.edges[first]), int(self.edges[last])
        states, key_offsets, keys, value_offsets, values = self.starts
        groups = np.repeat(self.groups[first:last], np.diff(self.edges[first : last + 1]))
        arrays = [
            values_array((groups >> _GROUP_BITS).astype(np.int32)),
            values_array((groups & ((1 << _GROUP_BITS) - 1)).astype(np.int32)),
            values_array(np.frombuffer(self._bytes(states + 4 * start, 4 * (stop - start)), np.int32)),
            self._column(key_offsets, keys, start, stop),
            self._column(value_offsets, values, start, stop),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=FILE_ENTRIES)

    def _column(self, offsets: int, data: int, start: int, stop: int) -> pa.LargeBinaryArray:
        mine = np.frombuffer(self._bytes(offsets + 8 * start, 8 * (stop - start + 1)), np.int64)
        low, high = int(mine[0]), int(mine[-1])
        buffers = [None, pa.py_buffer(mine - low), pa.py_buffer(self._bytes(data + low, high - low))]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), stop - start, buffers)

    def _bytes(self, start: int, length: int) -> bytes:
        with writing(TEMPORARY):
            data = b"".join(self._chunks(start, length))
        if len(data) != length:
            raise WriteFailed(
                "a temporary file of entries is shorter than it was written",
                advice="the disk may be full or failing; run the write again",
            )
        return data

    def _chunks(self, start: int, length: int) -> Iterator[bytes]:
        """The bytes in as many reads as the system needs. Threads share no position in the file."""
        while length and (chunk := _read_at(self.file, length, start)):
            yield chunk
            start, length = start + len(chunk), length - len(chunk)


_moving = threading.Lock()
"""Held while a file's position is moved and used, where files cannot be read from a position (Windows)."""


def _read_at(file: IO[bytes], length: int, start: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(file.fileno(), length, start)
    with _moving:
        file.seek(start)
        return file.read(length)


class SpilledEntries:
    """All entries of spilled batches, which threads may read at the same time. Raises WriteFailed."""

    def __init__(self, batches: Sequence[SpilledBatch]) -> None:
        self._batches = batches
        owners = np.repeat(np.arange(len(batches)), np.array([len(batch.groups) for batch in batches], dtype=np.int64))
        indices = _joined([np.arange(len(batch.groups)) for batch in batches])
        groups, sizes = _joined([batch.groups for batch in batches]), _joined([batch.sizes for batch in batches])
        order = np.lexsort((owners, groups))
        self._owners, self._indices, self._groups = owners[order], indices[order], groups[order]
        self._sizes = sizes[order]

    @property
    def files(self) -> list[int]:
        """The files that have entries, in order."""
        found: list[int] = np.unique(self._groups >> _GROUP_BITS).tolist()
        return found

    def portions(self, at_once: int, file: int | None = None) -> Iterator[Iterable[pa.RecordBatch]]:
        """Return the entries of one or more group numbers at a time: of one file, or of all."""
        low, high = 0, len(self._groups)
        if file is not None:
            low, high = np.searchsorted(self._groups, [file << _GROUP_BITS, (file + 1) << _GROUP_BITS]).tolist()
        if low == high:
            return
        edges = low + np.array(cuts(self._groups[low:high]))
        ends = np.cumsum(np.add.reduceat(self._sizes[:high], edges[:-1]))
        for first, last in portions(ends, (0, len(ends)), at_once):
            start, stop = int(edges[first]), int(edges[last])
            yield self._read(self._owners[start:stop], self._indices[start:stop])

    def _read(self, owners: Longs, indices: Longs) -> Iterator[pa.RecordBatch]:
        """Read ranges of batches; neighbouring group numbers of a batch are read at once."""
        order = np.lexsort((indices, owners))
        owners, indices = owners[order], indices[order]
        for start, stop in itertools.pairwise(cuts(owners, indices - np.arange(len(indices)))):
            yield self._batches[int(owners[start])].rows(int(indices[start]), int(indices[stop - 1]) + 1)


def _joined(columns: list[Longs]) -> Longs:
    return np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)


class _SpillFile:
    """Batches in a file, column by column, so that the rows of a key group are one range of each column."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._at = file, 0
        self._batches: list[SpilledBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch whose entries are ordered by group number."""
        groups, states = _group_numbers(batch), numbers_of(batch.column("state_id"))
        keys, values = byte_column(batch.column("key")), byte_column(batch.column("value"))
        edges = np.array(cuts(groups))
        columns = (states, keys.offsets, keys.data, values.offsets, values.data)
        starts = [self._write(np.ascontiguousarray(column)) for column in columns]
        ends = keys.offsets + values.offsets
        sizes = np.diff(ends[edges]) + _ROW_BYTES * np.diff(edges) + _BATCH_BYTES
        # Offsets may begin above 0: starts are the file offsets at which offset 0 would be.
        starts[2] -= int(keys.offsets[0])
        starts[4] -= int(values.offsets[0])
        self._batches.append(SpilledBatch(self._file, groups[edges[:-1]], edges, tuple(starts), sizes))

    def finish(self) -> Sequence[SpilledBatch]:
        """Complete the file and return its batches. Raises WriteFailed."""
        with writing(TEMPORARY):
            self._file.flush()
        return self._batches

    def _write(self, column: npt.NDArray[np.generic]) -> int:
        start = self._at
        self._file.write(column.data)
        self._at += column.nbytes
        return start
