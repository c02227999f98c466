"""Offsets in the state of FlinkKafkaConsumer (Flink 1.x), the source before KafkaSource.

The union state ``topic-partition-offset-states`` has an element per partition: Tuple2<KafkaTopicPartition, Long>, the
partition by Kryo. The Long is the offset of the last record that was read (the consumer continues at the next), or one
of the markers of KafkaTopicPartitionStateSentinel. Here offsets are those of the next record, with the markers of
KafkaSource, as in `stateproc.connectors.kafka`.
"""

from __future__ import annotations

from stateproc.connectors.kafka import COMMITTED, EARLIEST, LATEST
from stateproc.errors import UnsupportedSnapshot

CONSUMER_STATE = "topic-partition-offset-states"
PARTITION_CLASS = "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition"
_NOT_SET = -915623761776
_MARKERS = {-915623761775: EARLIEST, -915623761774: LATEST, -915623761773: COMMITTED}
_STORED = {marker: stored for stored, marker in _MARKERS.items()}
_INT_MASK, _INT_SIGN = 0xFFFFFFFF, 0x80000000


def next_offset(stored: int) -> int | None:
    """Return where the consumer continues: an offset or a marker, None if it is not set.

    Raises:
        UnsupportedSnapshot: The number is neither the offset of a record nor a marker.
    """
    if stored == _NOT_SET:
        return None
    if stored in _MARKERS:
        return _MARKERS[stored]
    if not -1 <= stored < (1 << 63) - 1:
        raise UnsupportedSnapshot(
            f"{stored} is neither the offset of a record in Kafka nor a marker of FlinkKafkaConsumer",
            advice=f"read the rows as they are: --operator-state {CONSUMER_STATE}",
        )
    return stored + 1


def stored_offset(offset: int) -> int:
    """Return what the consumer stores for the offset of the next record, or for a marker."""
    return _STORED[offset] if offset in _STORED else offset - 1


def cached_hash(topic: str, partition: int) -> int:
    """Return KafkaTopicPartition.hashCode(), which its field ``cachedHash`` contains."""
    result = 0
    data = topic.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        result = (31 * result + int.from_bytes(data[at : at + 2], "big")) & _INT_MASK
    result = (31 * result + partition) & _INT_MASK
    return result - (1 << 32) if result & _INT_SIGN else result
