"""One step of a change feed: a state in a snapshot and in the next one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from stateproc.codec.arrow_arrays import repeated_text
from stateproc.diff.change_rows import CHANGE_TYPE, DELETE, INSERT
from stateproc.diff.common_schema import RowForm, exact_view, plain_schema
from stateproc.diff.key_group_units import UNITS_PER_THREAD, KeyGroupUnit
from stateproc.diff.state_changes import StateComparison
from stateproc.feed.commits import FeedCommit
from stateproc.feed.feed_rows import FeedRows
from stateproc.model.operator_state import opened_state
from stateproc.model.state import State
from stateproc.readers.splits import MappedSplit, ScanRequest, Split

# The splits of a change feed: some key groups of a state in two snapshots, or in the only one that has it.


@dataclass(frozen=True)
class ChangeSplit:
    """Key groups of a state that two snapshots have: what was inserted, updated and deleted.

    Attributes:
        left: The state in the first snapshot.
        right: The state in the second snapshot.
        form: How rows are compared.
        units: The key groups, in units that are compared one after another.
        rows: What the rows are.
        comparison: The comparison that the splits of one process share; not pickled.
    """

    left: State
    right: State
    form: RowForm
    units: tuple[KeyGroupUnit, ...]
    rows: FeedRows
    comparison: StateComparison | None = field(default=None, compare=False, repr=False)

    @property
    def bytes(self) -> int:
        return sum(unit.bytes for unit in self.units)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return tuple(sorted({group for unit in self.units for group in (*unit.left, *unit.right)}))

    def read(self) -> Iterator[pa.RecordBatch]:
        comparison = self.comparison or StateComparison(self.left, self.right, self.form)
        for found in comparison.changes(list(self.units), 1):
            if found.rows is not None:
                yield from self.rows.of(found.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        left = self.left.within({group for unit in self.units for group in unit.left})
        right = self.right.within({group for unit in self.units for group in unit.right})
        return ChangeSplit, (left, right, self.form, self.units, self.rows)


@dataclass(frozen=True)
class WholeSplit(MappedSplit):
    """Rows of a state that only one of two snapshots has: all of them are inserted or deleted.

    Attributes:
        inner: A split of the state.
        change_type: ``insert`` or ``delete``.
        rows: What the rows are.
    """

    change_type: str
    rows: FeedRows

    def mapped(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        kind = repeated_text(self.change_type, len(batch))
        named = pa.RecordBatch.from_arrays([kind, *batch.columns], names=[CHANGE_TYPE, *batch.schema.names])
        yield from self.rows.of(named)


@dataclass(frozen=True)
class FeedStep:
    """What one commit changed.

    Attributes:
        left: The state before; None where there was none.
        right: The state at the commit; None where there is none.
        form: What the rows are.
    """

    left: State | None
    right: State | None
    commit: FeedCommit
    form: RowForm

    @property
    def views(self) -> tuple[State, ...]:
        """The state in the snapshots that have it."""
        return tuple(view for view in (self.left, self.right) if view is not None)

    @cached_property
    def columns(self) -> pa.Schema | None:
        """The columns of the rows; values of maps are named ``value``. None where there are no rows.

        Raises:
            SnapshotError: The types of the state are not known, or those of both snapshots do not fit together.
        """
        for view in self.views:
            # Types that are not known are an error here, and not compared by their bytes, unless bytes are asked for.
            shown = _shown(view, self.form)
            if len(self.views) == 1:
                return plain_schema(shown.schema(flatten=self.form.is_flat(shown)))
            shown.schema()
        return None if self._comparison is None else self._comparison.schema

    @cached_property
    def _comparison(self) -> StateComparison | None:
        if self.left is None or self.right is None:
            return None
        return StateComparison(self.left, self.right, self.form)

    def splits(self, schema: pa.Schema, request: ScanRequest) -> list[Split]:
        """Divide the changes into splits with rows of this schema. Raises SnapshotError if the state cannot be read."""
        rows = FeedRows(schema, self.commit, request.key_groups)
        if self.left is not None and self.right is not None and self._comparison is not None:
            units = _pruned(self._units(self._comparison, request.split_bytes), self.left, self.right, request)
            # Else units have key groups that were not asked for.
            if self.left.operator.max_parallelism == self.right.operator.max_parallelism:
                rows = replace(rows, key_groups=None)
            return [
                ChangeSplit(self.left, self.right, self.form, run, rows, self._comparison)
                for run in _runs(units, request.split_bytes)
            ]
        kind = DELETE if self.right is None else INSERT
        return [
            WholeSplit(split, kind, replace(rows, key_groups=None))
            for view in self.views
            for split in self._whole(view, request)
        ]

    def _whole(self, view: State, request: ScanRequest) -> list[Split]:
        shown = _shown(view, self.form)
        key_groups = request.key_groups if view.is_keyed else None
        return shown.plan_splits(replace(request, flatten=self.form.is_flat(shown), key_groups=key_groups))

    @property
    def stored_bytes(self) -> int:
        """Bytes of the files that contain the state in both snapshots, as far as they are known."""
        return sum(view.stored_bytes or 0 for view in self.views)

    @property
    def reads_whole_files(self) -> bool:
        """Whether reading any key group reads whole files (changelogs)."""
        return any(view.reads_whole_files for view in self.views)

    def _units(self, comparison: StateComparison, split_bytes: int) -> list[KeyGroupUnit]:
        """Divide the comparison into units of at most about ``split_bytes``."""
        units = comparison.units(1)
        total = sum(unit.bytes for unit in units)
        threads = math.ceil(total / split_bytes / (1 if self.reads_whole_files else UNITS_PER_THREAD))
        return comparison.units(threads) if threads > 1 else units


def _shown(view: State, form: RowForm) -> State:
    """Return the view whose rows are those of the feed."""
    options = view.operator.options
    twin = exact_view(view, opaque=options.opaque == "bytes", row_kind=options.row_kind, temporal=form.temporal)
    return twin if form.raw else opened_state(twin)


def _pruned(units: Sequence[KeyGroupUnit], left: State, right: State, request: ScanRequest) -> list[KeyGroupUnit]:
    """Limit units to key groups whose keys may be in those that are wanted.

    With different max parallelisms the keys of a key group are in several of the other snapshot, and all of these are
    read: else keys would seem to be inserted or deleted.
    """
    if request.key_groups is None or not left.is_keyed:
        return list(units)
    classes = math.gcd(left.operator.max_parallelism, right.operator.max_parallelism)
    wanted = {group % classes for group in request.key_groups}
    kept = []
    for unit in units:
        one, two = (tuple(group for group in groups if group % classes in wanted) for groups in (unit.left, unit.right))
        if one or two:
            share = (len(one) + len(two)) / max(len(unit.left) + len(unit.right), 1)
            kept.append(KeyGroupUnit(one, two, int(unit.bytes * share)))
    return kept


def _runs(units: Sequence[KeyGroupUnit], most: int) -> list[tuple[KeyGroupUnit, ...]]:
    """Divide units into runs of about ``most`` bytes, with at least one unit each."""
    runs: list[list[KeyGroupUnit]] = []
    size = 0
    for unit in units:
        if not runs or size + unit.bytes > most:
            runs.append([])
            size = 0
        runs[-1].append(unit)
        size += unit.bytes
    return [tuple(run) for run in runs]
