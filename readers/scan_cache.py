"""Keep what the splits of one scan have read of their files and need again, in bounded memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

_MOST_BYTES = 16 << 20
"""Enough for the indexes of some hundred megabytes of RocksDB tables: those that a split shares with its neighbours."""

Kept = TypeVar("Kept")


class ScanCache:
    """What the splits of one scan share, whichever thread reads them. Pickled, it is empty: other processes read anew.

    Attributes:
        held_bytes: The bytes that are kept.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[object, Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.held_bytes = 0

    def __reduce__(self) -> tuple[type[ScanCache], tuple[()]]:
        return ScanCache, ()

    def get(self, owner: object, read: Callable[[], tuple[Kept, int]]) -> Kept:
        """Return what was read of a file, or read it; what was not used for the longest time is forgotten.

        Args:
            owner: The file's source, the same object for all splits.
            read: Reads the file; returns what to keep, which nobody may change, and its bytes. Raises what it raises.
        """
        with self._lock:
            if id(owner) in self._kept:
                self._kept.move_to_end(id(owner))
                known: Kept = self._kept[id(owner)][1]
                return known
        found, size = read()
        with self._lock:
            if id(owner) not in self._kept and size <= _MOST_BYTES:
                self._kept[id(owner)] = owner, found, size
                self.held_bytes += size
            while self.held_bytes > _MOST_BYTES:
                self.held_bytes -= self._kept.popitem(last=False)[1][2]
        return found
