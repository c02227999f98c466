"""What tables and the MANIFEST tell about a database, per state: the numbers of Flink's native metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stateproc.readers.rocksdb.database import DatabaseFile, SstFile, column_families, family_files
from stateproc.readers.rocksdb.properties import TableProperties
from stateproc.readers.rocksdb.table import table_properties

_DEFAULT_FAMILY = "default"


@dataclass(frozen=True)
class StateStatistics:
    """One state's tables. Sizes in bytes; times in seconds since 1970, None if not known.

    levels: level → number of files; empty without a MANIFEST. entries: versions of keys, among them deletions and
    merge_operands (elements that were added to lists and not yet joined); range_deletions come on top.
    """

    state: str
    files: int
    bytes: int
    levels: Mapping[int, int] = field(hash=False)
    entries: int
    deletions: int
    merge_operands: int
    range_deletions: int
    raw_key_bytes: int
    raw_value_bytes: int
    compressions: tuple[str, ...]
    oldest_key_time: int | None
    newest_key_time: int | None

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
    families = column_families(files)
    if families is not None:
        tables = {
            family.name: [
                (sst, table_properties(sst.source, verify=verify)) for sst in family_files(files, family.name)
            ]
            for family in families
            if family.name != _DEFAULT_FAMILY
        }
    else:
        tables = {}
        for file in files:
            if file.name.endswith(".sst"):
                properties = table_properties(file.source, verify=verify)
                tables.setdefault(properties.column_family or "", []).append((SstFile(file.source, None), properties))
    return [_statistics(state, tables[state]) for state in sorted(tables)]


def _statistics(state: str, tables: Sequence[tuple[SstFile, TableProperties]]) -> StateStatistics:
    properties = [item for _, item in tables]
    oldest = [item.oldest_key_time for item in properties if item.oldest_key_time]
    newest = [item.newest_key_time or item.creation_time for item in properties]
    return StateStatistics(
        state=state,
        files=len(tables),
        bytes=sum(sst.source.size for sst, _ in tables),
        levels=dict(sorted(Counter(sst.live.level for sst, _ in tables if sst.live is not None).items())),
        entries=sum(item.entries for item in properties),
        deletions=sum(item.deletions for item in properties),
        merge_operands=sum(item.merge_operands for item in properties),
        range_deletions=sum(item.range_deletions for item in properties),
        raw_key_bytes=sum(item.raw_key_size for item in properties),
        raw_value_bytes=sum(item.raw_value_size for item in properties),
        compressions=tuple(sorted({item.compression for item in properties})),
        oldest_key_time=min(oldest, default=None),
        newest_key_time=max((time for time in newest if time), default=None),
    )


def new_files(files: Sequence[DatabaseFile], earlier: Sequence[DatabaseFile]) -> list[DatabaseFile]:
    """The sst files that an earlier checkpoint of the same database did not have; shared ones keep their place."""
    known = {(file.source.name, file.source.size) for file in earlier}
    return [file for file in files if file.name.endswith(".sst") and (file.source.name, file.source.size) not in known]
