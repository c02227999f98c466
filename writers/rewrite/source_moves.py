"""Make the state of a source of what a source before FLIP-27 has: KafkaSource, KinesisStreamsSource.

KafkaSource of a FlinkKafkaConsumer: its partitions at their offsets, discovered and assigned.

KinesisStreamsSource of a FlinkKinesisConsumer (version 1 of splits and enumerator, see stateproc.connectors.kinesis): a
shard continues after the record that was read last; one of which an aggregated record was read in part, at that record,
because the source keeps no place in it; a marker stays. A shard that was read to its end is left out: for the
enumerator, a shard is finished if it knows none of that id. The last shard that was seen is the highest, so that only
later ones are discovered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.connectors import kinesis
from stateproc.connectors.connector_format import FormatRow, coordinator_of, written_version
from stateproc.connectors.kafka_consumer import CONSUMER_STATE
from stateproc.connectors.kinesis_consumer import CONSUMER_STATE as KINESIS_STATE
from stateproc.connectors.kinesis_consumer import MARKERS, SHARD_END, is_consumer_state
from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where
from stateproc.html.units import some_of
from stateproc.model.operator import Operator
from stateproc.writers.bootstrap.kafka_source import SPLIT
from stateproc.writers.rewrite.kafka_consumer_offsets import kafka_consumer_state
from stateproc.writers.rewrite.kafka_offsets import OffsetsEdit
from stateproc.writers.rewrite.operator_state_copy import merged_operator_header

_PARTITIONS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_KINESIS_VERSION, _SERDE_VERSION = 1, 1
_SHOWN = 3


@dataclass(frozen=True)
class Shards:
    """What a KinesisStreamsSource has of a FlinkKinesisConsumer (a `SourceRows`).

    Attributes:
        frame: the rows of its readers' state.
        coordinator: the state of its coordinator.
        notes: what is not as it was.
    """

    frame: Any
    coordinator: bytes
    notes: tuple[str, ...]


def is_kinesis_consumer(operator: Operator) -> bool:
    """Return whether an operator is a FlinkKinesisConsumer."""
    return any(is_consumer_state(state.name, state.value_type) for state in operator.operator_states)


def consumed_partitions(operator: Operator, edits: Sequence[OffsetsEdit]) -> pa.Table:
    """Return the partitions of a FlinkKafkaConsumer: topic, partition, offset of the next record.

    Args:
        edits: new offsets that it gets before.

    Raises:
        InvalidOption: The operator is no FlinkKafkaConsumer.
        NotFound, UnsupportedSnapshot, CorruptSnapshot, MissingFile: as `KafkaConsumerState.changed`.
    """
    state = kafka_consumer_state(operator)
    if state is None:
        raise InvalidOption(
            f"operator {operator.display} has no state of a FlinkKafkaConsumer or a FlinkKinesisConsumer",
            where=Where(operator=operator.display),
            advice="stateproc offsets PATH lists the sources of a snapshot with their connectors",
        )
    moved = state.changed(edits, operator.parallelism, operator.display)
    names, offsets = zip(*((item.partition, item.offset) for item in moved.partitions), strict=True)
    topics, numbers = zip(*names, strict=True)
    return pa.table([topics, numbers, offsets], schema=_PARTITIONS)


def consumed_shards(operator: Operator, stream_arn: str | None) -> Shards:
    """Return what a KinesisStreamsSource of a stream has of a FlinkKinesisConsumer.

    Raises:
        InvalidOption: The consumer reads several streams, or ``stream_arn`` is not that of its stream.
        UnsupportedSnapshot: A shard is to be read from a time that the job has, and not its state.
        SnapshotError: The state cannot be read.
    """
    where = Where(operator=operator.display, state=KINESIS_STATE)
    values = operator.operator_state(KINESIS_STATE).to_arrow().column("value").to_pylist()
    if None in values:  # with on_error='null'
        raise UnsupportedSnapshot(
            "a shard cannot be decoded", where=where, advice="open the snapshot without on_error to see why"
        )
    rows = {_place(row): row for row in values}
    streams = sorted({stream for stream, _ in rows})
    if len(streams) != 1:
        raise InvalidOption(
            f"the consumer reads {len(streams)} streams ({', '.join(streams)}), and a KinesisStreamsSource one",
            where=where,
            advice="start the sources of the streams at a time before the savepoint",
        )
    (stream,) = streams
    if stream_arn is None or not stream_arn.startswith("arn:") or not stream_arn.endswith(f":stream/{stream}"):
        raise InvalidOption(
            f"the stream's ARN is {'not given' if stream_arn is None else repr(stream_arn)}",
            where=where,
            advice=f"give stream-arn: arn:aws:kinesis:REGION:ACCOUNT:stream/{stream}",
        )
    splits = [_split(row, stream_arn, where) for row in rows.values() if row["f1"]["sequenceNumber"] != SHARD_END]
    row = {
        "last_seen_shard_id": max(shard for _, shard in rows),
        "split_version": _KINESIS_VERSION,
        "splits": [{**split, "assigned": True} for split in splits],
    }
    enumerator = kinesis.ENUMERATOR.write(_KINESIS_VERSION, row)
    written = [kinesis.SPLIT.write(_KINESIS_VERSION, split) for split in splits]
    elements = [written_version(item.version, item.payload) for item in written]
    return Shards(
        pa.table({SPLIT: pa.array(elements, pa.binary())}),
        coordinator_of(_SERDE_VERSION, enumerator.version, enumerator.payload),
        tuple(_notes(rows.values())),
    )


def _place(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["f0"]["streamName"], row["f0"]["shardId"]


def _split(row: Mapping[str, Any], stream_arn: str, where: Where) -> FormatRow:
    shard, number = row["f0"], row["f1"]
    stored = number["sequenceNumber"]
    position, sequence = ("AT_SEQUENCE_NUMBER" if _is_in_part(number) else "AFTER_SEQUENCE_NUMBER"), stored
    if stored in MARKERS:
        position, sequence = MARKERS[stored], None
    elif not stored.isdecimal():
        raise UnsupportedSnapshot(
            f"the shard {shard['shardId']} is to be read from {stored}, which only the job knows",
            where=where,
            advice="take a savepoint when a record of the shard has been read, or start the source at that time",
        )
    parents = [shard[name] for name in ("parentShardId", "adjacentParentShardId") if shard[name] is not None]
    return {
        "stream_arn": stream_arn,
        "shard_id": shard["shardId"],
        "position_type": position,
        "timestamp_ms": None,
        "sequence_number": sequence,
        "parent_shard_ids": parents,
        "starting_hash_key": shard["startingHashKey"],
        "ending_hash_key": shard["endingHashKey"],
    }


def _is_in_part(number: Mapping[str, Any]) -> bool:
    """Whether a record was read that is one of an aggregated record."""
    return number["subSequenceNumber"] is not None and number["subSequenceNumber"] >= 0


def _notes(rows: Any) -> list[str]:
    found = []
    ended = [row["f0"]["shardId"] for row in rows if row["f1"]["sequenceNumber"] == SHARD_END]
    if ended:
        found.append(f"read to their end, and left out: {some_of(ended, _SHOWN)}")
    partly = [row["f0"]["shardId"] for row in rows if _is_in_part(row["f1"])]
    if partly:
        found.append(
            f"the last aggregated record of {some_of(partly, _SHOWN)} is read from its beginning again: the source "
            "keeps no place in it"
        )
    return found


def states_left_out(operator: Operator) -> list[str]:
    """Return the names of an operator's states that no source takes over. Raises CorruptSnapshot, MissingFile."""
    names = [info.name for info in merged_operator_header(operator).infos]
    names += [state.name for state in operator.keyed_states]
    return [name for name in names if name not in (CONSUMER_STATE, KINESIS_STATE)]
