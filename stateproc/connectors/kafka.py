"""Kafka connector: splits with their offsets, enumerator state, writer state and committables.

Offsets are numbers as Kafka has them; negative ones are markers of the connector: -1 latest, -2 earliest,
-3 the consumer group's committed offset. A stopping offset of null means that the split is unbounded, a starting
offset of null that the enumerator does not know it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Versioned
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

LATEST, EARLIEST, COMMITTED = -1, -2, -3
_NO_STOPPING_OFFSET = -(1 << 63)
_MIGRATED = -(1 << 63)
"""The starting offset of splits in an enumerator that was restored from a version without offsets."""
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LONGEST_TRANSACTIONAL_ID = 32767


def read_split(cursor: Cursor) -> FormatRow:
    """Read a split: KafkaPartitionSplitSerializer, version 0."""
    row = _read_topic_partition(cursor)
    at = cursor.pos
    starting, stopping = cursor.i64(), cursor.i64()
    if (starting < COMMITTED and starting != _MIGRATED) or (stopping < COMMITTED and stopping != _NO_STOPPING_OFFSET):
        cursor.corrupt(f"offsets {starting} to {stopping} of a Kafka split", at=at)
    return {
        **row,
        "starting_offset": None if starting == _MIGRATED else starting,
        "stopping_offset": None if stopping == _NO_STOPPING_OFFSET else stopping,
    }


def _read_topic_partition(cursor: Cursor) -> FormatRow:
    at = cursor.pos
    topic, partition = cursor.utf(), cursor.i32()
    if not TOPIC.fullmatch(topic) or partition < 0:
        cursor.corrupt(f"no Kafka topic and partition: '{topic[:40]}', {partition}", at=at)
    return {"topic": topic, "partition": partition}


SPLIT = ConnectorFormat(
    name="kafka",
    role=FormatRole.SPLIT,
    arrow_type=pa.struct(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("starting_offset", pa.int64()),
            ("stopping_offset", pa.int64()),
        ]
    ),
    readers={0: read_split},
)


# KafkaSourceEnumStateSerializer. Every version gives the same row: partitions, and whether their first
# discovery is done (null where the version does not store it).


def _read_enumerator_v0(cursor: Cursor) -> FormatRow:
    """Read SerdeUtils.serializeSplitAssignments: splits by subtask."""
    subtasks = cursor.count("subtasks", 8)
    split_version = cursor.i32()
    partitions = []
    for _ in range(subtasks):
        subtask = cursor.i32()
        if subtask < 0:
            cursor.corrupt(f"subtask {subtask}")
        partitions += [
            _partition(_read_wrapped_split(cursor, split_version), assigned=True)
            for _ in range(cursor.count("splits", 4))
        ]
    return _enumerator(cursor, partitions)


def _read_enumerator_v1(cursor: Cursor) -> FormatRow:
    n = cursor.count("partitions", 6)
    partitions = [_partition(_read_topic_partition(cursor), assigned=True) for _ in range(n)]
    return _enumerator(cursor, partitions)


def _read_enumerator_v2(cursor: Cursor) -> FormatRow:
    n = cursor.count("partitions", 10)
    partitions = [_partition(_read_topic_partition(cursor), assigned=_read_assigned(cursor)) for _ in range(n)]
    return _enumerator(cursor, partitions, _read_flag(cursor))


def _read_enumerator_v3(cursor: Cursor) -> FormatRow:
    n = cursor.count("partitions", 8)
    split_version = cursor.i32()
    partitions = []
    for _ in range(n):
        split = _read_wrapped_split(cursor, split_version)
        partitions.append(_partition(split, assigned=_read_assigned(cursor)))
    return _enumerator(cursor, partitions, _read_flag(cursor))


def _read_wrapped_split(cursor: Cursor, version: int) -> FormatRow:
    at = cursor.pos
    row = SPLIT.read(Versioned(version, cursor.bytes32()))
    if row is None:
        cursor.corrupt("not a Kafka split", at=at)
    return row


def _read_assigned(cursor: Cursor) -> bool:
    """Read AssignmentStatus: 0 assigned, 1 not (UNASSIGNED_INITIAL, later UNASSIGNED)."""
    at = cursor.pos
    status = cursor.i32()
    if status not in (0, 1):
        cursor.corrupt(f"assignment status {status}", at=at)
    return status == 0


def _read_flag(cursor: Cursor) -> bool:
    at = cursor.pos
    flag = cursor.u8()
    if flag > 1:
        cursor.corrupt(f"boolean {flag}", at=at)
    return flag == 1


def _partition(row: FormatRow, *, assigned: bool) -> FormatRow:
    return {"starting_offset": None, "stopping_offset": None, **row, "assigned": assigned}


def _enumerator(cursor: Cursor, partitions: list[FormatRow], discovered: bool | None = None) -> FormatRow:
    # A few zero bytes could be any source's: without a partition the format cannot be recognised.
    if not partitions:
        cursor.corrupt("no partition that identifies Kafka")
    return {"partitions": partitions, "initial_discovery_finished": discovered}


ENUMERATOR = ConnectorFormat(
    name="kafka",
    role=FormatRole.ENUMERATOR,
    arrow_type=pa.struct(
        [
            ("partitions", pa.list_(pa.struct([*SPLIT.arrow_type, ("assigned", pa.bool_())]))),
            ("initial_discovery_finished", pa.bool_()),
        ]
    ),
    readers={
        0: _read_enumerator_v0,
        1: _read_enumerator_v1,
        2: _read_enumerator_v2,
        3: _read_enumerator_v3,
    },
)


def _read_writer_v1(cursor: Cursor) -> FormatRow:
    """Read KafkaWriterStateSerializer, version 1: only the prefix."""
    return {
        "transactional_id_prefix": _read_transactional_id(cursor),
        "owned_subtask": None,
        "owned_subtasks": None,
        "transaction_ownership": None,
        "precommitted": None,
    }


_OWNERSHIP = ("IMPLICIT_BY_SUBTASK_ID", "EXPLICIT_BY_WRITER_STATE")


def _read_writer_v2(cursor: Cursor) -> FormatRow:
    """Read KafkaWriterStateSerializer, version 2 (connector 4.0); -1 is unknown."""
    row = _read_writer_v1(cursor)
    at = cursor.pos
    subtask, subtasks, ownership = cursor.i32(), cursor.i32(), cursor.i32()
    if subtask < -1 or subtasks < -1 or not 0 <= ownership < len(_OWNERSHIP):
        cursor.corrupt(f"subtask {subtask} of {subtasks}, transaction ownership {ownership}", at=at)
    transactions = [
        {"transactional_id": _read_transactional_id(cursor), "checkpoint_id": cursor.i64()}
        for _ in range(cursor.count("transactions", 10))
    ]
    return {
        **row,
        "owned_subtask": None if subtask == -1 else subtask,
        "owned_subtasks": None if subtasks == -1 else subtasks,
        "transaction_ownership": _OWNERSHIP[ownership],
        "precommitted": transactions,
    }


def _read_transactional_id(cursor: Cursor) -> str:
    at = cursor.pos
    text = cursor.utf()
    if not text or len(text) > _LONGEST_TRANSACTIONAL_ID or not text.isprintable():
        cursor.corrupt("not a transactional id", at=at)
    return text


WRITER = ConnectorFormat(
    name="kafka",
    role=FormatRole.WRITER,
    arrow_type=pa.struct(
        [
            ("transactional_id_prefix", pa.string()),
            ("owned_subtask", pa.int32()),
            ("owned_subtasks", pa.int32()),
            ("transaction_ownership", pa.string()),
            (
                "precommitted",
                pa.list_(pa.struct([("transactional_id", pa.string()), ("checkpoint_id", pa.int64())])),
            ),
        ]
    ),
    readers={1: _read_writer_v1, 2: _read_writer_v2},
)


def _read_committable_v1(cursor: Cursor) -> FormatRow:
    """Read KafkaCommittableSerializer, version 1."""
    at = cursor.pos
    epoch, producer_id = cursor.i16(), cursor.i64()
    if epoch < -1 or producer_id < -1:
        cursor.corrupt(f"producer {producer_id}, epoch {epoch}", at=at)
    return {
        "transactional_id": _read_transactional_id(cursor),
        "producer_id": producer_id,
        "epoch": epoch,
        "prepared_transaction": None,
    }


def _read_committable_v2(cursor: Cursor) -> FormatRow:
    """Read KafkaCommittableSerializer, version 2: also the prepared transaction's state, if any."""
    row = _read_committable_v1(cursor)
    return {**row, "prepared_transaction": cursor.utf() if _read_flag(cursor) else None}


