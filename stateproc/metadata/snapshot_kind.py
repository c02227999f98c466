"""Find out what kind of snapshot a ``_metadata`` describes."""

from __future__ import annotations

from stateproc.metadata.handles import CANONICAL_TYPE, KeyGroupsHandle
from stateproc.metadata.snapshot import SnapshotMetadata

CHECKPOINT = "checkpoint"
CANONICAL_SAVEPOINT = "canonical savepoint"
SAVEPOINT_OR_CHECKPOINT = "savepoint or checkpoint"


def snapshot_kind(metadata: SnapshotMetadata) -> str:
    """Return canonical savepoint, native savepoint, checkpoint, or savepoint or checkpoint.

    ``_metadata`` contains it from Flink 1.16 on. Without it the type of the handles decides where it can: no state file
    is read.
    """
    properties = metadata.properties
    if properties is not None and properties.is_savepoint is not None:
        return f"{(properties.format or 'canonical').lower()} savepoint" if properties.is_savepoint else CHECKPOINT
    types = {
        handle.type_byte if isinstance(handle, KeyGroupsHandle) else None
        for operator in metadata.operators
        for subtask in operator.subtasks
        if (handle := subtask.managed_keyed) is not None
    }
    return CANONICAL_SAVEPOINT if types == {CANONICAL_TYPE} else SAVEPOINT_OR_CHECKPOINT
