"""Writers of strings and byte strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import binary_array, bytes_of, null_rows, refuse_nulls
from stateproc.codec.byte_arrays import RowBytes, Unencodable
from stateproc.codec.encoding.flink_string import (
    measure_flink_strings,
    measure_modified_utf8,
    put_flink_strings,
    put_modified_utf8,
)
from stateproc.codec.encoding.kernels import put_blobs
from stateproc.codec.encoding.sized_writers import SizedWriter

_UTF_LIMIT = 65_535


def flink_strings(array: pa.Array, bias: int) -> SizedWriter:
    """StringValue.writeString (``bias`` 1, which has nulls) or StringValue.write (0)."""
    if not bias:
        refuse_nulls(array, "a StringValue")
    array = binary_array(array, text=True)
    data, offsets = bytes_of(array)
    valid = np.logical_not(null_rows(array)) if array.null_count else None
    n = len(array)
    units, lengths = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    mask = 0 if valid is None else valid.ctypes.data
    wrong = measure_flink_strings(
        data.ctypes.data, offsets.ctypes.data, mask, bias, units.ctypes.data, lengths.ctypes.data, n
    )
    _check_utf8(wrong)

    def write(at: Longs) -> None:
        put_flink_strings(data.ctypes.data, offsets.ctypes.data, bias, units.ctypes.data, at.ctypes.data, n)

    return SizedWriter(lengths, write)


def java_utf(array: pa.Array) -> SizedWriter:
    """DataOutput.writeUTF."""
    refuse_nulls(array, "writeUTF")
    array = binary_array(array, text=True)
    data, offsets = bytes_of(array)
    n = len(array)
    lengths = np.empty(n, dtype=np.int64)
    _check_utf8(measure_modified_utf8(data.ctypes.data, offsets.ctypes.data, lengths.ctypes.data, n))
    if n and lengths.max() > _UTF_LIMIT:
        row = int(np.argmax(lengths > _UTF_LIMIT))
        raise Unencodable(f"a string of {lengths[row]} bytes, where writeUTF takes {_UTF_LIMIT}", row)

    def write(at: Longs) -> None:
        put_modified_utf8(data.ctypes.data, offsets.ctypes.data, lengths.ctypes.data, at.ctypes.data, n)

    return SizedWriter(lengths + 2, write)


def _check_utf8(row: int) -> None:
    if row >= 0:
        raise Unencodable("a string that is not UTF-8", row)


def blobs(array: pa.Array, text: bool = False) -> SizedWriter:
    """The bytes alone, without a length."""
    refuse_nulls(array, "a byte string")
    data, offsets = bytes_of(binary_array(array, text))
    return blob_bytes(data, offsets)


def row_bytes_writer(these: RowBytes) -> SizedWriter:
    """Write bytes that are encoded already."""
    return blob_bytes(these.data, these.offsets)


def blob_bytes(data: np.ndarray[tuple[int], np.dtype[np.uint8]], offsets: Longs) -> SizedWriter:
    """Row i: data[offsets[i]:offsets[i + 1]]."""
    lengths: Longs = np.diff(offsets)
    n = len(lengths)
    return SizedWriter(lengths, lambda at: put_blobs(data.ctypes.data, offsets.ctypes.data, at.ctypes.data, n))