_COMMITTABLE_READERS: dict[int, Callable[[Cursor], dict[str, Any]]] = {
    1: _read_committable_v1,
    2: _read_committable_v2,
}

COMMITTABLE = ConnectorFormat(
    name="kafka",
    role=FormatRole.COMMITTABLE,
    arrow_type=pa.struct(
        [
            ("transactional_id", pa.string()),
            ("producer_id", pa.int64()),
            ("epoch", pa.int16()),
            ("prepared_transaction", pa.string()),
        ]
    ),
    readers=_COMMITTABLE_READERS,
)


# Write splits and enumerator checkpoints of the Kafka source.
#
# Source: KafkaPartitionSplitSerializer, KafkaSourceEnumStateSerializer, SourceCoordinatorSerdeUtils.

ENUMERATOR_VERSIONS = (1, 2, 3)
_SPLIT_VERSION, _SERDE_VERSION = 0, 1
_ASSIGNED, _UNASSIGNED = 0, 1


@dataclass(frozen=True)
class KafkaSplit:
    """A partition and the next offset to read; without ``offset`` no reader has it yet."""

    topic: str
    partition: int
    offset: int | None
    stopping_offset: int | None = None


def versioned(version: int, payload: bytes) -> bytes:
    """Encode as SimpleVersionedSerialization.writeVersionAndSerialize does: i32 version, i32 length, the bytes."""
    out = Output()
    out.i32(version)
    out.bytes32(payload)
    return bytes(out)


