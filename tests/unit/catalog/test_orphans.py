"""Files that no complete snapshot needs, among files that real Flink wrote."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import stateproc
from stateproc.catalog.orphans import UnneededFile
from stateproc.errors import InvalidOption
from stateproc.metadata import read_metadata
from stateproc.metadata.operator_handles import OperatorStreamHandle
from stateproc.metadata.stream_handles import FileHandle
from stateproc.metadata.writer import write_metadata
from tests.helpers.paths import DEMO, FIXTURES
from tests.unit.catalog.test_listing import JOB, files_of

DAY = 24 * 3600


@pytest.fixture()
def root(tmp_path: Path) -> Path:
    """A chain of checkpoints whose files are two days old."""
    root = Path(shutil.copytree(FIXTURES / "1.20/chain-rocksdb/snapshot", tmp_path / "root"))
    for path in root.rglob("*"):
        os.utime(path, (time.time() - 2 * DAY,) * 2)
    return root


def names(files: tuple[UnneededFile, ...]) -> set[str]:
    return {Path(file.path).name for file in files}


def test_every_file_that_flink_wrote_is_needed() -> None:
    report = stateproc.find_orphans(FIXTURES / "1.20", min_age="0s")
    assert (report.orphans, report.in_progress, report.unsafe) == ((), (), ())


def test_files_of_a_removed_checkpoint_are_orphans(root: Path) -> None:
    """Those that only it needs; its own files in chk-7, too."""
    job = root / JOB
    needed = {name for n in range(1, 7) for name, _ in files_of(str(job / f"chk-{n}"))}
    last = {name for name, _ in files_of(str(job / "chk-7"))}
    (job / "chk-7/_metadata").unlink()
    report = stateproc.find_orphans(root)
    assert names(report.orphans) == last - needed
    assert {Path(file.path).parent.name for file in report.orphans} == {"chk-7", "shared"}
    assert report.orphan_bytes == sum(os.path.getsize(file.path) for file in report.orphans)
    assert (report.in_progress, report.unsafe) == ((), ())
    assert all(os.path.exists(file.path) for file in report.orphans)


def test_a_regional_checkpoint_needs_the_files_of_the_checkpoint_that_its_state_is_of(root: Path) -> None:
    """`_metadata` V7 of Flink 2.4: chk-7 names a file in the directory of chk-6, which is no snapshot any more."""
    job = root / JOB
    written = read_metadata((job / "chk-7/_metadata").read_bytes(), file="")
    own = job / "chk-6/88888888-2222-3333-4444-555555555555"
    own.write_bytes(b"state")
    os.utime(own, (time.time() - 2 * DAY,) * 2)
    state = OperatorStreamHandle(4, (), FileHandle(str(own), 5))
    operators = [
        replace(operator, subtasks=tuple(replace(one, raw_operator=state, reused_from=6) for one in operator.subtasks))
        for operator in written.operators
    ]
    data = write_metadata(replace(written, operators=tuple(operators)), 7)
    (job / "chk-7/_metadata").write_bytes(data)
    (job / "chk-6/_metadata").unlink()
    assert own.name not in names(stateproc.find_orphans(root).orphans)
    (job / "chk-7/_metadata").unlink()
    assert own.name in names(stateproc.find_orphans(root).orphans)


def test_snapshots_anywhere_below_the_root_need_files(root: Path) -> None:
    """A job that continues another's incremental checkpoint needs files in the directory of that job."""
    claimed = FIXTURES / "1.20/chain-claimed/snapshot"
    first, second = sorted(path.name for path in claimed.iterdir())
    shutil.copytree(claimed, root / "claimed")
    for directory in (root / "claimed" / first).glob("chk-*"):
        shutil.rmtree(directory)
    report = stateproc.find_orphans(root, min_age="0s")
    continued = {name for path in (root / "claimed" / second).glob("chk-*") for name, _ in files_of(str(path))} & {
        path.name for path in (root / "claimed" / first / "shared").iterdir()
    }
    assert continued
    assert not names(report.orphans) & continued
    assert report.orphans


