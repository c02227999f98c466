"""Draw the plan of a write."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from stateproc.cli.render.bars import human_bytes
from stateproc.cli.render.operator_table import operator_cells, operator_table, restore_notes, state_cells
from stateproc.writers.plan.savepoint_plan import OperatorPlan, SavepointPlan

_NUMBERS = ("subtasks", "copied", "written from")


def plan_view(plan: SavepointPlan) -> RenderableType:
    """Return a table of operators and their states, the totals, and what restoring needs."""
    rows = (row for operator in plan.operators for row in _rows(operator))
    totals = Text(f"{plan.totals_text}; nothing is written yet", "bold")
    return Group(*_heads(plan), operator_table("plan", _NUMBERS, rows), totals, *restore_notes(plan.notes))


def _heads(plan: SavepointPlan) -> Iterator[Text]:
    before = "a new savepoint" if plan.source is None else plan.source
    after = "" if plan.target is None else f" → {plan.target}"
    yield Text(f"{before}{after}, for Flink {plan.flink_version}")
    if plan.replaces_target:
        yield Text("replaces the snapshot in the target", "yellow")


def _rows(operator: OperatorPlan) -> Iterator[list[Text]]:
    """Yield the row of an operator, then those of its states."""
    yield [
        *operator_cells(operator.display, operator.action.value, operator.reasons),
        Text(operator.subtasks_text),
        Text(human_bytes(operator.bytes_copied) if operator.files_copied else "–"),
        Text(human_bytes(operator.bytes_read) if operator.bytes_read else "–"),
    ]
    for state in operator.states:
        cells = state_cells(state.name, state.kind, state.action.value, state.reasons, operator.reasons)
        yield [*cells, Text(""), Text(""), Text("")]
