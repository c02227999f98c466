"""Scans of one state in two changelogs that have the materialized part, or most of it, in common."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

import numpy as np

from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import FileChangelogHandle, InMemoryChangelogHandle, KeyedHandle
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.readers.changelog.change_blocks import ChangeBlock, numbered
from stateproc.readers.changelog.changelog_split import ChangelogSplit
from stateproc.readers.changelog.log_compaction import RowCollector, compacted_entries
from stateproc.readers.changelog.log_metadata import ChangelogSource, DeclaredStateIds
from stateproc.readers.changelog.log_segments import LogHandle
from stateproc.readers.changelog.records import Operation, check_operations, records
from stateproc.readers.changelog.spill_buckets import Buckets
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.materialized_files import open_materialized_file
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb.changed_entries import RocksDbPairScan, stored_files, stored_identity
from stateproc.readers.rocksdb.key_ranges import KeySpan, joined, prefix_span
from stateproc.readers.rocksdb.splits import RocksDbFile
from stateproc.readers.splits import StateScan
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.storage import SnapshotLocation

_COLLECTED_AT_ONCE = 16 << 20
MOST_KEYS = 200_000
"""Keys that are held. Logs that change more have little in common: reading both whole takes less."""


class ChangedKeys:
    """Collects the distinct keys of changes.

    Args:
        target: The state that is changed.
        context: Settings of layouts.
        max_parallelism: The operator's number of key groups.

    Attributes:
        are_known: Whether these are all keys that may differ. They are not where namespaces were merged, so that a key
            has what another key had before, or where there are too many to hold.
    """

    def __init__(self, target: StateDescriptor, context: LayoutContext, max_parallelism: int) -> None:
        self._target, self._context, self._width = target, context, prefix_width(max_parallelism)
        self._keys: dict[int, set[bytes]] = {}
        self._waiting: list[ChangeBlock] = []
        self._bytes = 0
        self.are_known = True

    def note(self, block: ChangeBlock) -> None:
        """Note whether changes merge namespaces."""
        codes = np.frombuffer(block.data or b"\0", dtype=np.uint8)[block.starts]
        self.are_known = self.are_known and not (codes == Operation.MERGE_NS).any()

    def add(self, block: ChangeBlock) -> None:
        """Add changes, each of which has its head. Raises CorruptSnapshot."""
        self.note(block)
        self._waiting.append(block)
        self._bytes += len(block.data)
        if self._bytes > _COLLECTED_AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Take apart what was added. Raises CorruptSnapshot naming file and offset."""
        found = records(self._waiting)
        self._waiting, self._bytes = [], 0
        check_operations(found, self._target)
        collector = RowCollector(self._target, self._context)
        for code in np.unique(found.operations).tolist() if len(found) else []:
            collector.apply(found, Operation(code))
        rows = collector.rows()
        numbers, n = numbered(rows.groups, rows.key_at, rows.key_sizes)
        last = np.zeros(n, dtype=np.int64)
        last[numbers] = np.arange(len(rows))
        columns = (rows.groups[last].tolist(), rows.key_at[last].tolist(), rows.key_sizes[last].tolist())
        for group, at, size in zip(*columns, strict=True):
            self._keys.setdefault(group, set()).add(ctypes.string_at(at, size))
        if sum(map(len, self._keys.values())) > MOST_KEYS:
            self._keys.clear()
            self.are_known = False

    @property
    def key_groups(self) -> Collection[int]:
        """The key groups that have any of the keys."""
        return self._keys.keys()

    def spans(self, key_groups: Iterable[int]) -> list[KeySpan]:
        """Return the entries of the keys in some key groups, as spans of a database's keys."""
        prefixed = (
            group.to_bytes(self._width, "big") + key for group in key_groups for key in self._keys.get(group, ())
        )
        if self._target.kind is StateKind.MAP:
            # Entries of a map have their user key after this.
            return joined(map(prefix_span, prefixed))
        return joined((key, key + b"\0") for key in prefixed)


