"""Draw the plan of a write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stateproc.cli.render.bars import human_bytes
from stateproc.writers.plan.savepoint_plan import OperatorPlan, SavepointPlan, StatePlan

ACTION_COLORS = {"added": "green", "replaced": "yellow", "changed": "yellow", "carried over": "dim", "dropped": "red"}


def plan_view(plan: SavepointPlan) -> RenderableType:
    """Return a table of operators and their states, the totals, and what restoring needs."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in ("operator, state", "plan", "changes"):
        table.add_column(name, overflow="fold")
    for name in ("subtasks", "copied", "written from"):
        table.add_column(name, justify="right")
    for operator in plan.operators:
        table.add_row(*_operator_cells(operator))
        for state in operator.states:
            table.add_row(*_state_cells(state, operator))
    totals = Text(f"{plan.totals_text}; nothing is written yet", "bold")
    return Group(*_heads(plan), table, totals, *notes_view(plan.notes))


def _heads(plan: SavepointPlan) -> Iterator[Text]:
    before = "a new savepoint" if plan.source is None else plan.source
    after = "" if plan.target is None else f" → {plan.target}"
    yield Text(f"{before}{after}, for Flink {plan.flink_version}")
    if plan.replaces_target:
        yield Text("replaces the snapshot in the target", "yellow")


def _operator_cells(operator: OperatorPlan) -> list[Text]:
    action = operator.action.value
    return [
        Text(operator.display, "bold"),
        Text(action, ACTION_COLORS[action]),
        Text(", ".join(operator.reasons)),
        Text(operator.subtasks_text),
        Text(human_bytes(operator.bytes_copied) if operator.files_copied else "–"),
        Text(human_bytes(operator.bytes_read) if operator.bytes_read else "–"),
    ]


def _state_cells(state: StatePlan, operator: OperatorPlan) -> list[Text]:
    """A state's row, without the reasons that are those of its operator."""
    action = state.action.value
    own = [reason for reason in state.reasons if reason not in operator.reasons]
    return [
        Text.assemble("  ", state.name, (f" {state.kind}", "dim")),
        Text(action, ACTION_COLORS[action]),
        Text(", ".join(own)),
        Text(""),
        Text(""),
        Text(""),
    ]


def notes_view(notes: Sequence[str]) -> Iterator[Text]:
    """Yield the notes of a plan or a report, below a heading."""
    if notes:
        yield Text("\nto restore it", "bold")
    yield from (Text(f"  • {note}") for note in notes)
