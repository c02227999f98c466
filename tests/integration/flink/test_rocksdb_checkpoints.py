"""Flink continues from a native RocksDB savepoint of stateproc: incremental checkpoints, and restoring from those."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import stateproc
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.writers.formats.rocksdb.options import TableOptions
from tests.helpers.fixtures import FIXTURES, Fixture, fixtures_in
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import Restored, Run, Spec, restore
from tests.helpers.flink.restored_state import differences
from tests.helpers.writers.native_rocksdb import write_native

pytestmark = pytest.mark.flink

RELEASE = "1.20"
PARALLELISM = 2
"""That of the fixture: databases are opened as they are, so that a checkpoint can refer to stateproc's files."""


@dataclass(frozen=True)
class Case:
    """How Flink restores the savepoint before it takes its checkpoints."""

    claim: bool
    parallelism: int

    @property
    def name(self) -> str:
        return f"{'claim' if self.claim else 'no-claim'}-{self.parallelism}"


CASES = (Case(True, PARALLELISM), Case(True, 3), Case(False, PARALLELISM))
Results = tuple[Mapping[str, Restored], Mapping[str, Restored], Mapping[str, Path]]


def fixture() -> Fixture:
    return fixtures_in(FIXTURES / RELEASE / "kitchen-hashmap-native")[0]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What Flink restored of our savepoints, what of its own checkpoints then, and where our savepoints were."""
    root = tmp_path_factory.mktemp("checkpoints")
    source, ours = fixture(), {case.name: root / case.name for case in CASES}
    operators = OPERATORS[source.manifest["job"]]
    specs = []
    for case in CASES:
        write_native(source.open(), ours[case.name], RELEASE, TableOptions())
        options = {
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.dir": (root / "checkpoints" / case.name).as_uri(),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.data-inline-threshold": "0",
        }
        specs.append(
            Spec(
                case.name, str(ours[case.name]), operators, ("rocksdb",), (case.parallelism,), options=options,
                retake="checkpoint", claim=case.claim,
            )
        )  # fmt: skip
    first = restore(RELEASE, specs, root / "restored")
    for case in CASES:
        if not case.claim:  # Whoever leaves the savepoint to its owner may not need it any more.
            shutil.rmtree(ours[case.name])
    taken = {case.name: run_of(first, case).savepoint for case in CASES}
    again = [Spec(name, str(path), operators, ("rocksdb",), (PARALLELISM, 5)) for name, path in taken.items() if path]
    return first, restore(RELEASE, again, root / "again"), ours


def run_of(restored: Mapping[str, Restored], case: Case) -> Run:
    return restored[case.name].runs["rocksdb", case.parallelism]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_incremental_checkpoint_of_what_was_restored(results: Results, case: Case) -> None:
    """It holds files of its own, and none of the savepoint's: a claimed one is removed by then."""
    first, _, ours = results
    assert first[case.name].failures() == {}
    taken = run_of(first, case).savepoint
    assert taken is not None and not ours[case.name].exists()
    handles = [
        subtask.managed_keyed
        for operator in stateproc.open(str(taken)).metadata.operators
        for subtask in operator.subtasks
        if subtask.managed_keyed is not None
    ]
    assert handles and all(isinstance(handle, IncrementalHandle) and handle.shared for handle in handles)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_flink_restores_from_it(results: Results, case: Case) -> None:
    _, again, _ = results
    restored, lines = again[case.name], list(fixture().expected())
    assert restored.failures() == {}
    timers = [line for line in lines if line["kind"].startswith("timer-")]
    for (_, parallelism), run in restored.runs.items():
        assert (parallelism, differences(lines, run.contents, parallelism=parallelism)) == (parallelism, [])
        assert differences(timers, run.fired, parallelism=1) == []
