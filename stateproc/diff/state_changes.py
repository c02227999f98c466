"""Compare the contents of one state of two snapshots, unit by unit, in parallel and in bounded memory."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.diff.change_rows import (
    UNIDENTIFYING,
    ChangeCounts,
    RowSet,
    UnitChanges,
    change_batch,
    changed_rows,
    row_set,
)
from stateproc.diff.common_schema import (
    PLAIN_ROWS,
    NotComparable,
    RowForm,
    check_kinds,
    common_rows,
    common_schema,
    exact_view,
    one_batch,
)
from stateproc.diff.entry_table import Matches
from stateproc.diff.key_group_units import KeyGroupUnit, aligned_units
from stateproc.diff.keyed_entries import ComparedStates, KeyedEntriesComparison, KeyedViews
from stateproc.errors import located
from stateproc.model.keyed_state import KeyedState
from stateproc.model.operator_state import opened_state
from stateproc.model.parallel_scan import thread_count, useful_threads
from stateproc.model.schema_merging import aligned
from stateproc.model.state import State
from stateproc.model.timers import TimerState
from stateproc.readers.splits import Split
from stateproc.readers.timers import with_service
from stateproc.serializers import Undecodable
from stateproc.serializers.core.registry import load_plugins
from stateproc.storage.concurrency import read_in_order

# Compare states by their decoded rows: timers, window contents of merged sessions, operator states.

Views: TypeAlias = "tuple[State | None, State | None]"
"""A state in the first snapshot and in the second one."""


class RowsComparison(ComparedStates[Views]):
    """Compares the rows of two states that are divided by key groups."""

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
        splits = [] if view is None else self._splits(view, key_groups)
        return one_batch((common_rows(batch, schema) for split in splits for batch in split.read()), schema)

    def _splits(self, view: State, key_groups: Sequence[int]) -> Sequence[Split]:
        return view.splits(flatten=self._form.is_flat(view), key_groups=key_groups)


class OperatorRowsComparison(RowsComparison):
    """Compares an operator state of two snapshots: as a bag of elements, whichever subtasks have them, or as a map."""

    def __init__(self, views: Views, form: RowForm, shown: Views | None = None) -> None:
        opened = (lambda views: views) if form.raw else _both_opened
        super().__init__(opened(views), form, None if shown is None else opened(shown))
        names = self._schema.names
        known = next((key for key in _IDENTITIES if set(key) <= set(names)), None)
        rest = [name for name in names if name not in UNIDENTIFYING]
        self._keys = list(known or rest)
        self._values = [name for name in rest if name not in self._keys]

    def _splits(self, view: State, key_groups: Sequence[int]) -> Sequence[Split]:
        """All elements, which have no key groups."""
        return view.splits()


_IDENTITIES = (("map_key",), ("topic", "partition"), ("split_id",))
"""Columns that identify an element among those of an operator state: the first of these that a state has."""


def _both_opened(views: Views) -> Views:
    """Return the views with the columns of their connector's format, unless only one of them is known to have it."""
    opened = tuple(None if view is None else opened_state(view) for view in views)
    is_plain = {known is view for view, known in zip(views, opened, strict=True) if view is not None}
    return views if len(is_plain) > 1 else (opened[0], opened[1])


def _changes(left: RowSet, right: RowSet, found: Matches, rows: pa.RecordBatch | None, size: int) -> UnitChanges:
    counts = ChangeCounts(
        len(left), len(right), found.equal, len(found.inserted), len(found.deleted), len(found.before)
    )
    return UnitChanges(counts, rows, size)


# Compare timers by their serialized entries: each timer service is a queue whose entries are keys without values.

TimerStates: TypeAlias = "tuple[TimerState | None, TimerState | None]"
"""Timers of one time domain in the first snapshot and in the second one."""


