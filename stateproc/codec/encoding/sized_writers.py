"""Writers of rows whose sizes are known, and their combinators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, Unencodable
from stateproc.codec.encoding.kernels import put_numbers, put_same, put_varints, put_zeros, varint_sizes


@dataclass(frozen=True)
class SizedWriter:
    """Sizes of the rows of a column, and a function that writes them.

    lengths: bytes per row, int64 [rows], or one int if all rows have as many. write: given an address per row (int64
    [rows], contiguous), writes each row there and advances its address past it.
    """

    lengths: int | Longs
    write: Callable[[Longs], None]


def write_rows(measured: SizedWriter, n: int) -> RowBytes:
    """Write ``n`` rows one after another into a new buffer."""
    offsets = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(per_row(measured.lengths, n), out=offsets[1:])
    # Arrow's pool keeps what is freed, for a while; the system's, batch after batch, costs page faults again.
    data = np.frombuffer(pa.allocate_buffer(int(offsets[-1])), dtype=np.uint8)
    at = offsets[:-1] + data.ctypes.data
    measured.write(at)
    if not np.array_equal(at, offsets[1:] + data.ctypes.data):
        raise AssertionError("a layout has not written as many bytes as it measured")
    return RowBytes(data, offsets)


def per_row(lengths: int | Longs, n: int) -> Longs:
    """Lengths as an array."""
    return np.full(n, lengths, dtype=np.int64) if isinstance(lengths, int) else lengths


def write_nothing(_at: Longs) -> None:
    """Write no bytes."""


def constant_bytes(data: bytes) -> SizedWriter:
    """Write the same bytes in every row."""
    if not data:
        return SizedWriter(0, write_nothing)
    source = np.frombuffer(data, dtype=np.uint8)
    return SizedWriter(len(data), lambda at: put_same(source.ctypes.data, len(source), at.ctypes.data, len(at)))


def concatenate(parts: Sequence[SizedWriter]) -> SizedWriter:
    """Write one part after another in each row."""
    total: int | Longs = 0
    for part in parts:
        total = total + part.lengths

    def write(at: Longs) -> None:
        for part in parts:
            part.write(at)

    return SizedWriter(total, write)


def scatter(n: int, parts: Sequence[tuple[Longs, SizedWriter]]) -> SizedWriter:
    """``n`` rows, some of which have a part: each part with its rows (distinct, rising)."""
    lengths = np.zeros(n, dtype=np.int64)
    for rows, part in parts:
        lengths[rows] += part.lengths

    def write(at: Longs) -> None:
        for rows, part in parts:
            some = at[rows]
            part.write(some)
            at[rows] = some

    return SizedWriter(lengths, write)


@contextmanager
def locate_errors(row_of: Callable[[int], int] | None = None, name: str = "") -> Iterator[None]:
    """Re-raise Unencodable with the row of the outer array, ``row_of`` the inner row, and the part's ``name``."""
    try:
        yield
    except Unencodable as error:
        message = f"{name}: {error.message}" if name else error.message
        raise Unencodable(message, error.row if row_of is None else int(row_of(error.row))) from error


# Writers of numbers.


def fixed(values: npt.NDArray[Any], big_endian: bool = True) -> SizedWriter:
    """Numbers of 1, 2, 4 or 8 bytes as they are. ``values``: native, one per row."""
    values = np.ascontiguousarray(values)
    width, n, swap = values.dtype.itemsize, len(values), big_endian == (sys.byteorder == "little")
    return SizedWriter(width, lambda at: put_numbers(values.ctypes.data, width, swap, at.ctypes.data, n))


def canonical_nans(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``values`` with every NaN the one that Java's DataOutput.writeFloat and writeDouble write."""
    nans = np.isnan(values)
    if not nans.any():
        return values
    bits, one = (np.int32, 0x7FC00000) if values.dtype.itemsize == 4 else (np.int64, 0x7FF8000000000000)
    return np.where(nans, bits(one), values.view(bits)).view(values.dtype)


def varints(values: Longs) -> SizedWriter:
    """Unsigned varints, the lowest 7 bits first; no value is negative."""
    values = np.ascontiguousarray(values, dtype=np.int64)
    n = len(values)
    sizes = np.empty(n, dtype=np.int64)
    varint_sizes(values.ctypes.data, sizes.ctypes.data, n)
    return SizedWriter(sizes, lambda at: put_varints(values.ctypes.data, at.ctypes.data, n))


def zeros(sizes: int | Longs) -> SizedWriter:
    """Zero bytes, as many in every row or as many as its size says."""
    if isinstance(sizes, int):
        many = sizes
        return (
            SizedWriter(many, lambda at: put_zeros(0, many, at.ctypes.data, len(at)))
            if many
            else SizedWriter(0, write_nothing)
        )
    by_row = np.ascontiguousarray(sizes, dtype=np.int64)
    return SizedWriter(by_row, lambda at: put_zeros(by_row.ctypes.data, 0, at.ctypes.data, len(at)))
