"""Sort entries with bounded memory: in memory, through a temporary file, or as sorted runs for another process."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of
from stateproc.errors import CorruptSnapshot, Where, WriteFailed
from stateproc.metadata.stream_handles import RelativeFileHandle
from stateproc.storage import open_handle
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.entry_batches import FILE, FILE_ENTRIES, byte_column, cuts, portions
from stateproc.writers.sorting.entry_sort import ScatteredEntries, in_order
from stateproc.writers.sorting.spill_buffer import SpillBuffer

# Merge sorted runs with bounded memory: one chunk per run of the key group that is merged.

ReadRange = Callable[[int, int], bytes]
"""Reads (start, length) of a run's file."""
_Position = tuple[int, bytes]
"""The order within a key group: state id and key."""


@dataclass(frozen=True)
class RunChunk:
    """A range of a run's file with entries of one key group; the chunks of a run are in order, too."""

    file: int
    key_group: int
    start: int
    length: int


@dataclass(frozen=True)
class SortedRun:
    """A run that can be read; ``name``: of its file, for errors."""

    chunks: Sequence[RunChunk]
    read: ReadRange
    name: str


def merged(runs: Sequence[SortedRun]) -> Iterator[pa.RecordBatch]:
    """Merge all FILE_ENTRIES of the runs. Raises WriteFailed for a file that differs from what was written."""
    cursors: dict[tuple[int, int], list[_RunCursor]] = defaultdict(list)
    for run in runs:
        groups: dict[tuple[int, int], list[RunChunk]] = defaultdict(list)
        for chunk in run.chunks:
            groups[chunk.file, chunk.key_group].append(chunk)
        for group, chunks in groups.items():
            cursors[group].append(_RunCursor(run, chunks))
    for group in sorted(cursors):
        yield from _merged(cursors.pop(group))


def _merged(cursors: Sequence[_RunCursor]) -> Iterator[pa.RecordBatch]:
    """The entries of one key group.

    Entries up to the smallest last entry of all chunks that are followed by others are complete in memory: they are
    sorted and returned, which uses up at least one chunk each time.
    """
    while cursors := [cursor for cursor in cursors if cursor.fill()]:
        bound = min((cursor.last for cursor in cursors if cursor.more), default=None)
        yield in_order([cursor.take(bound) for cursor in cursors])


class _RunCursor:
    """A cursor over the chunks of one key group in one run, with one chunk in memory."""

    def __init__(self, run: SortedRun, chunks: Sequence[RunChunk]) -> None:
        self._run, self._waiting = run, list(reversed(chunks))
        self._rows: pa.RecordBatch | None = None

    @property
    def more(self) -> bool:
        return bool(self._waiting)

    @property
    def last(self) -> _Position:
        assert self._rows is not None
        return self._rows.column("state_id")[-1].as_py(), self._rows.column("key")[-1].as_py()

    def fill(self) -> bool:
        """Return whether rows are left; read the next chunk if those in memory are used up."""
        while not (self._rows and self._rows.num_rows) and self._waiting:
            self._rows = _read(self._waiting.pop(), self._run)
        return bool(self._rows and self._rows.num_rows)

    def take(self, bound: _Position | None) -> pa.RecordBatch:
        """Remove and return the rows in memory up to ``bound``, inclusive; all if it is None."""
        rows = self._rows
        assert rows is not None
        n = rows.num_rows
        if bound is not None:
            states, keys = rows.column("state_id"), rows.column("key")
            n = bisect_right(range(n), bound, key=lambda row: (states[row].as_py(), keys[row].as_py()))
        self._rows = rows.slice(n)
        return rows.slice(0, n)


def _read(chunk: RunChunk, run: SortedRun) -> pa.RecordBatch:
    try:
        return pa.ipc.read_record_batch(pa.py_buffer(run.read(chunk.start, chunk.length)), FILE_ENTRIES)
    except (CorruptSnapshot, pa.ArrowInvalid, OSError) as error:
        raise WriteFailed(
            "a file of sorted entries is not as it was written",
            where=Where(file=run.name, offset=chunk.start),
            advice="something else changes it, or the disk is full; run the write again",
        ) from error


RUN_BYTES, HELD_BYTES = 64 << 20, 8 << 20
"""Bytes of entries in a staged run; bytes that a task buffers before it spills, and sorts at a time."""
_CHUNK_BYTES = 256 << 10
"""Bytes of each run in memory while runs are merged."""


@dataclass(frozen=True)
class StagedRun:
    """A file of sorted entries (file, key group, state id, key) in the target's directory."""

    file: RelativeFileHandle
    chunks: tuple[RunChunk, ...]


class _Out(Protocol):
    def write(self, data: memoryview, /) -> object: ...


def written_runs(
    staging: Staging, batches: Iterable[pa.RecordBatch], run_bytes: int = RUN_BYTES
) -> Iterator[StagedRun]:
    """Write the entries (FILE_ENTRIES) as sorted runs in the target's directory, for another process to merge."""
    for held in _held(batches, run_bytes):
        with staging.new_file(inline_threshold=-1) as file:
            entries = ScatteredEntries.of(held)
            held.clear()
            ordered = entries.in_order()
            del entries  # Of a run, only what was read or what is sorted is in memory.
            chunks = _write(file, ordered)
            handle = file.close()
        assert isinstance(handle, RelativeFileHandle)
        yield StagedRun(handle, chunks)


def staged_entries(staging: Staging, runs: Iterable[StagedRun]) -> Iterator[pa.RecordBatch]:
    """Merge staged runs: all their entries (FILE_ENTRIES) in order. Raises WriteFailed."""
    readers = []
    for run in runs:
        source = open_handle(run.file, staging.location)
        readers.append(SortedRun(run.chunks, source.read, source.name))
    return merged(readers)


def sorted_entries(batches: Iterable[pa.RecordBatch], held_bytes: int = HELD_BYTES) -> Iterator[pa.RecordBatch]:
    """Sort FILE_ENTRIES; about ``held_bytes`` of them are in memory, others in a temporary file. Raises WriteFailed."""
    with ExitStack() as stack:
        buffer = SpillBuffer(stack, held_bytes)
        for batch in batches:
            buffer.add(batch)
        yield from buffer.sorted()


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
    files, groups = (numbers_of(entries.column(name)) for name in (FILE, "key_group"))
    keys, values = (byte_column(entries.column(name)).offsets for name in ("key", "value"))
    chunks: list[RunChunk] = []
    at = 0
    for start, stop in portions(keys[1:] + values[1:], cuts(files, groups), _CHUNK_BYTES):
        data = entries.slice(start, stop - start).serialize()
        chunks.append(RunChunk(int(files[start]), int(groups[start]), at, data.size))
        out.write(memoryview(data))
        at += data.size
    return tuple(chunks)
