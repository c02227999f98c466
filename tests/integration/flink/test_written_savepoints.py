"""Real Flink restores savepoints that are written from DataFrames: the matrix of types, kinds of state and keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.helpers.flink.canonical_bytes import differences as byte_differences
from tests.helpers.flink.matrix_savepoints import Written, expected, operators, write
from tests.helpers.flink.restoration import Restored, Spec, restore
from tests.helpers.flink.restored_state import differences

pytestmark = [pytest.mark.flink, pytest.mark.spark]

RELEASES = ("1.20", "2.3")
MATRIX = [Written(release, *rest) for release in RELEASES for rest in ((128, False, False), (1024, True, True))]
LIMIT = 300
"""Seconds for a restored job: RocksDB has a column family for each of some hundred states, in every subtask."""
Results = Callable[[str], dict[str, Restored]]


def in_rocksdb(written: Written) -> str:
    """The name of the restores under RocksDB.

    In which key group a key is shows on heap, at every parallelism. What RocksDB makes of hundreds of states needs one:
    it has a column family for each of them in every subtask, which is most of the time of these tests.
    """
    return f"rocksdb {written.name}"


def again(written: Written) -> str:
    """The name of the savepoint that Flink takes of what it restored."""
    return f"again {written.name}"


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All savepoints of the matrix."""
    root = tmp_path_factory.mktemp("matrix")
    for written in MATRIX:
        write(spark, written, str(root / written.name))
    return root


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    """What a release restored, run on first use."""
    done: dict[str, dict[str, Restored]] = {}

    def of(release: str) -> dict[str, Restored]:
        if release not in done:
            specs = []
            for written in (item for item in MATRIX if item.release == release):
                path = str(folder / written.name)
                specs.append(Spec(written.name, path, operators(written), ("hashmap",)))
                specs.append(Spec(in_rocksdb(written), path, operators(written), ("rocksdb",), (2,)))
                specs.append(Spec(again(written), path, operators(written), ("hashmap",), (2,), retake="canonical"))
            done[release] = restore(release, specs, folder / f"restored-{release}", LIMIT)
        return done[release]

    return of


@pytest.mark.parametrize("written", MATRIX, ids=lambda item: item.name)
def test_flink_reads_back_what_the_rows_held(results: Results, written: Written) -> None:
    lines = list(expected(written))
    for name in (written.name, in_rocksdb(written)):
        restored = results(written.release)[name]
        assert restored.failures() == {}
        for (backend, parallelism), run in restored.runs.items():
            found = differences(lines, run.contents, parallelism=parallelism)
            assert (backend, parallelism, found) == (backend, parallelism, [])


@pytest.mark.parametrize("written", MATRIX, ids=lambda item: item.name)
def test_serializers_are_compatible_as_is(results: Results, written: Written) -> None:
    restored = results(written.release)[written.name]
    assert {at: answer for at, answer in restored.compatibility.items() if answer != "as is"} == {}
    assert restored.unread == set()
    states = {(operator.uid, state.name) for operator in operators(written) for state in operator.states}
    assert states <= {(uid, state) for uid, state, part in restored.compatibility if part == "value"}


@pytest.mark.parametrize("written", MATRIX, ids=lambda item: item.name)
def test_timers_fire_once(results: Results, written: Written) -> None:
    timers = [line for line in expected(written) if line["kind"].startswith("timer-")]
    for name in (written.name, in_rocksdb(written)):
        for run in results(written.release)[name].runs.values():
            assert differences(timers, run.fired, parallelism=1) == []


@pytest.mark.parametrize("written", MATRIX, ids=lambda item: item.name)
def test_flink_writes_the_same_bytes(results: Results, folder: Path, written: Written) -> None:
    """Of the same state: snapshots of serializers, and entries whatever their order."""
    restored = results(written.release)[again(written)]
    assert restored.failures() == {}
    (run,) = restored.runs.values()
    assert run.savepoint is not None
    assert byte_differences(folder / written.name, run.savepoint) == []
