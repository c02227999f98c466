"""Entries put in the order of files: by target, key group, state id and key bytes, unsigned.

Bytes are compared where they are few: entries of one place (target, key group, state) are sorted by the eight bytes
behind what all keys begin with, as numbers; keys that agree in these too are compared whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.jit import kernel, load_i64, load_u8, store_64
from stateproc.writers.formats.common.byte_gather import gathered_from
from stateproc.writers.formats.common.entry_batches import TARGETED, ByteColumn, Longs, byte_column, cuts

_FEW = 32
"""Entries of a place: with fewer, sorting place by place costs more than sorting all at once."""
_NARROW = 1 << 16
"""Up to so many places numpy counts instead of comparing."""


@dataclass(frozen=True)
class Bytes:
    """Byte strings that lie anywhere: int64 addresses and lengths; ``owners`` keep them alive."""

    starts: Longs
    sizes: Longs
    owners: tuple[ByteColumn, ...]

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch], name: str) -> Bytes:
        """A column of the batches."""
        columns = tuple(byte_column(batch.column(name)) for batch in batches)
        starts = np.concatenate([column.offsets[:-1] + column.address for column in columns])
        return cls(starts, np.concatenate([np.diff(column.offsets) for column in columns]), columns)

    def taken(self, rows: Longs) -> pa.LargeBinaryArray:
        """The byte strings of these rows, copied one behind the other."""
        return gathered_from(self.starts[rows], self.sizes[rows]).to_arrow()


@dataclass(frozen=True)
class Entries:
    """TARGETED entries of many batches, which stay where they are."""

    numbers: tuple[npt.NDArray[np.int32], ...]
    """target, key group, state id."""
    keys: Bytes
    values: Bytes

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch]) -> Entries:
        """The entries of the batches, of which there is one at least."""
        names = TARGETED.names[:3]
        numbers = tuple(
            np.concatenate([batch.column(name).to_numpy(zero_copy_only=False) for batch in batches]) for name in names
        )
        return cls(numbers, Bytes.of(batches, "key"), Bytes.of(batches, "value"))

    def taken(self, rows: Longs) -> pa.RecordBatch:
        """These rows (TARGETED), copied."""
        numbers = [pa.array(column[rows]) for column in self.numbers]
        return pa.RecordBatch.from_arrays([*numbers, self.keys.taken(rows), self.values.taken(rows)], schema=TARGETED)

    def by_place(self) -> Longs:
        """The rows by target and key group, else as they come."""
        return stable_order(places_of(self.numbers[:2]))


def in_order(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The entries of the batches (TARGETED, one batch at least) by target, key group, state id, key bytes unsigned."""
    entries = Entries.of(batches)
    places, heads = places_of(entries.numbers), _heads(entries.keys)
    order = _by_numbers(places, heads)
    _sort_ties(order, places, heads, entries.keys)
    return entries.taken(order)


def places_of(columns: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.int64]:
    """One number for each row, which sorts as the columns do one behind the other."""
    places = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        least, most = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        places *= most - least + 1
        places += column - np.int64(least)
    return places


def stable_order(places: npt.NDArray[np.int64]) -> Longs:
    """The rows in the order of their places, else as they come."""
    narrow = len(places) and int(places.max()) < _NARROW
    return np.argsort(places.astype(np.uint16) if narrow else places, kind="stable")


def _by_numbers(places: npt.NDArray[np.int64], heads: npt.NDArray[np.uint64]) -> Longs:
    """The rows by place and head; those that agree in both in any order."""
    order = stable_order(places)
    edges = cuts(places[order])
    if len(edges) * _FEW > len(places):
        first = np.argsort(heads)
        return first[stable_order(places[first])]
    sorted_heads = heads[order]
    for start, stop in itertools.pairwise(edges):
        order[start:stop] = order[start:stop][np.argsort(sorted_heads[start:stop])]
    return order


def _sort_ties(order: Longs, places: npt.NDArray[np.int64], heads: npt.NDArray[np.uint64], keys: Bytes) -> None:
    """Sort rows in ``order`` that agree in place and head by their whole keys."""
    same = (np.diff(places[order]) == 0) & (np.diff(heads[order]) == 0)
    if not same.any():
        return
    tied = np.zeros(len(order), dtype=np.bool_)
    tied[:-1] |= same
    tied[1:] |= same
    at = np.flatnonzero(tied)
    rows = order[at]
    table = pa.table({"place": places[rows], "key": keys.taken(rows)})
    found = pc.sort_indices(table, sort_keys=[("place", "ascending"), ("key", "ascending")])
    order[at] = rows[found.to_numpy()]


def _heads(keys: Bytes) -> npt.NDArray[np.uint64]:
    """The eight bytes of each key behind those that all begin with, as a number; zeros behind a key's end."""
    n = len(keys.starts)
    starts, sizes = np.ascontiguousarray(keys.starts), np.ascontiguousarray(keys.sizes)
    heads = np.empty(n, dtype=np.uint64)
    _put_heads(starts.ctypes.data, sizes.ctypes.data, n, heads.ctypes.data)
    return heads


@kernel
def _put_heads(starts: int, sizes: int, n: int, heads: int) -> None:
    """starts, sizes: of ``n`` keys, int64; heads: room for as many 64-bit numbers."""
    common = load_i64(sizes) if n else 0
    for row in range(1, n):
        common = min(common, load_i64(sizes + 8 * row))
        first, key, k = load_i64(starts), load_i64(starts + 8 * row), 0
        while k < common and load_u8(first + k) == load_u8(key + k):
            k += 1
        common = k
        if common == 0:
            break
    for row in range(n):
        key, left = load_i64(starts + 8 * row) + common, load_i64(sizes + 8 * row) - common
        head = 0
        for k in range(8):
            head = (head << 8) | (load_u8(key + k) if k < left else 0)
        store_64(heads + 8 * row, head)
