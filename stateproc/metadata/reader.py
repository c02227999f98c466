"""Read ``_metadata`` V2 to V7 (Flink's Checkpoints and MetadataV2V3SerializerBase)."""

from __future__ import annotations

from typing import Literal, cast

from stateproc.metadata.keyed_handles import KeyedHandle, read_keyed_handle
from stateproc.metadata.operator_handles import (
    ChannelStateHandle,
    Direction,
    OperatorHandle,
    read_channel_handle,
    read_operator_handle,
)
from stateproc.metadata.snapshot import CheckpointProperties, MasterState, OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.metadata.stream_handles import TAKE_AGAIN, ByteStreamHandle, read_stream_handle
from stateproc.wire.cursor import Cursor
from stateproc.wire.java_stream import JavaEnum, JavaObject, JavaValue, read_java_object
from stateproc.wire.output import MAX_KEY_GROUPS, Output

# Read and write CheckpointProperties, the Java object at the end of ``_metadata`` since V4.

_NULL = bytes.fromhex("aced000570")
_CLASS = "org.apache.flink.runtime.checkpoint.CheckpointProperties"


def read_properties(cursor: Cursor) -> CheckpointProperties | None:
    """Read the properties; None where Flink wrote null. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    value = read_java_object(cursor)
    if value is None:
        return None
    if not isinstance(value, JavaObject) or value.class_name != _CLASS:
        cursor.corrupt("another object where the checkpoint properties are expected", at=at, advice=TAKE_AGAIN)
    kind = value.fields.get("checkpointType")
    return CheckpointProperties(
        is_savepoint=_is_savepoint(kind),
        format=_format(kind),
        name=_name(kind),
        flags={name: flag for name, flag in value.fields.items() if isinstance(flag, bool)},
        raw=bytes(cursor.data[at : cursor.pos]),
    )


def write_properties(out: Output, properties: CheckpointProperties | None) -> None:
    """Write what :func:`read_properties` reads: the bytes that Flink wrote, else a null object.

    Restoring does not need them (Checkpoints.loadAndValidateCheckpoint); Flink's own SavepointWriter writes null.
    """
    out.raw(properties.raw if properties is not None and properties.raw else _NULL)


def _is_savepoint(kind: JavaValue) -> bool | None:
    """SavepointType or CheckpointType; before 1.15 an enum, with constants like SYNC_SAVEPOINT."""
    if isinstance(kind, JavaEnum):
        return "SAVEPOINT" in kind.constant
    if isinstance(kind, JavaObject):
        return kind.class_name.rpartition(".")[2] == "SavepointType"
    return None


def _format(kind: JavaValue) -> Literal["CANONICAL", "NATIVE"] | None:
    found = kind.fields.get("formatType") if isinstance(kind, JavaObject) else None
    if isinstance(found, JavaEnum) and found.constant in ("CANONICAL", "NATIVE"):
        return cast(Literal["CANONICAL", "NATIVE"], found.constant)
    return None


def _name(kind: JavaValue) -> str | None:
    if isinstance(kind, JavaEnum):
        return kind.constant
    name = kind.fields.get("name") if isinstance(kind, JavaObject) else None
    return name if isinstance(name, str) else None


MAGIC = 0x4960672D
MASTER_STATE_MAGIC = 0xC96B1696
FIRST_VERSION, LAST_VERSION = 2, 7
CHECKPOINT_ID_BYTES = 16
"""Magic number, version and checkpoint id, with which every ``_metadata`` begins."""
MOST_BYTES = 2 << 30
"""No larger file is read: Flink cannot hold it in memory either."""


def read_metadata(data: bytes | memoryview, *, file: str) -> SnapshotMetadata:
    """Parse the bytes of a ``_metadata`` file; ``file`` names it in errors.

    Raises CorruptSnapshot for anything but a complete and consistent file, trailing bytes included, and
    UnsupportedSnapshot for versions and handle types that are older or newer than V2 to V7.
    """
    cursor = Cursor(data, file=file)
    version, checkpoint_id = _header(cursor), _checkpoint_id(cursor)
    master_states = tuple(_master_state(cursor) for _ in range(cursor.count("master states", 8)))
    operators = tuple(_operator(cursor, version) for _ in range(cursor.count("operators", 28)))
    properties = read_properties(cursor) if version >= 4 else None
    cursor.finish("the snapshot's metadata")
    return SnapshotMetadata(version, checkpoint_id, master_states, operators, properties)


def read_checkpoint_id(data: bytes, *, file: str) -> int:
    """Return the checkpoint id from the first ``CHECKPOINT_ID_BYTES`` of a ``_metadata``; raises as `read_metadata`."""
    cursor = Cursor(data, file=file)
    _header(cursor)
    return _checkpoint_id(cursor)


def _checkpoint_id(cursor: Cursor) -> int:
    at = cursor.pos
    checkpoint_id = cursor.i64()
    if checkpoint_id < 0:
        cursor.corrupt(f"negative checkpoint id {checkpoint_id}", at=at, advice=TAKE_AGAIN)
    return checkpoint_id


def _header(cursor: Cursor) -> int:
    """Magic number and version."""
    if cursor.remaining < 8 or cursor.i32() & 0xFFFFFFFF != MAGIC:
        cursor.corrupt(
            f"not a _metadata file: it does not start with {MAGIC:08X}",
            at=0,
            advice="give the snapshot's directory or its _metadata file; an empty file means that the "
            "snapshot was never completed",
        )
    version = cursor.i32()
    if FIRST_VERSION <= version <= LAST_VERSION:
        return version
    advice = {
        1: "Flink 1.1 and 1.2 wrote it; restore it in Flink 1.3 to 1.7 and take a new savepoint there",
    }.get(version, "a newer Flink may have written it, then a newer stateproc is needed; or the file is damaged")
    cursor.unsupported(
        f"_metadata version {version} (known are {FIRST_VERSION} to {LAST_VERSION})", at=4, advice=advice
    )


def _master_state(cursor: Cursor) -> MasterState:
    at = cursor.pos
    if cursor.i32() & 0xFFFFFFFF != MASTER_STATE_MAGIC:
        cursor.corrupt("a master state does not start with its magic number", at=at, advice=TAKE_AGAIN)
    length = cursor.count("bytes of a master state")
    inner = Cursor(cursor.data, file=cursor.file, base=cursor.base, pos=cursor.pos, end=cursor.pos + length)
    version, name, payload = inner.i32(), inner.utf(), inner.bytes32()
    inner.finish("a master state")
    cursor.pos = inner.pos
    return MasterState(name, version, payload)


def _operator(cursor: Cursor, version: int) -> OperatorEntry:
    name = cursor.utf() if version >= 5 else ""
    uid = cursor.utf() if version >= 5 else ""
    operator_id = bytes(cursor.take(16, "an operator id")).hex()
    at = cursor.pos
    parallelism, max_parallelism = cursor.i32(), cursor.i32()
    if not 0 <= parallelism <= max_parallelism <= MAX_KEY_GROUPS:
        cursor.corrupt(
            f"operator {operator_id} of parallelism {parallelism} with maximum {max_parallelism}",
            at=at,
            advice=TAKE_AGAIN,
        )
    coordinator = _coordinator(cursor, version)
    subtasks = _subtasks(cursor, version, parallelism, max_parallelism)
    return OperatorEntry(
        operator_id=operator_id,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        name=name or None,
        uid=uid or None,
        coordinator=coordinator,
        subtasks=subtasks or (),
        finished=subtasks is None,
    )


def _coordinator(cursor: Cursor, version: int) -> ByteStreamHandle | None:
    """The coordinator's state, always inline; V2 has the unused chain length there."""
    if version == 2:
        cursor.i32()
        return None
    at = cursor.pos
    handle = read_stream_handle(cursor)
    if handle is not None and not isinstance(handle, ByteStreamHandle):
        cursor.corrupt("coordinator state that is not inside _metadata", at=at, advice=TAKE_AGAIN)
    return handle


