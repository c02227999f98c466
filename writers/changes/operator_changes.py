"""Changes of whole operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateproc.writers.changes.change_definition import change_field
from stateproc.writers.changes.field_types import TEXT, TEXTS

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
