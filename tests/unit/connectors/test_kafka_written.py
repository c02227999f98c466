"""Writing splits and coordinators of Kafka sources in the connector's bytes."""

from __future__ import annotations

import pytest

import stateproc
from stateproc.connectors.kafka import KafkaSplit, written_coordinator, written_split
from stateproc.connectors.operator_states import read_coordinator
from tests.helpers.fixtures import FIXTURES

RELEASES = ("1.20", "2.3")


@pytest.mark.parametrize("release", RELEASES)
def test_written_bytes_equal_those_of_the_connector(release: str) -> None:
    """Write the rows that were read from the connector's state, in the order of its hash set."""
    path = FIXTURES / release / "kafka-rocksdb-canonical" / "snapshot"
    operator = stateproc.open(str(path), uids=["orders-from-kafka"]).operator("orders-from-kafka")
    state, coordinator = operator.state("SourceReaderState", raw=True), operator.metadata.coordinator
    assert coordinator is not None and operator.coordinator is not None
    splits = {}
    for data in state.to_arrow().column("value").to_pylist():
        topic_end = 10 + int.from_bytes(data[8:10], "big")
        numbers = data[topic_end:]
        partition, offset, stop = (
            int.from_bytes(numbers[at:end], "big", signed=True) for at, end in ((0, 4), (4, 12), (12, 20))
        )
        found = KafkaSplit(data[10:topic_end].decode(), partition, offset, None if stop == -(2**63) else stop)
        assert written_split(found) == data
        splits[found.partition] = found
    assert {split.stopping_offset for split in splits.values()} == {None, 90_000_000_000}
    rows = operator.coordinator["decoded"]["partitions"]
    in_order = [splits.get(row["partition"], KafkaSplit(row["topic"], row["partition"], None)) for row in rows]
    assert [split.offset is not None for split in in_order] == [row["assigned"] for row in rows]
    assert written_coordinator(in_order, 2) == coordinator.data


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_written_coordinator_of_every_version_is_decoded(version: int) -> None:
    splits = [KafkaSplit("a", 3, 7), KafkaSplit("b.c", 0, -2, 2**63 - 1)]
    decoded = read_coordinator(written_coordinator(splits, version))
    assert (decoded["serde_version"], decoded["enumerator_version"], decoded["format"]) == (1, version, "kafka")
    offsets = [(7, None), (-2, 2**63 - 1)] if version == 3 else [(None, None)] * 2
    assert decoded["decoded"]["partitions"] == [
        {"topic": split.topic, "partition": split.partition, "assigned": True, "starting_offset": start,
         "stopping_offset": stop}
        for split, (start, stop) in zip(splits, offsets, strict=True)
    ]  # fmt: skip
