"""New offsets of a KafkaSource: readers' splits and the coordinator's partitions, in every version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import stateproc
from stateproc.connectors.kafka import EnumeratedPartition, KafkaSplit
from stateproc.connectors.operator_states import read_coordinator
from stateproc.errors import InvalidOption, NotFound
from stateproc.writers.rewrite.kafka_offsets import KafkaSourceState, OffsetsEdit, ReaderSplit, kafka_source_state
from tests.helpers.fixtures import FIXTURES

VERSIONS = (0, 1, 2, 3)
STATE = KafkaSourceState(
    splits=(
        ReaderSplit(0, KafkaSplit("a", 0, 10), b"stored"),
        ReaderSplit(0, KafkaSplit("a", 1, 11, 500), b"stored"),
        ReaderSplit(1, KafkaSplit("b", 0, -2), b"stored"),
    ),
    partitions=(
        EnumeratedPartition("a", 0, True, 1),
        EnumeratedPartition("a", 1, True, 2, 500),
        EnumeratedPartition("b", 0, True),
        EnumeratedPartition("b", 1, False, 7, 70),
    ),
    discovered=True,
    serde_version=1,
    enumerator_version=3,
    assignments=b"",
    coordinator_name="name",
)


def changed(edit: OffsetsEdit, state: KafkaSourceState = STATE, subtasks: int = 2) -> KafkaSourceState:
    return state.changed([edit], subtasks, "source")


def splits(state: KafkaSourceState) -> list[tuple[Any, ...]]:
    return [
        (item.subtask, *item.partition, item.split.offset, item.split.stopping_offset, item.stored is not None)
        for item in state.splits
    ]


def partitions(state: KafkaSourceState) -> list[tuple[Any, ...]]:
    decoded = read_coordinator(state.coordinator().data)["decoded"]
    names = ("topic", "partition", "starting_offset", "stopping_offset", "assigned")
    return sorted(tuple(row[name] for name in names) for row in decoded["partitions"])


def test_a_named_partition_moves_and_others_stay() -> None:
    state = changed(OffsetsEdit({("a", 0): 99}))
    assert splits(state) == [(0, "a", 0, 99, None, False), (0, "a", 1, 11, 500, True), (1, "b", 0, -2, None, True)]
    assert partitions(state) == [
        ("a", 0, 99, None, True), ("a", 1, 2, 500, True), ("b", 0, None, None, True), ("b", 1, 7, 70, False),
    ]  # fmt: skip


def test_new_partitions_go_to_the_reader_with_the_fewest() -> None:
    state = changed(OffsetsEdit({("c", 0): 5, ("c", 1): -1, ("b", 1): 30}), subtasks=3)
    assert splits(state)[3:] == [(2, "b", 1, 30, 70, False), (1, "c", 0, 5, None, False), (2, "c", 1, -1, None, False)]
    assert partitions(state)[3:] == [
        ("b", 1, 30, 70, True), ("c", 0, 5, None, True), ("c", 1, -1, None, True),
    ]  # fmt: skip


def test_what_is_named_more_precisely_has_precedence() -> None:
    state = changed(OffsetsEdit({("b", 0): 3}, {"b": -3}, -2, frozenset({("a", 1)})))
    assert splits(state) == [(0, "a", 0, -2, None, False), (1, "b", 0, 3, None, False), (0, "b", 1, -3, 70, False)]
    assert [row[:2] for row in partitions(state)] == [("a", 0), ("b", 0), ("b", 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_of_the_enumerator_is_kept(version: int) -> None:
    """Versions 0 and 1 have assigned partitions only, versions 1 and 2 no offsets."""
    serde, assignments = (0, b"\0" * 8) if version == 0 else (1, b"")
    before = replace(STATE, enumerator_version=version, serde_version=serde, assignments=assignments, discovered=False)
    state = changed(OffsetsEdit({("a", 0): 99, ("c", 0): 4}), before)
    found = read_coordinator(state.coordinator().data)
    assert (found["enumerator_version"], found["serde_version"], found["assignments"]) == (version, serde, assignments)
    assert found["decoded"]["initial_discovery_finished"] is (False if version > 1 else None)
    stored = [("a", 0, True), ("a", 1, True), ("b", 0, True), ("b", 1, False), ("c", 0, True)]
    wanted = [item for item in stored if version > 1 or item[2]]
    assert [(*row[:2], row[4]) for row in partitions(state)] == wanted
    offsets = [row[2] for row in partitions(state)]
    assert offsets == {0: [99, 2, None, 4], 3: [99, 2, None, 7, 4]}.get(version, [None] * len(wanted))


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (OffsetsEdit({("a", 1): 501}), InvalidOption, "offset 501 of a:1 is after 500, where its split ends"),
        (OffsetsEdit(removed=frozenset({("a", 7)})), NotFound, "a:7"),
        (OffsetsEdit(topics={"c": -1}), NotFound, "'c'"),
        (
            OffsetsEdit(removed=frozenset({("a", 0), ("a", 1), ("b", 0), ("b", 1)})),
            InvalidOption,
            "would have no partitions",
        ),
    ],
)
def test_edits_that_do_not_fit_are_refused(edit: OffsetsEdit, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        changed(edit)


@pytest.mark.parametrize("case", ["kafka-rocksdb-canonical", "kafka-hashmap-checkpoint"])
@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_the_state_of_a_real_job_is_written_as_it_was_read(release: str, case: str) -> None:
    snapshot = stateproc.open(str(FIXTURES / release / case / "snapshot"), uids=["orders-from-kafka"])
    operator = snapshot.operator("orders-from-kafka")
    state = kafka_source_state(operator)
    assert len(state.splits) == 5 and len(state.partitions) == 6
    assert operator.metadata.coordinator == state.coordinator()
    again = replace(state, splits=tuple(replace(item, stored=None) for item in state.splits))
    assert again.elements() == state.elements()


def test_other_operators_are_no_source() -> None:
    snapshot = stateproc.open(stateproc.bundled_snapshot("shop"), uids=["orders-per-customer"])
    with pytest.raises(InvalidOption, match="operator orders-per-customer has no state of a KafkaSource"):
        kafka_source_state(snapshot.operator("orders-per-customer"))
