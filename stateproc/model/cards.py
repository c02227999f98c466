"""Show operators and states as cards in notebooks. Headers are read, but no state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateproc.errors import SnapshotError
from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short, type_tree
from stateproc.html.pictures import state_style
from stateproc.html.units import counted, human_bytes
from stateproc.metadata import SnapshotMetadata, walk_stream_handles

if TYPE_CHECKING:
    from stateproc.model.operator import Operator
    from stateproc.model.state import State

_MOST_PROBLEMS = 5


def stored_bytes(operator: Operator) -> int:
    """Return the bytes of all files of an operator, by ``_metadata``; shared files count once."""
    uses = walk_stream_handles(SnapshotMetadata(0, 0, (), (operator.metadata,)))
    return sum({use.handle: use.handle.size for use in uses}.values())


def operator_card(operator: Operator) -> Card:
    """Return an operator with its states."""
    states = operator.states
    facts = [("parallelism", f"{operator.parallelism} of {operator.max_parallelism}")]
    facts.append(("bytes", human_bytes(stored_bytes(operator))))
    if operator.display != operator.operator_id:
        facts.append(("id", operator.operator_id))
    if operator.name and operator.name != operator.uid:
        facts.insert(0, ("name", operator.name))
    if operator.uid is None and operator.label:
        facts.insert(0, ("seems to be", operator.label))
    if operator.coordinator is not None:
        facts.append(("coordinator", str(operator.coordinator["kind"])))
    problems = [str(problem) for problem in operator.problems]
    omitted = len(states) - MOST_ROWS
    return Card(
        title=short(operator.display),
        kind="operator",
        facts=[(name, short(text)) for name, text in facts],
        problems=problems[:_MOST_PROBLEMS],
        heads=[Head("state"), Head("kind"), Head("key"), Head("value")],
        rows=[_row(state) for state in states[:MOST_ROWS]],
        notes=[f"and {counted(omitted, 'state')} more"] if omitted > 0 else [],
    )


def _row(state: State) -> list[CardCell]:
    notes = (["ttl"] if state.ttl else []) + (["unreadable"] if state.problem is not None else [])
    namespace = f"@ {short(state.namespace_type)}" if state.namespace_type else ""
    return [
        CardCell(short(state.name), strong=True),
        CardCell(_kind(state), note=" · ".join(notes), style=state_style(state.kind, state.distribution)),
        CardCell(short(state.key_type), note=namespace, code=True),
        CardCell(short(state.value_type), code=True),
    ]


def _kind(state: State) -> str:
    return f"{state.distribution} {state.kind}" if state.distribution in ("split", "union") else state.kind


def state_card(state: State) -> Card:
    """Return a state with the tree of its columns."""
    facts = [("operator", state.operator.display)]
    for name, text in (
        ("key", state.key_type),
        ("namespace", state.namespace_type),
        ("value", state.value_type),
        ("time to live", "yes" if state.ttl else None),
        ("bytes", _bytes(state)),
    ):
        if text:
            facts.append((name, text))
    problem = state.problem
    return Card(
        title=short(state.name),
        kind=f"{_kind(state)} state" if "timers" not in state.kind else "of one operator",
        facts=[(name, short(text)) for name, text in facts],
        problems=[] if problem is None else [str(problem)],
        columns=() if problem is not None else type_tree(state.schema()),
    )


def _bytes(state: State) -> str | None:
    try:
        return None if state.bytes is None else human_bytes(state.bytes)
    except SnapshotError:
        return None  # the file is missing or damaged; reading it reports that