class TimersComparison:
    """Compares the timers of two snapshots, service by service.

    Args:
        views: The timers in both snapshots, see ``exact_view``, none of which are in raw keyed state; None where a
            snapshot has none.
        form: What the rows are.
        shown: The views whose rows show what changed, where these are others.
        count_all: Whether timers are read and counted that are known to be equal.

    Attributes:
        schema: The columns of rows, without ``_change_type``.

    Raises:
        NotComparable: The types of keys or namespaces have nothing in common.
        SnapshotError: The types of timers are not known.
    """

    def __init__(self, views: TimerStates, form: RowForm, shown: TimerStates | None, *, count_all: bool) -> None:
        self.schema = common_schema([view.schema() for view in shown or views if view is not None])
        services = dict.fromkeys(service for view in views if view is not None for service in view.queues)
        self._comparisons = {
            service: KeyedEntriesComparison(
                _queues(views, service),
                form,
                None if shown is None else _queues(shown, service),
                count_all=count_all,
            )
            for service in services
        }

    def key_group_bytes(self) -> tuple[Longs, Longs] | None:
        """Return about how many stored bytes are read of each key group; None if all are.

        Raises:
            SnapshotError: A file cannot be read.
        """
        found = [comparison.key_group_bytes() for comparison in self._comparisons.values()]
        sizes = [size for size in found if size is not None]
        if len(sizes) < len(found) or not sizes:
            return None
        return np.sum([left for left, _ in sizes], axis=0), np.sum([right for _, right in sizes], axis=0)

    def unit_changes(self, unit: KeyGroupUnit) -> Iterator[UnitChanges]:
        """Compare some key groups. Raises SnapshotError if a file cannot be read."""
        share = replace(unit, bytes=unit.bytes // max(len(self._comparisons), 1))
        for service, comparison in self._comparisons.items():
            for found in comparison.unit_changes(share):
                counts = replace(found.counts, left_bytes=None, right_bytes=None)
                yield replace(found, counts=counts, rows=self._rows(found.rows, service))

    def _rows(self, rows: pa.RecordBatch | None, service: str) -> pa.RecordBatch | None:
        if rows is None:
            return None
        schema = pa.schema([rows.schema.field(0), *self.schema])
        return one_batch((aligned(part, schema) for part in with_service(rows, service)), schema)


def _queues(views: TimerStates, service: str) -> KeyedViews:
    """Return the queue of a service in both snapshots."""
    left, right = (None if view is None else view.queues.get(service) for view in views)
    return left, right


class Comparison(Protocol):
    """Compares two states unit by unit.

    Attributes:
        schema: The columns of rows, without ``_change_type``.
    """

    schema: pa.Schema

    def key_group_bytes(self) -> tuple[Longs, Longs] | None:
        """Return about how many stored bytes are read of each key group of both; None if all are."""

    def unit_changes(self, unit: KeyGroupUnit) -> Iterator[UnitChanges]:
        """Compare one unit."""


class StateComparison:
    """Compares the contents of one state of two snapshots; what one of them does not have is empty.

    Args:
        left: The state in the first snapshot; None if it has none.
        right: The state in the second snapshot; None if it has none.
        form: What the rows are.
        count_all: Whether all entries are read and counted. Otherwise entries are left out that are known to be equal
            because both snapshots share the files that contain them: numbers of entries (left, right, equal) are then
            those of entries that were read.

    Attributes:
        schema: The columns of the changed rows, without ``_change_type``.

    Raises:
        NotComparable: The states' keys or values have nothing in common.
        SnapshotError: A state's types are not known, or its files cannot be read.
    """

    def __init__(
        self, left: State | None, right: State | None, form: RowForm = PLAIN_ROWS, *, count_all: bool = False
    ) -> None:
        self._left, self._right = left, right
        self._name = next(view for view in (left, right) if view is not None)
        with self._placed():
            self._comparison = _comparison((left, right), form, count_all)
            self.schema = self._comparison.schema
            if "row_kind" in str(self.schema):
                # The kinds of rows are compared in any case, and shown where the snapshots were opened so.
                self.schema = _comparison((left, right), form, count_all, row_kind=False).schema
            if form.temporal != "exact":
                schema = _comparison((left, right), form, count_all, row_kind=False, temporal=form.temporal).schema
                if not schema.equals(self.schema):
                    # Times with fewer digits cannot be made of ISO text: changed rows are decoded a second time.
                    self._comparison = _comparison((left, right), form, count_all, shown=form.temporal)
                    self.schema = schema

    def units(self, threads: int | None = None) -> list[KeyGroupUnit]:
        """Divide the work. Raises SnapshotError if the sizes of files cannot be determined."""
        with self._placed():
            sizes = self._comparison.key_group_bytes()
            if sizes is not None:
                return aligned_units(*sizes, thread_count(threads), few=_read_whole_files(self._left, self._right))
            return _units(self._left, self._right, thread_count(threads))

    def changes(self, units: list[KeyGroupUnit], threads: int | None = None) -> Generator[UnitChanges, None, None]:
        """Compare units in parallel, and yield what differs in the order of the units.

        Raises:
            SnapshotError: A file cannot be read.
            NotComparable: Values cannot be decoded, and bytes cannot be compared.
        """
        number = useful_threads(thread_count(threads), sum(unit.bytes for unit in units))
        with self._placed():
            found = read_in_order(
                units, self._comparison.unit_changes, number, at_once=True, size_of=lambda item: item.nbytes + 1
            )
            with closing(found):
                yield from found if self.schema.equals(self._comparison.schema) else map(self._shown, found)

    def _shown(self, found: UnitChanges) -> UnitChanges:
        if found.rows is None:
            return found
        return replace(found, rows=aligned(found.rows, pa.schema([found.rows.schema.field(0), *self.schema])))

    @contextmanager
    def _placed(self) -> Iterator[None]:
        """Add operator and state to errors that do not name them."""
        with located(operator=self._name.operator.display, state=self._name.name):
            yield


def _comparison(
    views: Views,
    form: RowForm,
    count_all: bool,
    *,
    row_kind: bool = True,
    temporal: str = "exact",
    shown: str | None = None,
) -> Comparison:
    """Return how two states are compared, and shown with dates and times as ``shown`` says."""
    for view in views:
        if view is not None:
            load_plugins(view.operator.options.plugins)
    left, right = views
    if left is not None and right is not None:
        check_kinds(left, right)
        if left.is_keyed != right.is_keyed:
            raise NotComparable(
                f"the state is {left.distribution} in one snapshot and {right.distribution} in the other"
            )
    present = [view for view in views if view is not None]

    def forms(opaque: bool) -> tuple[Any, Any]:
        """Return the views that are compared, and those that are shown."""
        compared = _exact_views(views, opaque, row_kind, temporal)
        return compared, None if shown is None else _exact_views(views, opaque, False, shown)

    exact, others = forms(False)
    if not present[0].is_keyed:
        return OperatorRowsComparison(exact, form, others)
    if all(isinstance(view, TimerState) and not view.has_raw_timers for view in present):
        return TimersComparison(exact, form, others, count_all=count_all)
    if not all(isinstance(view, KeyedState) and not view.under_state_windows for view in present):
        return RowsComparison(exact, form, others)
    try:
        return KeyedEntriesComparison(exact, form, others, count_all=count_all)
    except Undecodable:
        # Values that cannot be decoded are compared by their bytes.
        exact, others = forms(True)
        return KeyedEntriesComparison(exact, form, others, by_bytes=True, count_all=count_all)


def _exact_views(views: Views, opaque: bool, row_kind: bool, temporal: str) -> Any:
    left, right = (
        None if view is None else exact_view(view, opaque=opaque, row_kind=row_kind, temporal=temporal)
        for view in views
    )
    return left, right


def _units(left: State | None, right: State | None, threads: int) -> list[KeyGroupUnit]:
    views = [view for view in (left, right) if view is not None]
    if not views[0].is_keyed:
        return [KeyGroupUnit((), (), sum(view.bytes or 0 for view in views))]
    sizes = [None if view is None else view.key_group_bytes() for view in (left, right)]
    present = next(size for size in sizes if size is not None)
    one, two = (np.zeros_like(present) if size is None else size for size in sizes)
    return aligned_units(one, two, threads, few=_read_whole_files(left, right))


def _read_whole_files(*views: State | None) -> bool:
    return any(view is not None and view.reads_whole_files for view in views)
