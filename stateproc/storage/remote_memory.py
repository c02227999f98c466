"""Remember where the remote files of an open snapshot are, and what small reads of them returned.

Readers open files anew for each split. Without this, each split would look for its files and request headers, the ends
of tables and small files again, and wait for each answer. Flink does not change files that it has written.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

SMALL_READ = 64 << 10
"""Bytes of the largest read that is kept."""
_KEPT_BYTES = 8 << 20
Read = tuple[str, int, int]
"""URI, start and end of a read."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Where a file was found, and its size in bytes."""

    uri: str
    size: int


class RemoteMemory:
    """What the byte sources of one snapshot share; other processes begin with nothing."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}
        self._moves: dict[tuple[str, int], int] = {}
        self._reads: OrderedDict[Read, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._requested: dict[Read, threading.Lock] = {}

    def __reduce__(self) -> tuple[type[RemoteMemory], tuple[()]]:
        return RemoteMemory, ()

    def file(self, uri: str) -> StoredFile | None:
        """Return where the file is that ``_metadata`` says is at ``uri``."""
        return self._files.get(uri)

    def add_file(self, uri: str, found: StoredFile) -> None:
        """Remember where a file is."""
        self._files[uri] = found

    def move(self, directory: str, places: int) -> int:
        """Return which of several places had the last file of this directory; 0 if none was looked for.

        Files of one directory are moved together, so that the next file is looked for there first.
        """
        return self._moves.get((directory, places), 0)

    def add_move(self, directory: str, places: int, index: int) -> None:
        """Remember which of several places had a file of this directory."""
        self._moves[directory, places] = index

    def read_once(self, read: Read, request: Callable[[], bytes]) -> bytes:
        """Return what a small read returns; threads that want the same bytes at a time wait for one request."""
        data = self.read(read)
        if data is not None:
            return data
        with self._lock:
            turn = self._requested.setdefault(read, threading.Lock())
        with turn:
            data = self.read(read)
            if data is None:
                data = request()
                self.add_read(read, data)
        with self._lock:
            self._requested.pop(read, None)
        return data

    def read(self, read: Read) -> bytes | None:
        """Return what a small read returned; None if it is not kept."""
        with self._lock:
            data = self._reads.get(read)
            if data is not None:
                self._reads.move_to_end(read)
            return data

    def add_read(self, read: Read, data: bytes) -> None:
        """Keep what a small read returned; those that were not used for the longest time are dropped."""
        with self._lock:
            if read in self._reads:
                return
            self._reads[read] = data
            self._bytes += len(data)
            while self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._reads.popitem(last=False)[1])
