"""Scan a state: its splits, filtered by a condition and projected to columns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from stateproc.model.parallel_scan import read_in_order, thread_count
from stateproc.model.schema_merging import aligned, narrowed
from stateproc.readers.splits import Split

if TYPE_CHECKING:
    from stateproc.filters import RowFilter, WhereCondition
    from stateproc.model.state import State

_SPLIT_BYTES = 8 << 20

_Step: TypeAlias = "pa.RecordBatch | int"
"""Rows of a split; its bytes when it is done."""


Advance: TypeAlias = Callable[[int], None]
"""Called with the bytes of each split that is done."""


def _both(one: set[int] | None, two: set[int] | None) -> set[int] | None:
    """Return the key groups in both sets, where None is all."""
    if one is None or two is None:
        return two if one is None else one
    return one & two


def _step_bytes(step: _Step) -> int:
    return 0 if isinstance(step, int) else int(step.nbytes)


class FilteredScan:
    """The rows of a state that a condition keeps, with the columns asked for.

    Args:
        state: The state.
        where: The text of a condition; see docs/cli.md.
        columns: Names of columns in the order wanted; None for all.
        flatten: One row per list element or map entry.
        key_groups: Only these key groups; None for all that the condition allows.
        keys: Only what is needed to find these keys; None for all that the condition allows.
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
        *,
        key_groups: Iterable[int] | None = None,
        keys: Sequence[Any] | None = None,
        threads: int | None = None,
    ) -> None:
        self._threads = thread_count(threads)
        self._state = state
        self._flatten = flatten
        self._full_schema = self._state.schema(flatten=flatten)
        self.schema = narrowed(self._full_schema, columns)
        self._filter: RowFilter | None = None
        groups = None if key_groups is None else set(key_groups)
        if keys is not None:
            groups = _both(groups, state.key_groups_of(keys))
        needed = set(self.schema.names)
        if where is not None:
            # Lazy: start-up. DuckDB takes 0.08 s to load.
            from stateproc.filters import RowFilter, parse

            condition = parse(where, self._temporal_schema)
            self._filter = RowFilter(condition, self._full_schema, self._temporal_schema)
            found_keys, found_groups = self._pruning(condition)
            groups = _both(groups, found_groups)
            keys = found_keys if keys is None else keys
            needed.update(condition.columns)
        size = self._state.parallel_split_bytes(self._threads, _SPLIT_BYTES)
        self.splits = self._state.splits(
            flatten=flatten, key_groups=groups, split_bytes=size, keys=keys, columns=needed
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
        return keys, groups if keys is None else _both(groups, self._state.key_groups_of(keys))

    @cached_property
    def _temporal_schema(self) -> pa.Schema:
        """The schema with dates and times as Arrow's types, where the rows have them as ISO text."""
        return self._state.with_temporal("micros").schema(flatten=self._flatten)
