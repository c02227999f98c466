"""Collect the entries of one unit of work in memory; where it is too much, divide them into buckets on disk."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from stateproc.comparison.byte_kernels import hash_buckets
from stateproc.comparison.entry_table import SEED, EntryTable, entries_of_chunk, joined_tables
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import KeyedState

HELD_BYTES = 96 << 20
"""Bytes of entries of both snapshots that a unit holds in memory; more are divided into buckets on disk."""
SPILLED_AT_ONCE = 16 << 20
"""Bytes of entries that are divided into buckets together: few large parts of a bucket are faster than many."""
_BUCKETS = 64


@dataclass(frozen=True)
class FileEntries:
    """The entries of one file, which are rows ``start`` to ``stop`` of a table."""

    target: KeyedState
    start: int
    stop: int


@dataclass(frozen=True)
class SideEntries:
    """Entries of one snapshot."""

    entries: EntryTable
    files: tuple[FileEntries, ...]


def _held_bytes(table: EntryTable) -> int:
    return table.content_bytes + int(table.table.nbytes)


class EntryCollector:
    """Collects entries of one snapshot, file after file."""

    def __init__(self) -> None:
        self._tables: list[EntryTable] = []
        self._files: list[tuple[KeyedState, int]] = []
        self.bytes = 0

    def add(self, target: KeyedState, chunk: RawEntries) -> None:
        """Add entries of a file; those of one file come one after another."""
        table = entries_of_chunk(chunk)
        self.bytes += _held_bytes(table)
        self._tables.append(table)
        if not self._files or self._files[-1][0] is not target:
            self._files.append((target, 0))
        self._files[-1] = target, self._files[-1][1] + len(table)

    def taken(self) -> Iterator[tuple[KeyedState, EntryTable]]:
        """Return the entries file by file, in parts of about SPILLED_AT_ONCE bytes, and forget them."""
        tables, files = deque(self._tables), self._files
        self._tables, self._files, self.bytes = [], [], 0
        for target, rows in files:
            while rows > 0:
                part: list[EntryTable] = []
                size = 0
                while rows > 0 and size < SPILLED_AT_ONCE:
                    table = tables.popleft()
                    part.append(table)
                    rows -= len(table)
                    size += _held_bytes(table)
                yield target, joined_tables(part)

    def side(self) -> SideEntries:
        """Return all entries."""
        files, at = [], 0
        for target, size in self._files:
            files.append(FileEntries(target, at, at + size))
            at += size
        return SideEntries(joined_tables(self._tables), tuple(files))


@dataclass(frozen=True)
class _Stored:
    """Entries of one bucket in the temporary file."""

    target: KeyedState
    at: int
    rows: int
    data_bytes: int


class SpilledSide:
    """Entries of one snapshot in a temporary file, divided by a hash of their keys. A context."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="stateproc-")  # noqa: SIM115 (closed by the context)
        self._end = 0
        self._buckets: list[list[_Stored]] = [[] for _ in range(_BUCKETS)]

    def __enter__(self) -> SpilledSide:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add_all(self, tables: Iterable[tuple[KeyedState, EntryTable]]) -> None:
        """Divide the entries of files."""
        for target, table in tables:
            self.add(target, table)

    def add(self, target: KeyedState, table: EntryTable) -> None:
        """Divide entries of a file."""
        buckets = np.empty(len(table), dtype=np.int64)
        hash_buckets(table.table, SEED, _BUCKETS - 1, buckets)
        order = np.argsort(buckets, kind="stable")
        bounds = np.searchsorted(buckets[order], np.arange(_BUCKETS + 1))
        packed = table.packed(order)
        for bucket in np.flatnonzero(np.diff(bounds)).tolist():
            first, stop = int(bounds[bucket]), int(bounds[bucket + 1])
            ranges = packed.ranges[:, first:stop]
            begin, end = int(ranges[0, 0]), int(ranges[3, -1])
            at = self._end
            for part in (packed.key_groups[first:stop], ranges - begin, packed.data[begin:end]):
                self._end += self._file.write(np.ascontiguousarray(part).data)
            self._buckets[bucket].append(_Stored(target, at, stop - first, end - begin))

    def side(self, bucket: int) -> SideEntries:
        """Read the entries of a bucket."""
        found = EntryCollector()
        for stored in self._buckets[bucket]:
            self._file.seek(stored.at)
            groups = self._array(np.int32, stored.rows)
            ranges = self._array(np.int64, 4 * stored.rows).reshape(4, -1)
            data = self._array(np.uint8, stored.data_bytes)
            found.add(stored.target, RawEntries(data, groups, ranges, "", 0, exact=False))
        return found.side()

    def _array(self, kind: type[np.generic], size: int) -> npt.NDArray[Any]:
        width = np.dtype(kind).itemsize
        return np.frombuffer(self._file.read(size * width), dtype=kind)


BUCKETS = range(_BUCKETS)
