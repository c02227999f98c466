"""FlinkKinesisConsumer (Flink 1.x), the source before KinesisStreamsSource.

The union state ``Kinesis-Stream-Shard-State`` has an element per shard: Tuple2<StreamShardMetadata, SequenceNumber>, a
POJO and an object by Kryo: streamName, shardId, parentShardId, adjacentParentShardId, startingHashKey, endingHashKey
…; sequenceNumber and subSequenceNumber of the last record that was read, the second -1 where records are not
aggregated. A sequence number may be a marker of SentinelSequenceNumber.
"""

from __future__ import annotations

CONSUMER_STATE = "Kinesis-Stream-Shard-State"
_TYPE = "Tuple2<Pojo StreamShardMetadata"
MARKERS = {"LATEST_SEQUENCE_NUM": "LATEST", "EARLIEST_SEQUENCE_NUM": "TRIM_HORIZON"}
"""Marker → the position of KinesisStreamsSource."""
AT_TIMESTAMP, SHARD_END = "AT_TIMESTAMP_SEQUENCE_NUM", "SHARD_ENDING_SEQUENCE_NUM"


def is_consumer_state(name: str, value_type: str | None) -> bool:
    """Return whether a state is the consumer's: users' own states may have its name, too."""
    return name == CONSUMER_STATE and (value_type or "").startswith(_TYPE)
