"""Sorted runs: entries in any order, sorted as many as memory holds at a time, kept in files until all are there."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Protocol

import pyarrow as pa

from stateproc.metadata.handles import RelativeFileHandle
from stateproc.storage import open_handle
from stateproc.storage.writing import writing
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.common.entry_batches import TARGET, byte_column, cuts, portions
from stateproc.writers.spark.entry_sort import in_order
from stateproc.writers.spark.run_merge import RunChunk, SortedRun, merged
from stateproc.writers.spark.spill_buffer import TEMPORARY, SpillBuffer, temporary_file

RUN_BYTES, HELD_BYTES = 64 << 20, 16 << 20
"""Of entries in a run; of those that wait in memory to be written, or are sorted at a time."""
_PIECE_BYTES = 256 << 10
"""What is held of each run while all are merged."""


@dataclass(frozen=True)
class StagedRun:
    """A file in the target's directory, of entries sorted by target, key group, state id and key."""

    file: RelativeFileHandle
    pieces: tuple[RunChunk, ...]


class _Out(Protocol):
    def write(self, data: memoryview, /) -> object: ...


def written_runs(
    staging: Staging, batches: Iterable[pa.RecordBatch], run_bytes: int = RUN_BYTES
) -> Iterator[StagedRun]:
    """Runs of the entries (TARGETED) in the directory that is written to, for another process to merge."""
    for held in _held(batches, run_bytes):
        with staging.new_file(inline_threshold=-1) as file:
            pieces = _write(file, in_order(held))
            handle = file.close()
        assert isinstance(handle, RelativeFileHandle)
        yield StagedRun(handle, pieces)


def staged_entries(staging: Staging, runs: Iterable[StagedRun]) -> Iterator[pa.RecordBatch]:
    """All entries of staged runs (TARGETED) in order. Raises WriteFailed."""
    readers = []
    for run in runs:
        source = open_handle(run.file, staging.location)
        readers.append(SortedRun(run.pieces, source.read, source.name))
    return merged(readers)


def sorted_entries(batches: Iterable[pa.RecordBatch], run_bytes: int = HELD_BYTES) -> Iterator[pa.RecordBatch]:
    """All entries (TARGETED) in order; what is over ``run_bytes`` waits in a temporary file. Raises WriteFailed."""
    with ExitStack() as stack:
        waiting = SpillBuffer(stack, run_bytes)
        for batch in batches:
            waiting.add(batch)
        for portion in waiting.portions():
            yield from _sorted(portion, run_bytes)


def _sorted(batches: Iterable[pa.RecordBatch], run_bytes: int) -> Iterator[pa.RecordBatch]:
    """The entries in order: by runs where they are more than ``run_bytes``, a key group that others are few beside."""
    runs = _held(batches, run_bytes)
    first, second = next(runs, None), next(runs, None)
    if first is None:
        return
    if second is None:
        entries = in_order(first)
        first.clear()
        yield entries
        return
    with temporary_file() as file:
        spilled = _Spilled(file)
        for run in itertools.chain((first, second), runs):
            spilled.add(run)
        yield from merged(spilled.runs)


class _Spilled:
    """Runs one behind the other in a temporary file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.runs: list[SortedRun] = []

    def add(self, held: list[pa.RecordBatch]) -> None:
        base = self._file.tell()

        def read(start: int, length: int) -> bytes:
            self._file.seek(base + start)
            return self._file.read(length)

        with writing(TEMPORARY):
            pieces = _write(self._file, in_order(held))
        held.clear()
        self.runs.append(SortedRun(pieces, read, TEMPORARY))


def _held(batches: Iterable[pa.RecordBatch], run_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    """The batches, about ``run_bytes`` of them at a time."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= run_bytes:
            yield held
            held, size = [], 0
    if size:
        yield held


def _write(out: _Out, entries: pa.RecordBatch) -> tuple[RunChunk, ...]:
    """Write sorted entries in pieces, each of one key group."""
    targets, groups = (entries.column(name).to_numpy() for name in (TARGET, "key_group"))
    keys, values = (byte_column(entries.column(name)).offsets for name in ("key", "value"))
    pieces: list[RunChunk] = []
    at = 0
    for start, stop in portions(keys[1:] + values[1:], cuts(targets, groups), _PIECE_BYTES):
        data = entries.slice(start, stop - start).serialize()
        pieces.append(RunChunk(int(targets[start]), int(groups[start]), at, data.size))
        out.write(memoryview(data))
        at += data.size
    return tuple(pieces)
