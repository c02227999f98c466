"""Why state of Kryo is not copied from Flink 1.x to 2.x: Flink finds it compatible, and does not restore it."""

from __future__ import annotations

import pytest

from tests.helpers.cases import case_snapshots
from tests.helpers.fixtures import FIXTURES, fixtures_in
from tests.helpers.flink.case_jobs import Line, comparing, found_by_runs, job_path
from tests.helpers.flink.cases import REGISTERED
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import Restored, Spec, restore

pytestmark = pytest.mark.flink

UID = "edges-generic"
CANONICAL = "rocksdb-canonical"


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


AVRO = "java.lang.IllegalStateException: Missing value for the key 'org.apache.avro.generic.GenericData$Array'"
REFUSED = ("snapshot", "snapshot-1.13", "snapshot-1.16", "snapshot-1.18")
"""Snapshots of kryo-upgrade, the first written with flink-avro on the job's class path."""
UNTOUCHED = {
    item.path.split("/")[-2]: item
    for item in case_snapshots()
    if item.case == "kryo-upgrade" and CANONICAL in item.path
}
OLDER = [name for name in REFUSED if name != "snapshot"]


@pytest.fixture(scope="module")
def found_untouched(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Line] | str]:
    """What 2.3 finds in the snapshots that `test_case_restores.py` restores after `upgrade`, as they were."""
    folder = tmp_path_factory.mktemp("untouched")
    snapshots = [("Case03", name) for name in REFUSED] + [("Case03:shapes", name) for name in OLDER]
    paths = {run: UNTOUCHED[run[1]].path for run in snapshots}
    paths["Case24", "snapshot"] = next(
        item.path for item in case_snapshots() if item.case == "ttl-lists-kryo" and CANONICAL in item.path
    )
    targets = {run: folder / str(number) for number, run in enumerate(paths)}
    runs = [
        (comparing(job, path, targets[job, name], "rocksdb"), targets[job, name]) for (job, name), path in paths.items()
    ]
    return dict(zip(paths, found_by_runs(job_path("kryo-upgrade", "2.3"), runs, folder), strict=True))


@pytest.mark.parametrize(("job", "name"), [("Case24", "snapshot"), *(("Case03", name) for name in REFUSED)])
def test_flink_does_not_restore_the_cases_that_are_upgraded(
    found_untouched: dict[tuple[str, str], list[Line] | str], job: str, name: str
) -> None:
    causes = found_untouched[job, name]
    assert isinstance(causes, str)
    assert (causes.splitlines()[-1] == AVRO) is (name == "snapshot"), causes
    # Without flink-avro several operators fail, each in its own way; the first to do so ends the job.
    assert any(text in causes for text in ("Could not restore", "StateMigrationException", "Kryo", "EOFException")), (
        causes
    )


@pytest.mark.parametrize("name", OLDER)
def test_flink_misreads_what_check_calls_misread(
    found_untouched: dict[tuple[str, str], list[Line] | str], name: str
) -> None:
    """An operator that Flink 2 restores without a word: its states are right or wrong as `check` says."""
    found = found_untouched["Case03:shapes", name]
    assert not isinstance(found, str), found
    right: dict[str, bool] = {}
    for line in found:
        right[line["state"]] = right.get(line["state"], True) and line["value"] is True
    snapshot = UNTOUCHED[name]
    check = snapshot.open(**snapshot.options).check(flink_version="2.3")
    (operator,) = (item for item in check.operators if item.uid == "shapes")
    verdicts = {state.name: state.verdict.value for state in operator.states if "timers" not in state.name}
    assert verdicts == {state: "as is" if equal else "misread" for state, equal in right.items()}
    assert {state for state, equal in right.items() if equal} == {"colour", "longs", "names", "objects", "by-colour"}
    assert {"found a1256, not a11", "found []"} <= {str(line["value"]).partition(", not [")[0] for line in found}
