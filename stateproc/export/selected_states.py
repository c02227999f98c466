"""Select the states to export, and open them as they are exported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from stateproc.errors import SnapshotError, not_found
from stateproc.export.manifest import ExportedState, ExportSettings
from stateproc.model.operator import Operator
from stateproc.model.operator_state import opened_state
from stateproc.model.state import State


class ExportItem(ABC):
    """What becomes one folder of an export."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of its folders, from outside in."""

    @abstractmethod
    def described(self) -> ExportedState:
        """Return its entry of a manifest, without files."""


@dataclass(frozen=True)
class SelectedState(ExportItem):
    """A state of an operator."""

    operator: Operator
    state: State

    @property
    def names(self) -> tuple[str, ...]:
        return self.operator.display, self.state.name

    def opened(self, settings: ExportSettings) -> State:
        """Return the state as it is exported. Raises SnapshotError."""
        state = self.state.with_temporal(settings.temporal)
        return state if settings.raw else opened_state(state)

    def described(self) -> ExportedState:
        state = self.state
        return ExportedState(
            self.operator.display,
            self.operator.operator_id,
            state.name,
            state.kind,
            state.distribution,
            state.key_type,
            state.namespace_type,
            state.value_type,
            state.ttl,
        )


@dataclass(frozen=True)
class SelectedTable(ExportItem):
    """A small table about the whole snapshot, such as its Kafka offsets.

    Attributes:
        name: Its name.
        make: Reads it. Raises SnapshotError.
    """

    name: str
    make: Callable[[], pa.Table]

    @cached_property
    def table(self) -> pa.Table:
        """The table. Raises SnapshotError."""
        return self.make()

    @property
    def is_empty(self) -> bool:
        """Whether it has no rows; False if that cannot be found out."""
        try:
            return not len(self.table)
        except SnapshotError:
            return False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def described(self) -> ExportedState:
        return ExportedState(None, None, self.name, "table", "snapshot")


@dataclass(frozen=True)
class StateChoice:
    """The selected states, and why headers of their operators cannot be read."""

    states: tuple[SelectedState, ...]
    problems: tuple[SnapshotError, ...]


def selected_states(
    operators: Sequence[Operator],
    find: Callable[[str], Operator],
    uids: Iterable[str] | None,
    names: Iterable[str] | None,
) -> StateChoice:
    """Select states by the names of operators and states; None selects all.

    Args:
        operators: All operators of the snapshot.
        find: Finds an operator by uid, uid hash or name.
        uids: The operators.
        names: The names of states; each must be one of a selected operator.

    Raises:
        NotFound: There is no such operator or state.
    """
    chosen = operators if uids is None else [find(uid) for uid in uids]
    wanted = None if names is None else list(dict.fromkeys(names))
    found = [
        SelectedState(operator, state)
        for operator in chosen
        for state in operator.states
        if wanted is None or state.name in wanted
    ]
    missing = set(wanted or ()) - {item.state.name for item in found}
    for name in wanted or ():
        if name in missing:
            raise not_found("state", name, (state.name for operator in chosen for state in operator.states))
    return StateChoice(tuple(found), tuple(error for operator in chosen for error in operator.problems))
