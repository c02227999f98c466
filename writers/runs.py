"""Sorted runs: entries in any order, kept in files until all are there, then taken back file by file in order.

For writes whose rows Spark has not put together by the file they go to. A run is what a task holds at a time, sorted;
taking a key group back means reading its piece of each run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import CorruptSnapshot, Where, WriteFailed
from stateproc.metadata.handles import RelativeFileHandle
from stateproc.storage import open_handle
from stateproc.writers.staging import Staging
from stateproc.writers.tasks import TARGET, TARGETED

RUN_BYTES = 64 << 20
_ORDER = [(name, "ascending") for name in TARGETED.names[:4]]


@dataclass(frozen=True)
class Piece:
    """Entries of one key group in a run: where they lie in its file."""

    target: int
    key_group: int
    start: int
    length: int


@dataclass(frozen=True)
class Run:
    """A file of entries sorted by target, key group, state id and key."""

    file: RelativeFileHandle
    pieces: tuple[Piece, ...]


def written_runs(staging: Staging, batches: Iterable[pa.RecordBatch], run_bytes: int = RUN_BYTES) -> Iterator[Run]:
    """Runs of the entries (TARGETED), each of about ``run_bytes`` that are held in memory until then."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= run_bytes:
            yield _written(staging, held)
            held, size = [], 0
    if size:
        yield _written(staging, held)


def _written(staging: Staging, batches: Sequence[pa.RecordBatch]) -> Run:
    table = pa.Table.from_batches(batches)
    order = pc.sort_indices(table, sort_keys=_ORDER)
    pieces: list[Piece] = []
    at = 0
    with staging.new_file(inline_threshold=-1) as file:
        for rows in _by_key_group(table, order):
            for batch in table.take(rows).combine_chunks().to_batches():
                data = batch.serialize()
                target, group = batch.column(TARGET)[0].as_py(), batch.column("key_group")[0].as_py()
                pieces.append(Piece(target, group, at, data.size))
                file.write(memoryview(data))
                at += data.size
        handle = file.close()
    assert isinstance(handle, RelativeFileHandle)
    return Run(handle, tuple(pieces))


def _by_key_group(table: pa.Table, order: pa.Array) -> Iterator[pa.Array]:
    """The sorted rows' numbers, a key group's at a time."""
    rows = np.asarray(order.to_numpy(zero_copy_only=False))
    groups = [np.asarray(table.column(name).to_numpy())[rows] for name in (TARGET, "key_group")]
    changes = np.flatnonzero((np.diff(groups[0]) != 0) | (np.diff(groups[1]) != 0)) + 1
    for part in np.split(rows, changes):
        yield pa.array(part)


def merged(staging: Staging, runs: Iterable[Run]) -> Iterator[pa.RecordBatch]:
    """All entries of the runs (TARGETED) in order; holds one key group at a time. Raises WriteFailed."""
    pieces: dict[tuple[int, int], list[tuple[RelativeFileHandle, Piece]]] = defaultdict(list)
    for run in runs:
        for piece in run.pieces:
            pieces[piece.target, piece.key_group].append((run.file, piece))
    for place in sorted(pieces):
        table = pa.Table.from_batches([_read(staging, file, piece) for file, piece in pieces[place]])
        yield from table.take(pc.sort_indices(table, sort_keys=_ORDER)).to_batches()


def _read(staging: Staging, file: RelativeFileHandle, piece: Piece) -> pa.RecordBatch:
    source = open_handle(file, staging.location)
    try:
        data = source.read(piece.start, piece.length)
        return pa.ipc.read_record_batch(pa.py_buffer(data), TARGETED)
    except (CorruptSnapshot, pa.ArrowInvalid) as error:
        raise WriteFailed(
            "a file of sorted entries is not as it was written",
            where=Where(file=source.name, offset=piece.start),
            advice="something else changes the target's directory; run the write again",
        ) from error
