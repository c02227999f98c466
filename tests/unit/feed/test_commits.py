"""The commits below checkpoint roots: ids, times, runs that follow one another, and those that do not."""

from __future__ import annotations

import os
import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import CorruptSnapshot, InvalidOption, MissingFile, NotFound
from stateproc.feed.commits import commit_log, commit_of, commits, ranges_text
from tests.helpers.fixtures import FIXTURES, fixtures_in

CHAIN = FIXTURES / "1.20/chain-rocksdb"
RESCALED = FIXTURES / "1.20/chain-rescaled/snapshot"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs of a job, each restored from the one before: checkpoints 1 to 3, 4 to 6, 7 to 9."""
    return Path(shutil.copytree(RESCALED, tmp_path / "runs"))


def job_of(runs: Path, checkpoint: int) -> Path:
    return next(runs.glob(f"*/chk-{checkpoint}")).parent


def test_checkpoints_and_savepoints_are_numbered_together() -> None:
    found = commits(CHAIN / "snapshot")
    assert [item.version for item in found] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [item.path for item in found] == [member.snapshot for member in fixtures_in(CHAIN)]
    assert [commit_of(member.open()) for member in fixtures_in(CHAIN)] == list(found)


def test_the_time_of_a_commit_is_that_of_its_metadata(runs: Path) -> None:
    moment = datetime(2026, 11, 23, 10, 30, 15, 250_000, tzinfo=timezone.utc)
    directory = job_of(runs, 2) / "chk-2"
    os.utime(directory / "_metadata", (0, moment.timestamp()))
    assert commits(runs)[1].timestamp == moment
    feed = stateproc.changes(str(job_of(runs, 1) / "chk-1"), str(directory), "chain", "sum").to_arrow()
    assert set(feed.column("_commit_timestamp").to_pylist()) == {moment}


def test_several_roots_are_one_history(runs: Path) -> None:
    roots = [job_of(runs, checkpoint) for checkpoint in (4, 1)]
    assert [item.version for item in commits(roots)] == [1, 2, 3, 4, 5, 6]


def test_a_checkpoint_without_metadata_is_no_commit(runs: Path) -> None:
    (job_of(runs, 7) / "chk-10").mkdir()
    log = commit_log(runs)
    assert (log.commits[-1].version, log.incomplete) == (9, (10,))
    with pytest.raises(NotFound, match="checkpoint 10 was never completed") as raised:
        log.between(1, 10)
    assert raised.value.advice == "completed are: 1-9"


def test_checkpoints_that_were_deleted_are_named_with_those_that_exist(runs: Path) -> None:
    for checkpoint in (1, 5):
        shutil.rmtree(job_of(runs, checkpoint) / f"chk-{checkpoint}")
    log = commit_log(runs)
    assert [item.version for item in log.between(2, 6)] == [2, 3, 4, 6]
    with pytest.raises(NotFound, match="checkpoint 1 does not exist") as raised:
        log.between(1, None)
    assert "completed are: 2-4, 6-9; Flink deletes older checkpoints" in str(raised.value.advice)
    with pytest.raises(NotFound, match="checkpoint 5 does not exist"):
        log.between(2, 5)


def test_one_id_of_two_runs_is_ambiguous_where_it_is_in_the_range(runs: Path) -> None:
    shutil.copytree(job_of(runs, 4) / "chk-5", job_of(runs, 1) / "chk-5")
    log = commit_log(runs)
    with pytest.raises(InvalidOption, match="have the id 5"):
        log.between(1, None)
    assert [item.version for item in log.between(6, None)] == [6, 7, 8, 9]


def test_runs_that_did_not_follow_one_another_are_refused(runs: Path) -> None:
    """A job goes on after a savepoint, and another one is started from the savepoint."""
    (job_of(runs, 4) / "chk-6").rename(job_of(runs, 7) / "chk-6")
    (job_of(runs, 7) / "chk-9").rename(job_of(runs, 4) / "chk-9")
    with pytest.raises(InvalidOption, match="several jobs that did not follow one another") as raised:
        commit_log(runs).between(None, None)
    assert "the directory of one job" in str(raised.value.advice)
    assert len(commit_log(runs).between(1, 8)) == 8


def test_an_empty_root_a_missing_root_and_a_damaged_savepoint(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="no completed checkpoint below"):
        commit_log(tmp_path / "empty").between(None, None)
    with pytest.raises(MissingFile):
        commits(tmp_path / "nowhere")
    savepoint = runs / "savepoint-123456-0123456789ab"
    savepoint.mkdir()
    (savepoint / "_metadata").write_bytes(b"\x49\x60\x67\x2d\0\0\0\4\0\0")
    with pytest.raises(CorruptSnapshot):
        commits(runs)


def test_ranges_are_shown_in_short() -> None:
    assert ranges_text([1, 2, 3, 5, 7, 8]) == "1-3, 5, 7-8"
    assert ranges_text(range(0, 100, 2)).endswith("22 …")
