"""Compare the contents of one state of two snapshots, unit by unit, in parallel and in bounded memory."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.comparison.change_rows import UnitChanges
from stateproc.comparison.common_schema import PLAIN_ROWS, NotComparable, RowForm, check_kinds, exact_view
from stateproc.comparison.decoded_rows import OperatorRowsComparison, RowsComparison, Views
from stateproc.comparison.key_group_units import KeyGroupUnit, aligned_units
from stateproc.comparison.keyed_entries import KeyedEntriesComparison
from stateproc.comparison.timers import TimersComparison
from stateproc.errors import SnapshotError
from stateproc.model.keyed_state import KeyedStateView
from stateproc.model.operator_state import OperatorStateView
from stateproc.model.parallel_scan import read_in_order, thread_count, useful_threads
from stateproc.model.schema_merging import aligned
from stateproc.model.state import State
from stateproc.model.timers import TimerView
from stateproc.serializers import Undecodable
from stateproc.serializers.core.registry import load_plugins


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
                return aligned_units(*sizes, thread_count(threads), few=_read_whole_files((self._left, self._right)))
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
        try:
            yield
        except SnapshotError as error:
            raise error.at(operator=self._name.operator.display, state=self._name.name) from error


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
        if isinstance(left, OperatorStateView) != isinstance(right, OperatorStateView):
            raise NotComparable(
                f"the state is {left.distribution} in one snapshot and {right.distribution} in the other"
            )
    present = [view for view in views if view is not None]

    def forms(opaque: bool) -> tuple[Any, Any]:
        """Return the views that are compared, and those that are shown."""
        compared = _exact_views(views, opaque, row_kind, temporal)
        return compared, None if shown is None else _exact_views(views, opaque, False, shown)

    exact, others = forms(False)
    if isinstance(present[0], OperatorStateView):
        return OperatorRowsComparison(exact, form, others)
    if all(isinstance(view, TimerView) and not view.has_raw_timers for view in present):
        return TimersComparison(exact, form, others, count_all=count_all)
    if not all(isinstance(view, KeyedStateView) and not view.under_state_windows for view in present):
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
    if isinstance(views[0], OperatorStateView):
        return [KeyGroupUnit((), (), sum(view.bytes or 0 for view in views))]
    sizes = [None if view is None else _key_group_bytes(view) for view in (left, right)]
    present = next(size for size in sizes if size is not None)
    one, two = (np.zeros_like(present) if size is None else size for size in sizes)
    return aligned_units(one, two, threads, few=_read_whole_files((left, right)))


def _read_whole_files(views: Views) -> bool:
    """Return whether reading any key group reads whole files (changelogs)."""
    return any(isinstance(view, KeyedStateView) and view.reads_whole_files for view in views)


def _key_group_bytes(view: State) -> Longs:
    """Return about how many stored bytes each key group has."""
    if isinstance(view, KeyedStateView):
        return view.key_group_bytes()
    groups = view.operator.max_parallelism
    return np.full(groups, sum(split.bytes for split in view.splits()) // groups, dtype=np.int64)
