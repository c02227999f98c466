"""Find where each source of a snapshot continues: by the splits of its readers, and by what its coordinator has left.

What a split or an enumerator says is its connector's: `ConnectorFormat.positions`. The sources of Flink 1.x before
FLIP-27 keep their positions in typed union states, which are read here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRow, Position
from stateproc.connectors.kafka import offset_text
from stateproc.connectors.kafka_consumer import CONSUMER_STATE, next_offset
from stateproc.connectors.kinesis_consumer import AT_TIMESTAMP, MARKERS, SHARD_END
from stateproc.connectors.kinesis_consumer import CONSUMER_STATE as KINESIS_STATE
from stateproc.connectors.operator_states import SOURCE_STATE, decoded_elements, likely_enumerator, read_enumerator
from stateproc.connectors.rabbitmq import RABBITMQ_STATE, unacknowledged
from stateproc.errors import UnsupportedSnapshot, located
from stateproc.model.operator import Operator
from stateproc.model.operator_state import OperatorState

DEBEZIUM_STATE = "offset-states"
POSITIONS_SCHEMA = pa.schema(
    [
        ("operator", pa.string()),
        ("connector", pa.string()),
        ("split", pa.string()),
        ("kind", pa.string()),
        ("position", pa.string()),
        ("phase", pa.string()),
        ("stops_at", pa.string()),
        ("subtask", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("stopping_offset", pa.int64()),
    ]
)
"""The columns of `positions_table`."""


@dataclass(frozen=True)
class _Found:
    """A position with the subtask that has it, None: no subtask yet; and the row that it was read from."""

    position: Position
    subtask: int | None
    connector: str


def source_positions(operators: Iterable[Operator]) -> Iterator[dict[str, Any]]:
    """Yield one row per split of a source, with the columns of `POSITIONS_SCHEMA`.

    Splits that no reader has yet come without a subtask. `position` is where reading continues, in the words of the
    connector; of Kafka, `offset` is the first record that has not been read, and negative ones are markers, see
    stateproc.connectors.kafka.

    Raises:
        SnapshotError: A state or a coordinator cannot be read.
    """
    for operator in operators:
        for found in _of_operator(operator):
            own = {"operator": operator.display, "connector": found.connector, "subtask": found.subtask}
            yield {name: own[name] if name in own else getattr(found.position, name) for name in POSITIONS_SCHEMA.names}


def positions_table(operators: Iterable[Operator]) -> pa.Table:
    """Return the positions as a table, sorted by operator, topic, partition and split.

    Raises:
        SnapshotError: The state of a source cannot be read.
    """
    return pa.Table.from_pylist(sorted_positions(operators), schema=POSITIONS_SCHEMA)


def sorted_positions(operators: Iterable[Operator]) -> list[dict[str, Any]]:
    """Return the rows of `source_positions` sorted by operator, topic, partition and split."""

    def key(row: dict[str, Any]) -> Any:
        partition = -1 if row["partition"] is None else row["partition"]
        return row["operator"], row["topic"] or "", partition, row["split"]

    return sorted(source_positions(operators), key=key)


def unknown_sources(operators: Iterable[Operator]) -> list[str]:
    """Return the names of operators with splits of a connector that is not known."""
    found = []
    for operator in operators:
        state = _state(operator, SOURCE_STATE)
        if state is not None and state.elements and _decoded_state(state) is None:
            found.append(operator.display)
    return found


def _of_operator(operator: Operator) -> Iterator[_Found]:
    state = _state(operator, SOURCE_STATE)
    decoded = None if state is None else _decoded_state(state)
    readers = [] if decoded is None else [(row, subtask) for row, subtask in decoded[1] if row is not None]
    coordinator = operator.metadata.coordinator
    data = None if coordinator is None else coordinator.data
    enumerator = read_enumerator(data, None if decoded is None else decoded[0].name)
    if decoded is not None or enumerator is not None:
        yield from _of_source(None if decoded is None else decoded[0], readers, enumerator)
    elif data is not None and (state is None or not state.elements):
        # A source that has read all has no splits, by which it could be recognised.
        likely = likely_enumerator(data)
        for found in _of_source(None, [], likely):
            yield replace(found, connector=f"{found.connector}?")
    for name, (type_, read) in _LEGACY.items():
        old = _state(operator, name)
        # Users' own states may have these names, too.
        if old is not None and (old.value_type or "").startswith(type_):
            with located(UnsupportedSnapshot, operator=operator.display, state=name):
                yield from read(old)


def _of_source(
    split_format: ConnectorFormat | None,
    readers: list[tuple[FormatRow, int]],
    enumerator: tuple[ConnectorFormat, FormatRow] | None,
) -> Iterator[_Found]:
    """Yield the readers' positions, then those that only the enumerator has."""
    rows = [(split_format, row) for row, _ in readers]
    if enumerator is not None:
        rows.append(enumerator)
    # Splits of one connector can be of several databases; some, such as chunks that are not read, do not say which.
    named = (known.names(row) for known, row in rows if known is not None and known.names is not None)
    name = next((name for name in named if name is not None), None)
    of_readers = set()
    if split_format is not None and split_format.positions is not None:
        for row, subtask in readers:
            for position in split_format.positions(row):
                of_readers.add(position.split)
                yield _Found(position, subtask, name or split_format.name)
    if enumerator is not None and enumerator[0].positions is not None:
        connector = name or (split_format or enumerator[0]).name
        for position in enumerator[0].positions(enumerator[1]):
            # Of Kafka's partitions that were assigned and have no reader, the offset is that of their discovery. Other
            # enumerators keep splits that were read to their end.
            if position.split not in of_readers and (not position.assigned or position.topic is not None):
                yield _Found(position, None, connector)


