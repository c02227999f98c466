"""Buffer a task's entries until all have arrived, then return them in order.

Entries over a bound are spilled to a temporary file in sorted batches, of which a few key groups at a time are read and
sorted again. A larger key group is divided by its keys: it is read once for samples of them, then in portions of
neighbouring keys. Several threads may fill a buffer each, and read all their entries afterwards (`SpilledEntries`).
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.array_types import Bytes, Ints, Longs
from stateproc.codec.arrow_arrays import numbers_of, uninitialized_bytes, uninitialized_longs, values_array
from stateproc.errors import InvalidEntries, WriteFailed
from stateproc.storage.store import StorePath
from stateproc.storage.writing import writing
from stateproc.writers.formats.entry_batches import cuts, portions
from stateproc.writers.sorting.entry_kernels import find_records, place_records, put_records
from stateproc.writers.sorting.entry_sort import ScatteredBytes, ScatteredEntries, in_order

TEMPORARY = StorePath("<temporary file>")
_GROUP_BITS = 16
"""The low bits of a group number, which hold the key group; the file's number is in the bits above."""
_BLOCK_BYTES, _MOST_BLOCKS, _SAMPLED_BYTES = 4 << 10, 1 << 18, 16 << 20
"""The bytes of a block, of which the first key is sampled, and the number and the bytes of samples of a key group.

Blocks are larger where there would be more. A portion of a divided key group reads a block too much of each batch.
"""


@contextmanager
def temporary_file() -> Iterator[IO[bytes]]:
    """Open a file that is deleted when it is closed. Raises WriteFailed."""
    with ExitStack() as stack:
        with writing(TEMPORARY):
            file = stack.enter_context(tempfile.TemporaryFile(prefix="stateproc-"))
        yield file


class SpillBuffer:
    """Buffers batches of entries (FILE_ENTRIES) and sorts them.

    Holds about ``held_bytes`` of them; close it with ``stack``. Raises WriteFailed.
    """

    def __init__(self, stack: ExitStack, held_bytes: int) -> None:
        # As much again is needed for what is sorted of them.
        self._stack, self._at_once = stack, held_bytes // 2
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._file: _SpillFile | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of entries in any order."""
        if not batch.num_rows:
            return
        self._held.append(batch)
        self._size += batch.nbytes
        if self._size >= self._at_once:
            self._spill()

    def sorted(self) -> Iterator[pa.RecordBatch]:
        """Return all entries in order."""
        if self._file is None:
            held, self._held = self._held, []
            if held:
                yield in_order(held)
            return
        yield from SpilledEntries(self.finish()).sorted(self._at_once)

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


# A temporary file has batches of records (`entry_kernels`). Those of a batch are in order.


@dataclass(frozen=True)
class SpilledBatch:
    """A sorted batch in a file.

    Attributes:
        groups: The group numbers that it has, in order.
        rows: How many rows each has.
        edges: The position in the file where those of each begin, and where the last ones end.
    """

    file: IO[bytes]
    groups: Longs
    rows: Longs
    edges: Longs


class _SpillFile:
    """Sorted batches of records in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._at = file, 0
        self._batches: list[SpilledBatch] = []

    def add(self, entries: ScatteredEntries) -> None:
        """Sort a batch of entries and write it."""
        order, keys, values = entries.order(), entries.keys, entries.values
        edges, places = uninitialized_longs(len(order) + 1), uninitialized_longs(len(order))
        numbers = (order, keys.sizes, values.sizes, edges, places)
        if not place_records(len(order), *(column.ctypes.data for column in numbers)):
            raise InvalidEntries(
                "an entry whose key or value is longer than 2 GiB",
                advice="Flink has no longer ones: divide the value, or leave it out",
            )
        data, states = uninitialized_bytes(int(edges[-1])), np.ascontiguousarray(entries.numbers[2])
        columns = (data, places, states, keys.starts, keys.sizes, values.starts, values.sizes)
        put_records(len(order), *(column.ctypes.data for column in columns))
        self._file.write(data.data)
        files, key_groups = (column[order] for column in entries.numbers[:2])
        groups = (files.astype(np.int64) << _GROUP_BITS) | key_groups
        first = np.array(cuts(groups))
        self._batches.append(SpilledBatch(self._file, groups[first[:-1]], np.diff(first), self._at + edges[first]))
        self._at += len(data)

    def finish(self) -> Sequence[SpilledBatch]:
        """Complete the file and return its batches. Raises WriteFailed."""
        with writing(TEMPORARY):
            self._file.flush()
        return self._batches


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


