"""Kafka connector: splits with their offsets, enumerator state, writer state and committables.

Offsets are numbers as Kafka has them; negative ones are markers of the connector: -1 latest, -2 earliest,
-3 the consumer group's committed offset. A stopping offset of null means that the split is unbounded, a starting
offset of null that the enumerator does not know it.

Source: KafkaPartitionSplitSerializer, KafkaSourceEnumStateSerializer, KafkaWriterStateSerializer,
KafkaCommittableSerializer; DynamicKafkaSourceSplitSerializer and DynamicKafkaSourceEnumStateSerializer, which wrap the
splits and the enumerator of each cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import (
    ConnectorFormat,
    FormatRole,
    FormatRow,
    Pending,
    Position,
    coordinator_of,
    written_version,
)
from stateproc.connectors.given_positions import position_error
from stateproc.connectors.structures import (
    BYTES,
    FLAG,
    I16,
    I32,
    I64,
    UTF,
    Row,
    Structure,
    at_least,
    checked,
    column,
    computed,
    enumeration,
    listed,
    null_for,
    optional,
    record,
    sized,
    written,
)
from stateproc.errors import InvalidOption
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

LATEST, EARLIEST, COMMITTED = -1, -2, -3
MARKERS = {LATEST: "latest", EARLIEST: "earliest", COMMITTED: "committed"}
_NO_STOPPING_OFFSET = -(1 << 63)
_MIGRATED = -(1 << 63)
"""The starting offset of splits in an enumerator that was restored from a version without offsets."""
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LONGEST_TRANSACTIONAL_ID = 32767


def _offset(unset: int) -> Structure:
    return null_for(checked(I64, lambda value: value >= COMMITTED or value == unset, "an offset"), unset)


_TOPIC_NAME = checked(UTF, lambda value: TOPIC.fullmatch(value) is not None, "a Kafka topic")
_TOPIC_PARTITION = (column("topic", _TOPIC_NAME), column("partition", at_least(I32, 0, "a partition")))
_OFFSETS = (column("starting_offset", _offset(_MIGRATED)), column("stopping_offset", _offset(_NO_STOPPING_OFFSET)))
_NO_OFFSETS = (
    computed("starting_offset", pa.int64(), lambda row: None),
    computed("stopping_offset", pa.int64(), lambda row: None),
)
_SPLIT = record(*_TOPIC_PARTITION, *_OFFSETS)


def _split_positions(row: FormatRow) -> Iterator[Position]:
    yield _position(row)


def _position(row: FormatRow, *, assigned: bool = True, cluster: str = "") -> Position:
    offset, stop = row["starting_offset"], row["stopping_offset"]
    return Position(
        split=f"{cluster}{row['topic']}-{row['partition']}",
        kind="offset",
        position=offset_text(offset),
        stops_at=offset_text(stop),
        assigned=assigned,
        topic=row["topic"],
        partition=row["partition"],
        offset=offset,
        stopping_offset=stop,
    )


def offset_text(offset: int | None) -> str | None:
    """Return an offset, or the name of the marker that it is."""
    return None if offset is None else MARKERS.get(offset, str(offset))


def _moved(row: FormatRow, text: str) -> FormatRow:
    """Return a partition that continues at an offset or a marker. Raises InvalidOption."""
    markers = {word: marker for marker, word in MARKERS.items()}
    offset = markers.get(text)
    if offset is None and re.fullmatch(r"[0-9]{1,19}", text) and int(text) < 1 << 63:
        offset = int(text)
    if offset is None:
        raise position_error(text, "a Kafka partition", ["an offset, a whole number from 0", *markers])
    stop = row["stopping_offset"]
    if stop is not None and 0 <= stop < offset:
        raise InvalidOption(
            f"offset {offset} of {row['topic']}-{row['partition']} is after {stop}, where its split ends",
            advice=f"give an offset up to {stop}",
        )
    return {**row, "starting_offset": offset}


def _moved_split(row: FormatRow, wanted: Mapping[str, str]) -> FormatRow:
    return _moved(row, wanted[_position(row).split])


SPLIT = ConnectorFormat("kafka", FormatRole.SPLIT, {0: _SPLIT}, positions=_split_positions, moved=_moved_split)


# KafkaSourceEnumStateSerializer. Every version gives the same row: partitions, and whether their first
# discovery is done (null where the version does not store it).


def _flag_of_status() -> Structure:
    """Describe AssignmentStatus: 0 assigned, 1 not (UNASSIGNED_INITIAL, later UNASSIGNED)."""
    status = checked(I32, lambda value: value in (0, 1), "an assignment status")
    return Structure(
        pa.bool_(), lambda cursor: status.read(cursor) == 0, lambda out, value: out.i32(0 if value else 1), 4
    )


_STATUS = column("assigned", _flag_of_status())
_ALWAYS_ASSIGNED = computed("assigned", pa.bool_(), lambda row: True)
_SPLIT_VERSION, _SERDE_VERSION = 0, 1


def _by_subtask() -> Structure:
    """Describe SerdeUtils.serializeSplitAssignments: i32 subtasks, i32 split version, splits by subtask."""
    split = sized(_SPLIT)
    number = at_least(I32, 0, "a subtask")

    def read(cursor: Cursor) -> list[Row]:
        subtasks = cursor.count("subtasks", 8)
        if cursor.i32() != _SPLIT_VERSION:
            cursor.corrupt("not a version of Kafka splits")
        partitions = []
        for _ in range(subtasks):
            subtask = number.read(cursor)
            for _ in range(cursor.count("splits", 4)):
                partitions.append({**split.read(cursor), "assigned": True, "subtask": subtask})
        return partitions

    def write(out: Output, partitions: Sequence[Row]) -> None:
        subtasks: dict[int, list[Row]] = {}
        for item in partitions:
            subtasks.setdefault(item["subtask"], []).append(item)
        out.i32(len(subtasks))
        out.i32(_SPLIT_VERSION)
        for subtask, items in subtasks.items():
            out.i32(subtask)
            out.i32(len(items))
            for item in items:
                split.write(out, item)

    row = pa.struct([*_SPLIT.arrow_type, ("assigned", pa.bool_())])
    return Structure(pa.list_(row), read, write, 8)


def _some(partitions: Structure) -> Structure:
    """Refuse none: a few zero bytes could be any source's."""
    return checked(partitions, bool, "partitions that identify Kafka")


