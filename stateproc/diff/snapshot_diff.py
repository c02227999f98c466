"""Compare two snapshots: what `Snapshot.diff` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from stateproc.diff.change_rows import CHANGE_TYPE, ChangeCounts
from stateproc.diff.common_schema import NotComparable, RowForm
from stateproc.diff.key_group_units import KeyGroupUnit
from stateproc.diff.state_changes import StateComparison
from stateproc.diff.structure import (
    OperatorPair,
    PropertyChange,
    StatePair,
    coordinator_changes,
    operator_changes,
    operator_pairs,
    state_changes_of,
)
from stateproc.errors import SnapshotError, not_found

if TYPE_CHECKING:
    from stateproc.model.snapshot import SnapshotContents

Status = Literal["equal", "added", "removed", "changed", "not comparable", "unreadable"]


@dataclass(frozen=True)
class StateDifference:
    """What differs in one state.

    Attributes:
        name: The state's name.
        kind: Its kind, as `State.kind`.
        status: ``added`` and ``removed``: only one snapshot declares it.
        properties: What differs in its declaration.
        counts: Numbers of entries; None if the contents could not be compared.
        problem: Why the contents could not be compared.
    """

    name: str
    kind: str
    status: Status
    properties: tuple[PropertyChange, ...]
    counts: ChangeCounts | None
    problem: SnapshotError | None
    pair: StatePair = field(repr=False)
    times: bool = field(default=False, repr=False)

    @property
    def is_different(self) -> bool:
        """Whether the state has other contents or another type; timers of which there are none do not count."""
        if self.status in ("added", "removed") and self.kind.endswith(" timers"):
            return self.counts is None or self.counts.changed > 0
        return self.status not in ("equal", "unreadable")

    def changes(self, *, threads: int | None = None) -> Iterator[pa.RecordBatch]:
        """Read the changed rows again, in bounded memory.

        Rows have the columns of the state and ``_change_type``: insert, delete, update_preimage, update_postimage.

        Args:
            threads: The number of threads that read; default the cores that the process may use.

        Raises:
            SnapshotError: The contents cannot be compared.
        """
        comparison = StateComparison(self.pair.left, self.pair.right, RowForm(times=self.times))
        for found in comparison.changes(comparison.units(threads), threads):
            if found.rows is not None:
                yield found.rows

    def to_arrow(self, *, threads: int | None = None) -> pa.Table:
        """Return the changed rows as a table. Raises SnapshotError if the contents cannot be compared."""
        comparison = StateComparison(self.pair.left, self.pair.right, RowForm(times=self.times))
        schema = pa.schema([pa.field(CHANGE_TYPE, pa.string(), nullable=False), *comparison.schema])
        return pa.Table.from_batches(self.changes(threads=threads), schema=schema)

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        counts = self.counts
        names = ("left", "right", "equal", "inserted", "deleted", "updated", "left_bytes", "right_bytes")
        numbers = {} if counts is None else {name: getattr(counts, name) for name in names}
        return {
            "state": self.name,
            "kind": self.kind,
            "status": self.status,
            "properties": [item.to_dict() for item in self.properties],
            "entries": numbers or None,
            "problem": None if self.problem is None else str(self.problem),
        }


@dataclass(frozen=True)
class OperatorDifference:
    """What differs in one operator.

    Attributes:
        operator_id: Its id (uid hash).
        uid: Its uid, if one of the snapshots knows it.
        name: Its name, from Flink 2.0 on.
        status: added, removed, changed or equal.
        properties: Other differences than those of states.
        states: Its states.
        problems: Why headers of its files cannot be read.
    """

    operator_id: str
    uid: str | None
    name: str | None
    status: Status
    properties: tuple[PropertyChange, ...]
    states: tuple[StateDifference, ...]
    problems: tuple[SnapshotError, ...] = ()

    @property
    def display(self) -> str:
        """The uid, or the id where the uid is not known."""
        return self.uid or self.operator_id

    @property
    def is_different(self) -> bool:
        """Whether it is in one snapshot only, or its state differs."""
        if self.status in ("added", "removed"):
            return True
        return any(not item.layout for item in self.properties) or any(state.is_different for state in self.states)

    def __getitem__(self, state: str) -> StateDifference:
        for item in self.states:
            if item.name == state:
                return item
        raise not_found("state", state, (item.name for item in self.states), f"operator '{self.display}'")

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {
            "operator_id": self.operator_id,
            "uid": self.uid,
            "name": self.name,
            "status": self.status,
            "properties": [item.to_dict() for item in self.properties],
            "states": [state.to_dict() for state in self.states],
            "problems": [str(problem) for problem in self.problems],
        }


@dataclass(frozen=True)
class SnapshotComparison:
    """What differs between two snapshots.

    Attributes:
        left: The path of the first snapshot.
        right: The path of the second snapshot.
        operators: All operators of both, in the order of the first.
    """

    left: str
    right: str
    operators: tuple[OperatorDifference, ...]

    @property
    def is_readable(self) -> bool:
        """Whether everything could be read and compared."""
        return not any(
            operator.problems or any(state.status == "unreadable" for state in operator.states)
            for operator in self.operators
        )

    @property
    def is_different(self) -> bool:
        """Whether operators, states, types or contents differ; where and how they are stored does not count."""
        return any(operator.is_different for operator in self.operators)

    @property
    def equal(self) -> bool:
        """Whether both have the same operators, states and contents, all of which could be read."""
        return self.is_readable and not self.is_different

    @property
    def counts(self) -> ChangeCounts:
        """Numbers of entries of all states."""
        total = ChangeCounts()
        for operator in self.operators:
            for state in operator.states:
                total += state.counts or ChangeCounts()
        return total

    def __getitem__(self, uid: str) -> OperatorDifference:
        for operator in self.operators:
            if uid in (operator.uid, operator.operator_id, operator.name):
                return operator
        raise not_found("operator", uid, (item.display for item in self.operators))

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON, as stateproc/cli/json_schemas/diff.json describes them."""
        return {
            "left": self.left,
            "right": self.right,
            "equal": self.equal,
            "readable": self.is_readable,
            "operators": [operator.to_dict() for operator in self.operators],
        }

    def __repr__(self) -> str:
        total = self.counts
        found = "equal" if self.equal else "different" if self.is_different else "not readable"
        numbers = f"+{total.inserted:,} -{total.deleted:,} ~{total.updated:,} of {total.right:,} entries"
        return f"<comparison of {len(self.operators)} operators: {found}, {numbers}>"


