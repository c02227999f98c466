"""What the states of an operator share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stateproc.readers.common.read_options import ReadOptions
from stateproc.storage import SnapshotLocation


@dataclass(frozen=True)
class OperatorContext:
    """The operator to which a state belongs, and how its snapshot is read.

    Attributes:
        operator_id: The uid hash, 32 hex digits.
        display: What people know the operator by: its uid, else its id.
        location: Where the snapshot is.
        options: How states are decoded.
        max_parallelism: The number of key groups.
        metadata_version: The version of ``_metadata``, on which Java's hash codes of some key types depend.
    """

    operator_id: str
    display: str
    location: SnapshotLocation
    options: ReadOptions
    max_parallelism: int
    metadata_version: int

    def with_temporal(self, temporal: str) -> OperatorContext:
        """Return the context with another representation of dates and times: 'micros' or 'exact'."""
        return replace(self, options=replace(self.options, temporal=temporal))
