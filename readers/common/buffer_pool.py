"""Buffers that files are read into, used again once nobody looks at them: fresh memory costs more than the reading."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from stateproc.storage import ByteSource, FileSource

Bytes = npt.NDArray[np.uint8]
_KEPT = 3
"""The block in hand, the one that its reader still holds on to, and the next."""


def _references(buffers: list[Bytes], index: int) -> int:
    return sys.getrefcount(buffers[index])


_FREE = _references([np.empty(0, dtype=np.uint8)], 0)
"""What Python counts for a buffer that nothing but its list refers to; which that is differs between its releases."""


class Buffers:
    """Hands out bytes of sources; memory that nothing refers to any more is filled anew."""

    def __init__(self) -> None:
        self._kept: list[Bytes] = []

    def read(self, source: ByteSource, start: int, length: int) -> Bytes:
        """``length`` bytes of ``source`` from ``start``, uint8. Raises CorruptSnapshot, MissingFile."""
        if not isinstance(source, FileSource):
            return np.frombuffer(source.read(start, length), dtype=np.uint8)
        buffer = self._free(length)
        source.read_into(start, memoryview(buffer)[:length])  # type: ignore[arg-type]
        return buffer[:length]

    def _free(self, length: int) -> Bytes:
        for index in range(len(self._kept)):
            # A view of the buffer, wherever it went, refers to it.
            if _references(self._kept, index) == _FREE:
                if len(self._kept[index]) >= length:
                    return self._kept[index]
                del self._kept[index]
                break
        buffer: Bytes = np.empty(length, dtype=np.uint8)
        if len(self._kept) < _KEPT:
            self._kept.append(buffer)
        return buffer
