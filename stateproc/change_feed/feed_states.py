"""Find one state in several snapshots of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from stateproc.diff.structure import check_names
from stateproc.errors import InvalidOption, NotFound
from stateproc.metadata import OperatorState
from stateproc.model.operator import Operator
from stateproc.model.state import State
from stateproc.options import BY_NAME
from stateproc.snapshot.selection import (
    StateSelection,
    select_operator,
    select_state,
    state_choice,
    state_option,
)
from stateproc.snapshot.snapshot import Snapshot


def states_of(snapshots: Sequence[Snapshot], selection: StateSelection) -> list[State | None]:
    """Return the selected state in each snapshot, undecoded; None where a snapshot does not have it.

    Args:
        snapshots: Snapshots of one job, at least one.
        selection: An operator, by uid, uid hash or name; a state of it, which may be omitted if it has only one.

    Raises:
        NotFound: No snapshot has this operator or state; the error names those of the newest snapshot.
        InvalidOption: The selection is ambiguous, or names no single state.
        SnapshotError: A file that may declare the state cannot be read.
    """
    if selection.table is not None:
        raise InvalidOption("metadata tables have no change feed", advice="select a state")
    operators = _operators(snapshots, selection)
    present = [item for item in operators if item is not None]
    for one, two in pairwise(present):
        check_names(one, two)
    chosen = _with_state(present[-1], selection)
    found = [None if operator is None else _state(operator, chosen) for operator in operators]
    if not any(found):
        select_state(present[-1], chosen)  # raises NotFound
    return found


def check_same_job(snapshots: Sequence[Snapshot]) -> None:
    """Raise InvalidOption if two neighbours have no operator with state in common: they are of different jobs."""
    for one, two in pairwise(snapshots):
        pair = one.metadata.operators, two.metadata.operators
        stateful, every = (
            [{item.operator_id for item in items if keep(item)} for items in pair] for keep in (_has_state, bool)
        )
        if all(stateful) and stateful[0].isdisjoint(every[1]) and stateful[1].isdisjoint(every[0]):
            raise InvalidOption(
                f"{one.path} and {two.path} have no operator in common: they are of different jobs",
                advice="compare snapshots of one job; operators are matched by the hash of their uid, which must "
                "not change",
            )


def _has_state(operator: OperatorState) -> bool:
    """Whether an operator has state. Ids of others may be those of another job, as they follow from its graph."""
    return operator.coordinator is not None or any(
        item.managed_keyed or item.managed_operator or item.raw_keyed or item.raw_operator for item in operator.subtasks
    )


def _operators(snapshots: Sequence[Snapshot], selection: StateSelection) -> list[Operator | None]:
    """Return the operator in each snapshot. One that is selected by its name is the same by its id in all of them."""
    newest_first = list(reversed(snapshots))
    named: Operator | None = None
    for snapshot in newest_first:
        try:
            named = select_operator(snapshot, selection)
            break
        except NotFound:
            continue
    if named is None:
        select_operator(newest_first[0], selection)  # raises NotFound
        raise AssertionError
    return [_same_operator(snapshot, named) for snapshot in snapshots]


def _same_operator(snapshot: Snapshot, named: Operator) -> Operator | None:
    if all(item.operator_id != named.operator_id for item in snapshot.metadata.operators):
        return None
    return snapshot.operator(named.known_uid or named.operator_id)


def _with_state(operator: Operator, selection: StateSelection) -> StateSelection:
    """Return the selection with the only state of the operator, if it selects none."""
    if selection.state is not None or selection.operator_state is not None or selection.timers is not None:
        return selection
    states = operator.states
    if len(states) == 1:
        option, value = state_option(states[0])
        only: Any = {option: value}
        return replace(selection, namespace=None, **only)
    if not states and operator.problems:
        raise operator.problems[0]
    name = BY_NAME["state"].spelled(selection.interface)
    lines = "\n".join(f"      {state_choice(state, selection.interface)}" for state in states)
    raise InvalidOption(
        f"a change feed is one of a single state: {name} is missing for operator '{operator.display}'",
        advice=f"one of:\n{lines}" if lines else "the operator has no state",
    )


def _state(operator: Operator, selection: StateSelection) -> State | None:
    """Return the state; None if the operator does not have it. Raises SnapshotError if that cannot be known."""
    try:
        return select_state(operator, selection)
    except NotFound:
        if operator.problems:
            raise operator.problems[0] from None
        return None
