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
import pyarrow as pa

from stateproc.codec.array_types import Bytes, Ints, Longs
from stateproc.codec.arrow_arrays import uninitialized_bytes
from stateproc.errors import WriteFailed
from stateproc.storage.store import StorePath
from stateproc.storage.writing import writing
from stateproc.writers.formats.entry_batches import cuts, portions
from stateproc.writers.sorting.entry_kernels import count_records, find_records, put_records
from stateproc.writers.sorting.entry_sort import Entries, ScatteredBytes, ScatteredEntries

TEMPORARY = StorePath("<temporary file>")
_MOST_PLACES = 1 << 16
"""With more combinations of file and key group in a batch than this, those that rows have are found by sorting."""
_GROUP_BITS = 16
"""The low bits of a group number, which hold the key group; the file's number is in the bits above."""


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
        # As much again is needed for the records of what is spilled.
        if self._size >= self._held_bytes // 2:
            self._spill()

    def portions(self) -> Iterator[Iterable[Entries]]:
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
        held, self._held, self._size = self._held, [], 0
        with writing(TEMPORARY):
            self._file.add(ScatteredEntries.of(held))


# A temporary file has batches of records (`entry_kernels`). Those of a batch are ordered by group number.


@dataclass(frozen=True)
class SpilledBatch:
    """A batch in a file, ordered by group number.

    Attributes:
        file: The file.
        groups: The group numbers that it has, in order.
        rows: How many rows each has.
        edges: The position in the file where those of each begin, and where the last ones end.
    """

    file: IO[bytes]
    groups: Longs
    rows: Longs
    edges: Longs

    @property
    def sizes(self) -> Longs:
        """The bytes of each group number's rows."""
        sizes: Longs = np.diff(self.edges)
        return sizes


@dataclass(frozen=True)
class _Range:
    """Rows of neighbouring group numbers of a batch: those from ``first`` to ``last``, exclusive."""

    batch: SpilledBatch
    first: int
    last: int

    @property
    def start(self) -> int:
        """The position in the file."""
        return int(self.batch.edges[self.first])

    @property
    def size(self) -> int:
        """The number of bytes."""
        return int(self.batch.edges[self.last]) - self.start


def _read(ranges: Sequence[_Range]) -> ScatteredEntries:
    """Read the entries of ranges. Raises WriteFailed."""
    data = uninitialized_bytes(sum(one.size for one in ranges))
    at = 0
    with writing(TEMPORARY):
        for one in ranges:
            _fill(one.batch.file, data[at : at + one.size], one.start)
            at += one.size
    groups = _joined([one.batch.groups[one.first : one.last] for one in ranges])
    groups = np.repeat(groups, _joined([one.batch.rows[one.first : one.last] for one in ranges]))
    n = len(groups)
    states = np.empty(n, dtype=np.int32)
    columns = [np.empty(n, dtype=np.int64) for _ in range(4)]
    start, addresses = data.ctypes.data, [column.ctypes.data for column in columns]
    if not find_records(start, start + len(data), n, states.ctypes.data, *addresses):
        raise WriteFailed(
            "a temporary file of entries is not as it was written",
            advice="something else changes it, or the disk is failing; run the write again",
        )
    numbers = ((groups >> _GROUP_BITS).astype(np.int32), (groups & ((1 << _GROUP_BITS) - 1)).astype(np.int32), states)
    keys, key_sizes, values, sizes = columns
    return ScatteredEntries(numbers, ScatteredBytes(keys, key_sizes, (data,)), ScatteredBytes(values, sizes, (data,)))


def _fill(file: IO[bytes], target: Bytes, start: int) -> None:
    """Read as many bytes as the target has, in as many reads as the system needs. Raises WriteFailed."""
    done = 0
    while done < len(target):
        found = _read_into(file, target[done:].data, start + done)
        if not found:
            raise WriteFailed(
                "a temporary file of entries is shorter than it was written",
                advice="the disk may be full or failing; run the write again",
            )
        done += found


_moving = threading.Lock()
"""Held while a file's position is moved and used, where files cannot be read from a position (Windows)."""


def _read_into(file: IO[bytes], target: memoryview, start: int) -> int:
    """Read bytes at a position and return how many. Threads share no position in the file."""
    if hasattr(os, "preadv"):
        return os.preadv(file.fileno(), [target], start)
    with _moving:
        file.seek(start)
        data = file.read(len(target))
        target[: len(data)] = data
        return len(data)


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

    def portions(self, at_once: int, file: int | None = None) -> Iterator[Iterable[ScatteredEntries]]:
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
            yield self._read(self._owners[start:stop], self._indices[start:stop], at_once)

    def _read(self, owners: Longs, indices: Longs, at_once: int) -> Iterator[ScatteredEntries]:
        """Read ranges of batches, about ``at_once`` bytes at a time; neighbouring group numbers are one range."""
        order = np.lexsort((indices, owners))
        owners, indices = owners[order], indices[order]
        ranges: list[_Range] = []
        size = 0
        for start, stop in itertools.pairwise(cuts(owners, indices - np.arange(len(indices)))):
            ranges.append(_Range(self._batches[int(owners[start])], int(indices[start]), int(indices[stop - 1]) + 1))
            size += ranges[-1].size
            if size >= at_once:
                yield _read(ranges)
                ranges, size = [], 0
        if ranges:
            yield _read(ranges)


def _joined(columns: list[Longs]) -> Longs:
    return np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)


class _SpillFile:
    """Batches of records in a file, in which the rows of a key group are one range of bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._at = file, 0
        self._batches: list[SpilledBatch] = []

    def add(self, entries: ScatteredEntries) -> None:
        """Write a batch of entries in any order."""
        groups, places = _places(entries.numbers[0], entries.numbers[1])
        keys, values, n = entries.keys, entries.values, len(places)
        rows, sizes = np.zeros(len(groups), dtype=np.int64), np.zeros(len(groups), dtype=np.int64)
        counted = (places, keys.sizes, values.sizes, rows, sizes)
        count_records(n, *(column.ctypes.data for column in counted))
        ends = np.cumsum(sizes)
        data = uninitialized_bytes(int(ends[-1]))
        targets, states = ends - sizes + data.ctypes.data, np.ascontiguousarray(entries.numbers[2])
        columns = (places, targets, states, keys.starts, keys.sizes, values.starts, values.sizes)
        put_records(n, *(column.ctypes.data for column in columns))
        self._file.write(data.data)
        used = np.flatnonzero(rows)
        edges = self._at + np.append(0, ends[used])
        self._at += len(data)
        self._batches.append(SpilledBatch(self._file, groups[used], rows[used], edges))

    def finish(self) -> Sequence[SpilledBatch]:
        """Complete the file and return its batches. Raises WriteFailed."""
        with writing(TEMPORARY):
            self._file.flush()
        return self._batches


def _places(files: Ints, key_groups: Ints) -> tuple[Longs, Longs]:
    """Return group numbers in order, all that rows have among them, and the position of each row's one."""
    least, first = int(files.min()), int(key_groups.min())
    span = int(key_groups.max()) - first + 1
    n = (int(files.max()) - least + 1) * span
    if n > _MOST_PLACES:
        return np.unique((files.astype(np.int64) << _GROUP_BITS) | key_groups, return_inverse=True)
    number = np.arange(n, dtype=np.int64)
    places = (files.astype(np.int64) - least) * span + (key_groups - first)
    return ((number // span + least) << _GROUP_BITS) | (number % span + first), places
