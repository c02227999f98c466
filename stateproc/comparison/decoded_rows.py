"""Compare states by their decoded rows: timers, window contents of merged sessions, operator states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stateproc.comparison.change_rows import (
    KEY_COLUMNS,
    UNIDENTIFYING,
    ChangeCounts,
    RowSet,
    UnitChanges,
    changed_rows,
    row_set,
)
from stateproc.comparison.common_schema import common_rows, common_schema, one_batch, plain_schema
from stateproc.comparison.key_group_units import KeyGroupUnit
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.states.connector_state import opened_state
from stateproc.states.operator_state import OperatorStateView
from stateproc.states.state import State


class RowsComparison:
    """Compares the rows of two states that are divided by key groups.

    Args:
        left: The state in the first snapshot, see ``exact_view``; None if it has none.
        right: The state in the second snapshot; None if it has none.
        times: Whether times of last access count.

    Raises:
        NotComparable: The types of keys or values have nothing in common.
        SnapshotError: The types of a state are not known.
    """

    def __init__(self, left: State | None, right: State | None, *, times: bool) -> None:
        self.left, self.right = left, right
        views = [view for view in (left, right) if view is not None]
        self.schema = common_schema([plain_schema(view.schema(flatten=view.kind == "map")) for view in views])
        self._keys = [name for name in KEY_COLUMNS if name in self.schema.names]
        skipped = {*UNIDENTIFYING, *self._keys, *(() if times else (LAST_ACCESS,))}
        self._values = [name for name in self.schema.names if name not in skipped]

    def unit_changes(self, unit: KeyGroupUnit) -> Iterator[UnitChanges]:
        """Compare some key groups. Raises SnapshotError if a file cannot be read."""
        yield _compared(self._rows(self.left, unit.left), self._rows(self.right, unit.right), unit.bytes)

    def _rows(self, view: State | None, key_groups: Sequence[int]) -> RowSet:
        splits = [] if view is None else view.splits(flatten=view.kind == "map", key_groups=key_groups)
        batches = (common_rows(batch, self.schema) for split in splits for batch in split.read())
        return row_set(one_batch(batches, self.schema), self._keys, self._values)


class OperatorRowsComparison:
    """Compares an operator state of two snapshots: as a bag of elements, whichever subtasks have them, or as a map.

    Args:
        left: The state in the first snapshot, see ``exact_view``; None if it has none.
        right: The state in the second snapshot; None if it has none.

    Raises:
        NotComparable: The types of elements have nothing in common.
        SnapshotError: A state cannot be read.
    """

    def __init__(self, left: OperatorStateView | None, right: OperatorStateView | None) -> None:
        plain = (left, right)
        opened = [None if view is None else opened_state(view) for view in plain]
        present = [(view, known) for view, known in zip(plain, opened, strict=True) if view is not None]
        self._views = plain if len({known is view for view, known in present}) > 1 else tuple(opened)
        self.schema = common_schema([plain_schema(view.schema()) for view in self._views if view is not None])
        names = self.schema.names
        known = next((key for key in _IDENTITIES if set(key) <= set(names)), None)
        rest = [name for name in names if name not in UNIDENTIFYING]
        self._keys = list(known or rest)
        self._values = [name for name in rest if name not in self._keys]

    def unit_changes(self, unit: KeyGroupUnit) -> Iterator[UnitChanges]:
        """Compare all elements. Raises SnapshotError if a file cannot be read."""
        left, right = map(self._rows, self._views)
        yield _compared(left, right, unit.bytes)

    def _rows(self, view: State | None) -> RowSet:
        splits = [] if view is None else view.splits()
        batches = (common_rows(batch, self.schema) for split in splits for batch in split.read())
        return row_set(one_batch(batches, self.schema), self._keys, self._values)


_IDENTITIES = (("map_key",), ("topic", "partition"), ("split_id",))
"""Columns that identify an element among those of an operator state: the first of these that a state has."""


def _compared(left: RowSet, right: RowSet, size: int) -> UnitChanges:
    found, rows = changed_rows(left, right)
    counts = ChangeCounts(
        len(left), len(right), found.equal, len(found.inserted), len(found.deleted), len(found.before)
    )
    return UnitChanges(counts, rows, size)
