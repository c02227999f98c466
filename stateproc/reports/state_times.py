"""Count when timers fire and when entries with a time to live were last accessed: histograms, from one scan each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import numbers_of, offsets_of, split_nulls
from stateproc.errors import SnapshotError
from stateproc.model.operator import Operator
from stateproc.model.state import State
from stateproc.reports.state_sizes import SMALL

# Count times in one pass with bounded memory, whatever their range.

_EARLIEST, _LATEST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, in ms since 1970. Flink marks timers that never fire with the largest or smallest long."""
_MOST_CELLS = 1 << 16
_DENSE = 1 << 20
"""Ranges of cells up to this are counted by ``bincount``, larger ones by sorting."""
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_WIDTHS = (
    *(unit * n for unit in (1, 10, 100) for n in (1, 2, 5)),
    *(unit * n for unit in (_SECOND, _MINUTE) for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 30, 91, 182, 365, 1826, 3652, 9131, 18_262, 36_524, 73_049, 365_243)),
)
"""Widths of bins in ms: what clocks and calendars show."""
_TAIL = 0.005


@dataclass(frozen=True)
class TimeHistogram:
    """Numbers of times in bins of equal width.

    Attributes:
        count: All times with a date.
        undated: Times outside the years 1 to 9999, such as timers at ``Long.MAX_VALUE``.
        first, last: The earliest and the latest time with a date, ms since 1970; None without any.
        start: Where the first bin begins, ms since 1970.
        width: The width of a bin in ms.
        bins: The number of times in each bin.
        before, after: Times outside the bins: a few that are far from the others.
    """

    count: int
    undated: int
    first: int | None
    last: int | None
    start: int
    width: int
    bins: tuple[int, ...]
    before: int
    after: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


class TimeCounter:
    """Counts times in cells of 2**n ms. Where they need too many cells, all become twice as wide.

    Only cells with times are kept, so that single times far from the others cost nothing.
    """

    def __init__(self) -> None:
        self._shift = 0
        self._cells = self._counts = np.zeros(0, dtype=np.int64)
        self._undated = 0
        self._first: int | None = None
        self._last: int | None = None

    def add(self, times: Longs) -> None:
        """Count times in ms since 1970."""
        dated = times[(times >= _EARLIEST) & (times <= _LATEST)]
        self._undated += len(times) - len(dated)
        if not len(dated):
            return
        first, last = int(dated.min()), int(dated.max())
        self._first = first if self._first is None else min(self._first, first)
        self._last = last if self._last is None else max(self._last, last)
        cells, counts = _counted(dated >> self._shift)
        self._merge(np.concatenate((self._cells, cells)), np.concatenate((self._counts, counts)))

    def _merge(self, cells: Longs, counts: Longs) -> None:
        order = np.argsort(cells, kind="stable")
        cells, counts = _sums(cells[order], counts[order])
        while len(cells) > _MOST_CELLS:
            self._shift += 1
            cells, counts = _sums(cells >> 1, counts)
        self._cells, self._counts = cells, counts

    def histogram(self, most_bins: int = 60) -> TimeHistogram:
        """Return the times counted so far in at most this many bins."""
        if self._first is None or self._last is None:
            return TimeHistogram(0, self._undated, None, None, 0, 1, (), 0, 0)
        low, high = self._shown_cells()
        start, end = int(self._cells[low]) << self._shift, ((int(self._cells[high]) + 1) << self._shift) - 1
        width = _width(start, end, most_bins, 1 << self._shift)
        origin = start // width
        numbers = (self._cells[low : high + 1] << self._shift) // width - origin
        bins = np.zeros(int(numbers[-1]) + 1, dtype=np.int64)
        np.add.at(bins, numbers, self._counts[low : high + 1])
        return TimeHistogram(
            count=int(self._counts.sum()),
            undated=self._undated,
            first=self._first,
            last=self._last,
            start=origin * width,
            width=width,
            bins=tuple(map(int, bins)),
            before=int(self._counts[:low].sum()),
            after=int(self._counts[high + 1 :].sum()),
        )

    def _shown_cells(self) -> tuple[int, int]:
        """Return the first and the last cell to show: all, unless few times are far from nearly all others."""
        sums = np.cumsum(self._counts)
        low = int(np.searchsorted(sums, sums[-1] * _TAIL, side="right"))
        high = int(np.searchsorted(sums, sums[-1] * (1 - _TAIL)))
        cells = self._cells
        left, right = min(low, high), min(max(low, high), len(cells) - 1)
        middle = int(cells[right] - cells[left]) + 1
        # Each end is cut on its own, where it would take more than three quarters of the picture; what is near the
        # middle stays.
        first = last = None
        if int(cells[left] - cells[0]) > 3 * middle:
            first = int(np.searchsorted(cells, cells[left] - middle))
        if int(cells[-1] - cells[right]) > 3 * middle:
            last = int(np.searchsorted(cells, cells[right] + middle, side="right")) - 1
        return 0 if first is None else first, len(cells) - 1 if last is None else last


def _counted(cells: Longs) -> tuple[Longs, Longs]:
    """Return the different cells in ascending order, and how often each occurs."""
    low, high = int(cells.min()), int(cells.max())
    if high - low < _DENSE:
        counts = np.bincount(cells - low)
        found = np.flatnonzero(counts)
        return found + low, counts[found].astype(np.int64)
    found, counts = np.unique(cells, return_counts=True)
    return found, counts.astype(np.int64)


def _sums(cells: Longs, counts: Longs) -> tuple[Longs, Longs]:
    """Add up the counts of equal cells, which are in ascending order."""
    starts = np.flatnonzero(np.concatenate((np.ones(1, dtype=np.bool_), cells[1:] != cells[:-1])))
    return cells[starts], np.add.reduceat(counts, starts)


def _width(start: int, end: int, most_bins: int, cell: int) -> int:
    """Return the smallest width with which the bins from ``start`` to ``end`` are few enough."""
    for width in _WIDTHS:
        if width >= cell and end // width - start // width < most_bins:
            return width
    return -(-(end - start + 1) // max(most_bins - 1, 1))


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
    column = _TIMESTAMP if state.is_timers else _LAST_ACCESS
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
