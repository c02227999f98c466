"""Changes of the time to live of keyed states."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from stateproc.writers.changes.change_definition import change_field
from stateproc.writers.changes.field_types import DURATION, MOMENT, TEXT, TEXTS
from stateproc.writers.changes.operator_changes import UID

if TYPE_CHECKING:
    from stateproc.writers.savepoint_writer import SavepointWriter


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
