"""Batches of raw entries that are written: (key group, state id, composite key, value), in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Bytes, Ints, Longs
from stateproc.codec.arrow_arrays import (
    RowBytes,
    empty_row_bytes,
    numbers_of,
    row_bytes_of,
    uninitialized_bytes,
    values_array,
)
from stateproc.codec.native.jit import copy_bytes, exported, load_i64
from stateproc.errors import InvalidEntries

RAW_ENTRIES = pa.schema(
    [
        pa.field("key_group", pa.int32(), nullable=False),
        pa.field("state_id", pa.int32(), nullable=False),
        pa.field("key", pa.large_binary(), nullable=False),
        pa.field("value", pa.large_binary(), nullable=False),
    ]
)
"""``key``: the composite key without its key-group prefix (CompositeKeySerializationUtils), ``value``: as canonical
savepoints hold it, empty for timers; ``state_id``: the state's position in the operator's header.
"""
FILE = "file"
FILE_ENTRIES = RAW_ENTRIES.insert(0, pa.field(FILE, pa.int32(), nullable=False))
"""Raw entries with the number of the state file that they belong to, as they are shuffled. Entries of operator state
have key group 0; their key is their position (8 bytes) or, in broadcast states, the map key.
"""


@dataclass(frozen=True)
class ByteColumn:
    """A column of byte strings: row ``i`` is from ``address + offsets[i]`` to ``address + offsets[i + 1]``.

    ``owner`` keeps the bytes alive.
    """

    address: int
    offsets: Longs
    owner: pa.Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> bytes:
        """The bytes of one row."""
        return bytes(self.owner[index].as_py())

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes of all rows; row ``i`` begins at ``offsets[i] - offsets[0]``."""
        start, stop = int(self.offsets[0]), int(self.offsets[-1])
        if start == stop:
            return np.empty(0, dtype=np.uint8)
        return np.frombuffer(self.owner.buffers()[2], dtype=np.uint8, count=stop - start, offset=start)


@dataclass(frozen=True)
class EntryColumns:
    """The columns of a batch of raw entries, as arguments of kernels."""

    key_groups: Ints
    state_ids: Ints
    keys: ByteColumn
    values: ByteColumn

    def __len__(self) -> int:
        return len(self.key_groups)


def cuts(*columns: npt.NDArray[Any]) -> list[int]:
    """Return the first rows of runs of equal numbers, and the number of rows: [0, …, rows]."""
    n = len(columns[0])
    if not n:
        return [0]
    changes = np.zeros(n - 1, dtype=np.bool_)
    for column in columns:
        changes |= column[1:] != column[:-1]
    return [0, *(np.flatnonzero(changes) + 1).tolist(), n]


def portions(ends: Longs, edges: Sequence[int], at_once: int) -> Iterator[tuple[int, int]]:
    """Yield (first row, row after the last) of about ``at_once`` bytes, one row at least, none across an edge.

    ends: cumulative bytes of the rows. edges: of `cuts`.
    """
    first = 0
    for stop in edges[1:]:
        while first < stop:
            done = int(ends[first - 1]) if first else 0
            last = min(stop, max(first + 1, int(np.searchsorted(ends, done + at_once, side="right"))))
            yield first, last
            first = last


def byte_column(array: pa.Array) -> ByteColumn:
    """Return the column of a binary or large binary array without nulls; only 32-bit offsets are copied."""
    if array.null_count:
        raise InvalidEntries("a null among the bytes of raw entries")
    width = np.dtype(np.int64 if pa.types.is_large_binary(array.type) else np.int32)
    _, starts, data = array.buffers()
    if starts is None or len(array) == 0:
        return ByteColumn(0, np.zeros(len(array) + 1, dtype=np.int64), array)
    offsets = np.frombuffer(starts, dtype=width, count=len(array) + 1, offset=array.offset * width.itemsize)
    return ByteColumn(data.address if data is not None else 0, offsets.astype(np.int64, copy=False), array)


def entry_columns(batch: pa.RecordBatch) -> EntryColumns:
    """Return the columns of a batch of RAW_ENTRIES (binary need not be large). Raises InvalidEntries for others."""
    for field in RAW_ENTRIES:
        index = batch.schema.get_field_index(field.name)
        found = batch.schema.field(index).type if index >= 0 else None
        if found != field.type and not (field.type == pa.large_binary() and found == pa.binary()):
            raise InvalidEntries(f"raw entries need a column '{field.name}' of {field.type}, not {found}")
    numbers = []
    for name in ("key_group", "state_id"):
        column = batch.column(name)
        if column.null_count:
            raise InvalidEntries(f"a null in the column '{name}' of raw entries")
        numbers.append(np.ascontiguousarray(numbers_of(column)))
    return EntryColumns(numbers[0], numbers[1], byte_column(batch.column("key")), byte_column(batch.column("value")))


# Gather byte ranges of a buffer into contiguous columns of byte strings.


@exported
def _gather(source: int, starts: int, stops: int, n: int, target: int) -> None:
    """Copy ``n`` ranges of the bytes at ``source`` to ``target``, one after the other."""
    for row in range(n):
        start = load_i64(starts + 8 * row)
        size = load_i64(stops + 8 * row) - start
        copy_bytes(target, source + start, size)
        target += size


def gather(data: Bytes, starts: Longs, stops: Longs) -> RowBytes:
    """Copy the ranges ``data[starts[i]:stops[i]]``, int64, which must be inside of ``data``."""
    return _copied(data.ctypes.data, np.ascontiguousarray(starts), np.ascontiguousarray(stops))


def gather_scattered(starts: Longs, stops: Longs) -> RowBytes:
    """Copy the bytes between these addresses, int64, which the caller keeps alive."""
    return _copied(0, starts, stops)


def _copied(source: int, starts: Longs, stops: Longs) -> RowBytes:
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(stops - starts, out=offsets[1:])
    out = uninitialized_bytes(int(offsets[-1]))
    if len(out):
        _gather(source, starts.ctypes.data, stops.ctypes.data, len(starts), out.ctypes.data)
    return RowBytes(out, offsets)


def take_rows(pieces: RowBytes, rows: Longs) -> RowBytes:
    """Copy the byte strings of these rows, in this order; rows may be repeated."""
    return gather(pieces.data, pieces.offsets[:-1][rows], pieces.offsets[1:][rows])


def byte_scalar(data: bytes) -> pa.LargeBinaryScalar:
    """Return a large binary scalar; ``pa.scalar`` imports pandas when it is given a Python object."""
    return RowBytes(np.frombuffer(data, dtype=np.uint8), np.array([0, len(data)], dtype=np.int64)).to_arrow()[0]


def entry_batch(key_groups: npt.ArrayLike, state_id: int, keys: RowBytes, values: RowBytes) -> pa.RecordBatch:
    """Return a batch of RAW_ENTRIES, all of one state."""
    groups = np.ascontiguousarray(key_groups, dtype=np.int32)
    ids = values_array(np.full(len(groups), state_id, dtype=np.int32))
    return pa.RecordBatch.from_arrays(
        [values_array(groups), ids, keys.to_arrow(), values.to_arrow()], RAW_ENTRIES.names
    )


__all__ = ["byte_scalar", "empty_row_bytes", "entry_batch", "gather", "row_bytes_of", "take_rows"]
