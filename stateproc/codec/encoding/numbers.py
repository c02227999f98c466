"""Writers of numbers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Longs
from stateproc.codec.encoding.kernels import put_numbers, put_varints, put_zeros, varint_sizes
from stateproc.codec.encoding.sized_writers import SizedWriter, write_nothing


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
