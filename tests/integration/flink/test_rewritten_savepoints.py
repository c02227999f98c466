"""Real Flink restores what SavepointWriter made of real Flink's snapshots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stateproc
from tests.helpers.flink.canonical_bytes import differences as byte_differences
from tests.helpers.flink.restoration import Restored, Spec, restore
from tests.helpers.flink.restored_state import differences, in_their_windows
from tests.helpers.flink.rewrites import REWRITES, Rewrite

pytestmark = [pytest.mark.flink, pytest.mark.spark]

Results = Callable[[str], dict[str, Restored]]


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The path of each."""
    folder = tmp_path_factory.mktemp("rewritten")
    return {rewrite.name: rewrite.write(spark, folder) for rewrite in REWRITES}


@pytest.fixture(scope="module")
def results(written: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What a release restored, run on first use."""
    done: dict[str, dict[str, Restored]] = {}

    def of(release: str) -> dict[str, Restored]:
        if release not in done:
            specs = [
                Spec(
                    item.name,
                    str(written[item.name]),
                    item.registered,
                    item.backends,
                    (2,),
                    options=item.options,
                    hooks=item.hooks,
                )
                for item in REWRITES
                if item.by == release
            ]
            done[release] = restore(release, specs, tmp_path_factory.mktemp(f"restored-{release}") / "all")
        return done[release]

    return of


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda item: item.name)
def test_flink_restores_what_is_rewritten(results: Results, written: dict[str, Path], rewrite: Rewrite) -> None:
    restored = results(rewrite.by)[rewrite.name]
    assert restored.failures() == {}
    assert {at: answer for at, answer in restored.compatibility.items() if answer != "as is"} == {}
    assert restored.unread == set()
    lines = list(rewrite.expected(rewrite.source.expected()))
    for (backend, parallelism), run in restored.runs.items():
        found = differences(lines, in_their_windows(run.contents), parallelism=parallelism)
        assert (backend, found) == (backend, [])
    operators = stateproc.open(written[rewrite.name]).operators
    keyed = any(operator.keyed_states for operator in rewrite.source.open().operators)
    found = {operator.max_parallelism for operator in operators if operator.keyed_states}
    assert found == ({rewrite.max_parallelism} if keyed else set())


@pytest.mark.parametrize("rewrite", [item for item in REWRITES if item.keeps_bytes], ids=lambda item: item.name)
def test_entries_are_those_that_were_there(written: dict[str, Path], rewrite: Rewrite) -> None:
    assert byte_differences(rewrite.source.snapshot, written[rewrite.name]) == []
