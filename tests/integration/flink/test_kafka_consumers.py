"""FlinkKafkaConsumer and KafkaSource of the connector itself continue where rewritten savepoints say."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from tests.helpers.cases import case_snapshots
from tests.helpers.fixtures import FIXTURES
from tests.helpers.flink.case_jobs import found_by_job
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import Operator, Spec, restore

pytestmark = pytest.mark.flink

SOURCE = next(item.path for item in case_snapshots() if item.case == "kafka-consumer")
UID, NEW = "old-kafka", "orders-from-kafka"


def test_the_consumer_restores_the_offsets_that_were_set(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, SOURCE, {"uids": [UID]})
    offsets = {"orders:0": 5, "größe:1": "earliest", "orders:1": 0}
    writer.set_kafka_offsets(UID, offsets, topics={"payments.eu-west": "committed"}, remove=["orders:2"])
    writer.set_kafka_offsets(UID, {"orders:2": 8, "größe:0": 2**63 - 1})
    writer.write(tmp_path / "moved")
    lines = found_by_job("kafka-consumer", "C05", str(tmp_path / "moved"), tmp_path / "read")
    found = {(line["key"]["topic"], line["key"]["partition"]): line["value"] for line in lines}
    # The consumer itself stores the last record read, and numbers of its own for markers.
    assert found == {
        ("größe", 0): 2**63 - 2,
        ("größe", 1): -915623761775,
        ("orders", 0): 4,
        ("orders", 1): -1,
        ("orders", 2): 7,
        **{("payments.eu-west", number): -915623761773 for number in range(8)},
    }


def test_a_kafka_source_takes_the_offsets_over(tmp_path: Path) -> None:
    """Its operator is one of another job's savepoint, whose other operators show when the job runs."""
    rows = stateproc.open(SOURCE, uids=[UID]).offsets().to_pylist()
    wanted = {(row["topic"], row["partition"]): row["offset"] for row in rows if row["topic"] != "größe"}
    table = pa.Table.from_pylist([{"topic": topic, "partition": part, "offset": offset}
                                  for (topic, part), offset in wanted.items()])  # fmt: skip
    other = FIXTURES / "1.20" / "kafka-rocksdb-canonical" / "snapshot"
    writer = SavepointWriter.from_existing_savepoint(None, other, {"uids": [NEW]}).remove_operator(NEW)
    writer.with_operator(NEW, OperatorBootstrap().kafka_source(table)).write(tmp_path / "migrated")
    folder = (tmp_path / "taken").as_uri()
    options = {
        "execution.checkpointing.dir": folder,
        "state.checkpoints.dir": folder,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    discovered = [f"{topic}:{partition}" for topic, partition in wanted]
    others = [operator for operator in OPERATORS["kafka"] if operator.uid != NEW]
    operators = [*others, Operator(NEW, connected=discovered)]
    path = str(tmp_path / "migrated")
    spec = Spec("migrated", path, operators, ("hashmap",), (2,), options=options, retake="checkpoint")
    restored = restore("1.20", [spec], tmp_path / "restored")["migrated"]
    assert restored.failures() == {}
    rows = stateproc.open(restored.runs["hashmap", 2].savepoint, uids=[NEW]).offsets().to_pylist()
    found = {(row["topic"], row["partition"]): row["offset"] for row in rows if row["subtask"] is not None}
    assert found == wanted
