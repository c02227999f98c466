"""Write splits and enumerator checkpoints of the Kafka source.

Source: KafkaPartitionSplitSerializer, KafkaSourceEnumStateSerializer, SourceCoordinatorSerdeUtils.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stateproc.wire.output import Output

ENUMERATOR_VERSIONS = (1, 2, 3)
_SPLIT_VERSION, _SERDE_VERSION = 0, 1
_NO_STOPPING_OFFSET = -(1 << 63)
_MIGRATED = -(1 << 63)
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
