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


def written_coordinator(splits: Sequence[KafkaSplit], enumerator_version: int) -> bytes:
    """Encode the state of the source's coordinator: all partitions discovered, those with an offset assigned.

    Args:
        splits: the partitions.
        enumerator_version: one of ENUMERATOR_VERSIONS. Version 1 stores assigned partitions only; version 3 stores a
            split per partition, so that each must have an offset.
    """
    out = Output()
    out.i32(_SERDE_VERSION)
    out.raw(versioned(enumerator_version, _enumerator(splits, enumerator_version)))
    return bytes(out)


def _enumerator(splits: Sequence[KafkaSplit], version: int) -> bytes:
    stored = [split for split in splits if version > 1 or split.offset is not None]
    out = Output()
    out.i32(len(stored))
    if version == 3:
        out.i32(_SPLIT_VERSION)
    for split in stored:
        if version == 3:
            out.bytes32(_split(split))
        else:
            _topic_partition(out, split)
        if version > 1:
            out.i32(_UNASSIGNED if split.offset is None else _ASSIGNED)
    if version > 1:
        out.boolean(True)
    return bytes(out)


def _split(split: KafkaSplit) -> bytes:
    out = Output()
    _topic_partition(out, split)
    assert split.offset is not None
    out.i64(split.offset)
    out.i64(_NO_STOPPING_OFFSET if split.stopping_offset is None else split.stopping_offset)
    return bytes(out)


def _topic_partition(out: Output, split: KafkaSplit) -> None:
    out.utf(split.topic)
    out.i32(split.partition)
