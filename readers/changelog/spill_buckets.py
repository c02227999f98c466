"""Changes put by key group, in memory or, where they are too many, in temporary files."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from stateproc.readers.changelog.change_blocks import ChangeBlock

MEMORY_BYTES = 256 << 20
RUN_BYTES = 32 << 20
_FILES = 64
_OVERHEAD = 24
_BLOCK_OVERHEAD = 500
_IN_A_RUN = 200
"""Bytes beside its own that a change takes while it is held, that a block does, and a change while it is applied."""
_RECORD = struct.Struct("=iIIQ")
"""Key group, file, number of changes, bytes."""


class Buckets:
    """Collects changes, gives them back by ascending runs of key groups, in their order within a key group.

    ``memory``: bytes from which on they go to files, each of neighbouring key groups, so that a log larger than
    memory is read back in parts. A context manager: the files go with it.
    """

    def __init__(self, key_groups: Sequence[int], memory: int = MEMORY_BYTES) -> None:
        self._groups = sorted(key_groups)
        self._index = {group: index for index, group in enumerate(self._groups)}
        self._memory = memory
        self._held: dict[int, list[ChangeBlock]] = {}
        self._bytes = 0
        self._files: dict[str, int] = {}
        self._spilled: tempfile.TemporaryDirectory[str] | None = None
        self.count = 0

    def __enter__(self) -> Buckets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._spilled is not None:
            self._spilled.cleanup()

    def add(self, block: ChangeBlock) -> None:
        """Add changes of one of the key groups."""
        self._held.setdefault(block.key_group, []).append(block)
        self._bytes += len(block.data) + _OVERHEAD * len(block) + _BLOCK_OVERHEAD
        self.count += len(block)
        if self._bytes > self._memory:
            self._spill()

    def runs(self, more: int = 0) -> Iterator[tuple[list[int], list[ChangeBlock]]]:
        """Runs of all key groups, also those without changes, with their changes.

        ``more``: bytes that each key group has beside its changes; a run has about RUN_BYTES of both.
        """
        if self._spilled is not None:
            self._spill()
            for number in range(_FILES):
                groups = [group for group in self._groups if self._file_of(group) == number]
                if groups:
                    yield from _cut(groups, self._read(number), more)
            return
        yield from _cut(self._groups, self._held, more)

    def _file_of(self, group: int) -> int:
        return self._index[group] * _FILES // len(self._groups)

    def _path(self, number: int) -> Path:
        assert self._spilled is not None
        return Path(self._spilled.name) / str(number)

    def _spill(self) -> None:
        if self._spilled is None:
            self._spilled = tempfile.TemporaryDirectory(prefix="stateproc-changelog-")
        parts: dict[int, list[bytes]] = {}
        for group, blocks in self._held.items():
            part = parts.setdefault(self._file_of(group), [])
            for block in blocks:
                file = self._files.setdefault(block.file, len(self._files))
                bounds = np.concatenate([block.starts, block.ends, block.places]).astype(np.int64)
                part += (_RECORD.pack(group, file, len(block), len(block.data)), bounds.tobytes(), block.data)
        for number, part in parts.items():
            with self._path(number).open("ab") as out:
                out.writelines(part)
        self._held, self._bytes = {}, 0

    def _read(self, number: int) -> dict[int, list[ChangeBlock]]:
        names = list(self._files)
        found: dict[int, list[ChangeBlock]] = {}
        path = self._path(number)
        if path.exists():
            with path.open("rb") as file:
                while head := file.read(_RECORD.size):
                    group, name, n, size = _RECORD.unpack(head)
                    starts, ends, places = np.frombuffer(file.read(24 * n), dtype=np.int64).reshape(3, n)
                    block = ChangeBlock(group, file.read(size), starts, ends, names[name], places)
                    found.setdefault(group, []).append(block)
        return found


def _cut(
    groups: Sequence[int], changes: dict[int, list[ChangeBlock]], more: int
) -> Iterator[tuple[list[int], list[ChangeBlock]]]:
    run: list[int] = []
    found: list[ChangeBlock] = []
    held = 0
    for group in groups:
        own = changes.get(group, [])
        size = more + sum(len(block.data) + _IN_A_RUN * len(block) for block in own)
        if run and held + size > RUN_BYTES:
            yield run, found
            run, found, held = [], [], 0
        run.append(group)
        found += own
        held += size
    if run:
        yield run, found
