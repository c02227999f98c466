"""Draw the report of a write."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stateproc.cli.render.bars import human_bytes
from stateproc.cli.render.plan_view import ACTION_COLORS, notes_view
from stateproc.writers.write_result import OperatorReport, StateReport, WriteReport


def report_view(report: WriteReport) -> RenderableType:
    """Return a table of operators and their states, the totals, and what restoring needs."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in ("operator, state", "action", "changes"):
        table.add_column(name, overflow="fold")
    for name in ("subtasks", "entries written", "bytes"):
        table.add_column(name, justify="right")
    for operator in report.operators:
        table.add_row(*_operator_cells(operator))
        for state in operator.states:
            table.add_row(*_state_cells(state, operator))
    head = Text(f"{report.source or 'a new savepoint'} → {report.target}, for Flink {report.flink_version}")
    return Group(head, table, Text(_totals(report), "bold"), *notes_view(report.notes), *_warnings(report))


def _operator_cells(operator: OperatorReport) -> list[Text]:
    subtasks = "–" if operator.parallelism is None else f"{operator.parallelism} of {operator.max_parallelism}"
    return [
        Text(operator.uid or operator.operator_id, "bold"),
        Text(operator.action, ACTION_COLORS[operator.action]),
        Text(", ".join(operator.reasons)),
        Text(subtasks),
        _count(operator.entries),
        Text(human_bytes(operator.bytes)),
    ]


def _state_cells(state: StateReport, operator: OperatorReport) -> list[Text]:
    own = [reason for reason in state.reasons if reason not in operator.reasons]
    return [
        Text.assemble("  ", state.name, (f" {state.kind}", "dim")),
        Text(state.action, ACTION_COLORS[state.action]),
        Text(", ".join(own)),
        Text(""),
        _count(state.entries),
        Text(""),
    ]


def _count(entries: int | None) -> Text:
    return Text("–" if entries is None else f"{entries:,}")


def _totals(report: WriteReport) -> str:
    seconds = report.seconds["total"]
    rate = f", {report.entries / seconds:,.0f} a second" if report.entries and seconds >= 1 else ""
    size = human_bytes(report.bytes)
    return f"{size} of state, {report.entries:,} entries written in {seconds:.1f} s{rate} by the {report.engine} engine"


def _warnings(report: WriteReport) -> Iterator[Text]:
    yield from (Text(f"warning: {warning}", "yellow") for warning in report.warnings)