def _splits_with_status() -> Structure:
    """Describe version 3: i32 count, i32 split version, splits with their status."""
    item = record(column("split", sized(_SPLIT)), _STATUS)

    def read(cursor: Cursor) -> list[Row]:
        count = cursor.count("partitions", 8)
        if cursor.i32() != _SPLIT_VERSION:
            cursor.corrupt("not a version of Kafka splits")
        rows = (item.read(cursor) for _ in range(count))
        return [{**row["split"], "assigned": row["assigned"]} for row in rows]

    def write(out: Output, partitions: Sequence[Row]) -> None:
        out.i32(len(partitions))
        out.i32(_SPLIT_VERSION)
        for row in partitions:
            item.write(out, {"split": row, "assigned": row["assigned"]})

    return Structure(pa.list_(pa.struct([*_SPLIT.arrow_type, ("assigned", pa.bool_())])), read, write, 8)


_NOT_STORED = computed("initial_discovery_finished", pa.bool_(), lambda row: None)
_DISCOVERED = column("initial_discovery_finished", FLAG)


def _partitions(*parts: Any) -> Any:
    return column("partitions", _some(listed(record(*parts))))


_ENUMERATORS = {
    0: record(column("partitions", _some(_by_subtask())), _NOT_STORED),
    1: record(_partitions(*_TOPIC_PARTITION, *_NO_OFFSETS, _ALWAYS_ASSIGNED), _NOT_STORED),
    2: record(_partitions(*_TOPIC_PARTITION, *_NO_OFFSETS, _STATUS), _DISCOVERED),
    3: record(column("partitions", _some(_splits_with_status())), _DISCOVERED),
}


