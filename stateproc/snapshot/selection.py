"""Select an operator and one of its states, as options of the Spark data source or the command line name them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.model.operator import Operator
from stateproc.model.state import State
from stateproc.options import BY_NAME, SELECT_OPTIONS, Interface
from stateproc.snapshot.snapshot import Snapshot

_STATE_OPTIONS = ("state", "operator_state", "timers", "table")
_SHOWN_STATES = 4


@dataclass(frozen=True)
class StateSelection:
    """What options select: an operator by uid or uid hash, and in it a state, its timers or a metadata table.

    Attributes:
        interface: Where the options were specified; errors spell them accordingly.
    """

    uid: str | None = None
    uid_hash: str | None = None
    state: str | None = None
    operator_state: str | None = None
    timers: str | None = None
    table: str | None = None
    namespace: str | None = None
    interface: Interface = Interface.PYTHON

    @classmethod
    def of(cls, values: Mapping[str, Any], interface: Interface) -> StateSelection:
        """Build a selection from option values by their Python names; other options are ignored.

        Raises:
            InvalidOption: Options exclude each other, or one needs an operator.
        """
        chosen = {option.name: values.get(option.name) for option in SELECT_OPTIONS}
        return cls(**chosen, interface=interface).checked()

    @property
    def operator(self) -> str | None:
        """The uid or uid hash."""
        return self.uid if self.uid is not None else self.uid_hash

    def checked(self) -> StateSelection:
        """Return the selection. Raises InvalidOption if options exclude each other, or one needs an operator."""
        given = [name for name in _STATE_OPTIONS if getattr(self, name) is not None]
        if len(given) > 1:
            raise self._exclusive(given[0], given[1])
        if self.uid is not None and self.uid_hash is not None:
            raise self._exclusive("uid", "uid_hash")
        if self.interface is Interface.SPARK and given and given != ["table"] and self.operator is None:
            raise InvalidOption(
                f"option {self._spelled(given[0])} needs an operator",
                advice=f"give {self._spelled('uid')} or {self._spelled('uid_hash')} as well; without any of them you "
                "get the catalog that names them all",
            )
        if self.namespace is not None and given:
            raise InvalidOption(
                f"option {self._spelled('namespace')} does not go with {self._spelled(given[0])}",
                advice="it chooses among the wide tables of an operator",
            )
        return self

    def _exclusive(self, one: str, two: str) -> InvalidOption:
        return InvalidOption(
            f"options {self._spelled(one)} and {self._spelled(two)} exclude each other", advice="give one of them"
        )

    def _spelled(self, name: str) -> str:
        return BY_NAME[name].spelled(self.interface)


def select_operator(snapshot: Snapshot, selection: StateSelection) -> Operator:
    """Return the operator that is named; without a name the only one that has states.

    Raises:
        NotFound: No operator has that uid, uid hash or name.
        InvalidOption: None is named and several have states.
    """
    if selection.operator is not None:
        return snapshot.operator(selection.operator)
    with_states = [operator for operator in snapshot.operators if operator.states]
    if len(with_states) == 1:
        return with_states[0]
    names = " or ".join(BY_NAME[name].spelled(selection.interface) for name in ("uid", "uid_hash"))
    lines = (operator_choice(operator, selection.interface) for operator in with_states)
    raise InvalidOption("which operator?", advice=f"{names}; available:\n{_listed(lines)}")


def select_state(operator: Operator, selection: StateSelection, *, single: bool = False) -> State:
    """Return the state that is named, undecoded; without a name all keyed states as one wide table.

    Args:
        operator: The operator in which to look.
        selection: Names at most one state.
        single: Without a name, return the only state where the operator has one.

    Raises:
        NotFound: The operator has no such state.
        InvalidOption: None is named, and there are several that cannot be joined.
        SnapshotError: The operator's files cannot be read.
    """
    if selection.timers is not None:
        return operator.timers(selection.timers)
    if selection.operator_state is not None:
        return operator.operator_state(selection.operator_state)
    if selection.state is not None:
        return operator.state(selection.state, raw=True)
    if not single or (operator.keyed_states and len(operator.states) > 1):
        return operator.wide(selection.namespace)
    if len(operator.states) == 1:
        return operator.states[0]
    if not operator.states and operator.problems:
        raise operator.problems[0]
    lines = [state_choice(state, selection.interface) for state in operator.states]
    raise InvalidOption(
        f"which state of operator '{operator.display}'?",
        advice=f"one of:\n{_listed(lines)}" if lines else "it has none",
    )


def state_option(state: State) -> tuple[str, str]:
    """Return the option (Python spelling) that selects ``state`` within its operator, and its value."""
    if state.is_timers:
        return "timers", state.kind.split()[0]
    return ("state" if state.is_keyed else "operator_state"), state.name


def state_choice(state: State, interface: Interface) -> str:
    """Return the option that selects ``state``, as users of ``interface`` write it."""
    return _assignment(*state_option(state), interface)


def operator_choice(operator: Operator, interface: Interface) -> str:
    """Return the option that selects ``operator``, followed by its name, parallelism and states."""
    option = ("uid", operator.uid) if operator.uid else ("uid_hash", operator.operator_id)
    names = [state.name for state in operator.states]
    shown = ", ".join(names[:_SHOWN_STATES]) + (" …" if len(names) > _SHOWN_STATES else "")
    name = operator.name if operator.name != operator.uid else None
    facts = (name or operator.label, f"parallelism {operator.parallelism}", f"states: {shown}" if names else None)
    return f"{_assignment(*option, interface)}  ({'; '.join(item for item in facts if item)})"


def _assignment(name: str, value: str, interface: Interface) -> str:
    spelled = BY_NAME[name].spelled(interface)
    return f"{spelled} {shlex.quote(value)}" if interface is Interface.CLI else f"{spelled}={value!r}"


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"      {line}" for line in lines)
