"""Real Flink restores rewritten accumulators of SQL: the savepoint that its job takes contains equal values."""

from __future__ import annotations

from pathlib import Path

import pytest

import stateproc
from stateproc.cli import main
from tests.helpers.cases import CASE_SOURCES, case_snapshots
from tests.helpers.flink.case_jobs import job_path, run_java

pytestmark = pytest.mark.flink

CASE = "sql-accumulators"
PLAN = str(CASE_SOURCES / CASE / "plan.json")
RAW_KRYO = "114_group-aggregate"
"""Flink does not restore it with the plan, even if nothing is rewritten: its accumulator is RAW, in Kryo."""
SNAPSHOTS = {one.entry["path"]: one for one in case_snapshots() if one.case == CASE}
VERBS = {
    "rescale": ("snapshot", "rocksdb", 256, ["rescale", "--max-parallelism", "256"]),
    "native-hashmap": ("native", "hashmap", 128, ["convert", "--to", "native-hashmap"]),
}


@pytest.mark.parametrize("name", VERBS)
def test_accumulators_are_equal_in_the_next_savepoint(name: str, tmp_path: Path) -> None:
    source, backend, max_parallelism, (verb, *words) = VERBS[name]
    snapshot = SNAPSHOTS[source]
    rewritten = tmp_path / "rewritten"
    kept = str(tmp_path / "kept")
    assert main(["drop-operator", snapshot.path, kept, "--uid", RAW_KRYO, "--uids", RAW_KRYO]) == 0
    assert main([verb, kept, str(rewritten), *words]) == 0
    options = (f"-Dmaxp={max_parallelism}", "Sql", str(tmp_path), backend, str(rewritten), PLAN)
    printed = run_java(job_path(CASE), *options)
    assert "SNAP canonical" in printed, printed[-3000:]
    (savepoint,) = (tmp_path / "canonical").iterdir()
    again = stateproc.open(str(savepoint), plan=PLAN)
    states = snapshot.states()
    assert states
    for expected in states:
        rows = expected.state(again).to_arrow().to_pylist()
        assert expected.differences(rows) == [], str(expected)
