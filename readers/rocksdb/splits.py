"""Plan splits of keyed state in RocksDB databases, one for each subtask, by the sizes of key groups in table indexes.

    meta stream        the header, as at the beginning of a canonical file
    shared, private    files of one RocksDB directory by their local names: tables, MANIFEST, CURRENT, OPTIONS

(org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle.) Each state is a column family; its keys and values
are those of `canonical.reader`, without the bit that marks a state's last entry. See docs/formats/rocksdb.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.backend import KeyedHeader, read_keyed_header
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.readers.header_reader import MAX_HEADER, read_whole_header
from stateproc.readers.keyed_file import FileCache, KeyedFile, SizeRequest, StateSizes
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb.changed_entries import RocksDbPairScan, rocksdb_pair_scan
from stateproc.readers.rocksdb.database import (
    DatabaseFile,
    SstFile,
    check_exist,
    database_files,
    family_files,
    needed,
    tables_by_state,
)
from stateproc.readers.rocksdb.db_iterator import rocksdb_entries
from stateproc.readers.rocksdb.key_ranges import Prefixes, key_spans, runs_of
from stateproc.readers.rocksdb.sorted_runs import shared_file
from stateproc.readers.rocksdb.table import Index, table_properties
from stateproc.readers.scan_cache import ScanCache
from stateproc.readers.splits import KeyedSplit, SplitRequest, StateScan
from stateproc.readers.state_descriptor import StateDescriptor, find_state
from stateproc.storage import ByteSource, SnapshotLocation, open_handle
from stateproc.storage.ranges import request_pool

# How large a state is per key group, and where to cut it into splits; from the tables' indexes alone.

SPLIT_BYTES = 256 << 20


def key_group_sizes(
    files: Sequence[DatabaseFile],
    state: str,
    key_groups: range,
    prefix: int,
    *,
    verify: bool = True,
    cache: ScanCache | None = None,
) -> Longs:
    """About how many stored bytes of a state's tables belong to each key group of the range.

    A block counts for the key group in which it ends. ``cache``: as of `rocksdb_entries`. Raises CorruptSnapshot,
    UnsupportedSnapshot, MissingFile.
    """
    sizes = np.zeros(len(key_groups), dtype=np.int64)
    if not len(key_groups):
        return sizes
    wanted = key_spans([key_groups], prefix)
    ssts = family_files(files, state, wanted, verify=verify)

    shared = ScanCache() if cache is None else cache

    def opened(sst: SstFile) -> Index:
        return shared_file(sst, shared, verify=verify).table.index(wanted)

    with request_pool([sst.source for sst in ssts]) as pool:
        indexes = list(pool.map(opened, ssts))
    for index in indexes:
        groups = np.clip(_key_groups(index, prefix) - key_groups.start, 0, len(key_groups) - 1)
        np.add.at(sizes, groups, index.sizes)
    return sizes


def _key_groups(index: Index, prefix: int) -> Longs:
    """The key group of each separator; a separator that was cut short counts as if zeros followed."""
    groups = np.zeros(len(index), dtype=np.int64)
    lengths = index.key_ends - index.key_starts
    for k in range(prefix):
        there = lengths > k
        groups[there] |= index.keys[index.key_starts[there] + k].astype(np.int64) << (8 * (prefix - 1 - k))
    return groups


def split_key_groups(key_groups: range, sizes: Longs, limit: int = SPLIT_BYTES) -> list[range]:
    """Cut a range of key groups into ranges of up to ``limit`` bytes (or one key group), in order."""
    found: list[range] = []
    start, held = key_groups.start, 0
    for key_group, size in zip(key_groups, sizes.tolist(), strict=True):
        if held and held + size > limit:
            found.append(range(start, key_group))
            start, held = key_group, 0
        held += size
    if start < key_groups.stop:
        found.append(range(start, key_groups.stop))
    return found


_SMALLEST_PROFILED, _LARGEST_PROFILED = 4 << 20, 64 << 20
"""Stored bytes of a state whose distribution over key groups is measured: smaller tables have too few blocks for it,
and the indexes of larger ones take too long to read."""


@dataclass(frozen=True)
class RocksDbSplit(KeyedSplit):
    """Some key groups of one state in one database.

    Attributes:
        meta: The stream of the backend header.
        files: The database's files that these key groups need.
        group_ranges: The key groups, as ranges.
        stored_bytes: Their bytes in stored tables, approximately.
        keys: Only entries whose key group and key begin with one of these byte strings.
        cache: What has been read of the database.
    """

    meta: ByteSource
    files: tuple[DatabaseFile, ...]
    group_ranges: tuple[range, ...]
    stored_bytes: int
    keys: Prefixes | None = field(default=None, repr=False)
    cache: FileCache = field(default_factory=FileCache, compare=False, repr=False)

    @property
    def bytes(self) -> int:
        return self.stored_bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return tuple(group for run in self.group_ranges for group in run)

    @property
    def origin(self) -> str:
        return self.meta.name

    @cached_property
    def header(self) -> KeyedHeader:
        """Return the database's header, which another process reads anew."""
        meta = self.meta
        return self.cache.header or read_whole_header(meta.read_all(MAX_HEADER), meta.name, read_keyed_header)

    def declared(self) -> StateDescriptor | None:
        return find_state(self.header, self.scan.state)

    def raw_entries(self) -> Iterator[RawEntries]:
        width, verify = prefix_width(self.scan.max_parallelism), self.scan.options.verify
        state, groups, cache = self.scan.state, self.group_ranges, self.scan.cache
        yield from rocksdb_entries(self.files, state, groups, width, keys=self.keys, verify=verify, cache=cache)


