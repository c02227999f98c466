"""Scan a state: its splits, filtered by a condition and projected to columns."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from stateproc.cli.progress import Advance
from stateproc.readers.common.splits import Split
from stateproc.states.connector_state import opened_state
from stateproc.states.parallel_scan import read_in_order, thread_count
from stateproc.states.schema_merging import aligned
from stateproc.states.state import State, narrowed

if TYPE_CHECKING:
    from stateproc.filters import RowFilter, WhereCondition

_SPLIT_BYTES = 8 << 20

_Step: TypeAlias = "pa.RecordBatch | int"
"""Rows of a split; its bytes when it is done."""


def _step_bytes(step: _Step) -> int:
    return 0 if isinstance(step, int) else int(step.nbytes)


class FilteredScan:
    """The rows of a state that a condition keeps, with the columns asked for.

    Args:
        state: The state.
        where: The text of a condition; see docs/cli.md.
        columns: Names of columns in the order wanted; None for all.
        flatten: One row per list element or map entry.
        raw: Source and sink states as their bytes.
        threads: The number of threads that read, decode and filter; None for the cores that the process may use.

    Attributes:
        schema: The schema of the batches.
        splits: The splits that are read.

    Raises:
        InvalidOption: The condition or a column does not fit the state.
        SnapshotError: The state cannot be read.
    """

    def __init__(
        self,
        state: State,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        flatten: bool = False,
        raw: bool = False,
        threads: int | None = None,
    ) -> None:
        self._threads = thread_count(threads)
        self._state = state if raw else opened_state(state)
        self._flatten, self._raw = flatten, raw
        self._full_schema = self._state.schema(flatten=flatten)
        self.schema = narrowed(self._full_schema, columns)
        self._filter: RowFilter | None = None
        keys = key_groups = None
        needed = set(self.schema.names)
        if where is not None:
            # Lazy: start-up. sqlglot takes 0.4 s to load.
            from stateproc.filters import RowFilter, parse

            condition = parse(where, self._full_schema.names)
            self._filter = RowFilter(condition, self._full_schema, self._temporal_schema)
            keys, key_groups = self._pruning(condition)
            needed |= {name for name in self._full_schema.names if name.lower() in condition.names}
        size = self._state.parallel_split_bytes(self._threads, _SPLIT_BYTES)
        self.splits = self._state.splits(
            flatten=flatten, key_groups=key_groups, split_bytes=size, keys=keys, columns=needed
        )

    def batches(self, advance: Advance, *, at_once: bool = False) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows split by split.

        Args:
            advance: Called with the bytes of each split that is done.
            at_once: Start all threads before the first batch, because all rows are needed.
        """
        threads = self._state.useful_threads(self._threads, self.splits)
        steps = read_in_order(self.splits, self._steps, threads, at_once=at_once, size_of=_step_bytes)
        with closing(steps):
            for step in steps:
                if isinstance(step, int):
                    advance(step)
                else:
                    yield step

    def _steps(self, split: Split) -> Iterator[_Step]:
        """Yield the rows of a split, filtered and projected, then its bytes."""
        for batch in split.read():
            rows = aligned(batch, self._full_schema)
            kept = rows if self._filter is None else self._filter.apply(rows)
            yield kept.select(self.schema.names)
        yield split.bytes

    def _pruning(self, condition: WhereCondition) -> tuple[list[Any] | None, set[int] | None]:
        """Return the keys and the key groups that rows can have; None where the condition allows all."""
        from stateproc.filters import key_groups_in, keys_in

        names = self._full_schema.names
        groups = key_groups_in(condition, self._state.operator.max_parallelism) if "key_group" in names else None
        keys = keys_in(condition, self._temporal_schema.field("key").type) if "key" in names else None
        of_keys = None if keys is None else self._state.key_groups_of(keys)
        if of_keys is not None:
            groups = of_keys if groups is None else groups & of_keys
        return keys, groups

    @cached_property
    def _temporal_schema(self) -> pa.Schema:
        """The schema with dates and times as Arrow's types, where the rows have them as ISO text."""
        return self._state.with_temporal("micros").schema(flatten=self._flatten)
