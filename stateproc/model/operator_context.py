"""What the states of an operator share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stateproc.errors import SnapshotError
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.state_names import OperatorNames
from stateproc.storage import SnapshotLocation

if TYPE_CHECKING:
    from stateproc.operator_names.given_names import SnapshotNames


@dataclass(frozen=True)
class OperatorContext:
    """The operator to which a state belongs, and how its snapshot is read.

    Attributes:
        operator_id: The uid hash, 32 hex digits.
        known_uid: The uid in ``_metadata`` or that was given, else None.
        location: Where the snapshot is.
        options: How states are decoded.
        max_parallelism: The number of key groups.
        metadata_version: The version of ``_metadata``, on which Java's hash codes of some key types depend.
        naming: Finds names of operators without a uid.
        row_names: Names for the fields of SQL rows, from the plan of the query; None without one.
    """

    operator_id: str
    known_uid: str | None
    location: SnapshotLocation
    options: ReadOptions
    max_parallelism: int
    metadata_version: int
    naming: SnapshotNames | None = field(default=None, compare=False, repr=False)
    row_names: OperatorNames | None = None

    @property
    def uid_or_id(self) -> str:
        """The uid if it is known without a search, else the id: for what is made for each read."""
        return self.known_uid or self.operator_id

    @property
    def display(self) -> str:
        """What people know the operator by: its uid, also if the table planner generated it, else its id."""
        return self.known_uid or self._planner_uid or self.operator_id

    @property
    def _planner_uid(self) -> str | None:
        return self.naming.planner_uid(self.operator_id) if self.naming else None

    def named(self, error: SnapshotError) -> SnapshotError:
        """Return an error with the operator's uid in place of its id, if one can be found that was not known yet."""
        if self.known_uid or error.where.operator != self.operator_id:
            return error
        uid = self._planner_uid
        if uid is None:
            return error
        return type(error)(error.message, where=replace(error.where, operator=uid), advice=error.advice)
