"""Find and read the header of a state file, also past serializer snapshots of unknown classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from stateproc.errors import SnapshotError
from stateproc.serializers import UnknownSnapshotClass
from stateproc.wire import Cursor

Header = TypeVar("Header")
MAX_HEADER = 64 << 20
_LONGEST_UNKNOWN = 1 << 16
_MOST_TRIES = 1 << 17


def read_whole_header(data: bytes, file: str, read: Callable[[Cursor], Header]) -> Header:
    """Read a header that fills ``data`` exactly.

    A snapshot of an unknown class has no stored length; but the header's end is known, so the length is the one
    with which all that follows can be read to that end. Raises UnknownSnapshotClass if there is none.
    """
    return _Search(data, file, read).run({})


class _Search(Generic[Header]):
    def __init__(self, data: bytes, file: str, read: Callable[[Cursor], Header]) -> None:
        self._data, self._file, self._read = data, file, read
        self._tries = 0

    def run(self, sizes: dict[int, int]) -> Header:
        """Read with these sizes of unknown payloads (position → size); try sizes for the next unknown one."""
        cursor = Cursor(self._data, file=self._file)
        cursor.assumed_sizes = sizes
        try:
            header = self._read(cursor)
            cursor.finish("the header")
            return header
        except UnknownSnapshotClass as unknown:
            if unknown.payload_at in sizes:
                raise
            return self._sized(unknown, sizes)

    def _sized(self, unknown: UnknownSnapshotClass, sizes: dict[int, int]) -> Header:
        longest = min(_LONGEST_UNKNOWN, len(self._data) - unknown.payload_at)
        for size in range(longest + 1):
            self._tries += 1
            if self._tries > _MOST_TRIES:
                break
            try:
                return self.run({**sizes, unknown.payload_at: size})
            except SnapshotError:
                continue
        raise unknown
