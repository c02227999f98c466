"""The entries of a state that may differ between two databases, read from few of their blocks.

Tables that only one database has contain all keys that may differ, or delete them by ranges: what both databases read
of any other key comes from the same tables. These keys are looked up on both sides as the iterator would find them,
in blocks that may contain them, of tables that may have versions which are not hidden by a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.errors import located
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.stream_handles import (
    ByteStreamHandle,
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
    StreamHandle,
)
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb.blocks import PlainBlocks
from stateproc.readers.rocksdb.candidate_keys import CandidateKeys, candidate_keys, candidate_ranges, mark_blocks
from stateproc.readers.rocksdb.database import DatabaseFile, SstFile, database_files, family_files
from stateproc.readers.rocksdb.db_iterator import merged_entries
from stateproc.readers.rocksdb.format import MAX_SEQUENCE
from stateproc.readers.rocksdb.key_ranges import EVERYTHING, KeySpan, cut_out, intersections, joined, key_spans, runs_of
from stateproc.readers.rocksdb.sorted_runs import OpenFile, RunBlocks, open_file, read_limit, sorted_runs
from stateproc.readers.rocksdb.table import Index
from stateproc.readers.rocksdb.tombstones import Tombstone, fragments, read_tombstones
from stateproc.storage import SnapshotLocation
from stateproc.storage.concurrency import RequestPool
from stateproc.storage.ranges import DEFAULT_GAP, is_remote, request_pool

# Which tables of a state two databases have in common: files that incremental checkpoints share.


@dataclass(frozen=True)
class DatabaseOfState:
    """A database and the state of it that is read.

    Attributes:
        identities: Where each file is stored, by its local name; see ``stored_files``.
        state: The state's name.
    """

    files: tuple[DatabaseFile, ...]
    identities: dict[str, Hashable]
    state: str

    def tables(self, wanted: Sequence[KeySpan] = EVERYTHING, *, verify: bool = True) -> list[SstFile]:
        """Return the state's tables that may have keys of these spans.

        Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
        """
        return family_files(self.files, self.state, wanted, verify=verify)


def stored_files(handle: IncrementalHandle, location: SnapshotLocation) -> dict[str, Hashable]:
    """Return what identifies each file of a database, by its local name: equal ones are the same file.

    A checkpoint refers to the files that it shares with earlier ones as these do, also after a restore: by path and
    size, or by the bytes themselves. Local names may change.
    """
    return {name: stored_identity(stream, location) for name, stream in (*handle.shared, *handle.private)}


def stored_identity(stream: StreamHandle, location: SnapshotLocation) -> Hashable:
    """Return what identifies a stored file, or a part of one; equal ones are the same."""
    match stream:
        case KeyGroupsHandle():
            return stored_identity(stream.stream, location)
        case FileHandle():
            return stream.path, stream.size
        case SegmentHandle():
            return stream.path, stream.start, stream.size
        case RelativeFileHandle():
            return location.directory_uri, stream.path, stream.size
        case ByteStreamHandle():
            return stream.name, stream.data
        case _:
            return object()  # of no other file


@dataclass(frozen=True)
class PairedTables:
    """The tables of one state in two databases.

    Attributes:
        own: Of each side the tables that the other one does not have.
        shared: The tables that both have, as each side's MANIFEST lists them.
    """

    own: tuple[tuple[SstFile, ...], tuple[SstFile, ...]]
    shared: tuple[tuple[SstFile, SstFile], ...]

    def within(self, wanted: Sequence[KeySpan]) -> PairedTables:
        """Return the tables that may have keys, or tombstones of keys, of these spans."""
        one, two = (tuple(sst for sst in side if sst.overlaps(wanted)) for side in self.own)
        return PairedTables((one, two), tuple(pair for pair in self.shared if pair[0].overlaps(wanted)))

    @property
    def own_bytes(self) -> int:
        """The stored bytes of tables that one side has."""
        return sum(sst.source.size for side in self.own for sst in side)

    @property
    def shared_bytes(self) -> int:
        """The stored bytes of tables that both have, counted once."""
        return sum(sst.source.size for sst, _ in self.shared)


def paired_tables(
    left: DatabaseOfState, right: DatabaseOfState, wanted: Sequence[KeySpan] = EVERYTHING, *, verify: bool = True
) -> PairedTables | None:
    """Find out which tables both databases have; None if a MANIFEST is not there.

    A table counts as shared if it is the same file and both MANIFESTs give it the same bounds and the same largest
    sequence number: bounds limit its range tombstones, and entries of ingested files have that sequence number.

    Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    tables = [side.tables(wanted, verify=verify) for side in (left, right)]
    if any(sst.live is None for side in tables for sst in side):
        return None
    known = [_by_identity(side, found) for side, found in zip((left, right), tables, strict=True)]
    common = known[0].keys() & known[1].keys()
    shared = tuple((known[0][key], known[1][key]) for key in known[0] if key in common)
    both = {id(sst) for pair in shared for sst in pair}
    own = [tuple(sst for sst in side if id(sst) not in both) for side in tables]
    return PairedTables((own[0], own[1]), shared)