def written_split(split: KafkaSplit) -> bytes:
    """Encode an element of `SourceReaderState`: a versioned split, which must have an offset."""
    return versioned(_SPLIT_VERSION, _split(split))


@dataclass(frozen=True)
class EnumeratedPartition:
    """A partition as the source's coordinator knows it.

    Attributes:
        topic: The topic.
        partition: The partition's number.
        assigned: Whether a reader has it.
        offset: The offset of its split, which version 3 stores; None: none is known.
        stopping_offset: Where its split ends, which version 3 stores; None: nowhere.
        subtask: The subtask that reads it, which version 0 stores.
    """

    topic: str
    partition: int
    assigned: bool
    offset: int | None = None
    stopping_offset: int | None = None
    subtask: int = 0


def written_coordinator(splits: Sequence[KafkaSplit], enumerator_version: int) -> bytes:
    """Encode the state of the source's coordinator: all partitions discovered, those with an offset assigned.

    Args:
        splits: the partitions.
        enumerator_version: one of ENUMERATOR_VERSIONS. Version 1 stores assigned partitions only; version 3 stores a
            split per partition, so that each must have an offset.
    """
    partitions = [
        EnumeratedPartition(it.topic, it.partition, it.offset is not None, it.offset, it.stopping_offset)
        for it in splits
    ]
    enumerator = written_enumerator(partitions, enumerator_version, discovered=True)
    return coordinator_of(_SERDE_VERSION, enumerator_version, enumerator)


def coordinator_of(serde_version: int, enumerator_version: int, enumerator: bytes, assignments: bytes = b"") -> bytes:
    """Encode the state of a source's coordinator around its enumerator's; ``assignments`` follow in serde version 0."""
    out = Output()
    out.i32(serde_version)
    out.raw(versioned(enumerator_version, enumerator))
    out.raw(assignments)
    return bytes(out)


def written_enumerator(partitions: Sequence[EnumeratedPartition], version: int, *, discovered: bool) -> bytes:
    """Encode the enumerator's state as KafkaSourceEnumStateSerializer of a version does.

    Args:
        partitions: The partitions. Versions 0 and 1 store assigned ones only.
        version: 0 to 3.
        discovered: Whether the first discovery of partitions is done, which versions 2 and 3 store.
    """
    stored = [item for item in partitions if version > 1 or item.assigned]
    if version == 0:
        return _by_subtask(stored)
    out = Output()
    out.i32(len(stored))
    if version == 3:
        out.i32(_SPLIT_VERSION)
    for item in stored:
        if version == 3:
            out.bytes32(_enumerated_split(item))
        else:
            _topic_partition(out, item)
        if version > 1:
            out.i32(_ASSIGNED if item.assigned else _UNASSIGNED)
    if version > 1:
        out.boolean(discovered)
    return bytes(out)


def _by_subtask(partitions: Sequence[EnumeratedPartition]) -> bytes:
    """Encode as SerdeUtils.serializeSplitAssignments does."""
    subtasks: dict[int, list[EnumeratedPartition]] = {}
    for item in partitions:
        subtasks.setdefault(item.subtask, []).append(item)
    out = Output()
    out.i32(len(subtasks))
    out.i32(_SPLIT_VERSION)
    for subtask, items in sorted(subtasks.items()):
        out.i32(subtask)
        out.i32(len(items))
        for item in items:
            out.bytes32(_enumerated_split(item))
    return bytes(out)


def _enumerated_split(item: EnumeratedPartition) -> bytes:
    out = Output()
    _topic_partition(out, item)
    out.i64(_MIGRATED if item.offset is None else item.offset)
    out.i64(_NO_STOPPING_OFFSET if item.stopping_offset is None else item.stopping_offset)
    return bytes(out)


def _split(split: KafkaSplit) -> bytes:
    assert split.offset is not None
    return _enumerated_split(
        EnumeratedPartition(split.topic, split.partition, True, split.offset, split.stopping_offset)
    )


def _topic_partition(out: Output, split: EnumeratedPartition) -> None:
    out.utf(split.topic)
    out.i32(split.partition)