def _subtasks(cursor: Cursor, version: int, parallelism: int, max_parallelism: int) -> tuple[SubtaskState, ...] | None:
    """The subtasks' states; None if the operator had finished (V3+, count -1)."""
    at = cursor.pos
    if version >= 3:
        if cursor.i32() == -1:
            return None
        cursor.pos = at
    count = cursor.count("subtask states", 4)
    if count > parallelism:
        cursor.corrupt(f"{count} subtasks at parallelism {parallelism}", at=at, advice=TAKE_AGAIN)
    subtasks: list[SubtaskState] = []
    seen: set[int] = set()
    for _ in range(count):
        at = cursor.pos
        index = cursor.i32()
        finished = version >= 3 and index < 0
        index = -(index + 1) if finished else index
        if not 0 <= index < parallelism or index in seen:
            cursor.corrupt(f"subtask index {index} at parallelism {parallelism}, or twice", at=at, advice=TAKE_AGAIN)
        seen.add(index)
        state = SubtaskState(index, finished=True) if finished else _subtask(cursor, version, index)
        _check_key_groups(cursor, state, max_parallelism, at)
        subtasks.append(state)
    return tuple(subtasks)


def _subtask(cursor: Cursor, version: int, index: int) -> SubtaskState:
    if version == 2:
        _legacy_state(cursor)
    return SubtaskState(
        index=index,
        managed_operator=_optional_operator(cursor),
        raw_operator=_optional_operator(cursor),
        managed_keyed=read_keyed_handle(cursor),
        raw_keyed=read_keyed_handle(cursor),
        input_channels=_channels(cursor, version, "in") if version >= 3 else (),
        output_channels=_channels(cursor, version, "out") if version >= 3 else (),
        reused_from=_reference(cursor) if version >= 7 else None,
    )


