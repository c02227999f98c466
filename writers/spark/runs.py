"""Sorted runs: entries in any order, sorted piece by piece and kept in files until all are there, then merged.

A run is what is held in memory at a time. Merging takes a key group back at a time, its piece of each run.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import CorruptSnapshot, Where, WriteFailed
from stateproc.metadata.handles import RelativeFileHandle
from stateproc.storage import open_handle
from stateproc.storage.writing import writing
from stateproc.writers.committing.staging import Staging
from stateproc.writers.tasks import TARGET, TARGETED

RUN_BYTES = 64 << 20
_ORDER = [(name, "ascending") for name in TARGETED.names[:4]]
_WIDE = 1 << 30
"""From so many bytes on, offsets of 64 bits are used."""
_NAME = "<temporary file>"
Read = Callable[[int, int], bytes]
"""Reads (start, length) of a run's file."""


@dataclass(frozen=True)
class Piece:
    """Entries of one key group in a run: where they lie in its file."""

    target: int
    key_group: int
    start: int
    length: int


@dataclass(frozen=True)
class Run:
    """A file in the target's directory, of entries sorted by target, key group, state id and key."""

    file: RelativeFileHandle
    pieces: tuple[Piece, ...]


class _Out(Protocol):
    def write(self, data: memoryview, /) -> object: ...


def written_runs(staging: Staging, batches: Iterable[pa.RecordBatch], run_bytes: int = RUN_BYTES) -> Iterator[Run]:
    """Runs of the entries (TARGETED) in the directory that is written to, for another process to merge."""
    for held in _held(batches, run_bytes):
        with staging.new_file(inline_threshold=-1) as file:
            pieces = _write(file, _sorted(held))
            handle = file.close()
        assert isinstance(handle, RelativeFileHandle)
        yield Run(handle, pieces)


def merged(staging: Staging, runs: Iterable[Run]) -> Iterator[pa.RecordBatch]:
    """All entries of staged runs (TARGETED) in order; holds one key group at a time. Raises WriteFailed."""
    readers = []
    for run in runs:
        source = open_handle(run.file, staging.location)
        readers.append((run.pieces, source.read, source.name))
    return _merged(readers)


def sorted_entries(batches: Iterable[pa.RecordBatch], run_bytes: int = RUN_BYTES) -> Iterator[pa.RecordBatch]:
    """All entries (TARGETED) in order; what is over ``run_bytes`` waits in a temporary file. Raises WriteFailed."""
    runs = _held(batches, run_bytes)
    first, second = next(runs, None), next(runs, None)
    if first is None:
        return
    if second is None:
        yield from _groups(_sorted(first))
        return
    with _temporary() as file:
        spilled = _Spilled(file)
        for run in itertools.chain((first, second), runs):
            spilled.add(run)
        yield from spilled.merged()


class _Spilled:
    """Runs one behind the other in a temporary file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._runs: list[tuple[tuple[Piece, ...], Read, str]] = []

    def add(self, held: list[pa.RecordBatch]) -> None:
        base = self._file.tell()

        def read(start: int, length: int) -> bytes:
            self._file.seek(base + start)
            return self._file.read(length)

        with writing(_NAME):
            pieces = _write(self._file, _sorted(held))
        held.clear()
        self._runs.append((pieces, read, _NAME))

    def merged(self) -> Iterator[pa.RecordBatch]:
        return _merged(self._runs)


@contextmanager
def _temporary() -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        with writing(_NAME):
            file = stack.enter_context(tempfile.TemporaryFile(prefix="stateproc-"))
        yield file


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


def _sorted(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches)
    if table.nbytes >= _WIDE:
        wide = [pa.field(it.name, pa.large_binary()) if it.type == pa.binary() else it for it in table.schema]
        table = table.cast(pa.schema(wide))
    (whole,) = table.combine_chunks().to_batches()
    return whole.take(pc.sort_indices(whole, sort_keys=_ORDER))


def _groups(entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Sorted entries, a key group at a time."""
    places = [np.asarray(entries.column(name).to_numpy(zero_copy_only=False)) for name in (TARGET, "key_group")]
    changes = np.flatnonzero((np.diff(places[0]) != 0) | (np.diff(places[1]) != 0)) + 1
    cuts = [0, *changes.tolist(), entries.num_rows]
    for start, stop in itertools.pairwise(cuts):
        yield entries.slice(start, stop - start)


def _write(out: _Out, entries: pa.RecordBatch) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    at = 0
    for batch in _groups(entries):
        data = batch.serialize()
        pieces.append(Piece(batch.column(TARGET)[0].as_py(), batch.column("key_group")[0].as_py(), at, data.size))
        out.write(memoryview(data))
        at += data.size
    return tuple(pieces)


def _merged(runs: Sequence[tuple[tuple[Piece, ...], Read, str]]) -> Iterator[pa.RecordBatch]:
    places: dict[tuple[int, int], list[tuple[Piece, Read, str]]] = defaultdict(list)
    for pieces, read, name in runs:
        for piece in pieces:
            places[piece.target, piece.key_group].append((piece, read, name))
    for place in sorted(places):
        yield _sorted([_read(*item) for item in places[place]])


def _read(piece: Piece, read: Read, name: str) -> pa.RecordBatch:
    try:
        return pa.ipc.read_record_batch(pa.py_buffer(read(piece.start, piece.length)), TARGETED)
    except (CorruptSnapshot, pa.ArrowInvalid, OSError) as error:
        raise WriteFailed(
            "a file of sorted entries is not as it was written",
            where=Where(file=name, offset=piece.start),
            advice="something else changes it, or the disk is full; run the write again",
        ) from error
