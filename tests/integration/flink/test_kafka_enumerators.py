"""The state of a Kafka source's enumerator, in version 3 with a split per partition: held against connector 5.0."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from stateproc.formats.kafka_writer import KafkaSplit, versioned, written_coordinator
from stateproc.formats.sources import read_coordinator
from tests.helpers.flink.compilation import JAVA, JOBS, compiled

pytestmark = pytest.mark.flink

NEWEST = 3
SPLITS = (
    KafkaSplit("a", 3, 7), KafkaSplit("b.c", 0, -2, 2**63 - 1), KafkaSplit("b.c", 2**31 - 1, 2**63 - 1, -1),
    KafkaSplit("orders_of-2026", 1, -1, 0), KafkaSplit("z" * 249, 0, -3, -3), KafkaSplit("a", 0, 0),
)  # fmt: skip
SERDE = (1).to_bytes(4, "big")


@dataclass(frozen=True)
class Found:
    """What the connector found in a state, and what it writes of it."""

    splits: set[str]
    discovered: bool
    version: int
    written: bytes


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], Found]:
    """By version and number of splits, the first of SPLITS."""
    root = tmp_path_factory.mktemp("enumerators")
    asked = [(version, count) for version in (1, 2, NEWEST) for count in range(1, len(SPLITS) + 1)]
    lines = [f"{version}\t{payload(version, count).hex()}\n" for version, count in asked]
    (root / "states.tsv").write_text("".join(lines))
    path = compiled("2.3", "kafka", [JOBS / "kafka"], java=17)
    subprocess.run([*JAVA, "-cp", path, "enumerating.Enumerating", root / "states.tsv", root / "found.tsv"], check=True)
    rows = [row.split("\t") for row in (root / "found.tsv").read_text().splitlines()]
    return {
        case: Found(set(splits.split(";")), discovered == "true", int(version), bytes.fromhex(written))
        for case, (splits, discovered, version, written) in zip(asked, rows, strict=True)
    }


def payload(version: int, count: int) -> bytes:
    """What stateproc writes, after the coordinator's version and that of the state, and its length."""
    return written_coordinator(SPLITS[:count], version)[12:]


def rows(version: int, data: bytes) -> list[dict[str, Any]]:
    decoded = read_coordinator(SERDE + versioned(version, data))["decoded"]
    assert decoded["initial_discovery_finished"] is True
    return sorted(decoded["partitions"], key=lambda row: (row["topic"], row["partition"]))


def text_of(split: KafkaSplit) -> str:
    stop = "" if split.stopping_offset is None else split.stopping_offset
    return f"{split.topic},{split.partition},{split.offset},{stop},ASSIGNED"


@pytest.mark.parametrize("count", range(1, len(SPLITS) + 1))
def test_the_connector_reads_what_is_written(found: dict[tuple[int, int], Found], count: int) -> None:
    theirs = found[NEWEST, count]
    assert theirs.splits == {text_of(split) for split in SPLITS[:count]}
    assert theirs.discovered and theirs.version == NEWEST


@pytest.mark.parametrize("count", range(1, len(SPLITS) + 1))
def test_the_connector_writes_the_same(found: dict[tuple[int, int], Found], count: int) -> None:
    """The order of splits is that of a hash set; one split is the same bytes."""
    theirs, ours = found[NEWEST, count].written, payload(NEWEST, count)
    assert len(theirs) == len(ours) and rows(NEWEST, theirs) == rows(NEWEST, ours)
    if count == 1:
        assert theirs == ours


@pytest.mark.parametrize("version", [1, 2])
def test_splits_of_older_versions_have_no_offset(found: dict[tuple[int, int], Found], version: int) -> None:
    """The connector keeps them so, marked, until readers report their offsets."""
    partitions = rows(NEWEST, found[version, len(SPLITS)].written)
    expected = sorted((split.topic, split.partition) for split in SPLITS)
    assert [(row["topic"], row["partition"]) for row in partitions] == expected
    assert {(row["starting_offset"], row["stopping_offset"], row["assigned"]) for row in partitions} == {
        (None, None, True)
    }