def _by_identity(database: DatabaseOfState, tables: Iterable[SstFile]) -> dict[Hashable, SstFile]:
    """Return tables by what makes them equal; without those that a database lists twice."""
    found: dict[Hashable, SstFile] = {}
    repeated = set()
    for sst in tables:
        live = sst.live
        assert live is not None
        key = database.identities.get(live.name, object()), live.smallest, live.largest, live.largest_sequence
        if key in found:
            repeated.add(key)
        found[key] = sst
    return {key: sst for key, sst in found.items() if key not in repeated}


# The data blocks of one table that several passes over some spans of keys need, each read from storage once.

_LOCAL_GAP = 4 << 10
"""Bytes between blocks of a local file that are read along: reading them costs as much as another request."""
_HELD_BYTES = 24 << 20


@dataclass
class HeldBytes:
    """How many bytes of decompressed blocks may still be kept for further passes; shared by tables."""

    left: int = _HELD_BYTES

    def take(self, size: int) -> bool:
        """Take so many bytes if they are left."""
        if size > self.left:
            return False
        self.left -= size
        return True


@dataclass(frozen=True)
class _Kept:
    """Decompressed blocks and their positions in the index."""

    positions: Longs
    blocks: PlainBlocks

    def only(self, chosen: Longs) -> Longs:
        """Return which of some positions are among these."""
        return self.positions[np.isin(self.positions, chosen, assume_unique=True)]

    def at(self, positions: Longs) -> PlainBlocks:
        """Return some of the blocks, by their positions."""
        which, blocks = np.searchsorted(self.positions, positions), self.blocks
        return PlainBlocks(blocks.plain, blocks.starts[which], blocks.ends[which], blocks.offsets[which], blocks.file)


class TableBlocks:
    """Opens a table at its first use, and keeps its blocks while memory lasts.

    Args:
        wanted: The spans of all passes.
        verify: Whether checksums are checked.
    """

    def __init__(self, sst: SstFile, wanted: Sequence[KeySpan], held: HeldBytes, *, verify: bool) -> None:
        self._sst, self._wanted, self._held, self._verify = sst, wanted, held, verify
        self._kept: list[_Kept] = []

    @property
    def largest_sequence(self) -> int | None:
        """The largest sequence number in the table; None if it is not known."""
        return None if self._sst.live is None else self._sst.live.largest_sequence

    @cached_property
    def opened(self) -> OpenFile:
        """Open the table. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
        return open_file(self._sst, verify=self._verify)

    @cached_property
    def tombstones(self) -> list[Tombstone]:
        """Read the deleted ranges. Raises CorruptSnapshot."""
        return read_tombstones(self.opened.table, self._sst.live, self.opened.override)

    @cached_property
    def index(self) -> Index:
        """Read the index of the wanted spans. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
        return self.opened.table.index(self._wanted)

    def may_have(self, keys: CandidateKeys, side: int) -> bool:
        """Return whether the table may have versions of some of the keys that count on a side."""
        live = self._sst.live
        assert live is not None
        return keys.any_within(keys.visible_below(side, self.largest_sequence), live.smallest.key, live.largest.key)

    def chosen(self, keys: CandidateKeys, side: int) -> Longs:
        """Return the positions of the blocks that may have such versions."""
        index, largest = self.index, self.largest_sequence
        marks = np.zeros(len(index), dtype=np.bool_)
        mark_blocks(
            keys.spans.bounds,
            keys.spans.keys.ctypes.data,
            keys.newest[side],
            MAX_SEQUENCE if largest is None else largest,
            index.keys.ctypes.data,
            index.key_starts,
            index.key_ends,
            marks,
        )
        return np.flatnonzero(marks)

    def reads(self, limit: int, positions: Longs | None = None) -> Iterator[Callable[[], Iterable[RunBlocks]]]:
        """Yield what reads the blocks, ``limit`` stored bytes at a time, in ascending order.

        ``positions``: which blocks of the index; None for all.

        What it yields raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
        """
        wanted = np.arange(len(self.index)) if positions is None else positions
        if not len(wanted):
            return
        parts = [(kept, kept.only(wanted)) for kept in sorted(self._kept, key=lambda kept: int(kept.positions[0]))]
        if self._kept and np.array_equal(np.concatenate([found for _, found in parts]), wanted):
            for kept, found in parts:
                if len(found):
                    yield partial(self._from_memory, kept, found)
            return
        before = np.cumsum(self.index.sizes[wanted])
        at = 0
        while at < len(wanted):
            base = int(before[at] - self.index.sizes[wanted[at]])
            stop = max(at + 1, int(np.searchsorted(before, base + limit, side="right")))
            yield partial(self._from_storage, wanted[at:stop])
            at = stop

    def _from_memory(self, kept: _Kept, positions: Longs) -> Iterable[RunBlocks]:
        return [RunBlocks(kept.at(positions), self._override)]

    def _from_storage(self, wanted: Longs) -> Iterable[RunBlocks]:
        gap = DEFAULT_GAP if is_remote(self._sst.source) else _LOCAL_GAP
        reader = self.opened.table.reader
        parts = reader.scattered(self.index.offsets[wanted], self.index.sizes[wanted], gap)
        if isinstance(parts, list):
            is_new = not any(len(kept.only(wanted)) for kept in self._kept)
            if is_new and self._held.take(len(parts[0].plain)):
                self._kept.append(_Kept(wanted, parts[0]))
        return (RunBlocks(blocks, self._override) for blocks in parts)

    @property
    def _override(self) -> int:
        return -1 if self.opened.override is None else self.opened.override