def _enumerator_positions(row: FormatRow, cluster: str = "") -> Iterator[Position]:
    for partition in row["partitions"]:
        yield _position(partition, assigned=partition["assigned"], cluster=cluster)


def _moved_partitions(row: FormatRow, wanted: Mapping[str, str], cluster: str = "") -> FormatRow:
    """Move the partitions that have an offset: older versions of enumerators store none."""

    def moved(item: FormatRow) -> FormatRow:
        name = _position(item, cluster=cluster).split
        return _moved(item, wanted[name]) if name in wanted and item["starting_offset"] is not None else item

    return {**row, "partitions": [moved(item) for item in row["partitions"]]}


ENUMERATOR = ConnectorFormat(
    "kafka", FormatRole.ENUMERATOR, _ENUMERATORS, positions=_enumerator_positions, moved=_moved_partitions
)


# DynamicKafkaSource: a KafkaSource per cluster.

_CLUSTER = checked(UTF, lambda value: value.isprintable() and value != "", "a Kafka cluster id")


def _dynamic_split(*between: Any) -> Structure:
    version = column("split_version", checked(I32, lambda value: value == _SPLIT_VERSION, "a split version"))
    return record(column("cluster", _CLUSTER), *between, version, *_TOPIC_PARTITION, *_OFFSETS)


def _dynamic_split_positions(row: FormatRow) -> Iterator[Position]:
    yield _position(row, cluster=f"{row['cluster']}/")


DYNAMIC_SPLIT = ConnectorFormat(
    "dynamic kafka",
    FormatRole.SPLIT,
    {1: _dynamic_split(), 2: _dynamic_split(column("retained_until_ms", optional(I64)))},
    positions=_dynamic_split_positions,
    moved=lambda row, wanted: _moved(row, wanted[_position(row, cluster=f"{row['cluster']}/").split]),
)


def _clusters() -> Structure:
    """Describe the enumerators of the clusters: i32 version of all, i32 count, each with its cluster and length."""

    def read(cursor: Cursor) -> list[Row]:
        at = cursor.pos
        version = cursor.i32()
        enumerator = _ENUMERATORS.get(version)
        if enumerator is None:
            cursor.corrupt(f"version {version} of a Kafka enumerator", at=at)
        one = record(column("cluster", _CLUSTER), column("enumerator", sized(enumerator)))
        return [{"version": version, **row} for row in listed(one).read(cursor)]

    def write(out: Output, rows: Sequence[Row]) -> None:
        version = rows[0]["version"]
        one = record(column("cluster", _CLUSTER), column("enumerator", sized(_ENUMERATORS[version])))
        out.i32(version)
        listed(one).write(out, rows)

    row = [("version", pa.int32()), ("cluster", pa.string()), ("enumerator", ENUMERATOR.arrow_type)]
    return Structure(pa.list_(pa.struct(row)), read, write, 8)


def _dynamic_enumerator(*initializers: Any) -> Structure:
    cluster = record(
        column("cluster", _CLUSTER),
        column("topics", listed(_TOPIC_NAME)),
        column("bootstrap_servers", UTF),
        *initializers,
    )
    stream = record(column("stream", UTF), column("clusters", listed(cluster)))
    clusters = checked(_clusters(), bool, "clusters that identify a DynamicKafkaSource")
    return record(column("streams", listed(stream)), column("clusters", clusters))


def _dynamic_enumerator_positions(row: FormatRow) -> Iterator[Position]:
    for item in row["clusters"]:
        yield from _enumerator_positions(item["enumerator"], f"{item['cluster']}/")


def _moved_clusters(row: FormatRow, wanted: Mapping[str, str]) -> FormatRow:
    clusters = [
        {**item, "enumerator": _moved_partitions(item["enumerator"], wanted, f"{item['cluster']}/")}
        for item in row["clusters"]
    ]
    return {**row, "clusters": clusters}


DYNAMIC_ENUMERATOR = ConnectorFormat(
    "dynamic kafka",
    FormatRole.ENUMERATOR,
    {
        1: _dynamic_enumerator(),
        2: _dynamic_enumerator(
            column("starting_offsets", optional(BYTES)),  # Java object streams of OffsetsInitializer
            column("stopping_offsets", optional(BYTES)),
        ),
    },
    positions=_dynamic_enumerator_positions,
    moved=_moved_clusters,
)