def _reference(cursor: Cursor) -> int | None:
    """V7: whether the state is of another checkpoint, a byte, and that checkpoint's id (MetadataV7Serializer)."""
    at = cursor.pos
    present = cursor.u8()
    if present not in (0, 1):
        cursor.corrupt(f"{present} where 0 or 1 says if state is of another checkpoint", at=at, advice=TAKE_AGAIN)
    return cursor.i64() if present else None


def _legacy_state(cursor: Cursor) -> None:
    """V2: an unused duration, and the number of legacy (Flink 1.1) states."""
    cursor.i64()
    at = cursor.pos
    if cursor.i32() != 0:
        cursor.unsupported(
            "legacy state of Flink 1.1",
            at=at,
            advice="restore it in Flink 1.3 and take a new savepoint there",
        )


def _optional_operator(cursor: Cursor) -> OperatorHandle | None:
    at = cursor.pos
    present = cursor.i32()
    if present not in (0, 1):
        cursor.corrupt(f"{present} operator state handles where one at most can be", at=at, advice=TAKE_AGAIN)
    return read_operator_handle(cursor) if present else None


def _channels(cursor: Cursor, version: int, direction: Direction) -> tuple[ChannelStateHandle, ...]:
    count = cursor.count("channel state handles", 14)
    return tuple(read_channel_handle(cursor, version, direction) for _ in range(count))


def _check_key_groups(cursor: Cursor, state: SubtaskState, max_parallelism: int, at: int) -> None:
    handles: tuple[KeyedHandle | None, ...] = (state.managed_keyed, state.raw_keyed)
    for handle in handles:
        if handle is not None and handle.key_groups.stop > max_parallelism:
            cursor.corrupt(
                f"key groups up to {handle.key_groups.stop - 1} in subtask {state.index} of an operator "
                f"with {max_parallelism} key groups",
                at=at,
                advice=TAKE_AGAIN,
            )
