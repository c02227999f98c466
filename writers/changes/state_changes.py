"""Changes of states of an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateproc.writers.changes.change_definition import change_field
from stateproc.writers.changes.field_types import TEXT, TEXTS
from stateproc.writers.changes.operator_changes import UID

if TYPE_CHECKING:
    from stateproc.writers.savepoint_writer import SavepointWriter


@dataclass(frozen=True)
class DropState:
    """Leave out keyed states of an operator."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a keyed state to leave out; of timers the name of their queue")

    def apply(self, writer: SavepointWriter) -> None:
        """Leave out the states. Raises NotFound."""
        for state in self.state:
            writer.drop_state(self.uid, state)


@dataclass(frozen=True)
class RenameState:
    """Rename a keyed state of an operator."""

    uid: str = change_field(TEXT, UID)
    state: str = change_field(TEXT, "the state's name in the snapshot")
    to: str = change_field(TEXT, "its name in the job that restores the savepoint")

    def apply(self, writer: SavepointWriter) -> None:
        """Rename the state. Raises NotFound."""
        writer.rename_state(self.uid, self.state, self.to)
