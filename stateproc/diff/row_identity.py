"""Encode decoded rows so that rows are equal exactly if their bytes are, whatever the types of their columns.

Floating-point numbers are compared by their bits (-0.0 is not 0.0, NaN equals NaN), lists by their order, maps without
one: their entries are sorted by the bytes of their keys. Every encoding ends where it says, so that no two rows of
different values have the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, booleans_of, empty_row_bytes, null_rows, offsets_of
from stateproc.diff.entry_table import joined, place, taken_rows


def identity(columns: Sequence[pa.Array], rows: int) -> RowBytes:
    """Encode rows of several columns. ``rows``: their number, where there may be no column."""
    if not columns:
        return empty_row_bytes(rows)
    parts = [encoded(column) for column in columns]
    return parts[0] if len(parts) == 1 else joined(parts)


def encoded(array: pa.Array) -> RowBytes:
    """Encode the values of an array: a mark, then, of values that are not null, their bytes."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return encoded(array.dictionary_decode())
    if isinstance(kind, pa.BaseExtensionType):
        return encoded(array.storage)
    if pa.types.is_struct(kind):
        return joined([_marks(array), *(encoded(child) for child in array.flatten())])
    if pa.types.is_map(kind):
        return _map_bytes(array)
    if pa.types.is_fixed_size_list(kind):
        return _list_bytes(array.cast(pa.large_list(kind.value_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_bytes(array)
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(check(kind) for check in checks):
        return _text_bytes(array)
    return _fixed_bytes(array)


def _rows_of(matrix: npt.NDArray[np.uint8]) -> RowBytes:
    """Return the rows of a matrix of bytes."""
    rows, width = matrix.shape
    return RowBytes(np.ascontiguousarray(matrix).reshape(-1), np.arange(rows + 1, dtype=np.int64) * width)


def _marks(array: pa.Array) -> RowBytes:
    return _rows_of((~null_rows(array)).astype(np.uint8).reshape(-1, 1))


def _fixed_bytes(array: pa.Array) -> RowBytes:
    """Encode values of one width by their bits; nulls have the bits 0."""
    rows, kind = len(array), array.type
    if pa.types.is_null(kind):
        return _rows_of(np.zeros((rows, 1), dtype=np.uint8))
    null = null_rows(array)
    if pa.types.is_boolean(kind):
        values = booleans_of(array).reshape(-1, 1)
    else:
        width = kind.bit_width // 8
        raw = np.frombuffer(array.buffers()[1] or b"", dtype=np.uint8)
        values = raw[array.offset * width : (array.offset + rows) * width].reshape(rows, width)
    matrix = np.empty((rows, values.shape[1] + 1), dtype=np.uint8)
    matrix[:, 0], matrix[:, 1:] = ~null, values
    matrix[null] = 0
    return _rows_of(matrix)


def _counts(counts: Longs, null: npt.NDArray[np.bool_]) -> RowBytes:
    """Encode a mark and a number for each row."""
    matrix = np.empty((len(counts), 9), dtype=np.uint8)
    matrix[:, 0] = ~null
    matrix[:, 1:] = counts.astype(np.int64).view(np.uint8).reshape(-1, 8)
    return _rows_of(matrix)


def _text_bytes(array: pa.Array) -> RowBytes:
    null, offsets = null_rows(array), offsets_of(array)
    starts, lengths = offsets[:-1], np.where(null, 0, np.diff(offsets))
    data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)
    # Rows without gaps, as RowBytes needs them; nulls may have bytes.
    if null.any():
        content = cut_rows(data, starts, lengths)
    else:
        content = RowBytes(data, offsets)
    return joined([_counts(lengths, null), content])


def cut_rows(data: npt.NDArray[np.uint8], starts: Longs, lengths: Longs) -> RowBytes:
    """Copy rows that are anywhere in a buffer."""
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    out = np.empty(int(offsets[-1]) + 1, dtype=np.uint8)
    place(data.ctypes.data + starts, np.ascontiguousarray(lengths), out.ctypes.data, offsets[:-1].copy())
    return RowBytes(out, offsets)


def _list_bytes(array: pa.Array) -> RowBytes:
    null, offsets = null_rows(array), offsets_of(array)
    first, last = int(offsets[0]), int(offsets[-1])
    return _collected(encoded(array.values.slice(first, last - first)), offsets - first, null)


def _map_bytes(array: pa.Array) -> RowBytes:
    null, offsets = null_rows(array), offsets_of(array)
    first, last = int(offsets[0]), int(offsets[-1])
    offsets = offsets - first
    keys = encoded(array.keys.slice(first, last - first))
    pairs = joined([keys, encoded(array.items.slice(first, last - first))])
    if (np.diff(offsets) > 1).any():
        pairs = taken_rows(pairs, _sorted_within(keys, offsets))
    return _collected(pairs, offsets, null)


def _sorted_within(keys: RowBytes, offsets: Longs) -> Longs:
    """Return the order of entries by row, and within a row by the bytes of the key."""
    # Lazy: comparing canonical entries that are equal needs no compute functions.
    import pyarrow.compute as pc

    from stateproc.codec.arrow_arrays import numbers_of, values_array

    rows = values_array(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))
    table = pa.Table.from_arrays([rows, keys.to_arrow()], names=["row", "key"])
    order = pc.sort_indices(table, sort_keys=[("row", "ascending"), ("key", "ascending")])
    return numbers_of(order).astype(np.int64)


def _collected(items: RowBytes, offsets: Longs, null: npt.NDArray[np.bool_]) -> RowBytes:
    """Encode lists: the number of items, then the items, which are one after another already."""
    starts = items.offsets[offsets[:-1]]
    lengths = np.where(null, 0, items.offsets[offsets[1:]] - starts)
    content = cut_rows(items.data, starts, lengths)
    return joined([_counts(np.where(null, 0, np.diff(offsets)), null), content])
