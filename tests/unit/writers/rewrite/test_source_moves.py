"""Sources that take the place of FlinkKafkaConsumer and FlinkKinesisConsumer, in savepoints of real jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.connectors.kinesis_consumer import CONSUMER_STATE
from stateproc.errors import InvalidOption, InvalidRows, NotFound, UnsupportedSnapshot
from tests.helpers.cases import case_snapshots
from tests.helpers.command_runs import CommandRun, command_runner
from tests.helpers.document_runs import unpack_connector_savepoints

KAFKA = [item.path for item in case_snapshots() if item.case == "kafka-consumer"]
OLD, NEW = "old-kafka", "new-kafka"
STREAM = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
NUMBER = "49590338271490256608559692540925702759324208523137515618"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    return command_runner(capfd, monkeypatch)


@pytest.fixture(scope="module")
def kinesis(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The savepoint of a job with a FlinkKinesisConsumer, and its uid hash."""
    folder = tmp_path_factory.mktemp("connectors")
    unpack_connector_savepoints(folder)
    path = str(folder / "legacy-kinesis")
    (operator,) = (item for item in stateproc.open(path).operators if item.operator_states)
    return path, operator.operator_id


def consumer(path: str) -> SavepointWriter:
    """A writer of the savepoint without the topic that has no name which Kafka allows."""
    writer = SavepointWriter.from_existing_savepoint(None, path, {"uids": [OLD]})
    return writer.set_kafka_offsets(OLD, remove=["größe:0", "größe:1"])


def offsets(path: Any, uid: str) -> dict[tuple[str, int], int]:
    rows = stateproc.open(path, uids=[uid]).offsets().to_pylist()
    return {(row["topic"], row["partition"]): row["offset"] for row in rows if row["topic"] != "größe"}


@pytest.mark.parametrize("path", KAFKA)
@pytest.mark.parametrize("version", [None, 1, 2, 3])
def test_a_kafka_source_has_the_consumers_partitions(path: str, version: int | None, tmp_path: Path) -> None:
    writer = consumer(path).set_kafka_offsets(OLD, {"orders:0": 5})
    writer.move_source(OLD, NEW, enumerator_version=version).write(tmp_path / "moved")
    after = stateproc.open(tmp_path / "moved", uids=[NEW])
    assert offsets(tmp_path / "moved", NEW) == {**offsets(path, OLD), ("orders", 0): 5}
    source, before = after.operator(NEW), stateproc.open(path, uids=[OLD]).operator(OLD)
    assert (source.parallelism, source.max_parallelism) == (before.parallelism, before.max_parallelism)
    coordinator: Any = source.coordinator
    assert coordinator["enumerator_version"] == (version or 2)
    assert all(row["assigned"] for row in coordinator["decoded"]["partitions"])
    assert [state.name for state in source.operator_states] == ["SourceReaderState"]
    with pytest.raises(NotFound):
        after.operator(OLD)
    assert not after.verify().problems
    # All other operators are as they were.
    kept = {item.operator_id for item in stateproc.open(path).operators} - {before.operator_id}
    assert {item.operator_id for item in after.operators} == {*kept, source.operator_id}


def test_the_source_may_have_the_uid_of_the_consumer(tmp_path: Path) -> None:
    consumer(KAFKA[0]).move_source(OLD, OLD).with_parallelism(OLD, 1).write(tmp_path / "same")
    (state,) = stateproc.open(tmp_path / "same", uids=[OLD]).operator(OLD).operator_states
    assert state.name == "SourceReaderState"
    assert offsets(tmp_path / "same", OLD) == offsets(KAFKA[0], OLD)


def test_numbers_that_were_set_for_the_consumer_are_those_of_the_source(tmp_path: Path) -> None:
    writer = consumer(KAFKA[0]).with_max_parallelism(64, OLD).with_parallelism(OLD, 3)
    writer.move_source(OLD, NEW).write(tmp_path / "moved")
    source = stateproc.open(tmp_path / "moved", uids=[NEW]).operator(NEW)
    assert (source.parallelism, source.max_parallelism) == (3, 64)


def test_what_does_not_fit_is_refused(kinesis: tuple[str, str]) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, KAFKA[0], {"uids": [OLD]})
    with pytest.raises(InvalidRows, match="no topic of Kafka"):
        writer.move_source(OLD, NEW)
    other = next(item.operator_id for item in stateproc.open(KAFKA[0]).operators if item.uid != OLD)
    with pytest.raises(InvalidOption, match="there is an operator"):
        consumer(KAFKA[0]).move_source(OLD, other)
    with pytest.raises(InvalidOption, match="no state of a FlinkKafkaConsumer or a FlinkKinesisConsumer"):
        consumer(KAFKA[0]).move_source(other, NEW)
    with pytest.raises(InvalidOption, match="reads Kafka"):
        consumer(KAFKA[0]).move_source(OLD, NEW, stream_arn=STREAM)
    path, uid = kinesis
    for arn in (None, "orders", "arn:aws:kinesis:x:1:stream/others"):
        with pytest.raises(InvalidOption, match="the stream's ARN is") as caught:
            SavepointWriter.from_existing_savepoint(None, path).move_source(uid, NEW, stream_arn=arn)
        assert ":stream/orders" in (caught.value.advice or "")
    with pytest.raises(InvalidOption, match="reads Kinesis"):
        SavepointWriter.from_existing_savepoint(None, path).move_source(
            uid, NEW, stream_arn=STREAM, enumerator_version=2
        )


