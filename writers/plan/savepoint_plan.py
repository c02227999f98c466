"""The plan of a write, and what it wrote, as values: `to_dict` for JSON, text and a notebook card for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short
from stateproc.html.units import counted, human_bytes


class PlanAction(str, Enum):
    """What happens to an operator or a state, as text."""

    ADDED = "added"
    REPLACED = "replaced"
    CHANGED = "changed"
    CARRIED = "carried over"
    DROPPED = "dropped"

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class StatePlan:
    """What happens to a state; in a report, what happened to it.

    Attributes:
        name: Its name in the new savepoint; of a dropped one that in the source.
        kind: value, list, map, …, timers; of operator states list, union or broadcast.
        action: What happens.
        reasons: Why, or what changes.
        source_name: Its name in the source; None if it is not there.
        elements: The number of elements of an operator state, which ``_metadata`` contains; None if not known.
        entries: The entries written; None before, and of a state whose files were copied, or that was dropped.
    """

    name: str
    kind: str
    action: PlanAction
    reasons: tuple[str, ...] = ()
    source_name: str | None = None
    elements: int | None = None
    entries: int | None = None


@dataclass(frozen=True)
class OperatorPlan:
    """What happens to an operator; in a report, what happened to it.

    Attributes:
        operator_id: Its id (uid hash) in the new savepoint; of a dropped one that in the source.
        uid: Its uid, if it is known.
        action: What happens.
        reasons: Why, or what changes.
        source_id: Its id in the source; None if it is not there.
        parallelism: Its number of subtasks in the new savepoint; None for a dropped one.
        max_parallelism: Its number of key groups in the new savepoint; None for a dropped one.
        source_parallelism: The number of subtasks in the source.
        source_max_parallelism: The number of key groups in the source.
        keyed_format: The format in which its keyed state is written; None where its files are copied or it has none.
        files_copied: State files that are copied unchanged.
        bytes_copied: Their bytes.
        files_written: State files (of native-rocksdb databases) that are written anew, or created.
        bytes_read: Stored bytes of the state that is written anew.
        temporary_bytes: About how much temporary space its entries take until all that belong to a file are known; 0
            where they are written while they are read, and where nothing says how many rows there will be.
        states: Its states.
        entries: The entries written; None before, and if its files were copied, or it was dropped.
        bytes: The bytes of its state in the savepoint. A file that several operators share is counted for each.
    """

    operator_id: str
    uid: str | None
    action: PlanAction
    reasons: tuple[str, ...] = ()
    source_id: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    source_parallelism: int | None = None
    source_max_parallelism: int | None = None
    keyed_format: str | None = None
    files_copied: int = 0
    bytes_copied: int = 0
    files_written: int = 0
    bytes_read: int = 0
    temporary_bytes: int = 0
    states: tuple[StatePlan, ...] = ()
    entries: int | None = None
    bytes: int = 0

    @property
    def display(self) -> str:
        """The uid, or the id where the uid is not known."""
        return self.uid or self.operator_id

    @property
    def subtasks_text(self) -> str:
        """Subtasks and key groups, such as ``4 of 128``; before and after where they change."""
        pairs = (
            (self.source_parallelism, self.source_max_parallelism),
            (self.parallelism, self.max_parallelism),
        )
        texts = [f"{subtasks} of {groups}" for subtasks, groups in pairs if subtasks is not None]
        return " → ".join(dict.fromkeys(texts)) or "–"


@dataclass(frozen=True)
class SavepointPlan:
    """What a write would do. Nothing has been written.

    Attributes:
        source: The snapshot that is rewritten; None for a new savepoint.
        target: The directory, if it was given.
        replaces_target: Whether there is a snapshot in it, which is replaced.
        flink_version: The release that restores the savepoint.
        metadata_version: The version of ``_metadata`` that is written.
        format: The format of keyed state that is written anew.
        compressed: Whether that is compressed.
        operators: The operators, dropped ones last.
        master_states: Names of the states of hooks on the JobManager, which are kept.
        notes: What the job and its configuration need to restore the savepoint, and what to know about the changes.
    """

    source: str | None
    target: str | None
    replaces_target: bool
    flink_version: str
    metadata_version: int
    format: str
    compressed: bool
    operators: tuple[OperatorPlan, ...]
    master_states: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def totals(self) -> dict[str, int]:
        """Files and bytes of all operators; a file that several operators share is counted for each."""
        names = ("files_copied", "bytes_copied", "files_written", "bytes_read", "temporary_bytes")
        return {name: sum(getattr(item, name) for item in self.operators) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, which fit ``stateproc/cli/json_schemas/plan.json``."""
        own = ("source", "target", "replaces_target", "flink_version", "metadata_version", "format", "compressed")
        return {
            **{name: getattr(self, name) for name in own},
            "master_states": list(self.master_states),
            "notes": list(self.notes),
            "totals": self.totals,
            "operators": [plain(item, _OPERATOR, _STATE) for item in self.operators],
        }

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        """Show the plan in a notebook."""
        return plan_card(self).html()

    def _lines(self) -> Iterator[str]:
        before = "a new savepoint" if self.source is None else f"a savepoint from {self.source}"
        yield f"Plan of {before}, for Flink {self.flink_version}"
        for operator in self.operators:
            yield f"  {operator.action} {operator.display}{in_brackets(operator.reasons)}"
            for state in operator.states:
                yield f"    {state.action} {state.kind} {state.name}{in_brackets(state.reasons)}"
        yield f"  {self.totals_text}"
        yield from (f"  note: {note}" for note in self.notes)

    @property
    def totals_text(self) -> str:
        """Files and bytes in one line."""
        found = self.totals
        parts = []
        if found["files_copied"] or not found["files_written"]:
            parts.append(f"{counted(found['files_copied'], 'file')} copied ({human_bytes(found['bytes_copied'])})")
        if found["files_written"]:
            read = f" from {human_bytes(found['bytes_read'])}" if found["bytes_read"] else ""
            parts.append(f"{counted(found['files_written'], 'state file')} written{read}")
        if found["temporary_bytes"]:
            parts.append(f"about {human_bytes(found['temporary_bytes'])} of temporary space")
        return ", ".join(parts)


