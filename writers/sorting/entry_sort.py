"""Sort entries as state files have them: by file, key group, state id and unsigned key bytes.

Few bytes are compared: entries of one file, key group and state are sorted by the eight bytes after the prefix that
all keys share, as numbers; only keys that agree in these are compared whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, numbers_of, uninitialized_bytes, uninitialized_longs, values_array
from stateproc.writers.formats.entry_batches import FILE_ENTRIES, byte_column, cuts
from stateproc.writers.sorting.entry_kernels import mark_ties, put_heads, take_bytes, take_entries

_FEW_ENTRIES = 32
"""With fewer entries of a group on average, sorting group by group costs more than sorting all at once."""
_RADIX_LIMIT = 1 << 16
"""numpy sorts numbers below it by counting (radix sort) instead of comparing."""


@dataclass(frozen=True)
class ScatteredBytes:
    """Byte strings at any addresses: int64 addresses and lengths; ``owners`` keep them alive."""

    starts: Longs
    sizes: Longs
    owners: tuple[object, ...]

    @classmethod
    def of(cls, arrays: Sequence[pa.Array]) -> ScatteredBytes:
        """A column of batches."""
        columns = tuple(map(byte_column, arrays))
        edges = [0, *itertools.accumulate(map(len, arrays))]
        starts, sizes = uninitialized_longs(edges[-1]), uninitialized_longs(edges[-1])
        for column, (first, last) in zip(columns, itertools.pairwise(edges), strict=True):
            np.add(column.offsets[:-1], column.address, out=starts[first:last])
            np.subtract(column.offsets[1:], column.offsets[:-1], out=sizes[first:last])
        return cls(starts, sizes, columns)

    def taken(self, rows: Longs) -> pa.LargeBinaryArray:
        """The byte strings of these rows, copied."""
        found = self.target(rows)
        columns = (self.starts, self.sizes, rows, found.offsets, found.data)
        take_bytes(len(rows), *(column.ctypes.data for column in columns))
        return found.to_arrow()

    def target(self, rows: Longs) -> RowBytes:
        """Memory for the byte strings of these rows, which is not written."""
        return RowBytes(uninitialized_bytes(int(self.sizes[rows].sum())), np.empty(len(rows) + 1, dtype=np.int64))


@dataclass(frozen=True)
class ScatteredEntries:
    """Entries (FILE_ENTRIES) addressed without copying their bytes."""

    numbers: tuple[npt.NDArray[np.int32], ...]
    """file, key group, state id."""
    keys: ScatteredBytes
    values: ScatteredBytes

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch]) -> ScatteredEntries:
        """The entries of at least one batch."""
        *numbers, keys, values = ([batch.column(name) for batch in batches] for name in FILE_ENTRIES.names)
        joined = tuple(np.concatenate([numbers_of(one) for one in column]) for column in numbers)
        return cls(joined, ScatteredBytes.of(keys), ScatteredBytes.of(values))

    def taken(self, rows: Longs) -> pa.RecordBatch:
        """These rows (FILE_ENTRIES), copied."""
        numbers = [values_array(np.take(column, rows)) for column in self.numbers]
        keys, values = self.keys.target(rows), self.values.target(rows)
        columns = (self.keys.starts, self.keys.sizes, self.values.starts, self.values.sizes)
        targets = (keys.offsets, keys.data, values.offsets, values.data)
        take_entries(len(rows), *(column.ctypes.data for column in (rows, *columns, *targets)))
        return pa.RecordBatch.from_arrays([*numbers, keys.to_arrow(), values.to_arrow()], schema=FILE_ENTRIES)

    def order(self) -> Longs:
        """The rows in order: by file, key group, state id and unsigned key bytes."""
        groups, heads = group_numbers(self.numbers), _heads(self.keys)
        order = _by_numbers(groups, heads)
        _sort_ties(order, groups, heads, self.keys)
        return order

    def by_key_group(self) -> Longs:
        """The rows by file and key group, otherwise in their order."""
        return stable_order(group_numbers(self.numbers[:2]))

    def in_order(self) -> pa.RecordBatch:
        """All entries (FILE_ENTRIES) in order, copied."""
        return self.taken(self.order())


def in_order(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Sort the entries of at least one batch (FILE_ENTRIES) by file, key group, state id and unsigned key bytes."""
    return ScatteredEntries.of(batches).in_order()


def group_numbers(columns: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.int64]:
    """One number for each row; numbers compare as the rows' columns do, one after another."""
    groups = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        least, most = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        groups *= most - least + 1
        groups += column - np.int64(least)
    return groups


def stable_order(groups: npt.NDArray[np.int64]) -> Longs:
    """The rows by their group numbers, otherwise in their order."""
    narrow = len(groups) and int(groups.max()) < _RADIX_LIMIT
    return np.argsort(groups.astype(np.uint16) if narrow else groups, kind="stable")


def _by_numbers(groups: npt.NDArray[np.int64], heads: npt.NDArray[np.uint64]) -> Longs:
    """The rows by group number and head, otherwise in their order.

    The stable sort is one that merges: entries that were spilled are sorted runs, which it sorts in half of the time.
    """
    order = stable_order(groups)
    edges = cuts(groups[order])
    if len(edges) * _FEW_ENTRIES > len(groups):
        first = np.argsort(heads, kind="stable")
        return first[stable_order(groups[first])]
    sorted_heads = heads[order]
    for start, stop in itertools.pairwise(edges):
        order[start:stop] = order[start:stop][np.argsort(sorted_heads[start:stop], kind="stable")]
    return order


def _sort_ties(
    order: Longs, groups: npt.NDArray[np.int64], heads: npt.NDArray[np.uint64], keys: ScatteredBytes
) -> None:
    """Sort rows in ``order`` that agree in group number and head by their whole keys."""
    tied = np.zeros(len(order), dtype=np.bool_)
    if not mark_ties(len(order), *(array.ctypes.data for array in (order, groups, heads, tied))):
        return
    at = np.flatnonzero(tied)
    rows = order[at]
    table = pa.Table.from_arrays([values_array(groups[rows]), keys.taken(rows)], ["group", "key"])
    indices = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("key", "ascending")])
    order[at] = rows[numbers_of(indices)]


def _heads(keys: ScatteredBytes) -> npt.NDArray[np.uint64]:
    """The eight bytes of each key after the prefix that all share, big-endian, with zeros after the key's end."""
    n = len(keys.starts)
    starts, sizes = np.ascontiguousarray(keys.starts), np.ascontiguousarray(keys.sizes)
    heads = uninitialized_longs(n).view(np.uint64)
    put_heads(starts.ctypes.data, sizes.ctypes.data, n, heads.ctypes.data)
    return heads


# Combine streams of entries that are ordered by key group, without buffering more than a few key groups.
#
# The splits of a state file return key group after key group, though not in the order of state ids or keys within it.
# So the entries of a key group are complete when all streams have passed it, and nothing has to be spilled.


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
