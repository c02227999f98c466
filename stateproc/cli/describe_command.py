"""``stateproc describe``: show the types of states in Flink, Arrow and Spark, and what conversion loses."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.exit_status import YES
from stateproc.errors import NotFound
from stateproc.model.operator import Operator
from stateproc.model.state import State
from stateproc.options import SELECT_OPTIONS, Interface
from stateproc.snapshot.selection import StateSelection, select_operator, select_state


def describe_command(arguments: Namespace) -> int:
    """Print descriptions of states, as text or as JSON; return the exit status."""
    selection = StateSelection.of(option_values(arguments, SELECT_OPTIONS), Interface.CLI)
    snapshot = open_snapshot(arguments, arguments.temporal or "micros")
    operator = select_operator(snapshot, selection)
    described = [state.describe() for state in _states(operator, selection)]
    if arguments.json:
        report = {
            "path": snapshot.path,
            "uid": operator.uid,
            "uid_hash": operator.operator_id,
            "name": operator.name,
            "label": operator.label,
            "states": [item.to_dict() for item in described],
        }
        json.dump(report, sys.stdout, ensure_ascii=False, indent=2)
        print()
        return YES
    from stateproc.cli.render.describe_view import description_view
    from stateproc.cli.render.terminal import show

    show(description_view(operator, described))
    return YES


def _states(operator: Operator, selection: StateSelection) -> Sequence[State]:
    if selection.state is None and selection.timers is None and selection.operator_state is None:
        if not operator.states:
            if operator.problems:
                raise operator.problems[0]
            raise NotFound(f"operator '{operator.display}' has no states")
        return operator.states
    return (select_state(operator, selection),)
