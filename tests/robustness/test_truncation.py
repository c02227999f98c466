"""Cut off at every byte: always an error that names file and offset, never rows as if nothing were missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.errors import CorruptSnapshot, SnapshotError
from stateproc.metadata import read_metadata
from tests.helpers.damage.child_processes import Case, run_cases
from tests.helpers.damage.corpus import Target, file_targets, metadata_targets
from tests.helpers.paths import FIXTURES

FULL = "STATEPROC_MUTATIONS" in os.environ
"""Every byte of state files too; else every seventh (of ``_metadata`` always every byte)."""
_RAW_BYTES = 2000
INLINE = ("1.20/operators-hashmap-canonical-inline", "2.3/tiny-hashmap-checkpoint-inline")
FILES = (
    "1.20/edges-hashmap-canonical/8003e8/0/managed_keyed",
    "1.20/windows-rocksdb-canonical-snappy/d64075/1/managed_keyed",
    "1.20/kafka-hashmap-checkpoint/1e2f67/1/managed_keyed",
    "1.20/operators-hashmap-canonical/b5f92c/0/managed_operator",
    "1.20/operators-hashmap-canonical-snappy/b5f92c/0/managed_operator",
    "raw_keyed",
)


def _chosen(name: str) -> Target:
    """The file; of raw keyed ones the first key groups of the smallest."""
    found = min((target for target in file_targets() if target.name.endswith(name)), key=lambda item: len(item.data))
    if name != "raw_keyed":
        return found
    assert found.rebuilt is not None
    return found.rebuilt.first_groups(found.name, found.data, _RAW_BYTES)


def _cut(target: Target, length: int) -> Case:
    def run() -> dict[str, Any]:
        assert target.read_all is not None
        found = target.read_all(target.data[:length])
        assert any(isinstance(item, SnapshotError) for item in found.values()), "nothing seems to be missing"
        return found

    return f"{target.name} cut at {length}", run


@pytest.mark.parametrize("name", FILES)
def test_a_state_file_cut_off_at_every_byte(name: str) -> None:
    target = _chosen(name)
    assert target.all_rows
    lengths = range(0, len(target.data), 1 if FULL else 7)
    verdict = run_cases([_cut(target, length) for length in lengths])
    assert verdict.failures == ()
    assert verdict.cases == len(lengths) > 40


@pytest.mark.parametrize("name", INLINE)
def test_metadata_with_inline_state_cut_off_at_every_byte(name: str) -> None:
    (target,) = (item for item in metadata_targets() if item.name == f"{name}/_metadata")
    for length in range(len(target.data)):
        with pytest.raises(CorruptSnapshot) as caught:
            read_metadata(memoryview(target.data)[:length], file="cut/_metadata")
        assert caught.value.where.file == "cut/_metadata"
        assert 0 <= (caught.value.where.offset or 0) <= length


def test_a_truncated_file_on_disk_is_detected_by_its_length(tmp_path: Path) -> None:
    source = FIXTURES / "1.20/operators-hashmap-canonical/snapshot"
    shutil.copytree(source, tmp_path / "snapshot")
    file = max(
        (item for item in (tmp_path / "snapshot").iterdir() if item.name != "_metadata"), key=lambda f: f.stat().st_size
    )
    file.write_bytes(file.read_bytes()[:-1])
    problems = [
        problem for operator in stateproc.open(str(tmp_path / "snapshot")).operators for problem in operator.problems
    ]
    assert [str(tmp_path / "snapshot" / file.name) in str(problem) for problem in problems] == [True]
    assert "truncated" in str(problems[0])
