"""Compare keyed state by its serialized entries, and decode those that differ.

Entries of all backends are converted to one form (``raw_entries``), so that most of two snapshots is compared by bytes.
Different bytes may be the same value (the entries of a map within a value in another order), and where serializers
differ equal bytes may be different values: what decides is the decoded row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import null_rows
from stateproc.codec.byte_arrays import RowBytes
from stateproc.comparison.change_rows import (
    KEY_COLUMNS,
    UNIDENTIFYING,
    ChangeCounts,
    RowSet,
    UnitChanges,
    change_batch,
    changed_rows,
    row_set,
)
from stateproc.comparison.codecs import has_kryo, have_equal_codecs
from stateproc.comparison.common_schema import (
    NotComparable,
    RowForm,
    common_rows,
    common_schema,
    one_batch,
    plain_schema,
)
from stateproc.comparison.entry_collector import (
    BUCKETS,
    HELD_BYTES,
    SPILLED_AT_ONCE,
    EntryCollector,
    SideEntries,
    SpilledSide,
)
from stateproc.comparison.entry_table import PLAIN, EntryTable, ValueForm, match
from stateproc.comparison.file_pairs import FilePairs, whole_chunks
from stateproc.comparison.key_group_units import KeyGroupUnit
from stateproc.comparison.row_identity import cut_rows
from stateproc.errors import SnapshotError
from stateproc.model.keyed_state import KeyedStateView
from stateproc.readers.entry_decoder import Report, decode_entries
from stateproc.readers.entry_programs import with_opaque_values
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.runtime.ttl import LAST_ACCESS

_TTL_BYTES = 8
KeyedViews: TypeAlias = "tuple[KeyedStateView | None, KeyedStateView | None]"
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

    def _chunks(self, unit: KeyGroupUnit) -> Iterator[tuple[int, KeyedState, RawEntries]]:
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
        chunks: Iterator[tuple[int, KeyedState, RawEntries]],
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

    def _row_set(self, side: SideEntries, rows: Longs, view: KeyedStateView | None) -> RowSet:
        """Decode some rows of a table, which are in ascending order, to compare them."""
        found, has_failed = self._decoded(side, rows, view, self._schema)
        # Nulls that stand for values which cannot be decoded are compared by their bytes.
        added = _bytes_of_nulls(side.entries, rows, found.column("value")) if has_failed else None
        return row_set(found, self._keys, self._values, added)

    def _decoded(
        self, side: SideEntries, rows: Longs, view: KeyedStateView | None, schema: pa.Schema
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
    entries: RawEntries, target: KeyedState, context: LayoutContext, flatten: bool, report: Report
) -> Iterator[pa.RecordBatch]:
    readable = with_opaque_values(target, context)
    yield from decode_entries([entries], readable, context, flatten=flatten, report=report)


def _bytes_of_nulls(entries: EntryTable, rows: Longs, values: pa.Array) -> RowBytes:
    """Return the serialized values of rows whose values are null, nothing for others."""
    packed = entries.packed(rows)
    _, _, starts, stops = packed.ranges
    return cut_rows(packed.data, starts, np.where(null_rows(values), stops - starts, 0))
