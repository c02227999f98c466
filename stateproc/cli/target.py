"""Which state of a snapshot a command names."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Iterable

from stateproc.errors import InvalidOption
from stateproc.snapshot.operator import Operator
from stateproc.snapshot.snapshot import Snapshot
from stateproc.snapshot.state import State


def chosen_operator(snapshot: Snapshot, arguments: Namespace) -> Operator:
    """The operator of ``--uid`` or ``--uid-hash``; without either the only one there is."""
    wanted = arguments.uid or arguments.uid_hash
    if wanted is not None:
        return snapshot.operator(wanted)
    with_state = [operator for operator in snapshot.operators if operator.states]
    if len(with_state) == 1:
        return with_state[0]
    raise InvalidOption(
        "which operator?",
        advice="--uid or --uid-hash; there are:\n" + _listed(operator_label(item) for item in with_state),
    )


def chosen_state(operator: Operator, arguments: Namespace) -> State:
    """The state of ``--state``, ``--timers`` or ``--operator-state``.

    Without any the only one there is, or all keyed states of the operator as one table.
    """
    if arguments.timers:
        return operator.timers(arguments.timers)
    if arguments.operator_state is not None:
        return operator.operator_state(arguments.operator_state)
    if arguments.state is not None:
        return operator.state(arguments.state)
    if len(operator.states) == 1:
        return operator.states[0]
    if operator.keyed_states:
        return operator.wide()
    if not operator.states and operator.problems:
        raise operator.problems[0]
    raise InvalidOption(
        f"which state of operator '{operator.display}'?",
        advice="one of:\n" + _listed(_flag(state) for state in operator.states) if operator.states else "it has none",
    )


def operator_label(operator: Operator) -> str:
    """How the operator is named on the command line."""
    return f"--uid {shlex.quote(operator.uid)}" if operator.uid else f"--uid-hash {operator.operator_id}"


def _flag(state: State) -> str:
    if state.kind.endswith(" timers"):
        return f"--timers {state.kind.split()[0]}"
    return f"--{'state' if state.distribution == 'keyed' else 'operator-state'} {shlex.quote(state.name)}"


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"      {line}" for line in lines)
