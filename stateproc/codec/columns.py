"""Output columns of the VM, which grow as needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stateproc.codec.allocation import uninitialized_bytes
from stateproc.codec.array_types import Bytes

_MARGIN = 1.1
_MOST_EXPECTED = 16 << 20
"""Bytes by which a column grows at most because of what is expected: the first rows may be longer than the others."""


class Columns:
    """Columns of raw values. ``table[c]`` = (address, used, capacity), the last two in bytes."""

    LIMIT = 2**31 - 1
    ENOUGH = 128 << 20
    _INITIAL_CAPACITY = 1024

    def __init__(self, n: int) -> None:
        self.table = np.zeros((n, 3), dtype=np.int64)
        self.saved = np.zeros(n, dtype=np.int64)
        self._data: list[Bytes] = [np.empty(0, dtype=np.uint8)] * n
        self._given: set[int] = set()
        for column in range(n):
            self._allot(column, self._INITIAL_CAPACITY)

    def _allot(self, column: int, capacity: int) -> None:
        """Give the column ``capacity`` bytes, keeping what it holds."""
        data = uninitialized_bytes(capacity)
        used = int(self.table[column, 1])
        data[:used] = self._data[column][:used]
        self._data[column] = data
        self.table[column] = data.ctypes.data, used, capacity

    def grow(self, column: int, need: int, share: float = 0.0) -> bool:
        """Grow ``column`` by at least ``need`` bytes; False if it would exceed 2 GiB.

        ``share``: the share of all rows that the column has now, 0 if not known. It grows to the bytes of all rows at
        this rate, because each growth interrupts the kernel and needs the interpreter's lock.
        """
        used, capacity = int(self.table[column, 1]), int(self.table[column, 2])
        if used + need > self.LIMIT or capacity >= self.LIMIT:
            return False
        expected = min(int(_MARGIN * used / share), used + _MOST_EXPECTED) if share else 4 * capacity
        self._allot(column, min(self.LIMIT, max(2 * capacity, used + need, expected)))
        return True

    def reserve(self, needs: npt.NDArray[np.int64]) -> None:
        """Grow all columns at once that lack capacity, unless together they would be large.

        Args:
            needs: Further bytes for each column.
        """
        wanted = self.table[:, 1] + needs
        if int(np.maximum(wanted, self.table[:, 2]).sum()) <= self.ENOUGH:
            for column in np.flatnonzero(wanted > self.table[:, 2]).tolist():
                self._allot(column, int(wanted[column]))

    @property
    def is_large(self) -> bool:
        """Whether the columns hold so many bytes that whoever can should go on in another batch."""
        return int(self.table[:, 2].sum()) > self.ENOUGH and int(self.table[:, 1].sum()) > self.ENOUGH // 2

    def clear(self) -> None:
        """Forget the values; columns that were given away get memory of their own again."""
        for column in self._given:
            self._data[column] = np.empty(0, dtype=np.uint8)
            self.table[column, 1] = 0
            self._allot(column, int(self.table[column, 2]))
        self._given.clear()
        self.table[:, 1] = 0

    def view(self, column: int) -> Bytes:
        """The column's bytes, until it is written to again."""
        return self._data[column][: int(self.table[column, 1])]

    def take(self, column: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The column's values, which nothing written later touches: mostly the column's own memory, given away.

        What was written is a copy where the column's memory is mostly empty.
        """
        view = self.view(column)
        if 2 * len(view) < int(self.table[column, 2]):
            view = view.copy()
        else:
            self._given.add(column)
        values: npt.NDArray[Any] = view.view(dtype)
        return values
