"""Count when timers fire and when entries with a time to live were last accessed: histograms, from one scan each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import numbers_of, offsets_of, split_nulls
from stateproc.errors import SnapshotError
from stateproc.model.keyed_state import KeyedStateView
from stateproc.model.operator import Operator
from stateproc.model.state import State
from stateproc.reports.state_sizes import SMALL
from stateproc.reports.time_histogram import TimeCounter, TimeHistogram

_TIMESTAMP, _LAST_ACCESS = "timestamp", "last_access"
_BUDGET = 2 << 30
"""Stored bytes that are read of all operators without ``scan``: some seconds."""
_FILE_COST = 256 << 10
"""What opening a file costs, as bytes that are read in that time."""
_TOO_MUCH = "not counted: files over 64 MiB, more than 2 GiB or thousands of files to read; --scan reads them"


@dataclass(frozen=True)
class StateTimes:
    """The times in one state.

    Attributes:
        operator_id: The operator.
        state: The state's name; of timers their kind.
        kind: ``event timers``, ``processing timers`` or ``last access``.
        histogram: The times; None if they were not read.
        note: Why they were not read; None if they were.
    """

    operator_id: str
    state: str
    kind: str
    histogram: TimeHistogram | None
    note: str | None


@dataclass
class _Budget:
    """Decides which operators are read: all with ``scan``, else those of small files until ``_BUDGET`` is used up."""

    scan: bool
    remaining: int

    def allows(self, operator: Operator, states: int) -> bool:
        if self.scan:
            return True
        sizes = [file.data_bytes for file in operator.keyed_files]
        cost = sum(max(size, _FILE_COST) for size in sizes) * states
        if max(sizes, default=0) > SMALL or cost > self.remaining:
            return False
        self.remaining -= cost
        return True


def state_times(
    operators: Iterable[Operator],
    *,
    scan: bool,
    threads: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[StateTimes]:
    """Count the times of all timers and of all states with a time to live.

    Args:
        operators: The operators.
        scan: Whether files of any size are read, and any number of them.
        threads: The number of threads that read; None for the cores that the process may use.
        advance: Called after each state with the stored bytes of its operator.

    Yields:
        One item per state; of a state that cannot be read, the reason.
    """
    budget = _Budget(scan, _BUDGET)
    for operator in operators:
        states = states_with_times(operator)
        if not states:
            continue
        allowed = _is_allowed(budget, operator, len(states))
        for state in states:
            yield _times(operator, state, allowed, threads)
            advance(_stored_bytes(operator))


def states_with_times(operator: Operator) -> list[State]:
    """Return the timers of an operator and its keyed states with a time to live. Reads headers."""
    return [*operator.timer_states, *(state for state in operator.keyed_states if state.ttl)]


def _stored_bytes(operator: Operator) -> int:
    try:
        return sum(file.data_bytes for file in operator.keyed_files)
    except SnapshotError:
        return 0  # reading reports what is wrong


def _is_allowed(budget: _Budget, operator: Operator, states: int) -> bool:
    try:
        return budget.allows(operator, states)
    except SnapshotError:
        return True  # reading reports what is wrong


def _times(operator: Operator, state: State, allowed: bool, threads: int | None) -> StateTimes:
    column = _LAST_ACCESS if isinstance(state, KeyedStateView) else _TIMESTAMP
    kind = "last access" if column == _LAST_ACCESS else state.kind
    if not allowed:
        return StateTimes(operator.operator_id, state.name, kind, None, _TOO_MUCH)
    counter = TimeCounter()
    try:
        for batch in state.batches(columns=[column], threads=threads):
            counter.add(_milliseconds(batch.column(0)))
    except SnapshotError as error:
        return StateTimes(operator.operator_id, state.name, kind, None, str(error))
    return StateTimes(operator.operator_id, state.name, kind, counter.histogram(), None)


def _milliseconds(column: Any) -> Longs:
    """Return the times of a column, also those in its lists and maps, in ms since 1970; nulls are omitted."""
    while pa.types.is_nested(column.type):
        offsets = offsets_of(column)
        items = column.items if pa.types.is_map(column.type) else column.values
        column = items.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    if pa.types.is_null(column.type):
        return np.zeros(0, dtype=np.int64)
    micros = pa.types.is_timestamp(column.type)
    values: Longs = numbers_of(column.cast(pa.int64()))
    if column.null_count:
        values = values[split_nulls(column)[0]]
    return values // 1000 if micros else values
