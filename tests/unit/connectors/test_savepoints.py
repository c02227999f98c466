"""Savepoints of real jobs with connectors: what their states are recognised as.

The archive tests/vectors/connectors/savepoints.tar.xz has `_metadata` of 16 savepoints, whose states are inlined.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.model.operator_state import opened_state
from stateproc.reports.pending import summary
from tests.helpers.document_runs import unpack_connector_savepoints

KNOWN: dict[str, dict[str, tuple[str, int]]] = {
    "filesink-1.20": {
        "streaming_committer_raw_states": ("committables", 2),
        "writer_raw_states": ("in_progress_file", 4),
    },
    "filesink-compact-1.20": {
        "remaining_compact_commit_raw_state": ("pending_file", 14),
        "remaining_requests_raw_state": ("checkpoints", 2),
        "writer_raw_states": ("in_progress_file", 4),
    },
    "filesource-1.20": {"SourceReaderState": ("reader_offset", 1), "coordinator": ("file", 3)},
    "iceberg-1.10.0": {"iceberg-files-committer-state": ("checkpoints", 1)},
    "iceberg-1.9.2": {"iceberg-files-committer-state": ("checkpoints", 1)},
    "icebergsrc-1.10.0": {"SourceReaderState": ("tasks", 1), "coordinator": ("iceberg", 0)},
    "legacy-jdbc-xa-legacy": {"coordinator": ("number sequence", 0)},
    "legacy-kafka": {"topic-partition-offset-states": ("value", 4)},
    "legacy-kafkaproducer": {"state": ("value", 2)},
    "legacy-kinesis": {"Kinesis-Stream-Shard-State": ("value", 2)},
    "legacy-rmq": {"message-acknowledging-source-state": ("value", 1)},
    "paimon-1.0.1": {"streaming_committer_raw_states": ("commit", 1)},
    "paimon-1.3.1": {"streaming_committer_raw_states": ("commit", 2)},
    "paimonsrc-1.3.1": {},
    "sql-filesystem-1.20": {"bucket-states": ("pending_files", 4)},
    "sql-filesystem-compact-1.20": {"bucket-states": ("pending_files", 4)},
}
"""Savepoint → state → a column of its format, and rows; the coordinator's format, and splits that no reader has."""


@pytest.fixture(scope="session")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("connectors")
    unpack_connector_savepoints(folder)
    return folder


def test_all_savepoints_are_known(savepoints: Path) -> None:
    assert {path.name for path in savepoints.iterdir()} == set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_states_are_decoded(savepoints: Path, name: str) -> None:
    found: dict[str, tuple[str, int]] = {}
    for operator in stateproc.open(savepoints / name).operators:
        for state in operator.operator_states:
            expected = KNOWN[name].get(state.name)
            if expected is not None:
                table = opened_state(state).to_arrow()
                assert expected[0] in table.schema.names
                found[state.name] = (expected[0], table.num_rows)
        coordinator: Any = operator.coordinator
        if coordinator is not None and coordinator["format"] is not None and "coordinator" in KNOWN[name]:
            decoded = coordinator["decoded"]
            splits = decoded.get("splits", decoded.get("pending", {}).get("splits", [])) if decoded else []
            found["coordinator"] = (coordinator["format"], len(splits))
    assert found == KNOWN[name]


def test_offsets_of_old_consumers(savepoints: Path) -> None:
    """FlinkKafkaConsumer stores the last record read, or a marker; FlinkKinesisConsumer a sequence number."""
    (kafka,) = (
        operator for operator in stateproc.open(savepoints / "legacy-kafka").operators if operator.operator_states
    )
    rows = kafka.operator_state("topic-partition-offset-states").to_arrow().column("value").to_pylist()
    stored = {row["f0"]["partition"]: row["f1"] for row in rows}
    assert stored == {0: 1000, 1: 1001, 2: -915623761773, 3: -915623761775}
    (kinesis,) = (it for it in stateproc.open(savepoints / "legacy-kinesis").operators if it.operator_states)
    rows = kinesis.operator_state("Kinesis-Stream-Shard-State").to_arrow().column("value").to_pylist()
    assert {(row["f0"]["streamName"], row["f0"]["shardId"], row["f1"]["sequenceNumber"]) for row in rows} == {
        ("orders", "shardId-000000000000", "49590338271490256608559692540925702759324208523137515618"),
        ("orders", "shardId-000000000001", "SHARD_ENDING_SEQUENCE_NUM"),
    }


