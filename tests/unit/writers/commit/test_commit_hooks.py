"""Hooks of a commit: a check decides before there is a snapshot; a manifest belongs to one ``_metadata``."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import CheckFailed, InvalidOption, WriteFailed
from stateproc.metadata import SnapshotMetadata
from stateproc.storage import writing
from stateproc.storage.store import StorePath
from stateproc.writers.commit import commit
from stateproc.writers.commit.commit import MANIFEST, Commit, CommitHooks
from stateproc.writers.commit.staging import Staging

NOTHING = SnapshotMetadata(4, 1, (), ())


def _manifest(data: bytes, run: str = "") -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def test_a_manifest_is_written_beside_the_metadata_that_it_describes(tmp_path: Path) -> None:
    begun = Commit.begin(StorePath.of(tmp_path / "target"), hooks=CommitHooks(manifest=_manifest))
    begun.complete(NOTHING, 4)
    assert _names(tmp_path / "target") == ["_metadata", MANIFEST]
    assert (tmp_path / "target" / MANIFEST).read_bytes() == _manifest((tmp_path / "target/_metadata").read_bytes())


def test_a_check_that_fails_leaves_nothing(tmp_path: Path) -> None:
    seen = []

    def check(metadata: SnapshotMetadata, staging: Staging) -> None:
        seen.append((metadata, _names(tmp_path / "target")))
        raise CheckFailed("no")

    begun = Commit.begin(StorePath.of(tmp_path / "target"), hooks=CommitHooks(check, _manifest))
    with pytest.raises(CheckFailed):
        begun.complete(NOTHING, 4)
    begun.abort()
    assert [found for found, _ in seen] == [NOTHING]
    assert all("_metadata" not in names for _, names in seen)
    assert not (tmp_path / "target").exists()


def test_a_manifest_of_a_killed_write_is_no_other_file(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / MANIFEST).write_bytes(b"killed")
    Commit.begin(StorePath.of(target)).complete(NOTHING, 4)
    assert _names(target) == ["_metadata"]
    (target / MANIFEST).write_bytes(b"x")
    (target / "_metadata").unlink()
    (target / "theirs").write_bytes(b"x")
    with pytest.raises(InvalidOption, match="theirs"):
        Commit.begin(StorePath.of(target))


def test_a_snapshot_without_manifest_that_replaces_one_with_it_removes_it(tmp_path: Path) -> None:
    target = tmp_path / "target"
    Commit.begin(StorePath.of(target), hooks=CommitHooks(manifest=_manifest)).complete(NOTHING, 4)
    Commit.begin(StorePath.of(target), overwrite=True).complete(NOTHING, 4)
    assert _names(target) == ["_metadata"]


def test_a_commit_that_fails_after_its_manifest_removes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Commit.begin(StorePath.of(tmp_path / "target"), hooks=CommitHooks(manifest=_manifest))

    def fail(source: StorePath, path: StorePath) -> None:
        if path.name == "_metadata":
            raise WriteFailed("full")
        writing.rename(source, path)

    monkeypatch.setattr(commit, "rename", fail)
    with pytest.raises(WriteFailed):
        begun.complete(NOTHING, 4)
    begun.abort()
    assert not (tmp_path / "target").exists()


def test_what_a_killed_write_left_is_removed_but_nothing_of_others(tmp_path: Path) -> None:
    """Leftovers of writes whose markers are gone; files that are named, of a write under way, or of others stay."""
    target, own, other, over = tmp_path / "target", "0" * 16, "1" * 16, "2" * 16
    SavepointWriter.from_existing_savepoint(None, stateproc.bundled_snapshot("shop")).write(target)
    kept = {*_names(target), f".stateproc-{other}", f"stateproc-{other}-{'a' * 32}", "theirs", ".theirs"}
    left = {
        f".stateproc-{own}",
        f".stateproc-{own}-metadata",
        f"stateproc-{own}-{'b' * 32}",
        f"stateproc-{over}-{'c' * 32}",
    }
    assert len(kept) > 6
    for name in kept | left:
        (target / name).touch()
    commit.finish_killed(StorePath.of(str(target)), own)
    assert set(_names(target)) == kept
    commit.finish_killed(StorePath.of(str(target)), own)
    assert set(_names(target)) == kept
    assert stateproc.open(str(target)).verify().problems == ()


def test_readers_verify_and_orphans_accept_the_manifest(tmp_path: Path) -> None:
    target = tmp_path / "job" / "savepoint-abcdef-0123456789ab"
    writer = SavepointWriter.from_existing_savepoint(None, stateproc.bundled_snapshot("shop"))
    writer.with_commit_hooks(CommitHooks(manifest=_manifest)).write(target)
    assert MANIFEST in _names(target)
    assert stateproc.open(str(target)).verify().problems == ()
    (entry,) = stateproc.ls(tmp_path)
    assert entry.status == "complete"
    report = stateproc.find_orphans(tmp_path, min_age="0s")
    assert (report.orphans, report.in_progress, report.unsafe) == ((), (), ())
    copied = tmp_path / "copy"
    SavepointWriter.from_existing_savepoint(None, target).write(copied)
    assert MANIFEST not in _names(copied)
