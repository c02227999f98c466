"""Read and write ``_metadata`` V2 to V7 as frozen dataclasses: snapshot, operators, subtasks, state handles.

State file headers are here as well (``backend``). May import wire and serializers.
"""

from stateproc.metadata.reader import CHECKPOINT_ID_BYTES, read_checkpoint_id, read_metadata
from stateproc.metadata.snapshot import CheckpointProperties, MasterState, OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.metadata.snapshot_kind import flink_version_range, snapshot_kind
from stateproc.metadata.walk import file_bytes, walk_stream_handles

__all__ = [
    "CHECKPOINT_ID_BYTES",
    "CheckpointProperties",
    "MasterState",
    "OperatorEntry",
    "SnapshotMetadata",
    "SubtaskState",
    "file_bytes",
    "flink_version_range",
    "read_checkpoint_id",
    "read_metadata",
    "snapshot_kind",
    "walk_stream_handles",
]
