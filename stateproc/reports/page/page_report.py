"""Collect what the page of ``inspect --html`` shows: the report of ``inspect``, and what takes more reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stateproc.catalog.entries import utc_time
from stateproc.errors import SnapshotError
from stateproc.html.cards import TypeNode, type_tree
from stateproc.model.operator import Operator
from stateproc.model.rocksdb_tables import has_databases
from stateproc.reports.inspect_report import Report
from stateproc.reports.rocksdb_report import operator_tables
from stateproc.reports.source_positions import kafka_offsets
from stateproc.reports.state_times import StateTimes

if TYPE_CHECKING:
    from stateproc.model.snapshot import SnapshotContents

StateKey = tuple[str, str, str]
"""Operator id, name and distribution, which identify a state."""
_MOST_TABLES = 4_000
"""RocksDB tables whose properties are read without ``scan``: two seconds on a local disk."""


@dataclass(frozen=True)
class PageReport:
    """All facts of the page.

    Attributes:
        inspect: The report of ``inspect``.
        written: When ``_metadata`` was written, as far as its file system knows.
        columns: Trees of the columns of each state that can be read.
        rocksdb: Statistics of RocksDB tables by operator id, as ``inspect --rocksdb --json`` prints them.
        times: Times of timers and last accesses.
        offsets: Kafka offsets: operator, topic, partition, offset, stopping_offset, subtask.
        notes: What was left out, and how to get it.
    """

    inspect: Report
    written: datetime | None
    columns: Mapping[StateKey, tuple[TypeNode, ...]]
    rocksdb: Mapping[str, Report]
    times: Sequence[StateTimes]
    offsets: Sequence[Mapping[str, Any]]
    notes: Sequence[str]


def page_report(
    snapshot: SnapshotContents,
    operators: Sequence[Operator],
    inspect: Report,
    times: Sequence[StateTimes],
    *,
    scan: bool,
) -> PageReport:
    """Complete the report of ``inspect``. ``scan``: open any number of RocksDB tables."""
    notes: list[str] = []
    sizes = {item["uid_hash"]: item["bytes"] for item in inspect["operators"]}
    largest_first = sorted(operators, key=lambda operator: -sizes.get(operator.operator_id, 0))
    return PageReport(
        inspect=inspect,
        written=_written(snapshot),
        columns=dict(_columns(operators)),
        rocksdb=dict(_rocksdb(largest_first, scan, notes)),
        times=times,
        offsets=_offsets(operators, notes),
        notes=notes,
    )


def _written(snapshot: SnapshotContents) -> datetime | None:
    """Return when ``_metadata`` was written; None where its store does not say, or cannot be reached any more."""
    try:
        status = snapshot.location.metadata.status()
    except SnapshotError:
        return None
    return utc_time(None if status is None else status.modified)


def _columns(operators: Sequence[Operator]) -> Iterator[tuple[StateKey, tuple[TypeNode, ...]]]:
    for operator in operators:
        for state in operator.states:
            try:
                schema = state.schema()
            except SnapshotError:
                continue  # the report of inspect gives the reason
            yield (operator.operator_id, state.name, state.distribution), type_tree(schema)


def _rocksdb(operators: Sequence[Operator], scan: bool, notes: list[str]) -> Iterator[tuple[str, Report]]:
    remaining = _MOST_TABLES
    for operator in operators:
        if not has_databases(operator):
            continue
        tables = sum(
            name.endswith(".sst")
            for file in operator.keyed_files
            for handle in file.databases
            for name, _ in (*handle.shared, *handle.private)
        )
        if tables > remaining and not scan:
            notes.append(f"{operator.display}: {tables:,} RocksDB tables are not opened; --scan reads their statistics")
            continue
        remaining -= tables
        yield operator.operator_id, operator_tables(operator, None)


def _offsets(operators: Sequence[Operator], notes: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for operator in operators:
        try:
            rows += kafka_offsets([operator])
        except SnapshotError as error:
            notes.append(f"{operator.display}: Kafka offsets cannot be read: {error}")
    return sorted(rows, key=lambda row: (row["operator"], row["topic"], row["partition"]))


# How much of a large job a page shows, so that it stays below 2 MB.


@dataclass(frozen=True)
class PageLimits:
    """The most that a page shows, the largest first.

    Attributes:
        operators: Rows of the table of operators.
        states: Rows of the table of states.
        fields: Columns and fields in all type trees.
        tree_groups: Operators in the treemap, each with its own area.
        skylines: Operators with bytes by key group.
        histograms: Histograms per section.
        detailed: Those of them that show numbers at the pointer.
        tables: Rows of statistics of RocksDB.
        offsets: Kafka partitions.
        problems: Groups of problems.
        text: Characters of a name or type.
    """

    operators: int = 1_000
    states: int = 2_400
    fields: int = 2_000
    tree_groups: int = 60
    skylines: int = 100
    histograms: int = 48
    detailed: int = 9
    tables: int = 300
    offsets: int = 800
    problems: int = 200
    text: int = 240

    def halved(self) -> PageLimits:
        """Return limits half as large."""
        return PageLimits(**{field.name: max(getattr(self, field.name) // 2, 1) for field in fields(self)})

    def short(self, text: str | None) -> str:
        """Return a text that is cut where it is too long."""
        if not text:
            return ""
        return text if len(text) <= self.text else f"{text[: self.text]}…"
