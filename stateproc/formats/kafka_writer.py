"""Kafka connector, the way back: splits and the enumerator's checkpoint as its serializers write them.

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
    """A partition and where its reading goes on; without ``offset`` no reader has it yet."""

    topic: str
    partition: int
    offset: int | None
    stopping_offset: int | None = None


def versioned(version: int, payload: bytes) -> bytes:
    """SimpleVersionedSerialization.writeVersionAndSerialize: i32 version, i32 length, the bytes."""
    out = Output()
    out.i32(version)
    out.bytes32(payload)
    return bytes(out)


def written_split(split: KafkaSplit) -> bytes:
    """An element of `SourceReaderState`: the versioned split, which has an offset."""
    return versioned(_SPLIT_VERSION, _split(split))


def written_coordinator(splits: Sequence[KafkaSplit], enumerator_version: int) -> bytes:
    """The state of the source's coordinator: all partitions are discovered, those with an offset assigned.

    Version 1 knows assigned partitions only; version 3 keeps each partition's split, so that all have an offset.
    """
    out = Output()
    out.i32(_SERDE_VERSION)
    out.raw(versioned(enumerator_version, _enumerator(splits, enumerator_version)))
    return bytes(out)


def _enumerator(splits: Sequence[KafkaSplit], version: int) -> bytes:
    told = [split for split in splits if version > 1 or split.offset is not None]
    out = Output()
    out.i32(len(told))
    if version == 3:
        out.i32(_SPLIT_VERSION)
    for split in told:
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
