"""Files that Flink does not find, or not all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.compatibility.verdicts import CompatibilityCheck, Verdict
from tests.helpers.cases import case_snapshots
from tests.helpers.damage.snapshot_copies import SnapshotCopy
from tests.helpers.fixtures import fixtures

KNOWN = {fixture.name: fixture for fixture in fixtures()}
# Fixture → a role of its files.
LOST = {
    "2.3/tiny-rocksdb-full": "rocksdb private",
    "1.20/kitchen-rocksdb-incremental": "rocksdb shared",
    "1.20/kafka-rocksdb-changelog": "changelog segment",
    "1.20/operators-hashmap-canonical": "managed operator",
    "2.3/kitchen-hashmap-canonical": "managed keyed",
}


def refused(check: CompatibilityCheck) -> str:
    """The reason of the operator that is refused."""
    (operator,) = {one.reasons: one for one in check.operators if one.verdict is Verdict.REFUSED}.values()
    assert not check.restores and operator.fix
    return operator.reasons[0]


@pytest.mark.parametrize("name", LOST)
def test_a_missing_file_is_refused(name: str, tmp_path: Path) -> None:
    copy = SnapshotCopy(KNOWN[name], tmp_path)
    assert copy.open().check(flink_version=name.partition("/")[0]).restores
    lost = copy.files(LOST[name])[-1]
    lost.unlink()
    check = copy.open().check(flink_version=name.partition("/")[0])
    assert "missing" in refused(check) and lost.name in refused(check)
    (exception,) = {one.exception for one in check.operators if one.exception}
    assert exception.startswith("java.io.FileNotFoundException: ") and exception.endswith(lost.name)


def test_a_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    copy = SnapshotCopy(KNOWN["2.3/tiny-rocksdb-full"], tmp_path)
    table = copy.files("rocksdb private")[-1]
    table.write_bytes(table.read_bytes()[:-1])
    check = copy.open().check(flink_version="2.3")
    assert "bytes where the snapshot says" in refused(check)
    assert all(operator.exception is None for operator in check.operators)  # The file is there.


def test_files_that_a_checkpoint_shares_with_a_claimed_savepoint_are_not_found(tmp_path: Path) -> None:
    """Flink looks for them beside `_metadata`, as tests/integration/flink/test_claimed_savepoints.py shows."""
    found = next(item for item in case_snapshots() if item.case == "claimed-native-savepoint")
    allowed = {"allowed_roots": found.options["allowed_roots"]}
    check = stateproc.open(found.path, **allowed).check(flink_version="1.20")
    assert "a file that Flink reads at " in refused(check)
    # Whether these files may be read makes no difference to Flink.
    assert refused(stateproc.open(found.path).check(flink_version="1.20"))
    assert any(one.fix and one.fix.startswith("stateproc copy ") for one in check.operators)
    copied = SavepointWriter.from_existing_savepoint(None, found.path, {"allowedRoots": found.options["allowed_roots"]})
    assert stateproc.open(copied.write(tmp_path / "copy")).check(flink_version="1.20").restores
