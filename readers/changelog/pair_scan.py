"""Scans of one state in two changelogs that have the materialized part, or most of it, in common.

Keys that only one log changes may differ, and those that differ in the materialized parts. These are looked up in the
materialized part of each side, to which the side's whole log is applied. Keys that only the common beginning of both
logs changes may lack what was materialized of them: they are the same on both sides all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from stateproc.metadata.handles import IncrementalHandle, KeyedHandle, KeyGroupsHandle
from stateproc.readers.changelog.changed_keys import ChangedKeys
from stateproc.readers.changelog.changelog_split import ChangelogSplit, changelog_handle, changelog_split
from stateproc.readers.changelog.log_compaction import compacted_entries
from stateproc.readers.changelog.log_metadata import DeclaredStateIds
from stateproc.readers.changelog.log_parts import LogParts, log_parts
from stateproc.readers.changelog.materialized import materialized_file
from stateproc.readers.changelog.records import records
from stateproc.readers.changelog.spill_buckets import Buckets
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb.key_ranges import KeySpan
from stateproc.readers.rocksdb.pair_scan import RocksDbPairScan, rocksdb_pair_scan
from stateproc.readers.rocksdb.shared_tables import stored_files, stored_identity
from stateproc.readers.splits import StateScan
from stateproc.storage import SnapshotLocation

_LOOKED_UP = 16
"""Bytes of materialized state that are read to look up the keys of one byte of the log, as an estimate."""


@dataclass(frozen=True)
class MaterializedPart:
    """A part of the materialized state of both changelogs.

    Attributes:
        file: The file, or the first one of two databases.
        database: The scan of two databases; None for a file that both changelogs have.
        is_same: Whether it is the same in both.
    """

    file: KeyedFile
    database: RocksDbPairScan | None
    is_same: bool

    def entries(
        self, scan: StateScan, key_groups: Collection[int], keys: Sequence[KeySpan], side: int
    ) -> Iterator[RawEntries]:
        """Read of one side what may differ, and the entries of further keys."""
        own = [group for group in key_groups if group in self.file.handle.key_groups]
        if self.database is not None:
            yield from (entries for _, entries in self.database.entries(own, keys, (side,)))
        elif own:
            yield from self.file.split(scan, own).raw_entries()


@dataclass(frozen=True)
class ChangelogPairScan:
    """Reads the entries of a state that may differ between two changelogs.

    Attributes:
        splits: The state in both changelogs.
        log: The parts of both logs.
        materialized: The parts of the materialized state that contain the state.
        stored_bytes: The bytes to read, approximately.
    """

    splits: tuple[ChangelogSplit, ChangelogSplit] = field(repr=False)
    log: LogParts = field(repr=False)
    materialized: tuple[MaterializedPart, ...] = field(repr=False)
    stored_bytes: int

    @property
    def bytes(self) -> int:
        return self.stored_bytes

    def entries(self, key_groups: Collection[int]) -> Iterator[tuple[int, RawEntries]]:
        """Read the entries that may differ, see ``PairScan``."""
        groups = tuple(sorted(key_groups))
        one, two = (replace(split, groups=groups) for split in self.splits)
        target = one.declared()
        if target is None:
            return
        changed = ChangedKeys(target, one.scan.options.context, one.scan.max_parallelism)
        with Buckets(groups) as left, Buckets(groups) as right:
            sides = ((0, one, left), (1, two, right))
            if all(self._collect(side, split, buckets, changed) for side, split, buckets in sides):
                for side, split, buckets in sides:
                    for chunk in self._replayed(side, split, buckets, changed):
                        yield side, chunk
                return
        for side, split in enumerate((one, two)):
            for chunk in split.raw_entries():
                yield side, chunk

    def _collect(self, side: int, split: ChangelogSplit, buckets: Buckets, changed: ChangedKeys) -> bool:
        """Collect the changes of one side, and the keys of those that only this side has; stop if these are not known.

        Returns whether they are known.
        """
        target, declared = split.declared(), DeclaredStateIds()
        assert target is not None, "states of a pair are declared in both"
        for handles, is_own in ((self.log.common, False), (self.log.own[side], True)):
            for block in split.changes(target, handles, declared):
                buckets.add(block)
                (changed.add if is_own else changed.note)(block)
                if not changed.are_known:
                    return False
        changed.finish()
        return changed.are_known

    def _replayed(
        self, side: int, split: ChangelogSplit, buckets: Buckets, changed: ChangedKeys
    ) -> Iterator[RawEntries]:
        """Apply the log of one side to what is materialized of keys that may differ."""
        target = split.declared()
        assert target is not None, "states of a pair are declared in both"
        is_same = all(part.is_same for part in self.materialized)

        def runs() -> Iterator[RawEntries]:
            for run in buckets.runs():
                groups = {group for group in run if not is_same or group in changed.key_groups}
                spans = changed.spans(groups)
                parts = (part.entries(split.scan, sorted(groups), spans, side) for part in self.materialized)
                found = records([block for block in buckets.taken(run) if block.key_group in groups])
                entries = (chunk for part in parts for chunk in part)
                yield from compacted_entries(target, entries, found, split.scan.options.context, split.origin)
                del found

        yield from split.checked(target, runs())


def changelog_pair_scan(left: KeyedFile, right: KeyedFile, scan: StateScan) -> ChangelogPairScan | None:
    """Plan a scan; None where the changelogs have too little in common.

    Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot.
    """
    one, two = changelog_handle(left), changelog_handle(right)
    if one.key_groups != two.key_groups or len(one.materialized) != len(two.materialized):
        return None
    parts = []
    for here, there in zip(one.materialized, two.materialized, strict=True):
        if here.key_groups != there.key_groups:
            return None
        files = (
            materialized_file(here, left.location, left.max_parallelism),
            materialized_file(there, right.location, right.max_parallelism),
        )
        has_state = [scan.state in file.state_names for file in files]
        if not any(has_state):
            continue
        part = _part(files[0], files[1], scan) if all(has_state) else None
        if part is None:
            return None
        parts.append(part)
    is_same = all(part.is_same for part in parts)
    log = log_parts(
        one.non_materialized if is_same else (), left.location, two.non_materialized if is_same else (), right.location
    )
    if not is_same:
        log = LogParts((), (one.non_materialized, two.non_materialized))
    logged = sum(handle.stored_bytes for file in (one, two) for handle in file.non_materialized)
    stored = sum(part.file.handle.stored_bytes for part in parts)
    splits = changelog_split(left, scan, one.key_groups), changelog_split(right, scan, two.key_groups)
    return ChangelogPairScan(splits, log, tuple(parts), logged + min(stored, _LOOKED_UP * logged))


def _part(one: KeyedFile, two: KeyedFile, scan: StateScan) -> MaterializedPart | None:
    """Pair two files of materialized state; None if they differ and are no databases that share tables."""
    here, there = one.handle, two.handle
    if isinstance(here, IncrementalHandle) and isinstance(there, IncrementalHandle):
        database = rocksdb_pair_scan(
            (here, one.location),
            (there, two.location),
            scan.state,
            scan.max_parallelism,
            verify=scan.options.verify,
        )
        same = stored_files(here, one.location) == stored_files(there, two.location)
        return None if database is None else MaterializedPart(one, database, same)
    return MaterializedPart(one, None, True) if _is_same_file(here, one.location, there, two.location) else None


def _is_same_file(one: KeyedHandle, here: SnapshotLocation, two: KeyedHandle, there: SnapshotLocation) -> bool:
    if not isinstance(one, KeyGroupsHandle) or not isinstance(two, KeyGroupsHandle):
        return False
    return one.offsets == two.offsets and stored_identity(one, here) == stored_identity(two, there)
