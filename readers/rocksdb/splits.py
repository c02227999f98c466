"""Splits of keyed state in RocksDB files: one subtask's database, cut at key groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.backend import read_keyed_header
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.options import SPLIT_BYTES
from stateproc.readers.common.entry_decoder import decode_entries
from stateproc.readers.common.header_reader import MAX_HEADER, read_whole_header
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.read_options import ReadOptions
from stateproc.readers.common.state_descriptor import KeyedState, keyed_state
from stateproc.readers.rocksdb.database import DatabaseFile, family_files, needed
from stateproc.readers.rocksdb.db_iterator import rocksdb_entries
from stateproc.readers.rocksdb.key_ranges import Prefixes, key_spans
from stateproc.readers.rocksdb.open_database import database_files
from stateproc.readers.rocksdb.planning import key_group_sizes, split_key_groups
from stateproc.serializers.core.plugins import load_plugins
from stateproc.storage import ByteSource, SnapshotLocation, open_handle


@dataclass(frozen=True)
class RocksDbSplit:
    """Some key groups of one state in one database.

    ``meta``: the stream of the backend header. ``files``: those of the database that these key groups need.
    ``ranges``: the key groups, as runs. ``bytes``: of stored tables, about. ``keys``: only entries whose key group and
    key begin with one of these bytes.
    ``raw_keys``: see decode_entries.
    """

    meta: ByteSource
    files: tuple[DatabaseFile, ...]
    ranges: tuple[range, ...]
    bytes: int
    max_parallelism: int
    state: str
    operator: str
    options: ReadOptions = field(repr=False)
    flatten: bool = False
    raw_keys: bool = False
    keys: Prefixes | None = field(default=None, repr=False)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return tuple(group for run in self.ranges for group in run)

    @property
    def place(self) -> str:
        return self.meta.name

    @property
    def composite(self) -> bool:
        return True

    def of_state(self, state: str) -> RocksDbSplit:
        """As KeyedSplit's; of a companion that it was planned with."""
        return replace(self, state=state, flatten=False)

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows, by key. Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot."""
        load_plugins(self.options.plugins)
        header = read_whole_header(self.meta.read_all(MAX_HEADER), self.meta.name, read_keyed_header)
        states = (keyed_state(info, index, header.key) for index, info in enumerate(header.states))
        target = next((item for item in states if isinstance(item, KeyedState) and item.name == self.state), None)
        if target is not None:
            yield from decode_entries(
                self._entries(), target, self.options.context, flatten=self.flatten, raw_keys=self.raw_keys
            )

    def _entries(self) -> Iterator[RawEntries]:
        width = prefix_width(self.max_parallelism)
        yield from rocksdb_entries(
            self.files, self.state, self.ranges, width, keys=self.keys, verify=self.options.verify
        )


def rocksdb_splits(
    handle: IncrementalHandle,
    location: SnapshotLocation,
    *,
    state: str,
    operator: str,
    max_parallelism: int,
    options: ReadOptions,
    key_groups: Iterable[int] | None = None,
    split_bytes: int = SPLIT_BYTES,
    keys: Prefixes | None = None,
    flatten: bool = False,
    raw_keys: bool = False,
    companions: Sequence[str] = (),
) -> list[RocksDbSplit]:
    """Splits of about ``split_bytes`` stored bytes; of all key groups of the handle, or those in ``key_groups``.

    ``keys``: see RocksDbSplit. ``companions``: other states that the splits can be asked for. Reads the MANIFEST, and
    the tables' indexes where more is wanted than one split; nothing of a database that has none of the key groups.
    Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    wanted = None if key_groups is None else set(key_groups)
    groups = handle.key_groups
    if wanted is not None and wanted.isdisjoint(groups):
        return []
    files, width = database_files(handle, location), prefix_width(max_parallelism)
    tables = family_files(files, state, verify=options.verify)
    held = sum(sst.source.size for sst in tables)
    for companion in companions:
        tables += family_files(files, companion, verify=options.verify)
    share = 1.0 if wanted is None else len(wanted.intersection(groups)) / max(len(groups), 1)
    if keys is None and held * share > split_bytes:
        sizes = key_group_sizes(files, state, groups, width, verify=options.verify)
        parts = split_key_groups(groups, sizes, split_bytes)
    else:
        sizes = np.full(len(groups), held // max(len(groups), 1), dtype=np.int64)
        parts = [groups] if len(groups) else []
    splits = []
    for part in parts:
        runs = runs_of(group for group in part if wanted is None or group in wanted)
        if runs:
            size = sum(int(sizes[run.start - groups.start : run.stop - groups.start].sum()) for run in runs)
            spans = key_spans(runs, width, keys)
            splits.append(
                RocksDbSplit(
                    meta=open_handle(handle.meta, location),
                    files=needed(files, (table for table in tables if table.overlaps(spans))),
                    ranges=runs,
                    bytes=size,
                    max_parallelism=max_parallelism,
                    state=state,
                    operator=operator,
                    options=options,
                    flatten=flatten,
                    raw_keys=raw_keys,
                    keys=keys,
                )
            )
    return splits


def runs_of(key_groups: Iterable[int]) -> tuple[range, ...]:
    """Ascending key groups as runs without gaps."""
    runs: list[range] = []
    for group in key_groups:
        if runs and runs[-1].stop == group:
            runs[-1] = range(runs[-1].start, group + 1)
        else:
            runs.append(range(group, group + 1))
    return tuple(runs)
