"""The splits of a change feed: some key groups of a state in two snapshots, or in the only one that has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stateproc.change_feed.feed_rows import FeedRows
from stateproc.codec.arrow_arrays import repeated_text
from stateproc.diff.change_rows import CHANGE_TYPE
from stateproc.diff.common_schema import RowForm
from stateproc.diff.key_group_units import KeyGroupUnit
from stateproc.diff.state_changes import StateComparison
from stateproc.model.state import State
from stateproc.readers.splits import MappedSplit


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