SIDES = (0, 1)


def changed_entries(
    tables: PairedTables,
    state: str,
    key_groups: Iterable[range],
    prefix: int,
    *,
    keys: Sequence[KeySpan] = (),
    sides: Sequence[int] = SIDES,
    verify: bool = True,
) -> Iterator[tuple[int, RawEntries]]:
    """Read the entries of some key groups that may differ: yield the side (0 or 1) and entries of it, by key.

    Entries of both that are not yielded have the same bytes. Both sides of a key are yielded one soon after the other.

    Args:
        tables: The state's tables in both databases.
        state: The state's name, for errors.
        key_groups: Key groups that both databases answer for.
        prefix: The width of the key group before each key, 1 or 2 bytes.
        keys: Spans of further keys to read.
        verify: Whether the blocks' checksums are checked.

    Raises:
        CorruptSnapshot, UnsupportedSnapshot, MissingFile: A table cannot be read.
    """
    wanted = key_spans(key_groups, prefix)
    if not wanted:
        return
    tables = tables.within(wanted)
    sources = [sst.source for sst in chain(*tables.own, *tables.shared)]
    with located(state=state), request_pool(sources) as pool:
        yield from _PairReader(tables, wanted, prefix, pool, verify=verify).entries(keys, sides)


class _PairReader:
    """Reads the tables of both databases; those that both have are opened once."""

    def __init__(
        self, tables: PairedTables, wanted: Sequence[KeySpan], prefix: int, pool: RequestPool, *, verify: bool
    ) -> None:
        self._wanted, self._prefix, self._pool = wanted, prefix, pool
        held = HeldBytes()

        def opened(ssts: Iterable[SstFile]) -> list[TableBlocks]:
            return [TableBlocks(sst, wanted, held, verify=verify) for sst in ssts]

        self._own = [opened(side) for side in tables.own]
        self._shared = opened(sst for sst, _ in tables.shared)

    def entries(self, more: Sequence[KeySpan], sides: Sequence[int]) -> Iterator[tuple[int, RawEntries]]:
        """Read what may differ, and the keys of further spans."""
        own = list(chain.from_iterable(self._own))
        self._open(own)
        deleted = (_span_of(item) for table in own for item in table.tombstones)
        ranges = intersections(self._wanted, joined([*deleted, *more]))
        found = [candidate_ranges(ranges)] if ranges else []
        for keys in chain(found, self._candidates(cut_out(self._wanted, ranges))):
            for side in sides:
                for entries in self._looked_up(keys, side):
                    yield side, entries

    def _open(self, tables: Sequence[TableBlocks]) -> None:
        """Open tables, several at a time over a network."""
        for _ in self._pool.map(lambda table: table.index, tables):
            pass

    def _candidates(self, wanted: Sequence[KeySpan]) -> Iterator[CandidateKeys]:
        """Collect the keys in tables that one side has."""
        if not wanted:
            return
        runs = [(side, run) for side in SIDES for run in _runs(self._own[side])]
        limit = read_limit(len(runs), is_remote=self._pool.is_concurrent)
        sources = [self._blocks(run, [None] * len(run), limit) for _, run in runs]
        yield from candidate_keys(sources, [side for side, _ in runs], wanted, self._prefix)

    def _looked_up(self, keys: CandidateKeys, side: int) -> Iterator[RawEntries]:
        """Read the live entries of some keys on one side."""
        tables = [table for table in chain(self._own[side], self._shared) if table.may_have(keys, side)]
        self._open(tables)
        deleted = fragments([item for table in tables for item in table.tombstones])
        runs = _runs(tables)
        limit = read_limit(len(runs), is_remote=self._pool.is_concurrent)
        sources = [self._blocks(run, [table.chosen(keys, side) for table in run], limit) for run in runs]
        yield from merged_entries(sources, deleted, keys.spans, self._prefix)

    def _blocks(self, run: Sequence[TableBlocks], chosen: Sequence[Longs | None], limit: int) -> Iterator[RunBlocks]:
        """Read blocks of the tables of a run."""
        reads = (read for table, positions in zip(run, chosen, strict=True) for read in table.reads(limit, positions))
        return chain.from_iterable(self._pool.run(reads))


