"""List the Kafka offsets in a snapshot: of readers' splits, and of partitions that only the coordinator has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stateproc.connectors.kafka_consumer import CONSUMER_STATE
from stateproc.model.operator import Operator
from stateproc.reports.source_positions import source_positions

_COLUMNS = ("operator", "topic", "partition", "offset", "stopping_offset", "subtask")


def kafka_offsets(operators: Iterable[Operator]) -> Iterator[dict[str, Any]]:
    """Yield one row per partition of a KafkaSource or a FlinkKafkaConsumer.

    Partitions that the coordinator has and no reader yet come without a subtask, with the offset of their enumerated
    split if there is one. Negative offsets are markers, see stateproc.connectors.kafka.

    Yields:
        operator, topic, partition, offset (the first record that has not been read), stopping_offset, subtask.

    Raises:
        SnapshotError: A state or a coordinator cannot be read.
    """
    for row in source_positions(operators):
        if row["topic"] is not None:
            yield {name: row[name] for name in _COLUMNS}


def consumers(operators: Iterable[Operator]) -> list[str]:
    """Return the names of operators that have the state of a FlinkKafkaConsumer."""
    return [of.display for of in operators if any(state.name == CONSUMER_STATE for state in of.operator_states)]