def rocksdb_splits(handle: IncrementalHandle, location: SnapshotLocation, request: SplitRequest) -> list[RocksDbSplit]:
    """Plan splits of about ``request.split_bytes`` stored bytes.

    Reads the MANIFEST, and the tables' indexes where a split is not enough; nothing of a database without any of the
    requested key groups. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    groups = handle.key_groups
    if request.key_groups is not None and request.key_groups.isdisjoint(groups):
        return []
    scan, verify = request.scan, request.scan.options.verify
    files, width = database_files(handle, location), prefix_width(scan.max_parallelism)
    tables = family_files(files, scan.state, verify=verify)
    state_bytes = sum(sst.source.size for sst in tables)
    for companion in request.companions:
        tables += family_files(files, companion, verify=verify)
    wanted = sum(map(request.includes, groups))
    share = wanted / max(len(groups), 1)
    if request.keys is None and not request.whole_databases and state_bytes * share > request.split_bytes:
        sizes = key_group_sizes(files, scan.state, groups, width, verify=verify, cache=scan.cache)
        parts = split_key_groups(groups, sizes, request.split_bytes)
    else:
        sizes = np.full(len(groups), state_bytes // max(len(groups), 1), dtype=np.int64)
        parts = [groups] if len(groups) else []
    splits = []
    for part in parts:
        runs = runs_of(filter(request.includes, part))
        if runs:
            size = sum(int(sizes[run.start - groups.start : run.stop - groups.start].sum()) for run in runs)
            spans = key_spans(runs, width, request.keys)
            own = needed(files, (table for table in tables if table.overlaps(spans)))
            splits.append(RocksDbSplit(scan, open_handle(handle.meta, location), own, runs, size, request.keys))
    return splits


@dataclass(frozen=True)
class RocksDbFile(KeyedFile):
    """A RocksDB database, whose header is in a file of its own."""

    handle: IncrementalHandle
    layout = "rocksdb"
    # Tables are compressed, and the splits of a scan share what is opened.
    most_per_thread = 8 << 20

    @property
    def databases(self) -> tuple[IncrementalHandle, ...]:
        return (self.handle,)

    def open_source(self) -> ByteSource:
        return open_handle(self.handle.meta, self.location)

    def read_header(self) -> KeyedHeader:
        return self.shared.headers.whole(self.source.read_all(MAX_HEADER), self.source.name)

    def plan_splits(self, request: SplitRequest) -> list[KeyedSplit]:
        known = set(self.state_names) if request.companions else set()
        own = [name for name in request.companions if name in known]
        splits = rocksdb_splits(self.handle, self.location, replace(request, companions=own))
        return [replace(split, cache=self.cache) for split in splits]

    def split(self, scan: StateScan, key_groups: Collection[int]) -> KeyedSplit:
        runs = runs_of(sorted(set(key_groups).intersection(self.handle.key_groups)))
        files = database_files(self.handle, self.location)
        return RocksDbSplit(scan, self.source, files, runs, self.data_bytes, cache=self.cache)

    def pair_scan(self, other: KeyedFile, scan: StateScan) -> RocksDbPairScan | None:
        if not isinstance(other, RocksDbFile) or self.max_parallelism != other.max_parallelism:
            return None
        return rocksdb_pair_scan(
            (self.handle, self.location),
            (other.handle, other.location),
            scan.state,
            scan.max_parallelism,
            verify=scan.options.verify,
        )

    def sizes(self, request: SizeRequest) -> StateSizes:
        """Report bytes by the MANIFEST; entries of single tables; the bytes of key groups where that is cheap.

        Only of a state with one table do the table's properties contain the number of entries, so no others are read.
        """
        handle, verify = self.handle, request.options.verify
        files, width = database_files(handle, self.location), prefix_width(self.max_parallelism)
        tables = tables_by_state(files, verify=verify)
        states: dict[str, tuple[int, int | None]] = {}
        key_groups: dict[int, int] = {}
        for name in self.state_names:
            own = tables.get(name, ())
            size = sum(table.source.size for table in own)
            states[name] = (size, _entries(own, verify=verify))
            if _SMALLEST_PROFILED <= size <= _LARGEST_PROFILED:
                sizes = key_group_sizes(files, name, handle.key_groups, width, verify=verify)
                for key_group, size in zip(handle.key_groups, sizes.tolist(), strict=True):
                    if size:
                        key_groups[key_group] = key_groups.get(key_group, 0) + size
        return StateSizes(states, key_groups)


def _entries(tables: Sequence[SstFile], *, verify: bool) -> int | None:
    """Return the number of entries of a state; None where several tables may have versions of one key."""
    if len(tables) > 1:
        check_exist(tables)
        return None
    found = [table_properties(table.source, verify=verify) for table in tables]
    return None if any(item.deletions or item.merge_operands for item in found) else sum(item.entries for item in found)
