"""Compare timers by their serialized entries: each timer service is a queue whose entries are keys without values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.comparison.change_rows import UnitChanges
from stateproc.comparison.common_schema import RowForm, common_schema, one_batch
from stateproc.comparison.key_group_units import KeyGroupUnit
from stateproc.comparison.keyed_entries import KeyedEntriesComparison, KeyedViews
from stateproc.model.schema_merging import aligned
from stateproc.model.timers import TimerView
from stateproc.readers.timers import with_service

TimerViews: TypeAlias = "tuple[TimerView | None, TimerView | None]"
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

    def __init__(self, views: TimerViews, form: RowForm, shown: TimerViews | None, *, count_all: bool) -> None:
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


def _queues(views: TimerViews, service: str) -> KeyedViews:
    """Return the queue of a service in both snapshots."""
    left, right = (None if view is None else view.queues.get(service) for view in views)
    return left, right