@dataclass(frozen=True)
class LogParts:
    """Two logs.

    Attributes:
        common: The beginning of the first log, which the second one has as well.
        own: What follows in each.
    """

    common: tuple[LogHandle, ...]
    own: tuple[tuple[LogHandle, ...], tuple[LogHandle, ...]]


def log_parts(
    left: Sequence[LogHandle], here: SnapshotLocation, right: Sequence[LogHandle], there: SnapshotLocation
) -> LogParts:
    """Divide two logs. Segments are the same if they are at the same place of the same file."""
    pairs = zip(_pieces(left, here), _pieces(right, there), strict=False)
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return LogParts(_part(left, 0, length), (_part(left, length, None), _part(right, length, None)))


def _pieces(handles: Sequence[LogHandle], location: SnapshotLocation) -> Iterator[Hashable]:
    """Yield what identifies each segment, or each change that is in memory."""
    for handle in handles:
        if isinstance(handle, InMemoryChangelogHandle):
            yield from handle.changes
        else:
            yield from ((offset, stored_identity(stream, location)) for offset, stream in handle.segments)


def _part(handles: Sequence[LogHandle], first: int, stop: int | None) -> tuple[LogHandle, ...]:
    """Return handles with only some pieces of all, by their numbers."""
    found: list[LogHandle] = []
    for handle in handles:
        if isinstance(handle, FileChangelogHandle):
            size = len(handle.segments)
            own: LogHandle = replace(handle, segments=handle.segments[max(first, 0) : _stop(stop)])
        else:
            size = len(handle.changes)
            own = replace(handle, changes=handle.changes[max(first, 0) : _stop(stop)])
        found.append(own)
        first, stop = first - size, None if stop is None else stop - size
    return tuple(found)


def _stop(stop: int | None) -> int | None:
    return None if stop is None else max(stop, 0)


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


def changelog_pair_scan(left: ChangelogSource, right: ChangelogSource, scan: StateScan) -> ChangelogPairScan | None:
    """Plan a scan of changelogs with one max parallelism; None where they have too little in common.

    Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot.
    """
    one, two = left.handle, right.handle
    if one.key_groups != two.key_groups or len(one.materialized) != len(two.materialized):
        return None
    parts = []
    for here, there in zip(one.materialized, two.materialized, strict=True):
        if here.key_groups != there.key_groups:
            return None
        files = (
            open_materialized_file(here, left.location, scan.max_parallelism),
            open_materialized_file(there, right.location, scan.max_parallelism),
        )
        has_state = [scan.state in file.state_names for file in files]
        if not any(has_state):
            continue
        part = _changed_part(files[0], files[1], scan) if all(has_state) else None
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
    splits = (
        ChangelogSplit(scan, left, tuple(one.key_groups), one.stored_bytes),
        ChangelogSplit(scan, right, tuple(two.key_groups), two.stored_bytes),
    )
    return ChangelogPairScan(splits, log, tuple(parts), logged + min(stored, _LOOKED_UP * logged))


def _changed_part(one: KeyedFile, two: KeyedFile, scan: StateScan) -> MaterializedPart | None:
    """Pair two files of materialized state; None if they differ and are no databases that share tables."""
    here, there = one.handle, two.handle
    if isinstance(one, RocksDbFile) and isinstance(two, RocksDbFile):
        database = one.pair_scan(two, scan)
        same = stored_files(one.handle, one.location) == stored_files(two.handle, two.location)
        return None if database is None else MaterializedPart(one, database, same)
    return MaterializedPart(one, None, True) if _is_same_file(here, one.location, there, two.location) else None


def _is_same_file(one: KeyedHandle, here: SnapshotLocation, two: KeyedHandle, there: SnapshotLocation) -> bool:
    if not isinstance(one, KeyGroupsHandle) or not isinstance(two, KeyGroupsHandle):
        return False
    return one.offsets == two.offsets and stored_identity(one, here) == stored_identity(two, there)
