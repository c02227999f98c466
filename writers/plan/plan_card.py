"""Draw the plan of a write as a card in notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short
from stateproc.html.units import counted, human_bytes

if TYPE_CHECKING:
    from stateproc.writers.plan.savepoint_plan import OperatorPlan, SavepointPlan, StatePlan

_HEADS = (
    Head("operator"), Head("plan"), Head("changes"), Head("subtasks", number=True), Head("copied", number=True)
)  # fmt: skip
_STYLES = {"added": "map", "replaced": "map", "changed": "timers", "carried over": "value", "dropped": "operator"}


def plan_card(plan: SavepointPlan) -> Card:
    """Return the plan of a write as a card: a row per operator and per state that does not stay as it is."""
    rows = [row for operator in plan.operators for row in _rows(operator)]
    more = [f"and {len(rows) - MOST_ROWS:,} more rows"] if len(rows) > MOST_ROWS else []
    return Card(
        title="Savepoint to be written",
        kind="new" if plan.source is None else "from an existing snapshot",
        facts=list(_facts(plan)),
        heads=_HEADS,
        rows=rows[:MOST_ROWS],
        notes=[*more, *map(short, plan.notes)],
    )


def refused_card(error: str) -> Card:
    """Return a card for a plan that is refused."""
    return Card(title="Savepoint to be written", kind="refused", problems=error.splitlines())


def _facts(plan: SavepointPlan) -> Iterator[tuple[str, str]]:
    if plan.source is not None:
        yield "source", short(plan.source)
    yield "Flink", plan.flink_version
    if any(operator.keyed_format for operator in plan.operators):
        yield "format", plan.format
    yield "files", plan.totals_text


def _rows(operator: OperatorPlan) -> Iterator[list[CardCell]]:
    action = operator.action.value
    carried = [state for state in operator.states if not state.reasons and state.action.value == "carried over"]
    others = [state for state in operator.states if state not in carried]
    reasons = [*operator.reasons, *([counted(len(carried), "state") + " carried over"] if carried else [])]
    copied = human_bytes(operator.bytes_copied) if operator.files_copied else "–"
    yield [
        CardCell(short(operator.display), strong=True),
        CardCell(action, style=_STYLES[action]),
        CardCell(short(", ".join(reasons))),
        CardCell(operator.subtasks_text),
        CardCell(copied),
    ]
    yield from (_state_row(state) for state in others)


def _state_row(state: StatePlan) -> list[CardCell]:
    action = state.action.value
    return [
        CardCell(short(state.name), note=state.kind),
        CardCell(action, style=_STYLES[action]),
        CardCell(short(", ".join(state.reasons))),
        CardCell(""),
        CardCell(""),
    ]
