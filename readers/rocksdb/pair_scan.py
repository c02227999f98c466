"""Scans of one state in two RocksDB databases that share tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb.changed_entries import SIDES, changed_entries
from stateproc.readers.rocksdb.key_ranges import KeySpan, key_spans, runs_of
from stateproc.readers.rocksdb.open_database import database_files
from stateproc.readers.rocksdb.shared_tables import DatabaseOfState, PairedTables, paired_tables, stored_files
from stateproc.storage import SnapshotLocation

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
