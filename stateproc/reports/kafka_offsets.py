"""List the Kafka offsets in a snapshot: of readers' splits, and of partitions that only the coordinator has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from stateproc.connectors.kafka_consumer import CONSUMER_STATE, next_offset
from stateproc.errors import UnsupportedSnapshot
from stateproc.model.operator import Operator
from stateproc.model.operator_state import opened_state

SOURCE_STATE = "SourceReaderState"
OFFSETS_SCHEMA = pa.schema(
    [
        ("operator", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("stopping_offset", pa.int64()),
        ("subtask", pa.int32()),
    ]
)
"""The columns of :func:`offsets_table`."""


def kafka_offsets(operators: Iterable[Operator]) -> Iterator[dict[str, Any]]:
    """Yield one row per partition of a KafkaSource or a FlinkKafkaConsumer.

    Partitions that the coordinator has and no reader yet come without a subtask, with the offset of their enumerated
    split if there is one. Negative offsets are markers, see stateproc.connectors.kafka.

    Yields:
        operator, subtask, topic, partition, offset (the first record that has not been read), stopping_offset.

    Raises:
        SnapshotError: A state or a coordinator cannot be read.
    """
    for operator in operators:
        assigned = set()
        for row in _reader_rows(operator):
            assigned.add((row["topic"], row["partition"]))
            yield row
        yield from _consumer_rows(operator)
        for row in _coordinator_rows(operator):
            if (row["topic"], row["partition"]) not in assigned:
                yield row


def consumers(operators: Iterable[Operator]) -> list[str]:
    """Return the names of operators that have the state of a FlinkKafkaConsumer."""
    return [of.display for of in operators if any(state.name == CONSUMER_STATE for state in of.operator_states)]


def offsets_table(operators: Iterable[Operator]) -> pa.Table:
    """Return the offsets as a table, sorted by operator, topic and partition.

    Raises:
        SnapshotError: The state of a source cannot be read.
    """
    rows = sorted(kafka_offsets(operators), key=lambda row: (row["operator"], row["topic"], row["partition"]))
    return pa.Table.from_pylist(rows, schema=OFFSETS_SCHEMA)


def _reader_rows(operator: Operator) -> Iterator[dict[str, Any]]:
    for state in operator.operator_states:
        if state.name != SOURCE_STATE:
            continue
        opened = opened_state(state)
        if "starting_offset" not in opened.schema().names:
            continue
        for item in opened.to_arrow().to_pylist():
            yield _row(operator, item, item["subtask"])


def _consumer_rows(operator: Operator) -> Iterator[dict[str, Any]]:
    """Yield the partitions of a FlinkKafkaConsumer, which stores the last record read."""
    for state in operator.operator_states:
        if state.name != CONSUMER_STATE:
            continue
        for item in state.to_arrow().to_pylist():
            value = item["value"]
            try:
                row = {**value["f0"], "starting_offset": next_offset(value["f1"]), "stopping_offset": None}
            except UnsupportedSnapshot as error:
                raise error.at(operator=operator.display, state=CONSUMER_STATE) from error
            yield _row(operator, row, item["subtask"])


def _coordinator_rows(operator: Operator) -> Iterator[dict[str, Any]]:
    coordinator = operator.coordinator or {}
    decoded: Any = coordinator.get("decoded")
    if coordinator.get("format") != "kafka" or decoded is None:
        return
    for item in decoded["partitions"]:
        yield _row(operator, item, None)


def _row(operator: Operator, item: dict[str, Any], subtask: int | None) -> dict[str, Any]:
    return {
        "operator": operator.display,
        "topic": item["topic"],
        "partition": item["partition"],
        "offset": item["starting_offset"],
        "stopping_offset": item["stopping_offset"],
        "subtask": subtask,
    }
