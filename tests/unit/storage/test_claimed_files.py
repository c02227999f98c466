"""Checkpoints after CLAIM of a native savepoint name its files as if they were their own."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import MisplacedFile, MissingFile
from stateproc.verification.problem import Severity
from tests.helpers.cases import case_snapshots, unpacked_cases
from tests.helpers.command_runs import CommandRun, command_runner

CASE = "claimed-native-savepoint"
JOB = "a9a65cef0de58c2a5221128bb1cf8e12"
CLAIMED = 4


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    return command_runner(capfd, monkeypatch)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the case: savepoint, checkpoints/<job>/chk-2, chk-3, shared."""
    return Path(shutil.copytree(unpacked_cases() / CASE / "snapshot", tmp_path / "snapshot"))


def counts(path: Path, **options: object) -> dict[int, int]:
    snapshot = stateproc.open(path, uids=["op"], **options)
    return {row["key"]: row["value"] for row in snapshot.state("op", "count").to_arrow().to_pylist()}


def recorded() -> dict[int, int]:
    snapshot = next(item for item in case_snapshots() if item.case == CASE)
    (state,) = (state for state in snapshot.states() if state.name == "count")
    return {line["key"]: line["value"] for line in state.lines}


def test_the_error_names_the_directory_that_has_the_file(copied: Path) -> None:
    chk, savepoint = copied / "checkpoints" / JOB / "chk-3", copied / "savepoint"
    with pytest.raises(MisplacedFile, match="FLINK-39964") as caught:
        counts(chk)
    assert f"allowed_roots=['{savepoint}']" in (caught.value.advice or "")
    assert counts(chk, allowed_roots=[str(savepoint)]) == recorded()
    assert counts(chk, allowed_roots=[str(copied)]) == recorded()
    assert counts(chk, path_mapping={str(chk): str(savepoint)}) == recorded()


@pytest.mark.parametrize("place", ["checkpoints/savepoint-a9a65c-0123456789ab", f"checkpoints/{JOB}/kept"])
def test_below_the_checkpoint_root_files_are_found(copied: Path, place: str) -> None:
    (copied / "savepoint").rename(copied / place)
    assert counts(copied / "checkpoints" / JOB / "chk-3") == recorded()


def test_what_is_found_can_be_sent_to_other_processes(copied: Path) -> None:
    snapshot = stateproc.open(copied / "checkpoints" / JOB / "chk-3", uids=["op"],
                              allowed_roots=[str(copied / "savepoint")])  # fmt: skip
    splits = pickle.loads(pickle.dumps(snapshot.state("op", "count").splits()))
    assert sum(len(batch) for split in splits for batch in split.read()) == len(recorded())


def test_two_directories_with_the_file_are_an_error_that_says_how_to_choose(copied: Path) -> None:
    chk = copied / "checkpoints" / JOB / "chk-3"
    other = shutil.copytree(copied / "savepoint", copied / "backup")
    with pytest.raises(MissingFile, match="2 directories have one of this name and size") as caught:
        counts(chk, allowed_roots=[str(copied)])
    assert f"path_mapping={{'{chk}': " in (caught.value.advice or "")
    assert counts(chk, path_mapping={str(chk): str(other)}) == recorded()
    with pytest.raises(MisplacedFile, match=r"savepoint.*backup|backup.*savepoint"):
        counts(chk)


def test_a_file_of_another_size_is_not_the_one(copied: Path) -> None:
    chk, savepoint = copied / "checkpoints" / JOB / "chk-3", copied / "savepoint"
    names = {item.name for item in savepoint.iterdir()} - {"_metadata"}
    for name in names:
        with (savepoint / name).open("ab") as file:
            file.write(b"x")
    with pytest.raises(MissingFile, match="a file of the snapshot is missing") as caught:
        counts(chk, allowed_roots=[str(savepoint)])
    assert not isinstance(caught.value, MisplacedFile)
    assert "native savepoint" in (caught.value.advice or "")


def test_links_that_lead_out_of_the_roots_are_not_followed(copied: Path, tmp_path: Path) -> None:
    (copied / "savepoint").rename(tmp_path / "far")
    for file in (tmp_path / "far").iterdir():
        target = copied / "checkpoints" / "savepoint-a9a65c-0123456789ab" / file.name
        target.parent.mkdir(exist_ok=True)
        target.symlink_to(file)
    with pytest.raises(MissingFile):
        counts(copied / "checkpoints" / JOB / "chk-3")


def test_names_that_flink_does_not_give_are_not_looked_for(copied: Path) -> None:
    snapshot = stateproc.open(copied / "checkpoints" / JOB / "chk-3")
    claimed = snapshot.location.claimed
    (copied / "checkpoints" / "passwd").write_text("secret")
    path = snapshot.location.directory / "passwd"
    assert claimed.find(path, 6) is None
    error = claimed.missing(path, 6, "")
    assert not isinstance(error, MisplacedFile)


def test_verify_says_it(copied: Path) -> None:
    chk, savepoint = copied / "checkpoints" / JOB / "chk-3", copied / "savepoint"
    (problem,) = stateproc.open(chk, uids=["op"]).verify().problems
    assert problem.severity is Severity.UNREADABLE
    assert set(problem.states) == {"count", "byName"}
    (note,) = stateproc.open(chk, uids=["op"], allowed_roots=[str(savepoint)]).verify().problems
    assert (note.severity, note.file) == (Severity.NOTE, str(savepoint))
    assert f"{CLAIMED} files are not beside _metadata" in note.what
    assert not stateproc.open(savepoint).verify().problems


def test_the_advised_copy_is_whole(copied: Path, tmp_path: Path, run: Callable[..., CommandRun]) -> None:
    chk, target = copied / "checkpoints" / JOB / "chk-3", tmp_path / "rescued"
    (note,) = stateproc.open(chk, allowed_roots=[str(copied / "savepoint")]).verify().problems
    words = note.advice.partition(" writes")[0].replace("TARGET", str(target)).split()
    assert words[0] == "stateproc"
    assert run(*words[1:]).status == 0
    shutil.rmtree(copied)
    assert counts(target) == recorded()
    assert not stateproc.open(target).verify().problems


def test_ls_counts_files_where_they_are(copied: Path, run: Callable[..., CommandRun]) -> None:
    def sizes(root: Path) -> dict[str, tuple[int, int]]:
        found = stateproc.ls(root)
        return {Path(entry.path).name: (entry.own_bytes or 0, entry.shared_bytes or 0) for entry in found}

    everything, checkpoints = sizes(copied), sizes(copied / "checkpoints")
    shutil.rmtree(copied / "savepoint")
    claimed = everything["savepoint"][1]
    assert claimed > 0
    for name in ("chk-2", "chk-3"):
        assert everything[name][0] == checkpoints[name][0]
        assert everything[name][1] == checkpoints[name][1] + claimed
    assert sizes(copied) == checkpoints
    (alone,) = stateproc.ls(copied / "checkpoints" / JOB / "chk-3")
    assert (alone.own_bytes or 0) == sum(checkpoints["chk-3"])
