"""The Kafka connector's own reader and enumerator start at the offsets that were set, without a broker.

Each savepoint is restored, Flink takes a checkpoint of what the connector has restored, and that is read back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from tests.helpers.fixtures import FIXTURES
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import Operator, Restored, Spec, restore

pytestmark = pytest.mark.flink

UID = "orders-from-kafka"
RELEASES = ("1.20", "2.3")
Partition = tuple[str, int]
DISCOVERED = [*(f"shop.orders:{number}" for number in range(6)), "returns:0"]
"""The partitions that the source finds in Kafka; those that it knows already do not start anew."""
KEPT = ("shop.orders", 1)
WANTED: dict[Partition, int] = {
    ("returns", 0): 12,
    ("shop.orders", 0): 17,
    ("shop.orders", 2): 0,
    ("shop.orders", 3): 15000845181,
    ("shop.orders", 4): 2**63 - 1,
    ("shop.orders", 5): 3,
}
MARKERS = {"committed": -3, "earliest": -2, "latest": -1}
STOPS = {("shop.orders", 3): 90000000000}
OFFSETS = {"shop.orders:0": 17, "shop.orders:2": 0, "shop.orders:3": 15000845181, "shop.orders:4": 2**63 - 1,
           "shop.orders:5": 3, "returns:0": 12}  # fmt: skip


@dataclass(frozen=True)
class Taken:
    """What the connector restored: its offsets, those at which it stops, and the coordinator's partitions."""

    offsets: dict[Partition, int]
    stops: dict[Partition, int]
    assigned: dict[Partition, bool]


Results = tuple[int, dict[str, Taken]]
"""The offset of the partition that was not named, and what was restored of each savepoint."""


@pytest.fixture(scope="module", params=RELEASES)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    release: str = request.param
    root = tmp_path_factory.mktemp(f"offsets-{release}")
    source = FIXTURES / release / "kafka-rocksdb-canonical" / "snapshot"
    changes: dict[str, Callable[[SavepointWriter], object]] = {
        "moved": lambda writer: writer.set_kafka_offsets(UID, OFFSETS),
        "scaled": lambda writer: writer.set_kafka_offsets(UID, OFFSETS).with_parallelism(UID, 3),
        **{word: marking(word) for word in MARKERS},
    }
    others = [operator for operator in OPERATORS["kafka"] if operator.uid != UID]
    specs = []
    for name, change in changes.items():
        writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": [UID]})
        change(writer)
        writer.write(root / name)
        folder = (root / f"taken-{name}").as_uri()
        options = {
            "execution.checkpointing.dir": folder,
            "state.checkpoints.dir": folder,
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        }
        operators = [*others, Operator(UID, connected=DISCOVERED)]
        specs.append(Spec(name, str(root / name), operators, ("hashmap",), (2,), options=options, retake="checkpoint"))
    found = restore(release, specs, root / "restored")
    kept = read_offsets(source)[KEPT]["offset"]
    return kept, {name: read(restored) for name, restored in found.items()}


def marking(word: str) -> Callable[[SavepointWriter], object]:
    return lambda writer: writer.set_kafka_offsets(UID, {"returns:0": word}, everywhere=word)


def read_offsets(path: Any) -> dict[Partition, dict[str, Any]]:
    rows = stateproc.open(path, uids=[UID]).offsets().to_pylist()
    return {(row["topic"], row["partition"]): row for row in rows if row["subtask"] is not None}


def read(restored: Restored) -> Taken:
    assert restored.failures() == {}
    path = restored.runs["hashmap", 2].savepoint
    found = read_offsets(path)
    coordinator: Any = stateproc.open(path, uids=[UID]).operator(UID).coordinator
    partitions = coordinator["decoded"]["partitions"]
    return Taken(
        {partition: row["offset"] for partition, row in found.items()},
        {partition: row["stopping_offset"] for partition, row in found.items() if row["stopping_offset"] is not None},
        {(row["topic"], row["partition"]): row["assigned"] for row in partitions},
    )


@pytest.mark.parametrize("name", ["moved", "scaled"])
def test_readers_start_at_the_new_offsets(results: Results, name: str) -> None:
    kept, taken = results
    assert taken[name].offsets == {**WANTED, KEPT: kept}
    assert taken[name].stops == STOPS


@pytest.mark.parametrize("word", list(MARKERS))
def test_readers_start_at_markers(results: Results, word: str) -> None:
    assert results[1][word].offsets == dict.fromkeys([*WANTED, KEPT], MARKERS[word])


def test_the_enumerator_assigns_no_partition_again(results: Results) -> None:
    for restored in results[1].values():
        assert restored.assigned == dict.fromkeys([*WANTED, KEPT], True)
