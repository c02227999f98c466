"""Fresh snapshots by real Flink, of values too large to commit, read equal to what the jobs held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stateproc
from tests.helpers.fixtures import Fixture, differences, fixtures_in
from tests.helpers.flink.cases import FILES, ROCKSDB_TIMERS, Case
from tests.helpers.flink.chains import chains
from tests.helpers.flink.compilation import compiled, core_folders
from tests.helpers.flink.make_fixtures import write
from tests.helpers.flink.publication import publish

pytestmark = pytest.mark.flink

RELEASE = "1.20"
LARGE = {"max_parallelism": 1024, "options": FILES + ROCKSDB_TIMERS}
CASES = {
    case.name: case
    for case in (
        Case("large", "hashmap-canonical", "hashmap", "canonical", **LARGE),
        Case("large", "hashmap-canonical-snappy", "hashmap", "canonical", compression=True, **LARGE),
        Case("large", "hashmap-native", "hashmap", "native", **LARGE),
        Case("large", "hashmap-checkpoint", "hashmap", "checkpoint", **LARGE),
        Case("large", "rocksdb-canonical", "rocksdb", "canonical", **LARGE),
        Case("windows", "rocksdb-canonical", "rocksdb", "canonical", options=FILES + ROCKSDB_TIMERS),
        Case("operators", "hashmap-checkpoint", "hashmap", "checkpoint", options=FILES),
    )
}
LARGE_CASES = [name for name, case in CASES.items() if case.job == "large"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases, written by one JVM, in folders like those of the fixtures."""
    root = tmp_path_factory.mktemp("flink")
    done = write(RELEASE, list(CASES.values()), root / "run", compiled(RELEASE, "core", core_folders(RELEASE)))
    for case in done:
        publish(case, RELEASE, root / "run" / case.name, root / "fixtures" / case.name)
    return root / "fixtures"


def fixture_of(written: Path, name: str) -> Fixture:
    return Fixture(written / name, json.loads((written / name / "manifest.json").read_text()))


@pytest.fixture(scope="module")
def rescaled(tmp_path_factory: pytest.TempPathFactory) -> list[Fixture]:
    """A chain of incremental checkpoints of a job that is rescaled from two to three and to one."""
    (case,) = [chain for chain in chains(RELEASE) if chain.mode == "rescaled"]
    root = tmp_path_factory.mktemp("chain")
    assert write(RELEASE, [case], root / "run", compiled(RELEASE, "core", core_folders(RELEASE))) == [case]
    publish(case, RELEASE, root / "run" / case.name, root / case.name)
    return fixtures_in(root / case.name)


def test_every_checkpoint_of_a_rescaled_job_is_what_it_held_then(rescaled: list[Fixture]) -> None:
    assert [member.manifest["parallelism"] for member in rescaled] == [2] * 3 + [3] * 3 + [1] * 3
    for member in rescaled:
        assert differences(member, member.open(temporal="exact")) == [], member.name


@pytest.mark.parametrize("name", CASES)
def test_every_row_is_what_the_job_held(written: Path, name: str) -> None:
    fixture = fixture_of(written, name)
    assert differences(fixture, fixture.open(temporal="exact")) == []


@pytest.mark.parametrize("name", LARGE_CASES)
def test_keys_are_in_the_key_group_that_flink_says(written: Path, name: str) -> None:
    state = fixture_of(written, name).open().state("large", "group")
    rows = state.to_arrow().to_pylist()
    assert len(rows) == 600
    assert [row for row in rows if row["key_group"] != row["value"]] == []


@pytest.mark.parametrize("name", LARGE_CASES)
def test_a_key_group_is_read_alone(written: Path, name: str) -> None:
    state = fixture_of(written, name).open().state("large", "group")
    group = next(row["value"] for row in state.to_arrow().to_pylist() if row["key"] == 3)
    rows = [row for batch in state.batches(key_groups=[group]) for row in batch.to_pylist()]
    assert 3 in [row["key"] for row in rows]
    assert {row["key_group"] for row in rows} == {group}


@pytest.mark.parametrize("name", LARGE_CASES)
def test_ten_megabytes_are_one_value(written: Path, name: str) -> None:
    snapshot = stateproc.open(fixture_of(written, name).snapshot, uids={"large"})
    texts = {row["key"]: row["value"] for row in snapshot.state("large", "text").to_arrow().to_pylist()}
    assert texts[3] == repeated("text 3 № ", 10_000_000)
    lists = {row["key"]: row["value"] for row in snapshot.state("large", "texts").to_arrow().to_pylist()}
    assert lists[4] == [repeated(f"{n} 🍵 matcha ", 998) for n in range(10_000)]


def repeated(part: str, length: int) -> str:
    """As often as Java needs for so many UTF-16 units."""
    return part * -(-length // (len(part.encode("utf-16-le")) // 2))
