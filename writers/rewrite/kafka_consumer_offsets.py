"""Change the offsets of a FlinkKafkaConsumer of an existing snapshot: elements of its union state.

An element is the partition by Kryo, then the offset as i64: a partition that moves keeps its bytes up to the offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.layouts.base import Unwritable
from stateproc.connectors.kafka_consumer import CONSUMER_STATE, cached_hash, next_offset, stored_offset
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.model.operator import Operator
from stateproc.serializers import Serializer
from stateproc.serializers.core.base import LayoutContext
from stateproc.wire import Output
from stateproc.writers.rewrite.kafka_offsets import KafkaPartitions, OffsetsEdit, Partition, fewest_first
from stateproc.writers.rewrite.operator_state_copy import (
    GivenElements,
    given_elements,
    merged_operator_header,
    raw_elements,
)

_OFFSET_BYTES = 8


@dataclass(frozen=True)
class ConsumedPartition:
    """An element of the state: its subtask, the bytes of the partition, and where it continues."""

    subtask: int
    partition: Partition
    head: bytes = field(repr=False)
    offset: int | None
    stored: int

    def moved(self, offset: int) -> ConsumedPartition:
        """Return the partition with another offset."""
        return replace(self, offset=offset, stored=stored_offset(offset))

    @property
    def element(self) -> bytes:
        """The element in bytes."""
        out = Output()
        out.raw(self.head)
        out.i64(self.stored)
        return bytes(out)


@dataclass(frozen=True)
class KafkaConsumerState(KafkaPartitions):
    """The partitions of a FlinkKafkaConsumer.

    Attributes:
        partitions: In the order of the snapshot.
        serializer: That of an element.
        context: How its values are decoded.
    """

    partitions: tuple[ConsumedPartition, ...]
    serializer: Serializer = field(repr=False)
    context: LayoutContext = field(repr=False)

    state_name = CONSUMER_STATE
    role = "consumer"

    @property
    def known(self) -> tuple[Partition, ...]:
        """All partitions."""
        return tuple(dict.fromkeys(item.partition for item in self.partitions))

    @property
    def offsets(self) -> dict[Partition, int | None]:
        """The offset at which each partition continues."""
        return {item.partition: item.offset for item in self.partitions}

    def elements(self) -> list[GivenElements]:
        """The elements of the state, by subtask."""
        return given_elements((item.subtask, item.element) for item in self.partitions)

    def coordinator(self) -> None:
        """The consumer has no coordinator."""

    def _edited(self, edit: OffsetsEdit, subtasks: int, operator: str) -> KafkaConsumerState:
        kept = []
        for item in self.partitions:
            if item.partition not in edit.removed:
                offset = edit.offset_of(item.partition)
                kept.append(item if offset is None else item.moved(offset))
        free = fewest_first((item.subtask for item in kept), subtasks)
        for partition in sorted(set(edit.offsets).difference(self.known)):
            kept.append(self._added(next(free), partition, edit.offsets[partition], operator))
        return replace(self, partitions=tuple(kept))

    def _added(self, subtask: int, partition: Partition, offset: int, operator: str) -> ConsumedPartition:
        """Encode a new partition as the job encoded those that it has. Raises UnsupportedSnapshot."""
        known = next(iter(self.partitions), None)
        if known is not None and self._head(known.partition) == known.head:
            head = self._head(partition)
            if head is not None:
                return ConsumedPartition(subtask, partition, head, offset, stored_offset(offset))
        raise UnsupportedSnapshot(
            f"partition {partition[0]}:{partition[1]} cannot be added: how the job writes partitions is not known",
            where=Where(operator=operator, state=CONSUMER_STATE),
            advice="name partitions that the consumer has; others are found by the job and read from the beginning",
        )

    def _head(self, partition: Partition) -> bytes | None:
        """Encode a partition; None if it cannot be written as this job does it."""
        topic, number = partition
        try:
            layout = self.serializer.layout(self.context)
            row = {"topic": topic, "partition": number, "cachedHash": cached_hash(topic, number)}
            encoded = layout.encode(pa.array([{"f0": row, "f1": 0}], layout.arrow_type))
        except (Unwritable, Unencodable, pa.ArrowException):
            return None
        return bytes(encoded.data)[:-_OFFSET_BYTES]


def kafka_consumer_state(operator: Operator) -> KafkaConsumerState | None:
    """Read the state of a FlinkKafkaConsumer; None if the operator is none.

    Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot.
    """
    header = merged_operator_header(operator)
    found = next((info for info in header.states if info.name == CONSUMER_STATE), None)
    if found is None or found.value_serializer is None:
        return None
    context = operator.options.context.inner
    partitions = tuple(_partitions(operator, found.value_serializer, context))
    return KafkaConsumerState(partitions, found.value_serializer, context)


def _partitions(operator: Operator, serializer: Serializer, context: LayoutContext) -> Iterator[ConsumedPartition]:
    options = {"kryo": context.kryo, "classes": context.classes, "tail": False}
    for part in raw_elements(operator, CONSUMER_STATE):
        for batch in part.read():
            for value in batch.to_arrow():
                data = value.as_py()
                row = serializer.decode(data, **options)
                key, stored = row["f0"], row["f1"]
                yield ConsumedPartition(
                    part.subtask,
                    (key["topic"], key["partition"]),
                    data[:-_OFFSET_BYTES],
                    next_offset(stored),
                    stored,
                )