def _state(operator: Operator, name: str) -> OperatorState | None:
    return next((state for state in operator.operator_states if state.name == name), None)


def _decoded_state(state: OperatorState) -> tuple[ConnectorFormat, list[tuple[FormatRow | None, int]]] | None:
    if state.value_type != "byte[]":
        return None
    table = state.to_arrow()
    decoded = decoded_elements(state.name, table.column("value").to_pylist())
    if decoded is None:
        return None
    return decoded.format, list(zip(decoded.rows, table.column("subtask").to_pylist(), strict=True))


# Sources before FLIP-27.


def _items(state: OperatorState) -> list[dict[str, Any]]:
    """Return the elements with their subtasks, without nulls: those that cannot be decoded with ``on_error='null'``."""
    return [item for item in state.to_arrow().to_pylist() if item["value"] is not None]


def _kafka_consumer(state: OperatorState) -> Iterator[_Found]:
    """Yield the partitions of a FlinkKafkaConsumer, which stores the last record read."""
    for item in _items(state):
        topic, partition = item["value"]["f0"]["topic"], item["value"]["f0"]["partition"]
        offset = next_offset(item["value"]["f1"])
        text = offset_text(offset)
        position = Position(f"{topic}-{partition}", "offset", text, topic=topic, partition=partition, offset=offset)
        yield _Found(position, item["subtask"], "kafka consumer")


_KINESIS_MARKERS = {**MARKERS, AT_TIMESTAMP: "AT_TIMESTAMP", SHARD_END: "the end of the shard"}


def _kinesis_consumer(state: OperatorState) -> Iterator[_Found]:
    """Yield the shards of a FlinkKinesisConsumer, which stores the last record read, or a marker."""
    for item in _items(state):
        shard, number = item["value"]["f0"], item["value"]["f1"]
        stored, sub = number["sequenceNumber"], number["subSequenceNumber"]
        marker = _KINESIS_MARKERS.get(stored)
        after = f"after {stored}" + (f":{sub}" if sub is not None and sub >= 0 else "")
        phase = "shard read to its end" if stored == SHARD_END else None
        split = f"{shard['streamName']}/{shard['shardId']}"
        kind = "sequence number" if marker is None else "marker"
        yield _Found(Position(split, kind, marker or after, phase), item["subtask"], "kinesis consumer")


def _debezium(state: OperatorState) -> Iterator[_Found]:
    decoded = _decoded_state(state)
    if decoded is None or decoded[0].positions is None:
        return
    for row, subtask in decoded[1]:
        for position in () if row is None else decoded[0].positions(row):
            yield _Found(position, subtask, "debezium")


def _rabbitmq(state: OperatorState) -> Iterator[_Found]:
    for item in _items(state):
        for checkpoint in unacknowledged(json.loads(item["value"])):
            ids = checkpoint["ids"]
            split = f"checkpoint {checkpoint['checkpoint_id']}"
            shown = f"{len(ids)} messages: {', '.join(ids[:3])}{' …' if len(ids) > 3 else ''}"
            yield _Found(Position(split, "to acknowledge", shown), item["subtask"], "rabbitmq")


_LEGACY = {
    CONSUMER_STATE: ("Tuple2<", _kafka_consumer),
    KINESIS_STATE: ("Tuple2<Pojo StreamShardMetadata", _kinesis_consumer),
    DEBEZIUM_STATE: ("byte[]", _debezium),
    RABBITMQ_STATE: ("Serializable", _rabbitmq),
}
"""Union states of sources before FLIP-27 → how the type of their elements begins, and what reads them."""


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
