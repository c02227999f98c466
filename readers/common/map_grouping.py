"""Map state in composite entries: neighbours with the same key and namespace become one row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Flags, Longs
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.jit import exported, load_u8
from stateproc.codec.layouts.collections import refuse_null_keys
from stateproc.codec.layouts.offsets import offsets_of_lengths
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.common.entry_programs import Columns
from stateproc.readers.common.raw_entries import RawEntries


@exported
def _new_keys(source: int, starts: Longs, stops: Longs, out: Flags) -> None:
    """out[i] = whether the bytes [starts[i], stops[i]) differ from those before; out[0] is left as it is."""
    for i in range(1, len(starts)):
        n = stops[i] - starts[i]
        same = n == stops[i - 1] - starts[i - 1]
        k = 0
        while same and k < n:
            same = load_u8(source + starts[i] + k) == load_u8(source + starts[i - 1] + k)
            k += 1
        out[i] = not same


class MapGrouper:
    """Collects entries; yields rows with a map value each. The last row waits until the next one begins.

    A map of more than ``most`` bytes, which no Arrow value can hold, is refused once so many have come.
    """

    def __init__(self, state: str, most: int) -> None:
        self._state, self._most = state, most
        self._open: list[Columns] = []
        self._open_key: tuple[int, bytes] | None = None
        self._open_bytes = 0

    def feed(self, entries: RawEntries, columns: Columns, marks: npt.NDArray[np.int64]) -> Iterator[Columns]:
        """``columns``: the decoded entries. ``marks``: where user keys begin."""
        starts = entries.ranges[0]
        new = np.zeros(len(starts), dtype=np.bool_)
        _new_keys(entries.data.ctypes.data, starts, marks, new)
        new[1:] |= np.diff(entries.key_groups) != 0
        new[0] = self._key(entries, marks, 0) != self._open_key
        self._open_key = self._key(entries, marks, len(starts) - 1)
        bounds = np.flatnonzero(new)
        sizes = entries.ranges[3] - entries.ranges[2] + entries.ranges[1] - marks
        self._check(entries, self._open_bytes + int(sizes[: bounds[0] if len(bounds) else None].sum()))
        if len(bounds) == 0:
            self._open_bytes += int(sizes.sum())
            self._open.append(columns)
            return
        if self._open or bounds[0] > 0:
            self._open.append(_slice(columns, 0, int(bounds[0])))
            yield self._row(self._open)
        last = int(bounds[-1])
        self._open_bytes = int(sizes[last:].sum())
        if len(bounds) > 1:
            yield _rows(_slice(columns, int(bounds[0]), last), bounds[:-1] - bounds[0])
        self._open = [_slice(columns, last, len(starts))]

    def finish(self) -> Iterator[Columns]:
        """The row that still waits."""
        if self._open:
            yield self._row(self._open)
        self._open = []

    def _check(self, entries: RawEntries, size: int) -> None:
        """Raise UnsupportedSnapshot if the open map has grown to more bytes than a value can have."""
        if size > self._most:
            raise UnsupportedSnapshot(
                f"a map of {size} bytes or more, which is more than one value can hold",
                where=Where(entries.file, entries.file_at, state=self._state),
                advice="read its entries as rows: flatten=true in Spark, flatten=True in Python, --flatten",
            )

    def _row(self, parts: list[Columns]) -> Columns:
        joined = {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}
        return _rows(joined, np.zeros(1, dtype=np.int64))

    @staticmethod
    def _key(entries: RawEntries, marks: npt.NDArray[np.int64], row: int) -> tuple[int, bytes]:
        return int(entries.key_groups[row]), entries.data[entries.ranges[0, row] : marks[row]].tobytes()


def _slice(columns: Columns, start: int, stop: int) -> Columns:
    return {name: column.slice(start, stop - start) for name, column in columns.items()}


def _rows(columns: Columns, starts: npt.NDArray[np.int64]) -> Columns:
    """Entries as rows that begin at ``starts``. Raises NullKey."""
    columns = dict(columns)
    keys, items = columns.pop("user_key"), columns.pop("value")
    refuse_null_keys(keys, "flatten the state: a row for each entry may have a null key")
    lengths = np.diff(np.append(starts, len(keys)))
    fields = [pa.field("key", keys.type, nullable=False), pa.field("value", items.type)]
    pairs = pa.StructArray.from_arrays([keys, items], fields=fields)
    first = values_array(starts)
    rows = {name: column.take(first) for name, column in columns.items()}
    buffers = [None, pa.py_buffer(offsets_of_lengths(lengths.astype(np.int32)))]
    rows["value"] = pa.Array.from_buffers(pa.map_(keys.type, items.type), len(starts), buffers, children=[pairs])
    return rows
