"""Write ``_metadata`` V3 to V7 (the inverse of ``reader``; Flink's Checkpoints and MetadataV3Serializer and later)."""

from __future__ import annotations

from stateproc.errors import InvalidOption
from stateproc.metadata.keyed_handles import write_keyed_handle
from stateproc.metadata.operator_handles import OperatorHandle, write_channel_handle, write_operator_handle
from stateproc.metadata.reader import LAST_VERSION, MAGIC, MASTER_STATE_MAGIC, write_properties
from stateproc.metadata.snapshot import MasterState, OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.metadata.stream_handles import write_stream_handle
from stateproc.wire.output import Output

FIRST_VERSION = 3
"""The oldest version written: Flink 1.11 and newer read it. (V2 knows neither relative files nor coordinators.)"""


def write_metadata(metadata: SnapshotMetadata, version: int) -> bytes:
    """Serialize ``metadata`` as a ``_metadata`` file of ``version`` (3 to 7).

    Fields that a version lacks are omitted: names and uids of operators below V5. Properties are kept only at the
    version they were read at, else written as null: a Java object of one release may not load in another.

    Raises InvalidOption for another version, UnsupportedSnapshot for channel state that the version cannot hold.
    """
    if not FIRST_VERSION <= version <= LAST_VERSION:
        raise InvalidOption(
            f"_metadata of version {version} cannot be written",
            advice=f"give a version from {FIRST_VERSION} to {LAST_VERSION}; "
            "Release.metadata_version is the version that a Flink release writes",
        )
    out = Output()
    out.raw(MAGIC.to_bytes(4, "big"))
    out.i32(version)
    out.i64(metadata.checkpoint_id)
    out.i32(len(metadata.master_states))
    for state in metadata.master_states:
        _master_state(out, state)
    out.i32(len(metadata.operators))
    for operator in metadata.operators:
        _operator(out, operator, version)
    if version >= 4:
        write_properties(out, metadata.properties if version == metadata.version else None)
    return bytes(out)


def _master_state(out: Output, state: MasterState) -> None:
    inner = Output()
    inner.i32(state.version)
    inner.utf(state.name)
    inner.bytes32(state.payload)
    out.raw(MASTER_STATE_MAGIC.to_bytes(4, "big"))
    out.bytes32(bytes(inner))


def _operator(out: Output, operator: OperatorEntry, version: int) -> None:
    if version >= 5:
        out.utf(operator.name or "")
        out.utf(operator.uid or "")
    out.raw(bytes.fromhex(operator.operator_id))
    out.i32(operator.parallelism)
    out.i32(operator.max_parallelism)
    write_stream_handle(out, operator.coordinator)
    if operator.finished:
        out.i32(-1)
        return
    out.i32(len(operator.subtasks))
    for subtask in operator.subtasks:
        if subtask.finished:
            out.i32(-(subtask.index + 1))
        else:
            out.i32(subtask.index)
            _subtask(out, subtask, version)


def _subtask(out: Output, subtask: SubtaskState, version: int) -> None:
    _optional_operator(out, subtask.managed_operator)
    _optional_operator(out, subtask.raw_operator)
    write_keyed_handle(out, subtask.managed_keyed)
    write_keyed_handle(out, subtask.raw_keyed)
    for channels in (subtask.input_channels, subtask.output_channels):
        out.i32(len(channels))
        for handle in channels:
            write_channel_handle(out, handle, version)
    if version >= 7:
        out.u8(0 if subtask.reused_from is None else 1)
        if subtask.reused_from is not None:
            out.i64(subtask.reused_from)


def _optional_operator(out: Output, handle: OperatorHandle | None) -> None:
    out.i32(0 if handle is None else 1)
    if handle is not None:
        write_operator_handle(out, handle)
