"""``stateproc completion``: print the code that makes a shell complete the arguments of ``stateproc``."""

from __future__ import annotations

import warnings
from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import argcomplete
from argcomplete.completers import SuppressCompleter
from argcomplete.shell_integration import shellcode

from stateproc.cli.arguments import open_snapshot
from stateproc.cli.exit_status import YES
from stateproc.errors import SnapshotError

if TYPE_CHECKING:
    from stateproc.model.operator import Operator
    from stateproc.snapshot.snapshot import Snapshot


def completion_command(arguments: Namespace) -> int:
    """Print the code for the shell; return the exit status."""
    print(shellcode(["stateproc"], shell=arguments.shell))
    return YES


# Complete arguments when a shell asks for it: what ``stateproc completion`` prints runs ``stateproc`` at each Tab.
#
# argcomplete completes commands, options, choices and paths; uids and states are those of the snapshot that is named
# before them. A remote snapshot, or one with very many files, is not opened: that would take longer than typing.

_MAX_SUBTASKS = 2_000
_NO_FILES = frozenset(
    """
    columns drop_transactions ending_checkpoint flink_version hash_function key key_groups key_type kryo last_access
    limit master max_parallelism min_bytes namespace now offsets operator_max_parallelism parallelism path_mapping
    plugins remove rocksdb_options rows sql starting_checkpoint storage_options target_storage_options threads to
    topics ttl uids version where
    """.split()
)
"""Arguments whose values are no paths, which argcomplete would propose."""
_Completer = Callable[..., Iterable[str]]


def complete(parser: ArgumentParser) -> None:
    """Print the completions of the command line in the environment, and exit."""
    for action in _actions(parser):
        completer = COMPLETERS.get(action.dest)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]
        elif action.dest in _NO_FILES and not action.choices:
            action.completer = SuppressCompleter()  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _actions(parser: ArgumentParser) -> Iterator[Action]:
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for command in set(action.choices.values()):
                yield from _actions(command)
        else:
            yield action


def _uids(parsed_args: Namespace, **_: Any) -> list[str]:
    """Return the uids of the snapshot's operators, and the hashes of those without."""
    snapshot = _opened(parsed_args)
    return [] if snapshot is None else [operator.display for operator in snapshot.operators]


def _hashes(parsed_args: Namespace, **_: Any) -> list[str]:
    snapshot = _opened(parsed_args)
    return [] if snapshot is None else [operator.operator_id for operator in snapshot.operators]


def _keyed_states(parsed_args: Namespace, **_: Any) -> list[str]:
    # Names of timer queues are longer than --timers.
    return _states(parsed_args, lambda operator: [state.name for state in operator.states if not state.is_timers])


def _operator_states(parsed_args: Namespace, **_: Any) -> list[str]:
    return _states(parsed_args, lambda operator: [state.name for state in operator.operator_states])


def _states(arguments: Namespace, names_of: Callable[[Operator], list[str]]) -> list[str]:
    """Return the names of states of the operator that is named, else of all."""
    snapshot = _opened(arguments)
    if snapshot is None:
        return []
    named = getattr(arguments, "uid", None) or getattr(arguments, "uid_hash", None)
    uids = named if isinstance(named, list) else [named] if named else []
    try:
        operators = [snapshot.operator(uid) for uid in uids] or list(snapshot.operators)
        if sum(operator.parallelism for operator in operators) > _MAX_SUBTASKS:
            return []
        return list(dict.fromkeys(name for operator in operators for name in names_of(operator)))
    except SnapshotError:
        return []


def _opened(arguments: Namespace) -> Snapshot | None:
    """Open the snapshot that is named on the command line so far; None if that is not cheap or fails."""
    path = getattr(arguments, "path", None)
    if not path or "://" in path:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            snapshot = open_snapshot(arguments, show_note=False)
    except SnapshotError:
        return None
    return snapshot


COMPLETERS: dict[str, _Completer] = {
    "uid": _uids,
    "uid_hash": _hashes,
    "state": _keyed_states,
    "operator_state": _operator_states,
}
"""The name of an argument → what completes its values."""
