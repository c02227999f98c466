"""What claim modes of real Flink do after a restore is what `check` says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import stateproc
from stateproc.compatibility.claim_rules import CLAIM_MODES
from stateproc.compatibility.verdicts import CompatibilityCheck
from tests.helpers.flink.case_jobs import found_by_runs, job_path, run_java

pytestmark = pytest.mark.flink

CASE, JOB, RELEASE = "claimed-native-savepoint", "C15", "1.20"
ISSUE = "FLINK-39964"
_FILES = ("--conf", "state.storage.fs.memory-threshold=1b")
"""Tables are files, however small."""
_FULL = (
    *_FILES,
    *("--conf", "execution.checkpointing.incremental=false"),
    *("--conf", "state.backend.incremental=false"),
)
"""Checkpoints of RocksDB that share no files."""


class Snapshots:
    """The snapshots of two jobs, with a changelog and without, what `check` says of them, and what Flink then does."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, job_path(CASE, RELEASE)
        log = "state.changelog.enabled=true", "state.changelog.storage=filesystem"
        log += (f"state.changelog.dstl.dfs.base-path={(folder / 'log').as_uri()}",)
        self.changelog = [word for setting in log for word in ("--conf", setting)]
        self._write("logged", "ckptx1", self.changelog)
        self._write("plain", "ckptx2,native", _FILES)
        self._write("full", "ckptx2", _FULL)
        run_java(self._path, "Lab", "--runs", self._listed())
        (self.logged,) = folder.glob("logged/checkpoints/*/chk-1")
        self.first, self.second = sorted(folder.glob("plain/checkpoints/*/chk-[12]"))
        (self.savepoint,) = folder.glob("plain/native/*")
        self.full, self.second_full = sorted(folder.glob("full/checkpoints/*/chk-[12]"))
        self.checks = {
            (path, mode): self._check(path, mode)
            for path in (self.logged, self.first, self.savepoint, self.full)
            for mode in CLAIM_MODES
        }

    def _check(self, path: Path, mode: str) -> CompatibilityCheck:
        snapshot = stateproc.open(path, allowed_roots=[str(self._folder)], key_type="Long")
        return snapshot.check(flink_version=RELEASE, claim_mode=mode)

    def _write(self, name: str, snapshots: str, settings: Sequence[str]) -> None:
        words = [
            "--job",
            JOB,
            "--backend",
            "rocksdb",
            "--snaps",
            snapshots,
            *settings,
            "--out",
            f"{self._folder / name}",
        ]
        with (self._folder / "runs").open("a", encoding="utf-8") as file:
            file.write("\t".join(words) + "\n")

    def _listed(self) -> str:
        return str(self._folder / "runs")

    def run(self) -> dict[str, str]:
        """Restore them; return the errors of the runs by name, nothing for one that went well."""
        left = f"{self._folder}/claimed/checkpoints/*/chk-4"
        last = ("--conf", "execution.checkpointing.num-retained=1")
        runs = {
            "logged NO_CLAIM": (self.logged, "NO_CLAIM", "ckptx1", self.changelog),
            "logged CLAIM": (self.logged, "CLAIM", "ckptx1", self.changelog),
            "claimed": (self.savepoint, "CLAIM", "ckptx1", _FILES),
            "of claimed": (left, "NO_CLAIM", "", _FILES),
            "ended": (self.first, "CLAIM", "ckptx1,stop-canonical", (*_FILES, *last)),
            "beside ended": (self.second, "NO_CLAIM", "", _FILES),
            "full ended": (self.full, "CLAIM", "ckptx1,stop-canonical", (*_FULL, *last)),
            "legacy": (self.second_full, "LEGACY", "ckptx1", _FULL),
            "of legacy": (f"{self._folder}/legacy/checkpoints/*/chk-3", "NO_CLAIM", "", _FULL),
        }
        listed = []
        for name, (path, mode, snapshots, settings) in runs.items():
            words = ["--job", JOB, "--backend", "rocksdb", "--read", "--from", str(path), "--claim", mode]
            words += ["--snaps", snapshots] if snapshots else []
            target = self._folder / name
            listed.append(([*words, *settings, "--out", str(target)], target))
        found = found_by_runs(self._path, listed, self._folder)
        return {name: one if isinstance(one, str) else "" for name, one in zip(runs, found, strict=True)}


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    return Snapshots(tmp_path_factory.mktemp("claims"))


@pytest.fixture(scope="module")
def errors(snapshots: Snapshots) -> dict[str, str]:
    return snapshots.run()


def test_a_changelog_fails_under_no_claim(snapshots: Snapshots, errors: dict[str, str]) -> None:
    check = snapshots.checks[snapshots.logged, "NO_CLAIM"]
    assert not check.restores and check.exception is not None
    kind, _, text = check.exception.partition("ChangelogStateBackend")
    assert kind in errors["logged NO_CLAIM"] and text.removeprefix(")") in errors["logged NO_CLAIM"]
    assert errors["logged CLAIM"] == "" and snapshots.checks[snapshots.logged, "CLAIM"].restores


def test_checkpoints_after_claim_of_a_native_savepoint_are_not_restored(
    snapshots: Snapshots, errors: dict[str, str]
) -> None:
    (caution,) = snapshots.checks[snapshots.savepoint, "CLAIM"].cautions
    assert ISSUE in caution.what and snapshots.checks[snapshots.savepoint, "NO_CLAIM"].cautions == ()
    assert errors["claimed"] == "" and "java.io.FileNotFoundException" in errors["of claimed"]


def test_a_job_that_claimed_a_checkpoint_deletes_files_of_those_beside_it(
    snapshots: Snapshots, errors: dict[str, str]
) -> None:
    (caution,) = snapshots.checks[snapshots.first, "CLAIM"].cautions
    assert "files of this checkpoint that chk-2 beside it needs" in caution.what
    assert errors["ended"] == "" and "java.io.FileNotFoundException" in errors["beside ended"]


def test_full_checkpoints_share_nothing(snapshots: Snapshots, errors: dict[str, str]) -> None:
    """Under CLAIM Flink deletes the checkpoint itself, and under LEGACY the job's checkpoints do not need it."""
    for mode in CLAIM_MODES:
        check = snapshots.checks[snapshots.full, mode]
        assert check.restores and check.cautions == (), mode
    assert [errors[name] for name in ("full ended", "legacy", "of legacy")] == ["", "", ""]
    assert not snapshots.full.exists() and snapshots.second_full.exists()
