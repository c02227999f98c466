"""Define scans of one state in two files that read only the entries which may differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from stateproc.readers.common.raw_entries import RawEntries


class PairScan(Protocol):
    """Reads one state of two files that have much in common."""

    @property
    def bytes(self) -> int:
        """Return the number of stored bytes to read, approximately."""

    def entries(self, key_groups: Collection[int]) -> Iterator[tuple[int, RawEntries]]:
        """Read the entries that may differ: yield their side (0: the first file, 1: the second) and the entries.

        Entries of both files that are not yielded have the same bytes.

        Args:
            key_groups: Key groups that both files have.

        Raises:
            CorruptSnapshot, MissingFile, UnsupportedSnapshot: A file cannot be read.
        """
