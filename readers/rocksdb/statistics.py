"""Collect statistics of a database per state, from its tables and MANIFEST: those of Flink's native metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.stream_handles import KeyGroupsHandle, StreamHandle
from stateproc.readers.rocksdb.database import (
    DEFAULT_FAMILY,
    DatabaseFile,
    SstFile,
    column_families,
    live_files,
    tables_of,
)
from stateproc.readers.rocksdb.table import table_properties
from stateproc.storage.concurrency import map_in_order

_TABLES_AT_ONCE = 8


@dataclass(frozen=True)
class TableStatistics:
    """One table. Sizes in bytes; times in seconds since 1970, None if not known.

    name: the database's own, such as ``000012.sst``. path: the file it is stored in. level: None without a MANIFEST.
    entries: versions of keys, among them deletions and merge_operands (elements that were added to lists and not yet
    joined); range_deletions come on top.
    """

    name: str
    path: str
    bytes: int
    level: int | None
    entries: int
    deletions: int
    merge_operands: int
    range_deletions: int
    raw_key_bytes: int
    raw_value_bytes: int
    compression: str
    oldest_key_time: int | None
    newest_key_time: int | None


@dataclass(frozen=True)
class StateStatistics:
    """One state's tables in one database, or in several; see TableStatistics for what the sums are of."""

    state: str
    tables: tuple[TableStatistics, ...]

    @property
    def files(self) -> int:
        return len(self.tables)

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables)

    @property
    def levels(self) -> Mapping[int, int]:
        """Level → number of files; empty without a MANIFEST."""
        return dict(sorted(Counter(table.level for table in self.tables if table.level is not None).items()))

    @property
    def entries(self) -> int:
        return sum(table.entries for table in self.tables)

    @property
    def deletions(self) -> int:
        return sum(table.deletions for table in self.tables)

    @property
    def merge_operands(self) -> int:
        return sum(table.merge_operands for table in self.tables)

    @property
    def range_deletions(self) -> int:
        return sum(table.range_deletions for table in self.tables)

    @property
    def raw_key_bytes(self) -> int:
        return sum(table.raw_key_bytes for table in self.tables)

    @property
    def raw_value_bytes(self) -> int:
        return sum(table.raw_value_bytes for table in self.tables)

    @property
    def compressions(self) -> tuple[str, ...]:
        return tuple(sorted({table.compression for table in self.tables}))

    @property
    def oldest_key_time(self) -> int | None:
        return min((table.oldest_key_time for table in self.tables if table.oldest_key_time), default=None)

    @property
    def newest_key_time(self) -> int | None:
        return max((table.newest_key_time for table in self.tables if table.newest_key_time), default=None)

    @property
    def estimated_keys(self) -> int:
        """As RocksDB's estimate-num-keys: each deletion is taken to cancel one other entry."""
        return max(0, self.entries - 2 * self.deletions)

    @property
    def live_ratio(self) -> float | None:
        """Estimated share of entries that count; None for a state without entries."""
        return self.estimated_keys / self.entries if self.entries else None


def database_statistics(files: Sequence[DatabaseFile], *, verify: bool = True) -> list[StateStatistics]:
    """Of every state of a database, by name; one read per table. RocksDB's own family ``default`` is left out.

    Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    names = {id(file.source): file.name for file in files}
    families = column_families(files)

    def measured(sst: SstFile) -> tuple[str | None, TableStatistics]:
        properties = table_properties(sst.source, verify=verify)
        return properties.column_family, TableStatistics(
            name=names[id(sst.source)],
            path=sst.source.name,
            bytes=sst.source.size,
            level=None if sst.live is None else sst.live.level,
            entries=properties.entries,
            deletions=properties.deletions,
            merge_operands=properties.merge_operands,
            range_deletions=properties.range_deletions,
            raw_key_bytes=properties.raw_key_size,
            raw_value_bytes=properties.raw_value_size,
            compression=properties.compression,
            oldest_key_time=properties.oldest_key_time or None,
            newest_key_time=properties.newest_key_time or properties.creation_time or None,
        )

    if families is not None:
        wanted = [family.name for family in families if family.name != DEFAULT_FAMILY]
        sources = tables_of(files)
        parts = [(name, sst) for name in wanted for sst in live_files(families, files, sources, name)]
        tables: dict[str, list[TableStatistics]] = {name: [] for name in wanted}
        found = map_in_order(measured, [sst for _, sst in parts], _TABLES_AT_ONCE)
        for (name, _), (_, table) in zip(parts, found, strict=True):
            tables[name].append(table)
    else:
        tables = {}
        ssts = [SstFile(file.source, None) for file in files if file.name.endswith(".sst")]
        for family, table in map_in_order(measured, ssts, _TABLES_AT_ONCE):
            tables.setdefault(family or "", []).append(table)
    return [StateStatistics(state, tuple(tables[state])) for state in sorted(tables)]


def new_tables(handle: IncrementalHandle, earlier: Iterable[IncrementalHandle]) -> frozenset[str]:
    """Names of the handle's tables that no earlier handle has: files that a checkpoint shares keep their place.

    Nothing is read; what is compared is what the two ``_metadata`` say.
    """
    known = {_stored(stream) for other in earlier for _, stream in (*other.shared, *other.private)}
    streams = (*handle.shared, *handle.private)
    return frozenset(name for name, stream in streams if name.endswith(".sst") and _stored(stream) not in known)


def _stored(stream: StreamHandle) -> StreamHandle:
    return _stored(stream.stream) if isinstance(stream, KeyGroupsHandle) else stream