def in_brackets(reasons: Iterable[str]) -> str:
    text = ", ".join(reasons)
    return f" ({text})" if text else ""


_STATE = ("name", "kind", "action", "reasons", "source_name", "elements")
_OPERATOR = tuple(
    """
    operator_id uid source_id parallelism max_parallelism source_parallelism source_max_parallelism keyed_format
    files_copied bytes_copied files_written bytes_read temporary_bytes action reasons states
    """.split()
)


def plain(item: OperatorPlan | StatePlan, names: Sequence[str], state_names: Sequence[str] = ()) -> dict[str, Any]:
    """Return these attributes of an operator as plain values, and those of its states, for JSON."""
    values: dict[str, Any] = {}
    for name in names:
        value = getattr(item, name)
        if name == "states":
            value = [plain(state, state_names) for state in value]
        values[name] = str(value) if name == "action" else list(value) if name == "reasons" else value
    return values


# Draw the plan of a write as a card in notebooks.

_HEADS = (*map(Head, ("operator", "plan", "changes")), Head("subtasks", number=True), Head("copied", number=True))
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
    carried = [state for state in operator.states if not state.reasons and state.action is PlanAction.CARRIED]
    others = [state for state in operator.states if state not in carried]
    reasons = [*operator.reasons, *([counted(len(carried), "state") + " carried over"] if carried else [])]
    copied = human_bytes(operator.bytes_copied) if operator.files_copied else "–"
    yield [
        CardCell(short(operator.display), strong=True),
        CardCell(str(operator.action), style=_STYLES[operator.action]),
        CardCell(short(", ".join(reasons))),
        CardCell(operator.subtasks_text),
        CardCell(copied),
    ]
    yield from (_state_row(state) for state in others)


def _state_row(state: StatePlan) -> list[CardCell]:
    return [
        CardCell(short(state.name), note=state.kind),
        CardCell(str(state.action), style=_STYLES[state.action]),
        CardCell(short(", ".join(state.reasons))),
        CardCell(""),
        CardCell(""),
    ]
