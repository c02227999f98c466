"""Sort entries with bounded memory: in memory, through a spill file, or as sorted runs that are merged."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Protocol

import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of
from stateproc.metadata.handles import RelativeFileHandle
from stateproc.storage import open_handle
from stateproc.storage.writing import writing
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.common.entry_batches import TARGET, byte_column, cuts, portions
from stateproc.writers.sorting.entry_sort import in_order
from stateproc.writers.sorting.run_merge import RunChunk, SortedRun, merged
from stateproc.writers.sorting.spill_buffer import TEMPORARY, SpillBuffer, temporary_file

RUN_BYTES, HELD_BYTES = 64 << 20, 8 << 20
"""Bytes of entries in a staged run; bytes that a task buffers before it spills, and sorts at a time."""
_CHUNK_BYTES = 256 << 10
"""Bytes of each run in memory while runs are merged."""


@dataclass(frozen=True)
class StagedRun:
    """A file of sorted entries (target, key group, state id, key) in the target's directory."""

    file: RelativeFileHandle
    chunks: tuple[RunChunk, ...]


class _Out(Protocol):
    def write(self, data: memoryview, /) -> object: ...


def written_runs(
    staging: Staging, batches: Iterable[pa.RecordBatch], run_bytes: int = RUN_BYTES
) -> Iterator[StagedRun]:
    """Write the entries (TARGETED) as sorted runs in the target's directory, for another process to merge."""
    for held in _held(batches, run_bytes):
        with staging.new_file(inline_threshold=-1) as file:
            chunks = _write(file, in_order(held))
            handle = file.close()
        assert isinstance(handle, RelativeFileHandle)
        yield StagedRun(handle, chunks)


def staged_entries(staging: Staging, runs: Iterable[StagedRun]) -> Iterator[pa.RecordBatch]:
    """Merge staged runs: all their entries (TARGETED) in order. Raises WriteFailed."""
    readers = []
    for run in runs:
        source = open_handle(run.file, staging.location)
        readers.append(SortedRun(run.chunks, source.read, source.name))
    return merged(readers)


def sorted_entries(batches: Iterable[pa.RecordBatch], run_bytes: int = HELD_BYTES) -> Iterator[pa.RecordBatch]:
    """Sort entries (TARGETED); more than ``run_bytes`` of them are spilled to a temporary file. Raises WriteFailed."""
    with ExitStack() as stack:
        buffer = SpillBuffer(stack, run_bytes)
        for batch in batches:
            buffer.add(batch)
        yield from sorted_portions(buffer.portions(), run_bytes)


def sorted_portions(portions: Iterable[Iterable[pa.RecordBatch]], run_bytes: int) -> Iterator[pa.RecordBatch]:
    """Sort portions of entries (TARGETED) of which each consists of whole key groups, in order. Raises WriteFailed."""
    for portion in portions:
        yield from _sorted(portion, run_bytes)


def _sorted(batches: Iterable[pa.RecordBatch], run_bytes: int) -> Iterator[pa.RecordBatch]:
    """Sort a portion: in memory, or by runs if a single key group has more than ``run_bytes``."""
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
    """Sorted runs, one after another in a temporary file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.runs: list[SortedRun] = []

    def add(self, held: list[pa.RecordBatch]) -> None:
        base = self._file.tell()

        def read(start: int, length: int) -> bytes:
            self._file.seek(base + start)
            return self._file.read(length)

        with writing(TEMPORARY):
            chunks = _write(self._file, in_order(held))
        held.clear()
        self.runs.append(SortedRun(chunks, read, TEMPORARY))


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
    """Write sorted entries in chunks, each of one key group."""
    targets, groups = (numbers_of(entries.column(name)) for name in (TARGET, "key_group"))
    keys, values = (byte_column(entries.column(name)).offsets for name in ("key", "value"))
    chunks: list[RunChunk] = []
    at = 0
    for start, stop in portions(keys[1:] + values[1:], cuts(targets, groups), _CHUNK_BYTES):
        data = entries.slice(start, stop - start).serialize()
        chunks.append(RunChunk(int(targets[start]), int(groups[start]), at, data.size))
        out.write(memoryview(data))
        at += data.size
    return tuple(chunks)
