"""The offsets of FlinkKafkaConsumer, the Kafka source before KafkaSource."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import stateproc
from stateproc.connectors.kafka_consumer import CONSUMER_STATE, cached_hash, next_offset, stored_offset
from stateproc.errors import InvalidOption, NotFound, UnsupportedSnapshot
from stateproc.verification.class_mentions import mentioned_classes
from stateproc.writers.rewrite.kafka_consumer_offsets import KafkaConsumerState, kafka_consumer_state
from stateproc.writers.rewrite.kafka_offsets import OffsetsEdit
from stateproc.writers.rewrite.operator_state_edits import kafka_state
from tests.helpers.cases import CaseSnapshot, ExpectedState, case_snapshots
from tests.helpers.command_runs import CommandRun, command_runner

SNAPSHOTS = [item for item in case_snapshots() if item.case == "kafka-consumer"]
UID = "old-kafka"
Partition = tuple[str, int]


def recorded(snapshot: CaseSnapshot) -> dict[Partition, int]:
    """What the job recorded: the last record read of each partition."""
    (state,) = snapshot.states()
    assert isinstance(state, ExpectedState)
    return {(line["key"]["topic"], line["key"]["partition"]): line["value"] for line in state.lines}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    return command_runner(capfd, monkeypatch)


@pytest.fixture
def state() -> KafkaConsumerState:
    found = kafka_consumer_state(SNAPSHOTS[0].open().operator(UID))
    assert found is not None
    return found


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_rows_need_no_description(snapshot: CaseSnapshot, run: Callable[..., CommandRun]) -> None:
    rows = run("read", snapshot.path, "--uid", UID, "--operator-state", CONSUMER_STATE, "--format", "jsonl").rows
    assert rows == snapshot.open().operator(UID).operator_state(CONSUMER_STATE).to_arrow().to_pylist()
    found = {(row["value"]["f0"]["topic"], row["value"]["f0"]["partition"]): row["value"]["f1"] for row in rows}
    assert found == recorded(snapshot)
    assert all(cached_hash(key["topic"], key["partition"]) == key["cachedHash"]
               for key in (row["value"]["f0"] for row in rows))  # fmt: skip


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_offsets_are_those_of_the_next_record(snapshot: CaseSnapshot, run: Callable[..., CommandRun]) -> None:
    rows = run("offsets", snapshot.path, "--uids", UID, "--json").rows
    assert {(row["topic"], row["partition"]): row["offset"] - 1 for row in rows} == recorded(snapshot)
    assert {row["operator"] for row in rows} == {UID}
    assert rows == snapshot.open().offsets().to_pylist()
    assert rows == snapshot.open().sql("SELECT * FROM offsets").to_pylist()
    shown = run("offsets", snapshot.path, "--uids", UID)
    assert "2317006952" in shown.out
    assert "the last record read" in shown.err


def test_a_description_of_ones_own_has_precedence() -> None:
    classes = {"org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition":
               {"h": "int", "p": "int", "t": "String"}}  # fmt: skip
    state = SNAPSHOTS[0].open(classes=classes).operator(UID).operator_state(CONSUMER_STATE)
    assert [field.name for field in state.schema().field("value").type.field("f0").type] == ["h", "p", "t"]


@pytest.mark.parametrize(
    ("stored", "offset"),
    [(-915623761775, -2), (-915623761774, -1), (-915623761773, -3), (-1, 0), (41, 42), ((1 << 63) - 2, (1 << 63) - 1)],
)
def test_offsets_and_markers_both_ways(stored: int, offset: int) -> None:
    assert next_offset(stored) == offset
    assert stored_offset(offset) == stored


def test_other_numbers_are_no_offsets() -> None:
    assert next_offset(-915623761776) is None
    for stored in (-2, -3, -915623761772, (1 << 63) - 1, -(1 << 63)):
        with pytest.raises(UnsupportedSnapshot, match="neither the offset"):
            next_offset(stored)


def test_moved_added_and_removed_partitions(state: KafkaConsumerState) -> None:
    edit = OffsetsEdit({("orders", 0): 5, ("neu", 3): -1}, {"größe": -2}, None, frozenset({("orders", 2)}))
    changed = state.changed([edit], 2, UID)
    before, after = state.offsets, changed.offsets
    assert after == {
        **{key: offset for key, offset in before.items() if key != ("orders", 2)},
        ("orders", 0): 5, ("neu", 3): -1, ("größe", 0): -2, ("größe", 1): -2,
    }  # fmt: skip
    heads = {item.partition: item.head for item in state.partitions}
    assert all(item.head == heads.get(item.partition, item.head) for item in changed.partitions)
    again = [item.element for item in state.partitions]
    assert [value for part in state.elements() for value in part.values] == again
    assert next(item for item in changed.partitions if item.partition == ("neu", 3)).subtask == 0


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (OffsetsEdit(removed=frozenset({("orders", 7)})), NotFound, "orders:7"),
        (OffsetsEdit(topics={"c": -1}), NotFound, "'c'"),
    ],
)
def test_edits_that_do_not_fit(
    state: KafkaConsumerState, edit: OffsetsEdit, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        state.changed([edit], 2, UID)
    with pytest.raises(InvalidOption, match="no partitions"):
        state.changed([OffsetsEdit(removed=frozenset(state.known))], 2, UID)


def test_the_command_writes_them(tmp_path: Path, run: Callable[..., CommandRun]) -> None:
    source, target = SNAPSHOTS[0].path, str(tmp_path / "moved")
    arguments = ("set-offsets", source, target, "--uids", UID, "--uid", UID, "--offsets", "orders:0=5", "--json")
    plan = json.loads(run(*arguments).out)
    (operator,) = (item for item in plan["operators"] if item["uid"] == UID)
    assert "new Kafka offsets" in json.dumps(operator)
    before, after = (
        {(row["topic"], row["partition"]): row["offset"] for row in stateproc.open(path).offsets().to_pylist()}
        for path in (source, target)
    )
    assert after == {**before, ("orders", 0): 5}
    assert not stateproc.open(target).verify().problems


def test_other_operators_are_refused_with_advice_that_works(run: Callable[..., CommandRun]) -> None:
    with pytest.raises(InvalidOption, match=r"KafkaSource .* or of a FlinkKafkaConsumer") as caught:
        kafka_state(SNAPSHOTS[0].open().operator("src"))
    assert "stateproc offsets PATH" in (caught.value.advice or "")


def test_classes_that_connectors_write_are_named_if_they_need_a_description() -> None:
    from stateproc.serializers import LayoutContext
    from stateproc.serializers.kryo.serializer import Kryo
    from stateproc.verification.class_mentions import Readability, mentions

    assert mentioned_classes(SNAPSHOTS[0].open().operators) == ()
    unknown = list(mentions(Kryo("org.apache.flink.connector.unknown.Split"), LayoutContext()))
    assert [(item.class_name, item.readability) for item in unknown] == [
        ("org.apache.flink.connector.unknown.Split", Readability.IF_DESCRIBED)
    ]
    assert not list(mentions(Kryo("org.apache.flink.core.fs.Path"), LayoutContext()))


def test_a_new_source_takes_the_offsets_over(tmp_path: Path) -> None:
    """The recipe of docs/kafka-offsets.md."""
    from stateproc import OperatorBootstrap, SavepointWriter

    source = SNAPSHOTS[0].path
    offsets = stateproc.open(source, uids=[UID]).offsets()
    offsets = offsets.filter(pa.compute.not_equal(offsets["topic"], "größe"))  # no name that Kafka allows
    writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": [UID]}).remove_operator(UID)
    writer.with_operator("new-kafka", OperatorBootstrap().kafka_source(offsets)).write(tmp_path / "new")
    found = stateproc.open(tmp_path / "new", uids=["new-kafka"]).offsets()
    names = ["topic", "partition", "offset"]
    assert found.select(names).to_pylist() == offsets.select(names).to_pylist()
