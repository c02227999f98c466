"""Compare states by their decoded rows: timers, window contents of merged sessions, operator states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

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
from stateproc.comparison.common_schema import RowForm, common_rows, common_schema, one_batch, plain_schema
from stateproc.comparison.entry_table import Matches
from stateproc.comparison.key_group_units import KeyGroupUnit
from stateproc.model.connector_state import opened_state
from stateproc.model.state import State
from stateproc.serializers.runtime.ttl import LAST_ACCESS

Views: TypeAlias = "tuple[State | None, State | None]"
"""A state in the first snapshot and in the second one."""


class RowsComparison:
    """Compares the rows of two states that are divided by key groups.

    Args:
        views: The state in both snapshots, see ``exact_view``; None where a snapshot has none.
        form: What the rows are.
        shown: The views whose rows show what changed, where these are others.

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

    def key_group_bytes(self) -> None:
        """All is read."""

    def unit_changes(self, unit: KeyGroupUnit) -> Iterator[UnitChanges]:
        """Compare some key groups. Raises SnapshotError if a file cannot be read."""
        groups = unit.left, unit.right
        left, right = (
            row_set(self._rows(view, own, self._schema), self._keys, self._values)
            for view, own in zip(self._views, groups, strict=True)
        )
        found, rows = changed_rows(left, right)
        if rows is not None and self._shown is not None:
            before, after = (self._rows(view, own, self.schema) for view, own in zip(self._shown, groups, strict=True))
            rows = change_batch(before, after, found)
        yield _changes(left, right, found, rows, unit.bytes)

    def _rows(self, view: State | None, key_groups: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
        splits = [] if view is None else view.splits(flatten=self._form.is_flat(view), key_groups=key_groups)
        return one_batch((common_rows(batch, schema) for split in splits for batch in split.read()), schema)


class OperatorRowsComparison:
    """Compares an operator state of two snapshots: as a bag of elements, whichever subtasks have them, or as a map.

    Args:
        views: The state in both snapshots, see ``exact_view``; None where a snapshot has none.
        form: What the rows are.
        shown: The views whose rows show what changed, where these are others.

    Raises:
        NotComparable: The types of elements have nothing in common.
        SnapshotError: A state cannot be read.
    """

    def __init__(self, views: Views, form: RowForm, shown: Views | None = None) -> None:
        self._views = views if form.raw else _both_opened(views)
        self._shown = shown if shown is None or form.raw else _both_opened(shown)
        self._schema = _schema_of(self._views)
        self.schema = self._schema if self._shown is None else _schema_of(self._shown)
        names = self._schema.names
        known = next((key for key in _IDENTITIES if set(key) <= set(names)), None)
        rest = [name for name in names if name not in UNIDENTIFYING]
        self._keys = list(known or rest)
        self._values = [name for name in rest if name not in self._keys]

    def key_group_bytes(self) -> None:
        """All is read."""

    def unit_changes(self, unit: KeyGroupUnit) -> Iterator[UnitChanges]:
        """Compare all elements. Raises SnapshotError if a file cannot be read."""
        left, right = (row_set(_rows(view, self._schema), self._keys, self._values) for view in self._views)
        found, rows = changed_rows(left, right)
        if rows is not None and self._shown is not None:
            before, after = (_rows(view, self.schema) for view in self._shown)
            rows = change_batch(before, after, found)
        yield _changes(left, right, found, rows, unit.bytes)


_IDENTITIES = (("map_key",), ("topic", "partition"), ("split_id",))
"""Columns that identify an element among those of an operator state: the first of these that a state has."""


def _both_opened(views: Views) -> Views:
    """Return the views with the columns of their connector's format, unless only one of them is known to have it."""
    opened = tuple(None if view is None else opened_state(view) for view in views)
    is_plain = {known is view for view, known in zip(views, opened, strict=True) if view is not None}
    return views if len(is_plain) > 1 else (opened[0], opened[1])


def _schema_of(views: Views) -> pa.Schema:
    return common_schema([plain_schema(view.schema()) for view in views if view is not None])


def _rows(view: State | None, schema: pa.Schema) -> pa.RecordBatch:
    splits = [] if view is None else view.splits()
    return one_batch((common_rows(batch, schema) for split in splits for batch in split.read()), schema)


def _changes(left: RowSet, right: RowSet, found: Matches, rows: pa.RecordBatch | None, size: int) -> UnitChanges:
    counts = ChangeCounts(
        len(left), len(right), found.equal, len(found.inserted), len(found.deleted), len(found.before)
    )
    return UnitChanges(counts, rows, size)