def _runs(tables: Sequence[TableBlocks]) -> list[list[TableBlocks]]:
    """Arrange tables as sorted runs."""
    by_file = {id(table.opened): table for table in tables}
    return [[by_file[id(file)] for file in run] for run in sorted_runs([table.opened for table in tables])]


def _span_of(tombstone: Tombstone) -> KeySpan:
    """Return the keys of which a deleted range deletes versions."""
    start, _ = tombstone.start
    end, inverse = tombstone.end
    # The end is a version: those of its key that are newer than it are deleted.
    return start, end + b"\0" if inverse else end


# Scans of one state in two RocksDB databases that share tables.

_LOOKED_UP = 16
"""Bytes of blocks that are read to look up the keys of one byte of unshared tables, as an estimate."""


@dataclass(frozen=True)
class RocksDbPairScan:
    """Reads the entries of a state that may differ between two databases.

    Attributes:
        tables: The state's tables in both.
        state: The state's name.
        max_parallelism: The operator's number of key groups.
        verify: Whether the blocks' checksums are checked.
        stored_bytes: The bytes to read, approximately.
    """

    tables: PairedTables = field(repr=False)
    state: str
    max_parallelism: int
    verify: bool
    stored_bytes: int

    @property
    def bytes(self) -> int:
        return self.stored_bytes

    def entries(
        self, key_groups: Collection[int], keys: Sequence[KeySpan] = (), sides: Sequence[int] = SIDES
    ) -> Iterator[tuple[int, RawEntries]]:
        """Read the entries that may differ, see ``PairScan``, and those of further keys; of one side or both."""
        runs, width = runs_of(sorted(key_groups)), prefix_width(self.max_parallelism)
        yield from changed_entries(self.tables, self.state, runs, width, keys=keys, sides=sides, verify=self.verify)


def rocksdb_pair_scan(
    left: tuple[IncrementalHandle, SnapshotLocation],
    right: tuple[IncrementalHandle, SnapshotLocation],
    state: str,
    max_parallelism: int,
    *,
    verify: bool,
) -> RocksDbPairScan | None:
    """Plan a scan; None where reading both databases whole is as fast: they share less than they do not.

    Reads the MANIFESTs. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    (one, here), (two, there) = left, right
    common = range(max(one.key_groups.start, two.key_groups.start), min(one.key_groups.stop, two.key_groups.stop))
    identities = stored_files(one, here), stored_files(two, there)
    tables = {name for name in identities[0] if name.endswith(".sst")}
    if not len(common) or {identities[0][name] for name in tables}.isdisjoint(identities[1].values()):
        return None
    sides = [
        DatabaseOfState(database_files(handle, location), known, state)
        for (handle, location), known in zip((left, right), identities, strict=True)
    ]
    found = paired_tables(sides[0], sides[1], key_spans([common], prefix_width(max_parallelism)), verify=verify)
    if found is None or found.own_bytes > found.shared_bytes:
        return None
    size = found.own_bytes + min(_LOOKED_UP * found.own_bytes, found.shared_bytes)
    return RocksDbPairScan(found, state, max_parallelism, verify, size)