@dataclass(frozen=True)
class _Ranges:
    """Parts of batches: of each the number of the batch, its one group number, rows, position in the file and bytes."""

    batches: Longs
    groups: Longs
    rows: Longs
    starts: Longs
    sizes: Longs

    def taken(self, chosen: slice | Longs) -> _Ranges:
        """Some of them."""
        columns = (self.batches, self.groups, self.rows, self.starts, self.sizes)
        return _Ranges(*(column[chosen] for column in columns))

    def at_once(self, size: int) -> Iterator[_Ranges]:
        """All of them, about so many bytes at a time."""
        for first, last in portions(np.cumsum(self.sizes), (0, len(self.sizes)), size):
            yield self.taken(slice(first, last))


_Position: TypeAlias = tuple[int, bytes]
"""The order within a key group: state id and key."""


class SpilledEntries:
    """All entries of spilled batches, which threads may read at the same time. Raises WriteFailed."""

    def __init__(self, batches: Sequence[SpilledBatch]) -> None:
        self._files = [batch.file for batch in batches]
        numbers = np.repeat(np.arange(len(batches)), [len(batch.groups) for batch in batches])
        groups, rows = _joined([batch.groups for batch in batches]), _joined([batch.rows for batch in batches])
        starts = _joined([batch.edges[:-1] for batch in batches])
        sizes = _joined([np.diff(batch.edges) for batch in batches])
        self._ranges = _Ranges(numbers, groups, rows, starts, sizes).taken(np.argsort(groups, kind="stable"))

    @property
    def files(self) -> list[int]:
        """The files that have entries, in order."""
        found: list[int] = np.unique(self._ranges.groups >> _GROUP_BITS).tolist()
        return found

    def sorted(self, at_once: int, file: int | None = None) -> Iterator[pa.RecordBatch]:
        """Return the entries of one file, or of all, in order, about ``at_once`` bytes at a time."""
        found = self._ranges
        if file is not None:
            numbers = [file << _GROUP_BITS, (file + 1) << _GROUP_BITS]
            found = found.taken(slice(*np.searchsorted(found.groups, numbers)))
        if not len(found.groups):
            return
        edges = np.array(cuts(found.groups))
        ends = np.cumsum(np.add.reduceat(found.sizes, edges[:-1]))
        for first, last in portions(ends, (0, len(ends)), at_once):
            portion = found.taken(slice(edges[first], edges[last]))
            if last - first == 1 and portion.sizes.sum() > at_once:
                yield from self._divided(portion, at_once)
            else:
                yield self._read(portion).in_order()

    def _divided(self, ranges: _Ranges, at_once: int) -> Iterator[pa.RecordBatch]:
        """Return the entries of one key group in order, in portions by their state ids and keys."""
        total = int(ranges.sizes.sum())
        blocks = _Blocks.joined([_blocks(part, self._read(part), total) for part in ranges.at_once(at_once)])
        for low, high, portion in blocks.portions(at_once):
            # Entries with the same key are in any order, so that it does not matter how many there are.
            one_key = high == _after(low)
            for part in portion.at_once(at_once) if one_key else (portion,):
                entries = self._read(part).in_order()
                first, last = _rows_before(entries, low), _rows_before(entries, high)
                if first < last:
                    yield entries.slice(first, last - first)
                del entries

    def _read(self, ranges: _Ranges) -> ScatteredEntries:
        """Read the entries of ranges, by batch and position; neighbours are read at once. Raises WriteFailed."""
        ranges = ranges.taken(np.lexsort((ranges.starts, ranges.batches)))
        ends = np.cumsum(ranges.sizes)
        data = uninitialized_bytes(int(ends[-1]))
        begins = ends - ranges.sizes
        with writing(TEMPORARY):
            for first, last in itertools.pairwise(cuts(ranges.batches, ranges.starts - begins)):
                target = data[begins[first] : ends[last - 1]]
                _fill(self._files[ranges.batches[first]], target, int(ranges.starts[first]))
        groups = np.repeat(ranges.groups, ranges.rows)
        n = len(groups)
        states = np.empty(n, dtype=np.int32)
        columns = [np.empty(n, dtype=np.int64) for _ in range(4)]
        start, addresses = data.ctypes.data, [column.ctypes.data for column in columns]
        if not find_records(start, start + len(data), n, states.ctypes.data, *addresses):
            raise WriteFailed(
                "a temporary file of entries is not as it was written",
                advice="something else changes it, or the disk is failing; run the write again",
            )
        files, key_groups = groups >> _GROUP_BITS, groups & ((1 << _GROUP_BITS) - 1)
        keys, key_sizes, values, sizes = columns
        return ScatteredEntries(
            (files.astype(np.int32), key_groups.astype(np.int32), states),
            ScatteredBytes(keys, key_sizes, (data,)),
            ScatteredBytes(values, sizes, (data,)),
        )