RowSink = Callable[[OperatorPair, StatePair, pa.RecordBatch], None]


def compare_snapshots(
    left: SnapshotContents,
    right: SnapshotContents,
    *,
    uids: Iterable[str] = (),
    states: Iterable[str] = (),
    times: bool = False,
    threads: int | None = None,
    rows: RowSink | None = None,
    planned: Callable[[int], Callable[[int], None]] | None = None,
) -> SnapshotComparison:
    """Compare two snapshots.

    Args:
        left: The first snapshot, as a rule the older one.
        right: The second snapshot.
        uids: Only these operators (uid, hash or name).
        states: Only states of these names.
        times: Whether times of last access count.
        threads: The number of threads that read; default the cores that the process may use.
        rows: Called with the changed rows, state after state.
        planned: Called once with the bytes that will be read; returns a function to call with those that were.

    Raises:
        NotFound: Neither snapshot has one of these operators or states.
    """
    pairs = operator_pairs(left, right, uids, states)
    plans = [[_StatePlan(pair, times, threads) for pair in operator.states] for operator in pairs]
    advance = (planned or _ignored)(sum(plan.bytes for plan_list in plans for plan in plan_list))
    found = []
    for operator, own in zip(pairs, plans, strict=True):
        differences = []
        for plan in own:
            sink = None if rows is None else _sink(rows, operator, plan.pair)
            differences.append(plan.run(sink, advance))
        found.append(_operator_difference(operator, tuple(differences)))
    return SnapshotComparison(left.path, right.path, tuple(found))


def _ignored(_: int) -> Callable[[int], None]:
    return lambda _: None


def _sink(rows: RowSink, operator: OperatorPair, state: StatePair) -> Callable[[pa.RecordBatch], None]:
    return lambda batch: rows(operator, state, batch)


class _StatePlan:
    """The comparison of one state, divided into units; or why there is none."""

    def __init__(self, pair: StatePair, times: bool, threads: int | None) -> None:
        self.pair, self._times, self._threads = pair, times, threads
        self._problem: SnapshotError | None = None
        self._units: list[KeyGroupUnit] = []
        try:
            self._comparison = StateComparison(pair.left, pair.right, RowForm(times=times), count_all=True)
            self._units = self._comparison.units(threads)
        except SnapshotError as error:
            self._problem = error

    @property
    def bytes(self) -> int:
        return sum(unit.bytes for unit in self._units)

    def run(self, rows: Callable[[pa.RecordBatch], None] | None, advance: Callable[[int], None]) -> StateDifference:
        """Compare the contents."""
        counts: ChangeCounts | None = None
        problem = self._problem
        if problem is None:
            try:
                counts = ChangeCounts()
                for found in self._comparison.changes(self._units, self._threads):
                    counts += found.counts
                    advance(found.bytes)
                    if rows is not None and found.rows is not None:
                        rows(found.rows)
            except SnapshotError as error:
                counts, problem = None, error
        pair, properties = self.pair, state_changes_of(self.pair)
        status = _status(pair, properties, counts, problem)
        return StateDifference(pair.name, pair.view.kind, status, properties, counts, problem, pair, self._times)


def _status(
    pair: StatePair, properties: tuple[PropertyChange, ...], counts: ChangeCounts | None, problem: SnapshotError | None
) -> Status:
    if pair.left is None:
        return "added"
    if pair.right is None:
        return "removed"
    if problem is not None:
        return "not comparable" if isinstance(problem, NotComparable) else "unreadable"
    is_changed = any(not item.layout for item in properties) or (counts is not None and counts.changed > 0)
    return "changed" if is_changed else "equal"


def _operator_difference(pair: OperatorPair, states: tuple[StateDifference, ...]) -> OperatorDifference:
    properties = (*operator_changes(pair), *coordinator_changes(pair))
    problems = tuple(
        error for operator in (pair.left, pair.right) if operator is not None for error in operator.problems
    )
    status: Status = "added" if pair.left is None else "removed" if pair.right is None else "equal"
    if status == "equal" and (
        any(not item.layout for item in properties) or any(state.is_different for state in states)
    ):
        status = "changed"
    return OperatorDifference(pair.operator_id, pair.uid, pair.name, status, properties, states, problems)
