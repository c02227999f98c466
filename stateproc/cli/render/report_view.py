"""Draw the report of a write."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from stateproc.cli.render.bars import human_bytes
from stateproc.cli.render.operator_table import operator_cells, operator_table, restore_notes, state_cells
from stateproc.writers.write_result import OperatorReport, WriteReport

_NUMBERS = ("subtasks", "entries written", "bytes")


def report_view(report: WriteReport) -> RenderableType:
    """Return a table of operators and their states, the totals, and what restoring needs."""
    head = Text(f"{report.source or 'a new savepoint'} → {report.target}, for Flink {report.flink_version}")
    table = operator_table("action", _NUMBERS, (row for operator in report.operators for row in _rows(operator)))
    return Group(head, table, Text(_totals(report), "bold"), *restore_notes(report.notes), *_warnings(report))


def _rows(operator: OperatorReport) -> Iterator[list[Text]]:
    """Yield the row of an operator, then those of its states."""
    subtasks = "–" if operator.parallelism is None else f"{operator.parallelism} of {operator.max_parallelism}"
    yield [
        *operator_cells(operator.uid or operator.operator_id, operator.action, operator.reasons),
        Text(subtasks),
        _count(operator.entries),
        Text(human_bytes(operator.bytes)),
    ]
    for state in operator.states:
        cells = state_cells(state.name, state.kind, state.action, state.reasons, operator.reasons)
        yield [*cells, Text(""), _count(state.entries), Text("")]


def _count(entries: int | None) -> Text:
    return Text("–" if entries is None else f"{entries:,}")


def _totals(report: WriteReport) -> str:
    seconds = report.seconds["total"]
    rate = f", {report.entries / seconds:,.0f} a second" if report.entries and seconds >= 1 else ""
    size = human_bytes(report.bytes)
    return f"{size} of state, {report.entries:,} entries written in {seconds:.1f} s{rate} by the {report.engine} engine"


def _warnings(report: WriteReport) -> Iterator[Text]:
    yield from (Text(f"warning: {warning}", "yellow") for warning in report.warnings)
