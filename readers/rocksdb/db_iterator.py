"""The entries of one state in a RocksDB database, as RocksDB's own iterator would give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np

from stateproc.codec.allocation import uninitialized_bytes
from stateproc.errors import SnapshotError
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb import merge_kernel
from stateproc.readers.rocksdb.cursor_buffers import CursorBuffers
from stateproc.readers.rocksdb.database import DatabaseFile, family_files
from stateproc.readers.rocksdb.key_ranges import SpanTable, key_spans, span_table
from stateproc.readers.rocksdb.prefetch import Fetcher
from stateproc.readers.rocksdb.sorted_runs import (
    RunBlocks,
    open_file,
    pieces_ahead,
    read_limit,
    run_blocks,
    sorted_runs,
    tombstones_of,
)
from stateproc.readers.rocksdb.tombstones import Fragments, fragments
from stateproc.storage.ranges import is_remote

_ENTRIES_AT_ONCE = 1 << 16
_OUT_BYTES = 8 << 20


def rocksdb_entries(
    files: Sequence[DatabaseFile],
    state: str,
    key_groups: range | Iterable[range],
    prefix: int,
    *,
    keys: Iterable[bytes] | None = None,
    verify: bool = True,
) -> Iterator[RawEntries]:
    """The live entries of a state's column family in these key groups, by key, at most 65,536 at a time.

    ``files``: all files of the database. ``prefix``: width of the key-group prefix, 1 or 2 bytes. ``keys``: only
    entries whose key begins with one of these bytes (the key group before the serialized key). ``verify``: check the
    blocks' checksums. Each table is opened once, and only blocks that may hold such keys are read. Raises
    CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    wanted = key_spans([key_groups] if isinstance(key_groups, range) else key_groups, prefix, keys)
    if not wanted:
        return
    try:
        ssts = family_files(files, state, wanted, verify=verify)
        with Fetcher(ahead=any(is_remote(sst.source) for sst in ssts)) as fetcher:
            opened = fetcher.map(partial(open_file, verify=verify), ssts)
            deleted = fragments(tombstones_of(opened))
            runs = sorted_runs(opened)
            limit = read_limit(len(runs))
            ahead = pieces_ahead(len(runs))
            sources = [chain.from_iterable(fetcher.each(run_blocks(run, wanted, limit), ahead)) for run in runs]
            yield from merged_entries(sources, deleted, span_table(wanted), prefix)
    except SnapshotError as error:
        raise error.at(state=state) from error


def merged_entries(
    sources: Sequence[Iterator[RunBlocks]], deleted: Fragments, wanted: SpanTable, prefix: int
) -> Iterator[RawEntries]:
    """Merge the blocks of sorted runs into the live entries of these spans, by key, at most 65,536 at a time.

    Raises CorruptSnapshot, UnsupportedSnapshot, and what the sources raise.
    """
    buffers = CursorBuffers(sources)
    reg, size = buffers.reg, _OUT_BYTES
    outcome = merge_kernel.FULL
    while outcome != merge_kernel.ALL:
        out = uninitialized_bytes(size)
        ranges = np.empty((4, _ENTRIES_AT_ONCE), dtype=np.int64)
        key_groups = np.empty(_ENTRIES_AT_ONCE, dtype=np.int32)
        filled, used = 0, 0
        while True:
            outcome = merge_kernel.merge(
                buffers.rows.ctypes.data, len(sources), buffers.order, reg, prefix,
                wanted.bounds, wanted.keys.ctypes.data, deleted.table, deleted.keys.ctypes.data,
                out.ctypes.data + used, size - used, ranges, key_groups, filled,
            )  # fmt: skip
            n = int(reg[merge_kernel.ENTRIES])
            ranges[:, filled : filled + n] += used
            filled, used = filled + n, used + int(reg[merge_kernel.OUT_USED])
            if outcome in (merge_kernel.ALL, merge_kernel.FULL):
                break
            buffers.serve(outcome)
        if filled:
            file, at = buffers.place()
            yield RawEntries(out[:used], key_groups[:filled], ranges[:, :filled], file, at, exact=False)
        size = max(_OUT_BYTES, int(reg[merge_kernel.NEED])) if outcome == merge_kernel.FULL else _OUT_BYTES
