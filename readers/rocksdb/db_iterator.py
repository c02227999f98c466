"""The entries of one state in a RocksDB database, as RocksDB's own iterator would give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from stateproc.codec.arrow_arrays import uninitialized_bytes
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where, located
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb import merge_cursors, merge_kernel
from stateproc.readers.rocksdb.database import DatabaseFile, family_files
from stateproc.readers.rocksdb.format import DAMAGED
from stateproc.readers.rocksdb.key_ranges import SpanTable, key_spans, span_table
from stateproc.readers.rocksdb.sorted_runs import (
    RunBlocks,
    pieces_ahead,
    read_limit,
    run_blocks,
    shared_file,
    sorted_runs,
    tombstones_of,
)
from stateproc.readers.rocksdb.tombstones import Fragments, fragments
from stateproc.readers.scan_cache import ScanCache
from stateproc.storage.ranges import request_pool

# The blocks and buffers of a kernel that merges sorted runs, and its errors.

_MESSAGES = {
    merge_cursors.BAD_ENTRY: "an entry of a block has an impossible length",
    merge_kernel.OUT_OF_ORDER: "the keys of a table are not in order",
    merge_kernel.BAD_KEY: "a key is too short for its key group",
}
_KINDS = {
    17: "a value in a blob file",
    20: "a deletion with a timestamp",
    22: "a wide-column entity",
    24: "a value with a preferred sequence number",
}
"""Entry types (ValueType in RocksDB's db/dbformat.h) that Flink's backends do not write."""


class CursorBuffers:
    """Gives a kernel its blocks and buffers; those whose addresses it holds stay referenced here.

    Args:
        sources: The blocks of each sorted run.

    Attributes:
        rows: One cursor per run, see ``merge_cursors``.
        order: Scratch of the kernel.
        reg: Its registers, see ``merge_kernel``.
    """

    def __init__(self, sources: Sequence[Iterator[RunBlocks]]) -> None:
        self._sources = sources
        self.rows = np.zeros((max(len(sources), 1), merge_cursors.FIELDS), dtype=np.int64)
        self.rows[:, merge_cursors.BLOCK] = -1
        self.order = np.zeros(len(sources) + 1, dtype=np.int64)
        self._pieces: list[RunBlocks | None] = [None] * len(sources)
        self._keys = [np.empty(256, dtype=np.uint8) for _ in sources]
        for row, key in zip(self.rows, self._keys, strict=False):
            row[merge_cursors.KEY], row[merge_cursors.KEY_CAPACITY] = key.ctypes.data, len(key)
        self._seen, self._stash = np.empty(256, dtype=np.uint8), np.empty(4096, dtype=np.uint8)
        reg = self.reg = np.zeros(merge_kernel.REGISTERS, dtype=np.int64)
        reg[merge_kernel.PENDING] = -1
        reg[merge_kernel.SEEN], reg[merge_kernel.SEEN_CAPACITY] = self._seen.ctypes.data, len(self._seen)
        reg[merge_kernel.STASH], reg[merge_kernel.STASH_CAPACITY] = self._stash.ctypes.data, len(self._stash)

    def serve(self, outcome: int) -> None:
        """Do what the kernel needs to go on. Raises CorruptSnapshot, UnsupportedSnapshot."""
        reg = self.reg
        if outcome == merge_cursors.EMPTY:
            self._load(int(reg[merge_kernel.PENDING]))
        elif outcome == merge_cursors.GROW_KEY:
            k = int(reg[merge_kernel.PENDING])
            row = self.rows[k]
            self._keys[k] = _grown(self._keys[k], int(row[merge_cursors.NEED]))
            row[merge_cursors.KEY], row[merge_cursors.KEY_CAPACITY] = self._keys[k].ctypes.data, len(self._keys[k])
        elif outcome == merge_kernel.GROW_SEEN:
            self._seen = _grown(self._seen, int(reg[merge_kernel.NEED]))
            reg[merge_kernel.SEEN], reg[merge_kernel.SEEN_CAPACITY] = self._seen.ctypes.data, len(self._seen)
        elif outcome == merge_kernel.GROW_STASH:
            self._stash = _grown(self._stash, int(reg[merge_kernel.NEED]), at_end=True)
            reg[merge_kernel.STASH], reg[merge_kernel.STASH_CAPACITY] = self._stash.ctypes.data, len(self._stash)
        else:
            self._refuse(outcome)

    def place(self) -> tuple[str, int]:
        """The file and the block in it where the run at work stands."""
        piece = self._pieces[self._row()]
        if piece is None:
            piece = next((other for other in self._pieces if other is not None), None)
        if piece is None:
            return "<database>", 0
        block = min(max(int(self.rows[self._row(), merge_cursors.BLOCK]), 0), len(piece.blocks.offsets) - 1)
        return piece.blocks.file, int(piece.blocks.offsets[block])

    def _load(self, k: int) -> None:
        """The next blocks of a run, or the mark that there are none."""
        row = self.rows[k]
        piece = self._pieces[k] = next(self._sources[k], None)
        if piece is None:
            row[merge_cursors.LAST] = 1
            return
        blocks = piece.blocks
        row[merge_cursors.PLAIN] = blocks.plain.ctypes.data
        row[merge_cursors.STARTS], row[merge_cursors.ENDS] = blocks.starts.ctypes.data, blocks.ends.ctypes.data
        row[merge_cursors.BLOCKS], row[merge_cursors.BLOCK] = len(blocks.starts), -1
        row[merge_cursors.POS] = row[merge_cursors.STOP] = row[merge_cursors.KEY_SIZE] = 0
        row[merge_cursors.OVERRIDE] = piece.override

    def _row(self) -> int:
        """The run at work."""
        reg = self.reg
        if reg[merge_kernel.PENDING] >= 0:
            return int(reg[merge_kernel.PENDING])
        return int(self.order[max(reg[merge_kernel.ACTIVE] - 1, 0)])

    def _refuse(self, outcome: int) -> None:
        file, at = self.place()
        where = Where(file=file, offset=at)
        kind = int(self.rows[self._row(), merge_cursors.KIND])
        if outcome == merge_kernel.BAD_KIND and kind in _KINDS:
            raise UnsupportedSnapshot(
                f"{_KINDS[kind]}, which Flink's RocksDB backend does not write",
                where=where,
                advice="let Flink restore the snapshot and take a canonical savepoint of it",
            )
        message = _MESSAGES.get(outcome, f"an entry of the unknown type {kind}")
        raise CorruptSnapshot(message, where=where, advice=DAMAGED)


def _grown(old: npt.NDArray[np.uint8], need: int, *, at_end: bool = False) -> npt.NDArray[np.uint8]:
    """A larger buffer with the old content at its beginning, or at its end."""
    new = np.empty(max(2 * len(old), need), dtype=np.uint8)
    if at_end:
        new[-len(old) :] = old
    else:
        new[: len(old)] = old
    return new


_ENTRIES_AT_ONCE = 1 << 16
_OUT_BYTES = 4 << 20
"""jemalloc, by which commands allocate, returns what has 8 MB or more to the kernel each time that it is freed."""


def rocksdb_entries(
    files: Sequence[DatabaseFile],
    state: str,
    key_groups: range | Iterable[range],
    prefix: int,
    *,
    keys: Iterable[bytes] | None = None,
    verify: bool = True,
    cache: ScanCache | None = None,
) -> Iterator[RawEntries]:
    """The live entries of a state's column family in these key groups, by key, at most 65,536 at a time.

    ``files``: all files of the database. ``prefix``: width of the key-group prefix, 1 or 2 bytes. ``keys``: only
    entries whose key begins with one of these bytes (the key group before the serialized key). ``verify``: check the
    blocks' checksums. ``cache``: open tables that other reads of the same files share. Each table is opened once, and
    only blocks that may hold such keys are read. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    wanted = key_spans([key_groups] if isinstance(key_groups, range) else key_groups, prefix, keys)
    if not wanted:
        return
    with located(state=state):
        ssts = family_files(files, state, wanted, verify=verify)
        with request_pool([sst.source for sst in ssts]) as pool:
            shared = ScanCache() if cache is None else cache
            opened = list(pool.map(lambda sst: shared_file(sst, shared, verify=verify), ssts))
            deleted = fragments(tombstones_of(opened))
            runs = sorted_runs(opened)
            limit = read_limit(len(runs), is_remote=pool.is_concurrent)
            ahead = pieces_ahead(len(runs))
            sources = [chain.from_iterable(pool.run(run_blocks(run, wanted, limit), ahead)) for run in runs]
            yield from merged_entries(sources, deleted, span_table(wanted), prefix)


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
                buffers.rows.ctypes.data,
                len(sources),
                buffers.order,
                reg,
                prefix,
                wanted.bounds,
                wanted.keys.ctypes.data,
                deleted.table,
                deleted.keys.ctypes.data,
                out.ctypes.data + used,
                size - used,
                ranges,
                key_groups,
                filled,
            )
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
