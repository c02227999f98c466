"""Changes of operators and of their states: dropped, renamed, emptied; times to live."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from stateproc.writers.changes.change_definition import DURATION, MOMENT, TEXT, TEXTS, change_field

if TYPE_CHECKING:
    from stateproc.writers.savepoint_writer import SavepointWriter

UID = "the operator: its uid, or its uid hash"


@dataclass(frozen=True)
class RenameOperator:
    """Give an operator another uid."""

    uid: str = change_field(TEXT, UID)
    to: str = change_field(TEXT, "its uid, or uid hash, in the job that restores the savepoint")

    def apply(self, writer: SavepointWriter) -> None:
        """Rename the operator. Raises NotFound; InvalidOption if there is one of the new uid."""
        writer.change_operator_identifier(self.uid, self.to)


@dataclass(frozen=True)
class DropOperator:
    """Leave out operators and all their state."""

    uid: tuple[str, ...] = change_field(TEXTS, "an operator to leave out: its uid, or its uid hash")

    def apply(self, writer: SavepointWriter) -> None:
        """Leave out the operators. Raises NotFound."""
        for uid in self.uid:
            writer.remove_operator(uid)


@dataclass(frozen=True)
class DropInFlightData:
    """Drop the records in flight of an unaligned checkpoint."""

    def apply(self, writer: SavepointWriter) -> None:
        """Drop the records, which are lost then."""
        writer.drop_in_flight_data()


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


@dataclass(frozen=True)
class EnableTtl:
    """Enable the time to live of states. The duration is set in the job."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a keyed state without time to live")
    last_access: int | None = change_field(
        MOMENT, "the time of the last access of all entries; default now", default=None
    )

    def apply(self, writer: SavepointWriter) -> None:
        """Enable the time to live. Raises NotFound, InvalidOption."""
        for state in self.state:
            writer.enable_ttl(self.uid, state, self.last_access)


@dataclass(frozen=True)
class DisableTtl:
    """Disable the time to live of states; expired entries become valid again."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a keyed state with time to live")

    def apply(self, writer: SavepointWriter) -> None:
        """Disable the time to live. Raises NotFound, InvalidOption."""
        for state in self.state:
            writer.disable_ttl(self.uid, state)


@dataclass(frozen=True)
class PurgeExpired:
    """Drop expired entries of states with time to live."""

    uid: str = change_field(TEXT, UID)
    state: tuple[str, ...] = change_field(TEXTS, "a keyed state with time to live")
    ttl: timedelta = change_field(DURATION, "entries expire so long after their last access, e.g. '7 d'")
    now: int | None = change_field(MOMENT, "the time of comparison; default now", default=None)

    def apply(self, writer: SavepointWriter) -> None:
        """Drop the expired entries. Raises NotFound, InvalidOption."""
        for state in self.state:
            writer.purge_expired(self.uid, state, self.ttl, self.now)
