"""Bytes of a file that are held in memory while all states in them are read, so that the file is read once."""

from __future__ import annotations

from dataclasses import dataclass, field

from stateproc.storage import ByteSource
from stateproc.storage.sources import check_limit, check_range

LARGEST_WINDOW = 96 << 20
"""A key group of more bytes is read once for each state instead of being held."""


@dataclass(frozen=True)
class WindowSource:
    """A file of which some bytes are in memory, under the offsets that they have in the file.

    Attributes:
        inner: The file, which is read for all other bytes.
        start: The offset of the first byte in memory.
        data: The bytes in memory.
    """

    inner: ByteSource
    start: int
    data: bytes = field(repr=False)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def size(self) -> int:
        return self.inner.size

    def read(self, start: int, length: int) -> bytes:
        check_range(self, start, length)
        at = start - self.start
        if at < 0 or at + length > len(self.data):
            return self.inner.read(start, length)
        return self.data[at : at + length]

    def read_all(self, limit: int) -> bytes:
        check_limit(self, limit)
        return self.read(0, self.size)


def window(source: ByteSource, start: int, stop: int) -> ByteSource:
    """Return the source with its bytes from ``start`` to ``stop`` in memory, unless they are too many.

    Raises CorruptSnapshot, MissingFile.
    """
    if stop - start > LARGEST_WINDOW:
        return source
    return WindowSource(source, start, source.read(start, stop - start))
