"""The state of a Kafka source's enumerator, in version 3 with a split per partition: held against connector 5.0."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from stateproc.connectors.connector_format import written_version
from stateproc.connectors.kafka import (
    EnumeratedPartition,
    KafkaSplit,
    written_coordinator,
    written_enumerator,
)
from stateproc.connectors.operator_states import read_coordinator
from tests.helpers.flink.compilation import JAVA, JOBS, compiled
from tests.helpers.quick_java import QUICK_JAVA

pytestmark = pytest.mark.flink

NEWEST = 3
UNKNOWN = -(2**63)
ASSIGNED_ONLY = {0: True, 1: True, 2: False, 3: False}
"""Version → whether it has assigned partitions only, and no sign of the first discovery."""
SPLITS = (
    KafkaSplit("a", 3, 7), KafkaSplit("b.c", 0, -2, 2**63 - 1), KafkaSplit("b.c", 2**31 - 1, 2**63 - 1, -1),
    KafkaSplit("orders_of-2026", 1, -1, 0), KafkaSplit("z" * 249, 0, -3, -3), KafkaSplit("a", 0, 0),
)  # fmt: skip
CHANGED = (
    EnumeratedPartition("moved", 3, True, 7, 70),
    EnumeratedPartition("waiting", 0, False, -2),
    EnumeratedPartition("migrated", 1, True),
)
"""Partitions as they are when offsets are changed: with a new offset, not assigned, without a known offset."""
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
    """By version and number of splits, the first of SPLITS; 0 for CHANGED."""
    root = tmp_path_factory.mktemp("enumerators")
    asked = [(version, count) for version in (1, 2, NEWEST) for count in range(1, len(SPLITS) + 1)]
    lines = [f"{version}\t{payload(version, count).hex()}\n" for version, count in asked]
    cases = [*asked, *((version, 0) for version in ASSIGNED_ONLY)]
    lines += [f"{version}\t{changed(version).hex()}\n" for version in ASSIGNED_ONLY]
    (root / "states.tsv").write_text("".join(lines))
    path = compiled("2.3", "kafka", [JOBS / "kafka"], java=17)
    subprocess.run(
        [*JAVA, *QUICK_JAVA, "-cp", path, "enumerating.Enumerating", root / "states.tsv", root / "found.tsv"],
        check=True,
    )
    rows = [row.split("\t") for row in (root / "found.tsv").read_text().splitlines()]
    return {
        case: Found(set(splits.split(";")), discovered == "true", int(version), bytes.fromhex(written))
        for case, (splits, discovered, version, written) in zip(cases, rows, strict=True)
    }


def changed(version: int) -> bytes:
    return written_enumerator(CHANGED, version, discovered=False)


def payload(version: int, count: int) -> bytes:
    """What stateproc writes, after the coordinator's version and that of the state, and its length."""
    return written_coordinator(SPLITS[:count], version)[12:]


def rows(version: int, data: bytes) -> list[dict[str, Any]]:
    decoded = read_coordinator(SERDE + written_version(version, data))["decoded"]
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


@pytest.mark.parametrize("version", list(ASSIGNED_ONLY))
def test_the_connector_reads_changed_partitions(found: dict[tuple[int, int], Found], version: int) -> None:
    """Version 0 has splits, versions 1 and 2 partitions, version 3 splits and which are assigned."""
    theirs = found[version, 0]
    offsets = {"moved": "7,70", "waiting": "-2,", "migrated": f"{UNKNOWN},"}
    if version in (1, 2):
        offsets = dict.fromkeys(offsets, f"{UNKNOWN},")
    wanted = {f"moved,3,{offsets['moved']},ASSIGNED", f"migrated,1,{offsets['migrated']},ASSIGNED"}
    if not ASSIGNED_ONLY[version]:
        wanted.add(f"waiting,0,{offsets['waiting']},UNASSIGNED")
    assert theirs.splits == wanted
    assert theirs.discovered is ASSIGNED_ONLY[version]