# The sink.

_OWNERSHIP = ("IMPLICIT_BY_SUBTASK_ID", "EXPLICIT_BY_WRITER_STATE")
_TRANSACTIONAL_ID = checked(
    UTF,
    lambda value: 0 < len(value) <= _LONGEST_TRANSACTIONAL_ID and value.isprintable(),
    "a transactional id",
)
_UNKNOWN = null_for(at_least(I32, -1, "a subtask"), -1)
_PREFIX = column("transactional_id_prefix", _TRANSACTIONAL_ID)
_TRANSACTION = record(column("transactional_id", _TRANSACTIONAL_ID), column("checkpoint_id", I64))


def _writer_pending(row: FormatRow) -> Iterator[Pending]:
    for transaction in row.get("precommitted") or ():
        yield Pending("transaction", transaction["transactional_id"], checkpoint_id=transaction["checkpoint_id"])


WRITER = ConnectorFormat(
    "kafka",
    FormatRole.WRITER,
    {
        1: record(_PREFIX),
        2: record(
            _PREFIX,
            column("owned_subtask", _UNKNOWN),
            column("owned_subtasks", _UNKNOWN),
            column("transaction_ownership", enumeration(I32, _OWNERSHIP)),
            column("precommitted", listed(_TRANSACTION)),
        ),
    },
    pending=_writer_pending,
)
"""KafkaWriterState; version 2 since connector 4.0, where -1 is unknown."""

_PRODUCER = (
    column("epoch", at_least(I16, -1, "an epoch")),
    column("producer_id", at_least(I64, -1, "a producer id")),
    column("transactional_id", _TRANSACTIONAL_ID),
)


def _committable_pending(row: FormatRow) -> Iterator[Pending]:
    yield Pending("transaction", row["transactional_id"])


COMMITTABLE = ConnectorFormat(
    "kafka",
    FormatRole.COMMITTABLE,
    {1: record(*_PRODUCER), 2: record(*_PRODUCER, column("prepared_transaction", optional(UTF)))},
    pending=_committable_pending,
)


# Write splits and enumerator checkpoints of the Kafka source.

ENUMERATOR_VERSIONS = (1, 2, 3)


@dataclass(frozen=True)
class KafkaSplit:
    """A partition and the next offset to read; without ``offset`` no reader has it yet."""

    topic: str
    partition: int
    offset: int | None
    stopping_offset: int | None = None


def written_split(split: KafkaSplit) -> bytes:
    """Encode an element of `SourceReaderState`: a versioned split, which must have an offset."""
    assert split.offset is not None
    partition = EnumeratedPartition(split.topic, split.partition, True, split.offset, split.stopping_offset)
    return written_version(_SPLIT_VERSION, written(_SPLIT, _row(partition)))


@dataclass(frozen=True)
class EnumeratedPartition:
    """A partition as the source's coordinator knows it.

    Attributes:
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


def written_enumerator(partitions: Sequence[EnumeratedPartition], version: int, *, discovered: bool) -> bytes:
    """Encode the enumerator's state as KafkaSourceEnumStateSerializer of a version does.

    Args:
        partitions: The partitions. Versions 0 and 1 store assigned ones only.
        version: 0 to 3.
        discovered: Whether the first discovery of partitions is done, which versions 2 and 3 store.
    """
    stored = [item for item in partitions if version > 1 or item.assigned]
    if version == 0:
        stored.sort(key=lambda item: item.subtask)
    row = {"partitions": [_row(item) for item in stored], "initial_discovery_finished": discovered}
    return written(_ENUMERATORS[version], row)


def _row(item: EnumeratedPartition) -> FormatRow:
    return {
        "topic": item.topic,
        "partition": item.partition,
        "starting_offset": item.offset,
        "stopping_offset": item.stopping_offset,
        "assigned": item.assigned,
        "subtask": item.subtask,
    }
