"""Compare keyed state by its serialized entries, and decode those that differ.

Entries of all backends are converted to one form (``raw_entries``), so that most of two snapshots is compared by bytes.
Different bytes may be the same value (the entries of a map within a value in another order), and where serializers
differ equal bytes may be different values: what decides is the decoded row.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, null_rows
from stateproc.diff.change_rows import (
    KEY_COLUMNS,
    UNIDENTIFYING,
    ChangeCounts,
    RowSet,
    UnitChanges,
    change_batch,
    changed_rows,
    row_set,
)
from stateproc.diff.common_schema import (
    NotComparable,
    RowForm,
    common_rows,
    common_schema,
    has_kryo,
    have_equal_codecs,
    one_batch,
    plain_schema,
)
from stateproc.diff.entry_table import (
    PLAIN,
    SEED,
    EntryTable,
    ValueForm,
    entries_of_chunk,
    hash_buckets,
    joined_tables,
    match,
)
from stateproc.diff.key_group_units import KeyGroupUnit
from stateproc.diff.row_identity import cut_rows
from stateproc.errors import SnapshotError
from stateproc.model.keyed_state import KeyedState
from stateproc.readers.entry_decoder import Report, decode_entries
from stateproc.readers.entry_programs import with_opaque_values
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.splits import PairScan
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.runtime.ttl import LAST_ACCESS

# Pair the files of two snapshots by their key groups, and read of pairs only the entries that may differ.


@dataclass(frozen=True)
class FilePair:
    """Two files that have key groups in common, and the scan of what may differ in these.

    Attributes:
        key_groups: The key groups that both have.
        states: The state as each file describes it.
        scan: Reads the entries that may differ.
    """

    key_groups: range
    states: tuple[StateDescriptor, StateDescriptor]
    scan: PairScan


class FilePairs:
    """The files of a state in two snapshots.

    Args:
        left: The state in the first snapshot.
        right: The state in the second snapshot.

    Raises:
        SnapshotError: A file cannot be read.
    """

    def __init__(self, left: KeyedState, right: KeyedState) -> None:
        self._views = left, right
        same = left.operator.max_parallelism == right.operator.max_parallelism
        self._pairs = tuple(_pairs(left, right)) if same else ()
        self._paired = frozenset(group for pair in self._pairs for group in pair.key_groups)

    def key_group_bytes(self) -> tuple[Longs, Longs]:
        """Return about how many stored bytes are read of each key group, of both snapshots."""
        sizes = [view.key_group_bytes() for view in self._views]
        for pair in self._pairs:
            groups = slice(pair.key_groups.start, pair.key_groups.stop)
            sizes[0][groups], sizes[1][groups] = pair.scan.bytes // len(pair.key_groups), 0
        return sizes[0], sizes[1]

    @property
    def is_empty(self) -> bool:
        """Whether all entries of both are read."""
        return not self._pairs

    def chunks(self, unit: KeyGroupUnit) -> Iterator[tuple[int, StateDescriptor, RawEntries]]:
        """Read key groups of both snapshots, without entries that are the same in both.

        Yields the side (0 or 1), the state as its file describes it, entries.

        Raises:
            SnapshotError: A file cannot be read.
        """
        wanted = frozenset(unit.left) & frozenset(unit.right) & self._paired
        for pair in self._pairs:
            own = wanted.intersection(pair.key_groups)
            if own:
                for side, chunk in pair.scan.entries(own):
                    yield side, pair.states[side], chunk
        for side, (view, groups) in enumerate(zip(self._views, (unit.left, unit.right), strict=True)):
            yield from whole_chunks(side, view, [group for group in groups if group not in wanted])


def whole_chunks(
    side: int, view: KeyedState, key_groups: Sequence[int]
) -> Iterator[tuple[int, StateDescriptor, RawEntries]]:
    """Read all entries of some key groups of one snapshot, as `FilePairs.chunks` does."""
    for split in view.group_splits(key_groups) if key_groups else ():
        target = split.target()
        if target is not None:
            for chunk in split.raw_entries():
                yield side, target, chunk


def _pairs(left: KeyedState, right: KeyedState) -> Iterator[FilePair]:
    """Pair files of the same key groups whose states have equal serializers and much in common."""
    single = (left.key_group_owners == 1) & (right.key_group_owners == 1)
    kryo = {view.operator.options.kryo for view in (left, right)}
    for one, two in product(left.parts, right.parts):
        mine, other = one.file.handle.key_groups, two.file.handle.key_groups
        groups = range(max(mine.start, other.start), min(mine.stop, other.stop))
        states = one.state, two.state
        if len(groups) and single[groups.start : groups.stop].all() and have_equal_codecs(states, kryo):
            for view, part in ((left, one), (right, two)):
                part.file.check_readable(view.operator.display, view.name)
            scan = one.file.pair_scan(two.file, left.scan())
            if scan is not None:
                yield FilePair(groups, states, scan)


# Collect the entries of one unit of work in memory; where it is too much, divide them into buckets on disk.

HELD_BYTES = 96 << 20
"""Bytes of entries of both snapshots that a unit holds in memory; more are divided into buckets on disk."""
SPILLED_AT_ONCE = 16 << 20
"""Bytes of entries that are divided into buckets together: few large parts of a bucket are faster than many."""
_BUCKETS = 64


@dataclass(frozen=True)
class FileEntries:
    """The entries of one file, which are rows ``start`` to ``stop`` of a table."""

    target: StateDescriptor
    start: int
    stop: int


@dataclass(frozen=True)
class SideEntries:
    """Entries of one snapshot."""

    entries: EntryTable
    files: tuple[FileEntries, ...]


def _held_bytes(table: EntryTable) -> int:
    return table.content_bytes + int(table.table.nbytes)


class EntryCollector:
    """Collects entries of one snapshot, file after file."""

    def __init__(self) -> None:
        self._tables: list[EntryTable] = []
        self._files: list[tuple[StateDescriptor, int]] = []
        self.bytes = 0

    def add(self, target: StateDescriptor, chunk: RawEntries) -> None:
        """Add entries of a file; those of one file come one after another."""
        table = entries_of_chunk(chunk)
        self.bytes += _held_bytes(table)
        self._tables.append(table)
        if not self._files or self._files[-1][0] is not target:
            self._files.append((target, 0))
        self._files[-1] = target, self._files[-1][1] + len(table)

    def taken(self) -> Iterator[tuple[StateDescriptor, EntryTable]]:
        """Return the entries file by file, in parts of about SPILLED_AT_ONCE bytes, and forget them."""
        tables, files = deque(self._tables), self._files
        self._tables, self._files, self.bytes = [], [], 0
        for target, rows in files:
            while rows > 0:
                part: list[EntryTable] = []
                size = 0
                while rows > 0 and size < SPILLED_AT_ONCE:
                    table = tables.popleft()
                    part.append(table)
                    rows -= len(table)
                    size += _held_bytes(table)
                yield target, joined_tables(part)

    def side(self) -> SideEntries:
        """Return all entries."""
        files, at = [], 0
        for target, size in self._files:
            files.append(FileEntries(target, at, at + size))
            at += size
        return SideEntries(joined_tables(self._tables), tuple(files))


@dataclass(frozen=True)
class _Stored:
    """Entries of one bucket in the temporary file."""

    target: StateDescriptor
    at: int
    rows: int
    data_bytes: int


class SpilledSide:
    """Entries of one snapshot in a temporary file, divided by a hash of their keys. A context."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="stateproc-")  # noqa: SIM115 (closed by the context)
        self._end = 0
        self._buckets: list[list[_Stored]] = [[] for _ in range(_BUCKETS)]

    def __enter__(self) -> SpilledSide:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add_all(self, tables: Iterable[tuple[StateDescriptor, EntryTable]]) -> None:
        """Divide the entries of files."""
        for target, table in tables:
            self.add(target, table)

    def add(self, target: StateDescriptor, table: EntryTable) -> None:
        """Divide entries of a file."""
        buckets = np.empty(len(table), dtype=np.int64)
        hash_buckets(table.table, SEED, _BUCKETS - 1, buckets)
        order = np.argsort(buckets, kind="stable")
        bounds = np.searchsorted(buckets[order], np.arange(_BUCKETS + 1))
        packed = table.packed(order)
        for bucket in np.flatnonzero(np.diff(bounds)).tolist():
            first, stop = int(bounds[bucket]), int(bounds[bucket + 1])
            ranges = packed.ranges[:, first:stop]
            begin, end = int(ranges[0, 0]), int(ranges[3, -1])
            at = self._end
            for part in (packed.key_groups[first:stop], ranges - begin, packed.data[begin:end]):
                self._end += self._file.write(np.ascontiguousarray(part).data)
            self._buckets[bucket].append(_Stored(target, at, stop - first, end - begin))

    def side(self, bucket: int) -> SideEntries:
        """Read the entries of a bucket."""
        found = EntryCollector()
        for stored in self._buckets[bucket]:
            self._file.seek(stored.at)
            groups = self._array(np.int32, stored.rows)
            ranges = self._array(np.int64, 4 * stored.rows).reshape(4, -1)
            data = self._array(np.uint8, stored.data_bytes)
            found.add(stored.target, RawEntries(data, groups, ranges, "", 0, exact=False))
        return found.side()

    def _array(self, kind: type[np.generic], size: int) -> npt.NDArray[Any]:
        width = np.dtype(kind).itemsize
        return np.frombuffer(self._file.read(size * width), dtype=kind)


