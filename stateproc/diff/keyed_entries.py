"""Compare keyed state by its serialized entries, and decode those that differ.

Entries of all backends are converted to one form (``raw_entries``), so that most of two snapshots is compared by bytes.
Different bytes may be the same value (the entries of a map within a value in another order), and where serializers
differ equal bytes may be different values: what decides is the decoded row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, Generic, TypeAlias, TypeVar

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
    match_beginnings,
)
from stateproc.diff.file_pairs import Chunk, FilePairs, whole_chunks
from stateproc.diff.key_group_units import KeyGroupUnit
from stateproc.diff.row_identity import cut_rows
from stateproc.errors import SnapshotError
from stateproc.model.keyed_state import KeyedState
from stateproc.model.state import State
from stateproc.readers.entry_decoder import Report, decode_entries
from stateproc.readers.entry_programs import with_opaque_values
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.runtime.ttl import LAST_ACCESS

# Match the entries of one unit of work while they are read: most of two snapshots is equal, has the same order, and is
# forgotten at once. The rest is held in memory; where that is too much, it is divided into buckets on disk.

MATCHED_AT_ONCE = 4 << 20
"""Bytes of entries of each snapshot that are matched at once."""
HELD_BYTES = 16 << 20
"""Bytes of entries of both snapshots without a partner that a unit holds in memory."""
SPILLED_AT_ONCE = 8 << 20
"""Bytes of entries that are divided into buckets together: few large parts of a bucket are faster than many."""
_BUCKETS = 64
_DECODED_AT_ONCE = 1 << 15
"""Pairs of rows: of small rows, what is made of them takes much more than their bytes."""


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

    def __len__(self) -> int:
        return len(self.entries)

    def by_file(self, rows: Longs) -> Iterator[tuple[StateDescriptor, Longs]]:
        """Divide rows, which are in ascending order, by their files."""
        for file in self.files:
            own = rows[np.searchsorted(rows, file.start) : np.searchsorted(rows, file.stop)]
            if len(own):
                yield file.target, own


class EntryCollector:
    """Collects entries of one snapshot, file after file."""

    def __init__(self) -> None:
        self._tables: list[EntryTable] = []
        self._files: list[tuple[StateDescriptor, int]] = []
        self.bytes = 0

    def add(self, target: StateDescriptor, table: EntryTable) -> None:
        """Add entries of a file."""
        self.bytes += table.content_bytes + int(table.table.nbytes)
        self._tables.append(table)
        if not self._files or self._files[-1][0] is not target:
            self._files.append((target, 0))
        self._files[-1] = target, self._files[-1][1] + len(table)

    def add_part(self, side: SideEntries, rows: Longs) -> int:
        """Add some entries, in ascending order; return how many bytes they have."""
        size = 0
        for target, own in side.by_file(rows):
            part = side.entries.part(own)
            self.add(target, part)
            size += part.content_bytes
        return size

    def add_all(self, side: SideEntries) -> None:
        """Add entries."""
        for file in side.files:
            whole = (file.start, file.stop) == (0, len(side))
            rows = np.arange(file.start, file.stop)
            self.add(file.target, side.entries if whole else side.entries.part(rows))

    def taken(self) -> SideEntries:
        """Return all entries, and forget them."""
        files, at = [], 0
        for target, size in self._files:
            files.append(FileEntries(target, at, at + size))
            at += size
        side = SideEntries(joined_tables(self._tables), tuple(files))
        self._tables, self._files, self.bytes = [], [], 0
        return side


Sides: TypeAlias = tuple[SideEntries, SideEntries]
Collectors: TypeAlias = tuple[EntryCollector, EntryCollector]


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

    def add(self, side: SideEntries) -> None:
        """Divide entries."""
        for target, rows in side.by_file(np.arange(len(side))):
            self._divide(target, side.entries, rows)

    def _divide(self, target: StateDescriptor, table: EntryTable, rows: Longs) -> None:
        buckets = np.empty(len(rows), dtype=np.int64)
        hash_buckets(np.ascontiguousarray(table.table[:, rows]), SEED, _BUCKETS - 1, buckets)
        order = np.argsort(buckets.astype(np.uint8), kind="stable")
        bounds = np.searchsorted(buckets[order], np.arange(_BUCKETS + 1))
        packed = table.packed(rows[order])
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
            found.add(stored.target, entries_of_chunk(RawEntries(data, groups, ranges, "", 0, exact=False)))
        return found.taken()

    def _array(self, kind: type[np.generic], size: int) -> npt.NDArray[Any]:
        width = np.dtype(kind).itemsize
        return np.frombuffer(self._file.read(size * width), dtype=kind)


BUCKETS = range(_BUCKETS)


_TTL_BYTES = 8
KeyedViews: TypeAlias = "tuple[KeyedState | None, KeyedState | None]"
"""A state in the first snapshot and in the second one."""
Views = TypeVar("Views", bound="tuple[State | None, State | None]")


class ComparedStates(Generic[Views]):
    """A state of two snapshots whose rows have keys.

    Args:
        views: The state in both snapshots, see ``exact_view``; None where a snapshot has none.
        form: What the rows are.
        shown: The views whose rows show what changed, where these are others.

    Attributes:
        schema: The columns of rows, without ``_change_type``.

    Raises:
        NotComparable: The types of keys or values have nothing in common.
        SnapshotError: The types of a state are not known.
    """

    def __init__(self, views: Views, form: RowForm, shown: Views | None = None) -> None:
        self._views, self._form, self._shown = views, form, shown
        self._schema = self._schema_of(views)
        self.schema = self._schema if shown is None else self._schema_of(shown)
        self._keys = [name for name in KEY_COLUMNS if name in self._schema.names]
        skipped = {*UNIDENTIFYING, *self._keys, *(() if form.times else (LAST_ACCESS,))}
        self._values = [name for name in self._schema.names if name not in skipped]

    def _schema_of(self, views: Views) -> pa.Schema:
        return common_schema(
            [plain_schema(view.schema(flatten=self._form.is_flat(view))) for view in views if view is not None]
        )


class KeyedEntriesComparison(ComparedStates[KeyedViews]):
    """Compares a keyed state of two snapshots; further arguments, attributes and errors as for `ComparedStates`.

    Args:
        by_bytes: Values cannot be decoded: entries whose bytes differ are different.
        count_all: Whether entries are read and counted that are known to be equal.
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
        super().__init__(views, form, shown)
        self._by_bytes, self._count_all = by_bytes, count_all
        self._kryo = {view.operator.options.kryo for view in views if view is not None}

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
        """Compare some key groups while they are read.

        Raises:
            SnapshotError: A file cannot be read.
            NotComparable: Values that cannot be decoded have different serializers.
        """
        read, rest = (EntryCollector(), EntryCollector()), (EntryCollector(), EntryCollector())
        chunks, left = self._chunks(unit), unit.bytes
        for side, target, entries in chunks:
            read[side].add(target, entries_of_chunk(entries))
            sizes = sorted(one.bytes for one in read)
            if not self._have_equal_keys or (sizes[0] < MATCHED_AT_ONCE and sizes[1] < HELD_BYTES):
                continue
            counts = self._drop_equal(read, rest)
            left -= (size := min(left, (counts.left_bytes or 0) + (counts.right_bytes or 0)))
            yield UnitChanges(counts, None, size)
            if sum(one.bytes for one in rest) > HELD_BYTES:
                yield from self._matched_rest(rest)
                if sum(one.bytes for one in rest) > HELD_BYTES // 2:
                    yield from self._spilled_changes(read, rest, chunks, left)
                    return
        for one, other in zip(read, rest, strict=True):
            other.add_all(one.taken())
        if self._have_equal_keys and sum(one.bytes for one in rest) > MATCHED_AT_ONCE:
            yield from self._matched_rest(rest)
        yield self._changes((rest[0].taken(), rest[1].taken()), left)

    def _chunks(self, unit: KeyGroupUnit) -> Iterator[Chunk]:
        """Read the entries of both snapshots."""
        if self.pairs is not None:
            yield from self.pairs.chunks(unit)
        else:
            yield from whole_chunks(self._views, (unit.left, unit.right))

    def _drop_equal(self, read: Collectors, rest: Collectors) -> ChangeCounts:
        """Forget what has the same order in both and is equal; move what differs to the rest, up to the last pair.

        Returns the numbers of what was equal.
        """
        sides = read[0].taken(), read[1].taken()
        found, *stops = match_beginnings(sides[0].entries, sides[1].entries, self._value_form(sides))
        sizes = [
            side.entries.content_bytes
            - one.add_part(side, np.arange(stop, len(side)))
            - other.add_part(side, differing)
            for side, stop, one, other, differing in zip(
                sides, stops, read, rest, (found.left_rows, found.right_rows), strict=True
            )
        ]
        return ChangeCounts(found.equal, found.equal, found.equal, 0, 0, 0, *sizes)

    def _matched_rest(self, rest: Collectors) -> Iterator[UnitChanges]:
        """Compare what has a partner in the rest, in whatever order, and keep only what has none."""
        sides = rest[0].taken(), rest[1].taken()
        found = match(sides[0].entries, sides[1].entries, self._value_form(sides))
        pairs = found.equal + len(found.before)
        sizes = [
            side.entries.content_bytes - one.add_part(side, rows)
            for side, one, rows in zip(sides, rest, (found.deleted, found.inserted), strict=True)
        ]
        counts = ChangeCounts(pairs, pairs, found.equal, 0, 0, 0, *sizes)
        yield UnitChanges(counts)
        for first in range(0, len(found.before), _DECODED_AT_ONCE):
            part = slice(first, first + _DECODED_AT_ONCE)
            yield self._decoded_changes(sides, (found.before[part], np.sort(found.after[part])), ChangeCounts(), 0)

    def _spilled_changes(
        self, held: Collectors, rest: Collectors, chunks: Iterator[Chunk], size: int
    ) -> Iterator[UnitChanges]:
        """Divide entries by their keys into buckets on disk, and compare one bucket after the other."""
        with SpilledSide() as left, SpilledSide() as right:
            sides = left, right
            for spilled, collected in zip(sides, rest, strict=True):
                spilled.add(collected.taken())
            for side, target, entries in chunks:
                held[side].add(target, entries_of_chunk(entries))
                if held[side].bytes > SPILLED_AT_ONCE:
                    sides[side].add(held[side].taken())
            for spilled, collected in zip(sides, held, strict=True):
                spilled.add(collected.taken())
            for bucket in BUCKETS:
                yield self._changes((left.side(bucket), right.side(bucket)), size // len(BUCKETS))

    @cached_property
    def _have_equal_keys(self) -> bool:
        """Whether equal keys have equal bytes in all files, so that they are in equal buckets."""
        targets = [state for view in self._views if view is not None for state in view.declared]
        forms = [(target.key, target.namespace, target.user_key) for target in targets]
        if any(form != forms[0] for form in forms[1:]):
            return False
        return len(self._kryo) == 1 or not any(has_kryo(part) for part in forms[0] if part is not None)

    def _changes(self, sides: Sides, size: int) -> UnitChanges:
        """Compare all entries of both snapshots."""
        left, right = (side.entries for side in sides)
        form, equal, rows = self._value_form(sides), 0, (np.arange(len(left)), np.arange(len(right)))
        if form is not None:
            found = match(left, right, form)
            equal = found.equal
            rows = found.left_rows, found.right_rows
        counts = ChangeCounts(len(left), len(right), equal, 0, 0, 0, left.content_bytes, right.content_bytes)
        return self._decoded_changes(sides, rows, counts, size)

    def _decoded_changes(self, sides: Sides, rows: tuple[Longs, Longs], counts: ChangeCounts, size: int) -> UnitChanges:
        """Decode the rows of both sides that are not known to be equal, and compare them."""
        if not (len(rows[0]) or len(rows[1])):
            return UnitChanges(counts, None, size)
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
        more = ChangeCounts(0, 0, last.equal, len(last.inserted), len(last.deleted), len(last.before))
        return UnitChanges(counts + more, changes, size)

    def _value_form(self, sides: Sides) -> ValueForm | None:
        """Return how values are compared by their bytes; None where equal bytes may be different rows.

        Raises:
            NotComparable: Only bytes could be compared.
        """
        targets = list({id(file.target): file.target for side in sides for file in side.files}.values())
        if not have_equal_codecs(targets, self._kryo):
            if self._by_bytes:
                raise NotComparable("values cannot be decoded, and their serializers differ")
            return None
        if not targets:
            return PLAIN
        # Times of a list's elements are anywhere in its value: lists of different bytes are decoded.
        skips = targets[0].ttl and not self._form.times and targets[0].kind is not StateKind.LIST
        return ValueForm(targets[0].kind is StateKind.MAP, _TTL_BYTES if skips else 0)

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
        for target, own in side.by_file(rows):
            assert view is not None, "only a state has files"
            context, flatten = view.operator.options.context, self._form.is_flat(view)
            batches += _batches(side.entries.packed(own), target, context, flatten, failed.append)
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
