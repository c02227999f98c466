"""Encoded rows: one byte string per row, in two buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Bytes


@dataclass(frozen=True)
class RowBytes:
    """One byte string per row: row ``i`` is ``data[offsets[i]:offsets[i + 1]]``.

    data: uint8. offsets: int64 [rows + 1], not falling. A row that stands for nothing has no bytes.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of bytes of each row, int64 [rows]."""
        lengths: npt.NDArray[np.int64] = np.diff(self.offsets)
        return lengths

    def to_arrow(self) -> pa.LargeBinaryArray:
        """The same as an Arrow array, without a copy."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)


class Unencodable(ValueError):
    """A value that its type cannot hold. ``row``: its position in the array given; ``message`` says why."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message, row)
        self.message = message
        self.row = row


def row_bytes_of(array: pa.Array) -> RowBytes:
    """Return a binary array without nulls as RowBytes; the bytes are not copied."""
    wide = array.cast(pa.large_binary())
    _, starts, content = wide.buffers()
    if starts is None or len(wide) == 0:
        return RowBytes(np.empty(0, dtype=np.uint8), np.zeros(len(wide) + 1, dtype=np.int64))
    offsets = np.frombuffer(starts, dtype=np.int64, count=len(wide) + 1, offset=8 * wide.offset)
    return RowBytes(np.frombuffer(content, dtype=np.uint8) if content else np.empty(0, dtype=np.uint8), offsets)


def empty_row_bytes(n: int) -> RowBytes:
    """Return ``n`` byte strings of length 0."""
    return RowBytes(np.empty(0, dtype=np.uint8), np.zeros(n + 1, dtype=np.int64))


# Memory for the bytes of batches, from Arrow's pool.
#
# A thread that is not the main one gets memory from an arena of its own, which glibc returns to the kernel at once when
# it is freed: every batch that is read by a thread would pay the page faults of fresh memory. Arrow's pool keeps what
# is freed for the next batch, whichever thread asks for it, and takes large pages from the kernel where it can.

_SMALLEST = 64 << 10
"""The allocator of numpy is faster for less."""


def uninitialized_bytes(size: int) -> Bytes:
    """Return ``size`` bytes that may hold anything, uint8 [size], writable."""
    if size < _SMALLEST:
        return np.empty(size, dtype=np.uint8)
    return np.frombuffer(pa.allocate_buffer(size), dtype=np.uint8)
