"""Writers of rows whose sizes are known, and their combinators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.byte_arrays import RowBytes, Unencodable
from stateproc.codec.encoding.kernels import put_same


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