def positions(savepoints: Path, name: str) -> list[tuple[Any, ...]]:
    rows = stateproc.open(savepoints / name).offsets().to_pylist()
    return [(row["connector"], row["split"], row["kind"], row["position"], row["phase"]) for row in rows]


def test_positions_of_sources(savepoints: Path) -> None:
    assert positions(savepoints, "legacy-kafka") == [
        ("kafka consumer", "orders-0", "offset", "1001", None),
        ("kafka consumer", "orders-1", "offset", "1002", None),
        ("kafka consumer", "orders-2", "offset", "committed", None),
        ("kafka consumer", "orders-3", "offset", "earliest", None),
    ]
    number = "49590338271490256608559692540925702759324208523137515618"
    assert positions(savepoints, "legacy-kinesis") == [
        ("kinesis consumer", "orders/shardId-000000000000", "sequence number", f"after {number}:3", None),
        ("kinesis consumer", "orders/shardId-000000000001", "marker", "the end of the shard", "shard read to its end"),
    ]
    ((connector, split, kind, ids, _),) = positions(savepoints, "legacy-rmq")
    assert (connector, split, kind) == ("rabbitmq", "checkpoint 1", "to acknowledge")
    assert ids.startswith("15 messages: corr-14, ")
    assert positions(savepoints, "paimonsrc-1.3.1") == [("paimon?", "table", "next snapshot", "3", None)]
    assert ("iceberg", "table", "snapshot", "after 2618069046298402964", None) in positions(
        savepoints, "icebergsrc-1.10.0"
    )
    files = stateproc.open(savepoints / "filesource-1.20").offsets().to_pylist()
    assert [(row["position"], row["subtask"]) for row in files] == [("13 records", 0), *[("byte 0", None)] * 3]


PENDING = {
    "filesink-1.20": "18 files to commit (18,380 bytes), 4 files in progress (1,914 bytes)",
    "iceberg-1.10.0": "2 manifests to commit (1,200 rows, 14,980 bytes)",
    "paimon-1.0.1": "4 files to commit (200 rows, 7,297 bytes)",
    "paimon-1.3.1": "4 files to commit (600 rows, 11,181 bytes)",
    "legacy-jdbc-xa-legacy": "2 XIDs to commit, 2 XIDs to clean up",
    "legacy-kafkaproducer": "2 transactions to commit, 2 transactions in progress",
}


@pytest.mark.parametrize("name", PENDING)
def test_what_sinks_have_not_committed(savepoints: Path, name: str) -> None:
    rows = stateproc.open(savepoints / name).pending().to_pylist()
    assert summary(rows) == PENDING[name]


def test_pending_files_have_their_checkpoint_and_temporary_name(savepoints: Path) -> None:
    rows = stateproc.open(savepoints / "sql-filesystem-1.20").pending().to_pylist()
    files = [row for row in rows if row["kind"] == "file" and row["status"] == "to commit"]
    assert files and {row["checkpoint_id"] for row in files} == {4}
    assert all(".inprogress." in row["temporary"] and row["bytes"] > 0 for row in files)
    assert [row["name"] for row in rows if row["kind"] == "partition"] == ["k=0/", "k=1/"]
    (first, second) = stateproc.open(savepoints / "iceberg-1.9.2").pending().to_pylist()
    assert (first["checkpoint_id"], first["files"], first["rows"]) == (1, 4, 200)
    assert (second["checkpoint_id"], second["files"], second["rows"]) == (2, 4, 600)


def test_a_snapshot_without_sinks_has_nothing_pending(savepoints: Path) -> None:
    assert stateproc.open(savepoints / "filesource-1.20").pending().num_rows == 0


@pytest.mark.parametrize(
    "name", ["files-state", "pending-partitions-with-time", "XaSinkState", "offset-states", "state"]
)
def test_states_of_users_with_these_names_are_theirs(name: str, tmp_path: Path) -> None:
    """A state of another type is not read as a connector's, and no error."""
    bootstrap = OperatorBootstrap().operator_list_state(name, pa.table({"value": [1, 2]}))
    SavepointWriter.new_savepoint(None).with_operator("mine", bootstrap).write(str(tmp_path / "t"))
    snapshot = stateproc.open(tmp_path / "t")
    assert snapshot.pending().num_rows == snapshot.offsets().num_rows == 0
    assert snapshot.operator("mine").state(name).to_arrow().num_rows == 2