def test_young_files_may_belong_to_a_checkpoint_in_progress(root: Path) -> None:
    job = root / JOB
    new = job / "shared/11111111-2222-3333-4444-555555555555"
    new.write_bytes(b"x" * 10)
    (job / "chk-8").mkdir()
    (job / "chk-8/66666666-2222-3333-4444-555555555555").write_bytes(b"y")
    old = job / "taskowned/77777777-2222-3333-4444-555555555555"
    old.parent.mkdir(exist_ok=True)
    old.write_bytes(b"z")
    os.utime(old, (time.time() - 2 * DAY,) * 2)
    report = stateproc.find_orphans(root)
    assert names(report.orphans) == {old.name}
    assert names(report.in_progress) == {new.name, "66666666-2222-3333-4444-555555555555"}
    assert report.in_progress_bytes == 11
    assert names(stateproc.find_orphans(root, min_age=timedelta(days=3)).orphans) == set()
    assert len(stateproc.find_orphans(root, min_age="0s").orphans) == 3


def test_a_metadata_that_cannot_be_read_makes_the_answer_unsafe(root: Path) -> None:
    (root / JOB / "chk-5/_metadata").write_bytes(b"damaged")
    report = stateproc.find_orphans(root)
    assert len(report.unsafe) == 1 and "chk-5" in report.unsafe[0]
    # Files beside it are needed if it can be repaired.
    assert not {Path(file.path).parent.name for file in report.orphans} & {"chk-5"}
    assert report.to_dict()["safe"] is False


def test_without_any_complete_snapshot_the_answer_is_unsafe(root: Path) -> None:
    for path in root.rglob("_metadata"):
        path.unlink()
    report = stateproc.find_orphans(root)
    assert "no complete snapshot" in report.unsafe[0]


def test_merged_files_are_needed_as_long_as_a_segment_is(tmp_path: Path) -> None:
    root = Path(shutil.copytree(FIXTURES / "1.20/chain-filemerging/snapshot", tmp_path / "root"))
    assert stateproc.find_orphans(root, min_age="0s").orphans == ()
    job = next(path for path in root.iterdir() if (path / "chk-7").exists())
    shutil.rmtree(job / "chk-7")
    needed = {name for name, _ in files_of(str(job / "chk-6"))}
    present = {path.name for path in job.rglob("*") if path.is_file() and path.name != "_metadata"}
    assert names(stateproc.find_orphans(root, min_age="0s").orphans) == present - needed


def test_changelog_files_are_searched(tmp_path: Path) -> None:
    root = Path(shutil.copytree(FIXTURES / "1.20/chain-changelog/snapshot", tmp_path / "root"))
    dstl = next(root.rglob("dstl"))
    (dstl / "11111111-2222-3333-4444-555555555555").write_bytes(b"x")
    assert len(stateproc.find_orphans(root, min_age="0s").orphans) == 1


@pytest.mark.parametrize(
    ("text", "age"),
    [("90s", 90), ("30min", 1800), ("30 m", 1800), ("12h", 12 * 3600), ("7d", 7 * DAY), ("0s", 0)],
)
def test_ages(text: str, age: int) -> None:
    from stateproc.catalog.orphans import parse_age

    assert parse_age(text) == timedelta(seconds=age)


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1.5h", "1 week", "999999999d"])
def test_other_ages_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption):
        stateproc.find_orphans(tmp_path, min_age=text)


def test_of_savepoints_only_what_killed_writes_left_is_listed(tmp_path: Path) -> None:
    """Users keep files of their own beside a savepoint; a directory of another name is found by what a write left."""
    savepoint = tmp_path / "mine"
    shutil.copytree(DEMO, savepoint)
    (savepoint / "notes.txt").write_text("keep")
    killed, state = ".stateproc-0123456789abcdef", f"stateproc-0123456789abcdef-{'0' * 32}"
    assert names(stateproc.find_orphans(tmp_path, min_age="0s").orphans) == set()
    for folder in (savepoint, tmp_path / "given-up"):
        folder.mkdir(exist_ok=True)
        (folder / killed).touch()
        (folder / state).write_bytes(b"state")
    below = tmp_path / "given-up" / "kept"
    below.mkdir()
    for path in (tmp_path / "given-up" / "notes.txt", below / "more.txt"):
        path.write_text("keep")
    report = stateproc.find_orphans(tmp_path, min_age="0s")
    assert sorted(one.path for one in report.orphans) == sorted(
        str(folder / name) for folder in (savepoint, tmp_path / "given-up") for name in (killed, state)
    )
    assert {Path(entry.path).name: entry.status for entry in stateproc.ls(tmp_path)} == {
        "given-up": "incomplete",
        "mine": "complete",
    }
