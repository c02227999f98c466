"""Kafka offsets written from DataFrames have the bytes that the connector wrote for the same offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import stateproc
from stateproc import InvalidOption, InvalidRows, NotFound, OperatorBootstrap, SavepointWriter
from stateproc.model.operator import Operator
from stateproc.reports.source_positions import kafka_offsets
from tests.helpers.fixtures import FIXTURES

UID = "orders-from-kafka"
COLUMNS = "topic string, partition int, offset long, stopping_offset long, subtask int"
RELEASES = ("1.20", "2.3")


def theirs(release: str) -> stateproc.Snapshot:
    return stateproc.open(str(FIXTURES / release / "kafka-rocksdb-canonical" / "snapshot"), uids=[UID])


def offsets(snapshot: stateproc.Snapshot) -> list[tuple[Any, ...]]:
    names = ("topic", "partition", "offset", "stopping_offset", "subtask")
    return sorted(tuple(row[name] for name in names) for row in kafka_offsets(snapshot.operators))


def written(spark: SparkSession, frame: DataFrame, path: Path, version: str = "1.20", **options: Any) -> Operator:
    source = OperatorBootstrap().kafka_source(frame, **options)
    writer = SavepointWriter.new_savepoint(spark).with_flink_version(version).with_operator(UID, source)
    return stateproc.open(writer.with_parallelism(UID, 2).write(path)).operator(UID)


@pytest.mark.parametrize("release", RELEASES)
def test_written_bytes_equal_those_of_the_connector(spark: SparkSession, tmp_path: Path, release: str) -> None:
    """Compare the splits of each reader, and the coordinator's state without the order of its hash set."""
    expected = theirs(release)
    frame = spark.createDataFrame(offsets(expected), COLUMNS)
    options = {"stopping_offset": "stopping_offset", "subtask": "subtask"}
    ours = written(spark, frame, tmp_path / "s", release, **options)
    assert offsets(stateproc.open(str(tmp_path / "s"))) == offsets(expected)
    source = expected.operator(UID)
    found, wanted = (side.state("SourceReaderState").to_arrow().to_pylist() for side in (ours, source))
    assert found == wanted
    assert declared(ours) == declared(source)
    mine, other = (side.metadata.coordinator for side in (ours, source))
    assert mine is not None and other is not None and mine.name == other.name
    assert cut(mine.data) == cut(other.data)


def declared(operator: Operator) -> list[Any]:
    return [(info.name, info.options, info.snapshots) for info in operator.operator_files[0].header.states]


def cut(data: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Return head (serde version, enumerator version, length, count), 21 bytes per partition (sorted), and flag."""
    body = data[16:-1]
    return data[:16], sorted(body[n : n + 21] for n in range(0, len(body), 21)), data[-1:]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_enumerator_state_of_each_version(spark: SparkSession, tmp_path: Path, version: int) -> None:
    rows = [("b.c", 1, -2), ("a", 3, 7), ("a", 0, 2**63 - 1)]
    operator = written(
        spark, spark.createDataFrame(rows, "t string, p short, o long"), tmp_path / "s", topic="t", partition="p",
        offset="o", enumerator_version=version,
    )  # fmt: skip
    assert operator.coordinator is not None and operator.coordinator["enumerator_version"] == version
    partitions = operator.coordinator["decoded"]["partitions"]
    assert [(row["topic"], row["partition"], row["assigned"]) for row in partitions] == [
        ("a", 0, True), ("a", 3, True), ("b.c", 1, True),
    ]  # fmt: skip
    assert [row["starting_offset"] for row in partitions] == ([2**63 - 1, 7, -2] if version == 3 else [None] * 3)
    found = offsets(stateproc.open(str(tmp_path / "s")))
    assert [row[:4] for row in found] == [("a", 0, 2**63 - 1, None), ("a", 3, 7, None), ("b.c", 1, -2, None)]
    assert sorted(row[4] for row in found) in ([0, 0, 1], [0, 1, 1])


def test_partitions_without_a_reader_are_unassigned(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", 0, 5), ("a", 1, None)], "topic string, partition int, offset long")
    second = written(spark, frame, tmp_path / "2").coordinator
    assert second is not None
    assert [row["assigned"] for row in second["decoded"]["partitions"]] == [True, False]
    first = written(spark, frame, tmp_path / "1", enumerator_version=1).coordinator
    assert first is not None
    assert [row["partition"] for row in first["decoded"]["partitions"]] == [0]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([("a", 0, -4)], {}, r"the offset -4 \(topic='a', partition=0\)"),
        ([("a b", 0, 1)], {}, "no topic of Kafka"),
        ([(None, 0, 1)], {}, "no topic of Kafka"),
        ([("a", None, 1)], {}, "no partition"),
        ([("a", -1, 1)], {}, "no partition"),
        ([("a", 0, 1), ("a", 0, 2)], {}, "a partition twice"),
        ([("a", 0, None)], {"enumerator_version": 3}, "no offset"),
        ([("a", 0, 1)], {"stopping_offset": "other"}, "the stopping offset -2"),
        ([], {}, "there are no rows"),
    ],
)
def test_invalid_offsets_are_refused(spark: SparkSession, rows: Any, options: Any, message: str) -> None:
    frame = spark.createDataFrame(rows, "topic string, partition int, offset long").selectExpr("*", "-2L as other")
    with pytest.raises(InvalidRows, match=message):
        OperatorBootstrap().kafka_source(frame, **options)


def test_arguments_of_a_source_are_checked_before_the_write(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 0, 1)], "topic string, partition int, offset long")
    with pytest.raises(InvalidOption, match="no enumerator version 4"):
        OperatorBootstrap().kafka_source(frame, enumerator_version=4)
    with pytest.raises(NotFound, match="offse"):
        OperatorBootstrap().kafka_source(frame, offset="offse")
    with pytest.raises(InvalidOption, match="column 'topic' is string, and no whole number"):
        OperatorBootstrap().kafka_source(frame, offset="topic")
