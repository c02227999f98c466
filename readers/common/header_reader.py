"""Find and read the header of a state file, also past serializer snapshots of unknown classes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from stateproc.errors import SnapshotError
from stateproc.serializers import UnknownSnapshotClass
from stateproc.wire import Cursor

Header = TypeVar("Header")
MAX_HEADER = 64 << 20
_LONGEST_UNKNOWN = 1 << 16
# What a search may cost, in bytes read again and again: well under a second.
_COST, _COST_PER_TRY, _READINGS = 1 << 20, 256, 4
_TEXT = re.compile(rb"[\x20-\x7e]{3,}")


def read_whole_header(data: bytes, file: str, read: Callable[[Cursor], Header]) -> Header:
    """Read a header that fills ``data`` exactly.

    A snapshot of an unknown class has no stored length; but the header's end is known, so the length is the one
    with which all that follows can be read to that end. Raises UnknownSnapshotClass if none is found in bounded time.
    """
    return _Search(data, file, read).run({})


class SharedHeaders(Generic[Header]):
    """Headers read once for all files that have the same: the subtasks of an operator, thousands of them, mostly do.

    One that cannot be read is read again for each file, so that every error names its own.
    """

    def __init__(self, read: Callable[[Cursor], Header]) -> None:
        self._read, self._known = read, dict[bytes, Header]()

    def whole(self, data: bytes, file: str) -> Header:
        """As :func:`read_whole_header`."""
        digest = hashlib.sha256(data).digest()
        found = self._known.get(digest)
        # Threads that read the same one at once go on with the first that is there.
        return found or self._known.setdefault(digest, read_whole_header(data, file, self._read))


class _Search(Generic[Header]):
    def __init__(self, data: bytes, file: str, read: Callable[[Cursor], Header]) -> None:
        self._data, self._file, self._read = data, file, read
        self._left = max(_COST, _READINGS * len(data))

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
            self._left -= cursor.pos
            return self._sized(unknown, sizes)
        finally:
            self._left -= cursor.pos + _COST_PER_TRY

    def _sized(self, unknown: UnknownSnapshotClass, sizes: dict[int, int]) -> Header:
        for size in self._likely_sizes(unknown.payload_at):
            if self._left <= 0:
                break
            try:
                return self.run({**sizes, unknown.payload_at: size})
            except SnapshotError:
                continue
        raise unknown

    def _likely_sizes(self, start: int) -> Iterator[int]:
        """Yield sizes of a payload at ``start``: first those after which a text begins or nothing follows, then all."""
        data = self._data
        stop = min(len(data), start + _LONGEST_UNKNOWN)
        likely: dict[int, None] = {0: None}
        for text in _TEXT.finditer(data, start, stop):
            # A UTF string: its u16 length stands before it, of which a printable low byte may look like text.
            for at in (text.start() - 2, text.start() - 1):
                if at >= start and 3 <= int.from_bytes(data[at : at + 2], "big") <= text.end() - at - 2:
                    likely[at - start] = None
        if stop == len(data):
            likely[stop - start] = None
        yield from likely
        yield from (size for size in range(stop - start + 1) if size not in likely)
