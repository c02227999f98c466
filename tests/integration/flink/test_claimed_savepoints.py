"""Flink restores copies of checkpoints after CLAIM of a native savepoint; the checkpoints themselves it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateproc import SavepointWriter
from tests.helpers.cases import case_snapshots
from tests.helpers.flink.case_jobs import found_by_job

pytestmark = pytest.mark.flink

CASE = "claimed-native-savepoint"
SNAPSHOT = next(item for item in case_snapshots() if item.case == CASE)


def test_a_copy_is_restored_with_equal_values(tmp_path: Path) -> None:
    root = SNAPSHOT.options["allowed_roots"]
    SavepointWriter.from_existing_savepoint(None, SNAPSHOT.path, {"allowedRoots": root}).write(tmp_path / "copy")
    found = found_by_job(CASE, "C15", str(tmp_path / "copy"), tmp_path / "read", backend="rocksdb",
                         arguments=("--n", "30"))  # fmt: skip
    expected = [line for state in SNAPSHOT.states() for line in state.lines]

    def order(line: dict[str, object]) -> str:
        return f"{line['state']} {line['key']}"

    assert sorted(found, key=order) == sorted(expected, key=order)


def test_flink_does_not_restore_the_checkpoint_itself(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="FileNotFoundException"):
        found_by_job(CASE, "C15", SNAPSHOT.path, tmp_path / "read", backend="rocksdb", arguments=("--n", "30"))