BUCKETS = range(_BUCKETS)


_TTL_BYTES = 8
KeyedViews: TypeAlias = "tuple[KeyedState | None, KeyedState | None]"
"""A state in the first snapshot and in the second one."""


class KeyedEntriesComparison:
    """Compares a keyed state of two snapshots.

    Args:
        views: The state in both snapshots, see ``exact_view``; None where a snapshot has none.
        form: What the rows are.
        shown: The views whose rows show what changed, where these are others.
        by_bytes: Values cannot be decoded: entries whose bytes differ are different.
        count_all: Whether entries are read and counted that are known to be equal.

    Attributes:
        schema: The columns of rows, without ``_change_type``.

    Raises:
        NotComparable: The types of keys or values have nothing in common.
        SnapshotError: The types of a state are not known.
    """

    def __init__(
        self,
        views: KeyedViews,
        form: RowForm,
        shown: KeyedViews | None = None,
        *,
        by_bytes: bool = False,
        count_all: bool = False,
    ) -> None:
        self._views, self._form, self._shown = views, form, shown
        self._by_bytes, self._count_all = by_bytes, count_all
        self._schema = self._schema_of(views)
        self.schema = self._schema if shown is None else self._schema_of(shown)
        self._kryo = {view.operator.options.kryo for view in views if view is not None}
        self._keys = [name for name in KEY_COLUMNS if name in self._schema.names]
        skipped = {*UNIDENTIFYING, *self._keys, *(() if form.times else (LAST_ACCESS,))}
        self._values = [name for name in self._schema.names if name not in skipped]

    def _schema_of(self, views: KeyedViews) -> pa.Schema:
        return common_schema(
            [plain_schema(view.schema(flatten=self._form.is_flat(view))) for view in views if view is not None]
        )

    @cached_property
    def pairs(self) -> FilePairs | None:
        """Pair the files of both snapshots; None where all entries are read.

        Raises:
            SnapshotError: A file cannot be read.
        """
        left, right = self._views
        if self._count_all or left is None or right is None:
            return None
        found = FilePairs(left, right)
        return None if found.is_empty else found

    def key_group_bytes(self) -> tuple[Longs, Longs] | None:
        """Return about how many stored bytes are read of each key group; None if all are.

        Raises:
            SnapshotError: A file cannot be read.
        """
        return None if self.pairs is None else self.pairs.key_group_bytes()

    def unit_changes(self, unit: KeyGroupUnit) -> Iterator[UnitChanges]:
        """Compare some key groups: in memory, or bucket by bucket where they are too large.

        Raises:
            SnapshotError: A file cannot be read.
            NotComparable: Values that cannot be decoded have different serializers.
        """
        sides = EntryCollector(), EntryCollector()
        chunks = self._chunks(unit)
        # Entries of units that are larger in files (of changelogs, which have one for each thread) never fit.
        most = HELD_BYTES if unit.bytes <= HELD_BYTES else min(HELD_BYTES, SPILLED_AT_ONCE)
        for side, target, chunk in chunks:
            sides[side].add(target, chunk)
            if sum(item.bytes for item in sides) > most and self._have_equal_keys:
                yield from self._spilled_changes(sides, chunks, unit)
                return
        yield self._changes((sides[0].side(), sides[1].side()), unit.bytes)

    def _chunks(self, unit: KeyGroupUnit) -> Iterator[tuple[int, StateDescriptor, RawEntries]]:
        """Read the entries of both snapshots: (0 or 1, the state as its file describes it, entries)."""
        if self.pairs is not None:
            yield from self.pairs.chunks(unit)
            return
        for side, (view, groups) in enumerate(zip(self._views, (unit.left, unit.right), strict=True)):
            if view is not None:
                yield from whole_chunks(side, view, groups)

    def _spilled_changes(
        self,
        held: Sequence[EntryCollector],
        chunks: Iterator[tuple[int, StateDescriptor, RawEntries]],
        unit: KeyGroupUnit,
    ) -> Iterator[UnitChanges]:
        """Divide the entries by their keys into buckets on disk, and compare one bucket after the other."""
        with SpilledSide() as left, SpilledSide() as right:
            sides = left, right
            for side, target, chunk in chunks:
                held[side].add(target, chunk)
                if held[side].bytes > SPILLED_AT_ONCE:
                    sides[side].add_all(held[side].taken())
            for spilled, collected in zip(sides, held, strict=True):
                spilled.add_all(collected.taken())
            for bucket in BUCKETS:
                yield self._changes((left.side(bucket), right.side(bucket)), unit.bytes // len(BUCKETS))

    @cached_property
    def _have_equal_keys(self) -> bool:
        """Whether equal keys have equal bytes in all files, so that they are in equal buckets."""
        targets = [state for view in self._views if view is not None for state in view.declared]
        forms = [(target.key, target.namespace, target.user_key) for target in targets]
        if any(form != forms[0] for form in forms[1:]):
            return False
        return len(self._kryo) == 1 or not any(has_kryo(part) for part in forms[0] if part is not None)

    def _changes(self, sides: tuple[SideEntries, SideEntries], size: int) -> UnitChanges:
        """Compare the entries of both snapshots."""
        left, right = (side.entries for side in sides)
        counts = ChangeCounts(len(left), len(right), 0, 0, 0, 0, left.content_bytes, right.content_bytes)
        equal, rows = 0, [np.arange(len(left)), np.arange(len(right))]
        if self._have_comparable_bytes(sides):
            found = match(left, right, self._value_form(sides))
            equal = found.equal
            differing = ((found.deleted, found.before), (found.inserted, found.after))
            rows = [np.sort(np.concatenate(pair)) for pair in differing]
        elif self._by_bytes:
            raise NotComparable("values cannot be decoded, and their serializers differ")
        if not (len(rows[0]) or len(rows[1])):
            return UnitChanges(counts + ChangeCounts(equal=equal), None, size)
        decoded = [
            self._row_set(side, wanted, view) for side, wanted, view in zip(sides, rows, self._views, strict=True)
        ]
        last, changes = changed_rows(*decoded)
        if changes is not None and self._shown is not None:
            before, after = (
                self._decoded(side, wanted, view, self.schema)[0]
                for side, wanted, view in zip(sides, rows, self._shown, strict=True)
            )
            changes = change_batch(before, after, last)
        more = ChangeCounts(0, 0, equal + last.equal, len(last.inserted), len(last.deleted), len(last.before))
        return UnitChanges(counts + more, changes, size)

    def _have_comparable_bytes(self, sides: Sequence[SideEntries]) -> bool:
        """Whether equal bytes are equal rows."""
        targets = list({id(file.target): file.target for side in sides for file in side.files}.values())
        return have_equal_codecs(targets, self._kryo)

    def _value_form(self, sides: Sequence[SideEntries]) -> ValueForm:
        target = next((file.target for side in sides for file in side.files), None)
        if target is None:
            return PLAIN
        # Times of a list's elements are anywhere in its value: lists of different bytes are decoded.
        skips = target.ttl and not self._form.times and target.kind is not StateKind.LIST
        return ValueForm(target.kind is StateKind.MAP, _TTL_BYTES if skips else 0)

    def _row_set(self, side: SideEntries, rows: Longs, view: KeyedState | None) -> RowSet:
        """Decode some rows of a table, which are in ascending order, to compare them."""
        found, has_failed = self._decoded(side, rows, view, self._schema)
        # Nulls that stand for values which cannot be decoded are compared by their bytes.
        added = _bytes_of_nulls(side.entries, rows, found.column("value")) if has_failed else None
        return row_set(found, self._keys, self._values, added)

    def _decoded(
        self, side: SideEntries, rows: Longs, view: KeyedState | None, schema: pa.Schema
    ) -> tuple[pa.RecordBatch, bool]:
        """Decode some rows of a table; return them, and whether there are values that cannot be decoded."""
        batches: list[pa.RecordBatch] = []
        failed: list[SnapshotError] = []
        for file in side.files:
            own = rows[np.searchsorted(rows, file.start) : np.searchsorted(rows, file.stop)]
            if len(own) and view is not None:
                packed = side.entries.packed(own)
                context, flatten = view.operator.options.context, self._form.is_flat(view)
                batches += _batches(packed, file.target, context, flatten, failed.append)
        return one_batch([common_rows(batch, schema) for batch in batches], schema), bool(failed)


def _batches(
    entries: RawEntries, target: StateDescriptor, context: LayoutContext, flatten: bool, report: Report
) -> Iterator[pa.RecordBatch]:
    readable = with_opaque_values(target, context)
    yield from decode_entries([entries], readable, context, flatten=flatten, report=report)


def _bytes_of_nulls(entries: EntryTable, rows: Longs, values: pa.Array) -> RowBytes:
    """Return the serialized values of rows whose values are null, nothing for others."""
    packed = entries.packed(rows)
    _, _, starts, stops = packed.ranges
    return cut_rows(packed.data, starts, np.where(null_rows(values), stops - starts, 0))
