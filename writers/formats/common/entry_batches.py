"""Batches of raw entries that are written: (key group, state id, composite key, value), in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Ints, Longs
from stateproc.codec.arrow_arrays import numbers_of
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
TARGET = "target"
TARGETED = RAW_ENTRIES.insert(0, pa.field(TARGET, pa.int32(), nullable=False))
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