def test_a_kinesis_source_has_the_consumers_shards(
    kinesis: tuple[str, str], tmp_path: Path, run: Callable[..., CommandRun]
) -> None:
    path, uid = kinesis
    target = str(tmp_path / "moved")
    out = run("move-source", path, target, "--uid", uid, "--to", "orders", "--stream-arn", STREAM).out
    assert "left out: shardId-000000000001" in out
    assert "aggregated record of shardId-000000000000" in out
    rows = stateproc.open(target, uids=["orders"]).offsets().to_pylist()
    assert [(row["connector"], row["split"], row["kind"], row["position"], row["subtask"]) for row in rows] == [
        ("kinesis", "orders/shardId-000000000000", "sequence number", f"at {NUMBER}", 0)
    ]
    operator = stateproc.open(target, uids=["orders"]).operator("orders")
    (split,) = operator.operator_state("SourceReaderState").to_arrow().to_pylist()
    coordinator: Any = operator.coordinator
    assert coordinator["enumerator_version"] == 1
    assert coordinator["decoded"]["last_seen_shard_id"] == "shardId-000000000001"
    (known,) = coordinator["decoded"]["splits"]
    assert known["assigned"] is True
    expected = {"stream_arn": STREAM, "shard_id": "shardId-000000000000", "starting_hash_key": "0",
                "ending_hash_key": "170141183460469231731687303715884105727", "parent_shard_ids": []}  # fmt: skip
    assert expected.items() <= known.items()
    assert isinstance(split["value"], bytes)
    # The position can be set on.
    run("set-offsets", target, str(tmp_path / "set"), "--uid", "orders", "--position", "*=trim_horizon")
    found = stateproc.open(tmp_path / "set", uids=["orders"]).offsets().to_pylist()
    assert [row["position"] for row in found] == ["TRIM_HORIZON"]


def shards(path: Path, *numbers: tuple[str, str, str, int]) -> tuple[Path, str]:
    """A savepoint like a FlinkKinesisConsumer's: stream, shard, sequence number, number in an aggregated record."""
    rows = [
        {
            "f0": {
                "streamName": stream, "shardId": shard, "parentShardId": "shardId-0", "adjacentParentShardId": None,
                "startingHashKey": "0", "endingHashKey": "9", "startingSequenceNumber": None,
                "endingSequenceNumber": None,
            },
            "f1": {"sequenceNumber": number, "subSequenceNumber": sub},
        }
        for stream, shard, number, sub in numbers
    ]  # fmt: skip
    metadata = dict.fromkeys(rows[0]["f0"], types.STRING)
    last = types.Pojo("SequenceNumber", {"sequenceNumber": types.STRING, "subSequenceNumber": types.LONG})
    kind = types.Tuple(types.Pojo("StreamShardMetadata", metadata), last)
    state = OperatorBootstrap().union_list_state(CONSUMER_STATE, pa.table({"value": rows}), type=kind)
    SavepointWriter.new_savepoint(None).with_operator("consumer", state).write(path)
    return path, "consumer"


def test_markers_and_positions_of_shards(tmp_path: Path) -> None:
    path, uid = shards(
        tmp_path / "old",
        ("orders", "shardId-1", "LATEST_SEQUENCE_NUM", -1),
        ("orders", "shardId-2", "EARLIEST_SEQUENCE_NUM", -1),
        ("orders", "shardId-3", NUMBER, -1),
        ("orders", "shardId-4", "5", 0),
    )
    writer = SavepointWriter.from_existing_savepoint(None, path)
    writer.move_source(uid, "orders", stream_arn=STREAM)
    assert any("aggregated record of shardId-4 " in note for note in writer.plan().notes)
    writer.write(tmp_path / "new")
    rows = stateproc.open(tmp_path / "new").offsets().to_pylist()
    assert {row["split"][-1]: row["position"] for row in rows} == {
        "1": "LATEST", "2": "TRIM_HORIZON", "3": f"after {NUMBER}", "4": "at 5",
    }  # fmt: skip
    coordinator: Any = stateproc.open(tmp_path / "new").operator("orders").coordinator
    assert {tuple(row["parent_shard_ids"]) for row in coordinator["decoded"]["splits"]} == {("shardId-0",)}


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([("orders", "shardId-1", "AT_TIMESTAMP_SEQUENCE_NUM", -1)], UnsupportedSnapshot, "only the job knows"),
        ([("orders", "shardId-1", "5", -1), ("others", "shardId-1", "5", -1)], InvalidOption, "2 streams"),
    ],
)
def test_shards_that_no_source_can_have(
    rows: list[tuple[str, str, str, int]], error: type[Exception], message: str, tmp_path: Path
) -> None:
    path, uid = shards(tmp_path / "old", *rows)
    with pytest.raises(error, match=message) as caught:
        SavepointWriter.from_existing_savepoint(None, path).move_source(uid, "orders", stream_arn=STREAM)
    assert getattr(caught.value, "advice", None)
