"""Why state of Kryo is not copied from Flink 1.x to 2.x: Flink finds it compatible, and does not restore it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cases import case_snapshots
from tests.helpers.fixtures import FIXTURES, fixtures_in
from tests.helpers.flink.case_jobs import comparing, found_by_runs, job_path
from tests.helpers.flink.cases import REGISTERED
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import Restored, Spec, restore

pytestmark = pytest.mark.flink

UID = "edges-generic"


@pytest.fixture(scope="module")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Restored:
    path = fixtures_in(FIXTURES / "1.20" / "edges-rocksdb-canonical")[0].snapshot
    spec = Spec("edges", path, OPERATORS["edges"], ("rocksdb",), (1,), options=dict(REGISTERED))
    return restore("2.3", [spec], tmp_path_factory.mktemp("kryo") / "restored")["edges"]


def test_flink_finds_a_generic_type_compatible(restored: Restored) -> None:
    assert restored.compatibility[UID, "generic", "value"] == "as is"


def test_flink_does_not_restore_the_operator(restored: Restored) -> None:
    (run,) = restored.runs.values()
    assert any("Could not restore keyed state backend" in cause for cause in run.causes)
    assert "Missing value for the key 'org.apache.avro.generic.GenericData$Array'" in str(run.error)


def test_flink_does_not_restore_the_cases_that_are_upgraded(tmp_path: Path) -> None:
    """What `test_case_restores.py` restores of kryo-upgrade and ttl-lists-kryo after `upgrade`, as it was."""
    runs = []
    for case, job in (("kryo-upgrade", "Case03"), ("ttl-lists-kryo", "Case24")):
        path = next(item.path for item in case_snapshots() if item.case == case and "rocksdb-canonical" in item.path)
        runs.append((list(comparing(job, path, tmp_path / case, "rocksdb", ())), tmp_path / case))
    found = found_by_runs(job_path("kryo-upgrade", "2.3"), runs, tmp_path)
    for (_, folder), lines in zip(runs, found, strict=True):
        assert isinstance(lines, str)
        causes = (folder / "failure.txt").read_text(encoding="utf-8")
        assert "Missing value for the key 'org.apache.avro.generic.GenericData$Array'" in causes
