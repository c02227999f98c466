"""Real Flink restores native RocksDB snapshots that the writer made of other snapshots, and goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

import stateproc
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.writers.formats.rocksdb.options import TableOptions
from tests.helpers.fixtures import FIXTURES, Fixture, fixtures_in
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import Restored, Run, Spec, restore
from tests.helpers.flink.restored_state import differences, in_their_windows
from tests.helpers.writers.native_rocksdb import write_native

pytestmark = pytest.mark.flink

RELEASES = ("1.20", "2.3")
INCREMENTAL = {"execution.checkpointing.incremental": "true"}


@dataclass(frozen=True)
class Case:
    """A fixture written natively for RocksDB; ``retake``: Flink takes a native savepoint of it, and restores that."""

    fixture: str
    parallelisms: tuple[int, ...]
    options: TableOptions = field(default_factory=TableOptions)
    retake: bool = False
    configuration: dict[str, str] = field(default_factory=dict)


CASES = (
    Case("kitchen-hashmap-native", (1, 2, 5), retake=True, configuration=INCREMENTAL),
    Case("windows-hashmap-checkpoint", (1, 2, 5), retake=True),
    Case("corners-hashmap-native", (2,), TableOptions(compression_per_level=("ZSTD_COMPRESSION",))),
    Case("tiny-rocksdb-canonical-1024", (1, 5), TableOptions(block_size=256, bloom_bits_per_key=10.0)),
    Case(
        "kitchen-rocksdb-incremental", (5,), TableOptions(block_size=64, bloom_bits_per_key=10.0),
        configuration={
            "state.backend.rocksdb.use-bloom-filter": "true",
            "state.backend.rocksdb.predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
            "state.backend.rocksdb.use-ingest-db-restore-mode": "true",
        },
    ),
)  # fmt: skip
AGAIN = (2, 3)
"""Parallelisms at which what Flink took of it is restored."""
Results = Callable[[str], dict[str, Restored]]
BY_RELEASE = [pytest.param(release, case, id=f"{release}-{case.fixture}") for release in RELEASES for case in CASES]


def opened(release: str, case: Case) -> Fixture:
    return fixtures_in(FIXTURES / release / case.fixture)[0]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What a release restored: of what was written, by fixture, and of what it took of that then, by `… again`."""
    done: dict[str, dict[str, Restored]] = {}

    def of(release: str) -> dict[str, Restored]:
        if release not in done:
            root = tmp_path_factory.mktemp(f"rocksdb-{release}")
            specs = []
            for number, case in enumerate(CASES):
                fixture, path = opened(release, case), root / str(number)
                write_native(fixture.open(), path, release, case.options)
                retake = "native" if case.retake else None
                specs.append(
                    Spec(
                        case.fixture,
                        str(path),
                        OPERATORS[fixture.manifest["job"]],
                        ("rocksdb",),
                        case.parallelisms,
                        options=case.configuration,
                        retake=retake,
                    )
                )
            first = restore(release, specs, root / "restored")
            taken = {spec.name: first[spec.name].runs["rocksdb", 2].savepoint for spec in specs if spec.retake}
            again = [
                Spec(f"{spec.name} again", str(taken[spec.name]), spec.operators, ("rocksdb",), AGAIN)
                for spec in specs
                if taken.get(spec.name)
            ]
            done[release] = {**first, **restore(release, again, root / "again")}
        return done[release]

    return of


def compare(fixture: Fixture, restored: Restored) -> None:
    """What Flink found is what the job recorded, at each parallelism; its timers fire."""
    assert restored.failures() == {}
    assert set(restored.compatibility.values()) <= {"as is"} and restored.unread == set()
    expected = list(fixture.expected())
    timers = [line for line in expected if line["kind"].startswith("timer-")]
    assert restored.runs
    for (_, parallelism), run in restored.runs.items():
        found = in_their_windows(run.contents)
        assert (parallelism, differences(expected, found, parallelism=parallelism)) == (parallelism, [])
        assert ordered(run.fired) == ordered(timers)


def ordered(lines: list[dict[str, object]]) -> list[str]:
    return sorted(json.dumps(line, sort_keys=True) for line in lines)


@pytest.mark.parametrize(("release", "case"), BY_RELEASE)
def test_flink_reads_back_what_the_job_held(results: Results, release: str, case: Case) -> None:
    compare(opened(release, case), results(release)[case.fixture])


@pytest.mark.parametrize(("release", "case"), [item for item in BY_RELEASE if item.values[1].retake])  # type: ignore[union-attr]
def test_flink_restores_what_it_took_of_it(results: Results, release: str, case: Case) -> None:
    taken: Run = results(release)[case.fixture].runs["rocksdb", 2]
    assert taken.savepoint is not None
    handles = [
        subtask.managed_keyed
        for operator in stateproc.open(str(taken.savepoint)).metadata.operators
        for subtask in operator.subtasks
    ]
    assert any(isinstance(handle, IncrementalHandle) for handle in handles)
    compare(opened(release, case), results(release)[f"{case.fixture} again"])
