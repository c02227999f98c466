"""Changes by key group, in memory or, where they are too many, in a temporary file."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.readers.changelog.change_blocks import ChangeBlock

MEMORY_BYTES = 32 << 20
"""Bytes of changes that one replay holds. Each thread replays by itself: twice as many threads hold twice as much."""
RUN_BYTES = 32 << 20
"""Bytes that the compaction of one run of key groups takes, unless one key group takes more."""
_OVERHEAD = 24
_BLOCK_OVERHEAD = 500
_IN_A_RUN = 400
"""Bytes beside its own that a change takes while it is held, that a block does, and a change while it is compacted."""
_RECORD = struct.Struct("=iIIQ")
"""Key group, file, number of changes, bytes."""
_ARRAYS = 3
_AT_ONCE = 1 << 20
"""Bytes of the temporary file that are written at once."""


@dataclass(frozen=True)
class _SortedRun:
    """Changes that were written together, by key group: those of ``groups[k]`` are at ``offsets[k]`` to the next."""

    groups: Longs
    offsets: Longs


class Buckets:
    """Collects changes and returns them by runs of key groups, in their order within a key group.

    Changes of more than ``memory`` bytes are written to a temporary file as sorted runs, of which each run of key
    groups is read back by itself. A context manager: the file goes with it.
    """

    def __init__(self, key_groups: Sequence[int], memory: int = MEMORY_BYTES) -> None:
        self._groups = sorted(key_groups)
        self._sizes = dict.fromkeys(self._groups, 0)
        self._memory = memory
        self._held: dict[int, list[ChangeBlock]] = {}
        self._bytes = 0
        self._names: dict[str, int] = {}
        self._file: IO[bytes] | None = None
        self._end = 0
        self._written: list[_SortedRun] = []
        self.count = 0

    def __enter__(self) -> Buckets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, block: ChangeBlock) -> None:
        """Add changes of one of the key groups."""
        self._held.setdefault(block.key_group, []).append(block)
        self._bytes += len(block.data) + _OVERHEAD * len(block) + _BLOCK_OVERHEAD
        self._sizes[block.key_group] += len(block.data) + _IN_A_RUN * len(block)
        self.count += len(block)
        if self._bytes > self._memory:
            self._spill()

    def runs(self, more: int = 0) -> Iterator[list[int]]:
        """Divide the key groups, also those without changes, into ascending runs of about RUN_BYTES.

        ``more``: further bytes of each.
        """
        if self._file is not None:
            self._spill()
        run: list[int] = []
        taken = 0
        for group in self._groups:
            size = more + self._sizes[group]
            if run and taken + size > RUN_BYTES:
                yield run
                run, taken = [], 0
            run.append(group)
            taken += size
        if run:
            yield run

    def taken(self, run: Sequence[int]) -> list[ChangeBlock]:
        """Return the changes of a run, by key group, and forget them."""
        found: dict[int, list[ChangeBlock]] = {group: [] for group in run}
        for written in self._written:
            first, stop = np.searchsorted(written.groups, [run[0], run[-1] + 1])
            for block in self._read(int(written.offsets[first]), int(written.offsets[stop])):
                found[block.key_group].append(block)
        for group in run:
            found[group] += self._held.pop(group, [])
        return [block for blocks in found.values() for block in blocks]

    def _spill(self) -> None:
        """Write what is held as a sorted run."""
        if self._file is None:
            # Each call of the system gives up the interpreter's lock, and must then wait for other threads that replay.
            self._file = tempfile.TemporaryFile(buffering=_AT_ONCE, prefix="stateproc-changelog-")  # noqa: SIM115
        self._file.seek(self._end)
        groups, offsets = sorted(self._held), [self._end]
        for group in groups:
            for part in self._stored(group, self._held.pop(group)):
                self._end += self._file.write(part)
            offsets.append(self._end)
        self._written.append(_SortedRun(np.array(groups, dtype=np.int64), np.array(offsets, dtype=np.int64)))
        self._bytes = 0

    def _stored(self, group: int, blocks: Iterable[ChangeBlock]) -> Iterator[bytes | memoryview]:
        """Yield the bytes of a key group's changes, which :meth:`_read` takes apart."""
        for block in blocks:
            name = self._names.setdefault(block.file, len(self._names))
            yield _RECORD.pack(group, name, len(block), len(block.data))
            for bounds in (block.starts, block.ends, block.places):
                yield np.ascontiguousarray(bounds, dtype=np.int64).data
            yield block.data

    def _read(self, start: int, stop: int) -> Iterator[ChangeBlock]:
        """Read the changes between two offsets of the file."""
        assert self._file is not None
        names = list(self._names)
        self._file.seek(start)
        content, at = self._file.read(stop - start), 0
        while at < len(content):
            group, name, n, size = _RECORD.unpack_from(content, at)
            at += _RECORD.size
            starts, ends, places = np.frombuffer(content, np.int64, _ARRAYS * n, at).reshape(_ARRAYS, n).copy()
            at += starts.itemsize * _ARRAYS * n
            yield ChangeBlock(group, content[at : at + size], starts, ends, names[name], places)
            at += size