def _joined(columns: list[Longs]) -> Longs:
    return np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)


def _after(position: _Position) -> _Position:
    """The next possible position."""
    return position[0], position[1] + b"\0"


def _rows_before(entries: pa.RecordBatch, position: _Position | None) -> int:
    """How many rows of entries in order, of one key group, are before a position; all if it is None."""
    if position is None:
        return len(entries)
    states, keys = entries.column("state_id"), entries.column("key")

    def before(row: int) -> _Position:
        return states[row].as_py(), keys[row].as_py()

    return bisect_left(range(len(keys)), position, key=before)


# Divide a key group whose batches are in order: each is divided into blocks, of which the first entry is known.


@dataclass(frozen=True)
class _Blocks:
    """Blocks of one key group by batch and position, with the state id and key of the first entry of each.

    The last entry of a batch is a block of its own, so that other blocks end before an entry that is known, too.
    """

    ranges: _Ranges
    states: Ints
    keys: pa.LargeBinaryArray

    @classmethod
    def joined(cls, parts: Sequence[_Blocks]) -> _Blocks:
        """The blocks of all parts."""
        columns = zip(*(vars(part.ranges).values() for part in parts), strict=True)
        states, keys = np.concatenate([part.states for part in parts]), pa.concat_arrays([part.keys for part in parts])
        return cls(_Ranges(*map(np.concatenate, columns)), states, keys)

    def portions(self, at_once: int) -> Iterator[tuple[_Position, _Position | None, _Ranges]]:
        """Divide the key group into portions of about ``at_once`` bytes by positions.

        Yields:
            The first position of a portion, that of the next one, and the blocks that have entries from the one to the
            other; these may have others, too. A key of more than ``at_once`` bytes is a portion of its own.
        """
        table = pa.Table.from_arrays([values_array(self.states), self.keys], ["state", "key"])
        order = numbers_of(pc.sort_indices(table, sort_keys=[("state", "ascending"), ("key", "ascending")]))
        states, keys = self.states[order], self.keys.take(values_array(order))
        n = len(order)
        other = (states[1:] != states[:-1]) | pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        edges = np.array([0, *(np.flatnonzero(other) + 1), n])
        bounds: dict[_Position, int] = {}
        for first, _ in portions(np.cumsum(self.ranges.sizes[order]), (0, n), at_once):
            number = int(np.searchsorted(edges, first, side="right")) - 1
            position = int(states[edges[number]]), keys[edges[number]].as_py()
            if position in bounds:
                bounds[_after(position)] = edges[number + 1]
            else:
                bounds[position] = edges[number]
        first_portion = np.empty(n, dtype=np.int64)
        first_portion[order] = np.searchsorted(list(bounds.values()), np.arange(n), side="right") - 1
        # A block of several entries goes on up to the next one of its batch.
        last_portion = np.where(self.ranges.rows > 1, np.append(first_portion[1:], 0), first_portion)
        for number, (low, high) in enumerate(zip(bounds, [*list(bounds)[1:], None], strict=True)):
            chosen = np.flatnonzero((first_portion <= number) & (number <= last_portion))
            if len(chosen):
                yield low, high, self.ranges.taken(chosen)


def _blocks(ranges: _Ranges, entries: ScatteredEntries, total: int) -> _Blocks:
    """Divide ranges, by batch and position, whose entries are given, into blocks; ``total``: bytes of the key group."""
    key_bytes = int(entries.keys.sizes.sum()) // int(ranges.rows.sum())
    size = max(_BLOCK_BYTES, total // _MOST_BLOCKS, total * key_bytes // _SAMPLED_BYTES)
    owners = np.repeat(np.arange(len(ranges.rows)), ranges.rows)
    at = entries.keys.starts - entries.keys.starts[0]
    within = at - (np.cumsum(ranges.sizes) - ranges.sizes)[owners]
    begins = np.ones(len(at), dtype=np.bool_)
    begins[1:] = (owners[1:] != owners[:-1]) | (within[1:] // size != within[:-1] // size)
    begins[np.cumsum(ranges.rows) - 1] = True
    first = np.flatnonzero(begins)
    own = owners[first]
    rows, sizes = np.diff(np.append(first, len(at))), np.diff(np.append(at[first], ranges.sizes.sum()))
    blocks = _Ranges(ranges.batches[own], ranges.groups[own], rows, ranges.starts[own] + within[first], sizes)
    return _Blocks(blocks, entries.numbers[2][first], entries.keys.taken(first))
