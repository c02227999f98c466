"""What claim modes change, by the snapshots of fixtures; real Flink: tests/integration/flink/test_claim_modes.py."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import pytest

import stateproc
from stateproc.cli import main
from stateproc.compatibility.claim_rules import CLAIM_MODES
from stateproc.errors import InvalidOption
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.fixtures import FIXTURES, fixtures_in

FAILS = (
    "the job has a changelog, whose backend cannot take the full checkpoint that the claim mode NO_CLAIM begins with"
)
DELETES = "after CLAIM, Flink deletes files of this checkpoint that {0}, too: at the latest when the job has finished"
DEPENDS = "after LEGACY, checkpoints of the job go on to need files of this one, which Flink never deletes"
BREAKS = "incremental checkpoints of the job name tables of this savepoint as if they were beside their own _metadata"
ON_2, ON_24 = DELETES.format("chk-1, chk-3 beside it need"), DELETES.format("chk-2, chk-4 beside it need")
CHECKS = [
    ("1.20/chain-rocksdb/2-checkpoint-by-1", "", ON_2, DEPENDS),
    ("2.3/chain-rocksdb/2-checkpoint-by-1", "", ON_24, DEPENDS),
    ("1.16/chain-rocksdb/1-checkpoint-by-1", "", DELETES.format("chk-2 beside it needs"), DEPENDS),
    ("1.20/chain-rocksdb/8-canonical-by-1", "", "", ""),
    ("1.20/chain-rocksdb/9-native-by-1", "", f"after CLAIM, {BREAKS}", f"after LEGACY, {BREAKS}"),
    ("2.3/chain-rocksdb/9-native-by-1", "", f"after CLAIM, {BREAKS}", f"after LEGACY, {BREAKS}"),
    ("1.16/tiny-rocksdb-incremental", "", "", DEPENDS),
    ("1.20/tiny-rocksdb-changelog", FAILS, "", ""),
    ("2.3/tiny-hashmap-changelog", FAILS, "", DEPENDS),
    ("1.20/tiny-hashmap-changelog-memory", FAILS, "", ""),
    ("2.3/tiny-rocksdb-full", "", "", ""),
    ("1.20/tiny-rocksdb-native", "", "", ""),
    ("1.13/windows-rocksdb-canonical", "", "", ""),
]
"""A snapshot, why NO_CLAIM fails, and what is said of CLAIM and LEGACY; nothing where the mode changes nothing."""


@cache
def opened(name: str) -> Snapshot:
    release, case = name.split("/")[:2]
    return next(item for item in fixtures_in(FIXTURES / release / case) if item.name == name).open()


@pytest.mark.parametrize(("name", "fails", "claim", "legacy"), CHECKS, ids=[row[0] for row in CHECKS])
def test_a_mode_is_mentioned_where_it_changes_something(name: str, fails: str, claim: str, legacy: str) -> None:
    snapshot = opened(name)
    release = "2.3" if name.startswith("2.3") else "1.20"
    checks = {mode: snapshot.check(flink_version=release, claim_mode=mode) for mode in CLAIM_MODES}
    found = {mode: [caution.what for caution in check.cautions] for mode, check in checks.items()}
    assert (found["NO_CLAIM"], checks["CLAIM"].restores, checks["LEGACY"].restores) == ([], True, True)
    assert (checks["NO_CLAIM"].restores, "".join(checks["NO_CLAIM"].reasons).partition(":")[0]) == (not fails, fails)
    for mode, expected in (("CLAIM", claim), ("LEGACY", legacy)):
        (text,) = found[mode] or [""]
        assert text.startswith(expected) and bool(text) is bool(expected), mode
    undecided = snapshot.check(flink_version=release)
    assert undecided.restores and undecided.claim_mode is None
    assert [caution.what.partition(": ")[2].partition(":")[0] for caution in undecided.cautions] == [fails] * bool(
        fails
    )


def test_what_flink_says_and_what_helps_are_of_the_release() -> None:
    newer, older = (opened("1.20/tiny-rocksdb-changelog").check(flink_version=line, claim_mode="NO_CLAIM")
                    for line in ("1.20", "1.16"))  # fmt: skip
    assert newer.exception is not None and newer.exception.endswith(
        "in NO_CLAIM mode, please consider choosing CLAIM mode."
    )
    assert older.exception is not None and older.exception.endswith(
        "consider choosing either CLAIM or LEGACY restore mode."
    )
    off = "or turn the changelog off (state.changelog.enabled: false)"
    assert (newer.fix, older.fix) == (
        f"restore with -claimMode CLAIM, {off}",
        f"restore with -restoreMode CLAIM, {off}",
    )
    (native,) = opened("1.20/chain-rocksdb/9-native-by-1").check(claim_mode="CLAIM").cautions
    assert native.fix == "restore with -claimMode NO_CLAIM"
    snapshot = opened("2.3/tiny-hashmap-changelog")
    (legacy,) = snapshot.check(claim_mode="LEGACY").cautions
    directory = snapshot.path.rpartition("/")[0]
    assert legacy.fix.endswith(f"{directory}, or restore with -claimMode NO_CLAIM, with the changelog off "
                               "(state.changelog.enabled: false)")  # fmt: skip


def test_the_snapshot_of_the_job_says_whether_it_has_a_changelog() -> None:
    plain, logged = opened("1.20/tiny-rocksdb-native"), opened("1.20/tiny-rocksdb-changelog")
    assert plain.check(like=logged, claim_mode="NO_CLAIM").reasons[0].startswith(FAILS)
    assert logged.check(like=plain, claim_mode="NO_CLAIM").reasons == ()


def test_a_canonical_copy_may_be_claimed(tmp_path: Path) -> None:
    """What the advice says to claim."""
    (caution,) = opened("1.20/chain-rocksdb/2-checkpoint-by-1").check(claim_mode="CLAIM").cautions
    instead, _, copy = caution.fix.partition("; or claim a copy: ")
    assert instead == "restore with -claimMode NO_CLAIM"
    assert main([*copy.split()[1:-1], str(tmp_path / "copy")]) == 0
    assert stateproc.open(tmp_path / "copy").check(claim_mode="CLAIM").cautions == ()


def test_checkpoints_that_cannot_be_read_leave_it_open(tmp_path: Path) -> None:
    job = Path(opened("1.20/chain-rocksdb/2-checkpoint-by-1").path).parent
    shutil.copytree(job, tmp_path / job.name)
    (tmp_path / job.name / "chk-3" / "_metadata").write_bytes(b"no metadata")
    (caution,) = stateproc.open(tmp_path / job.name / "chk-2").check(claim_mode="CLAIM").cautions
    assert caution.what.startswith(
        "after CLAIM, Flink deletes files of this checkpoint; whether other checkpoints need"
    )


@pytest.mark.parametrize(
    ("mode", "release", "says"),
    [
        ("claim", "1.20", "there is no claim mode 'claim'"),
        ("NO_CLAIM", "1.14", "Flink 1.14 has no claim modes, which came with Flink 1.15"),
        ("CLAIM", "1.13", "leave the claim mode out: Flink 1.13 restores as later releases do with LEGACY"),
    ],
)
def test_a_mode_that_is_none_is_refused(mode: str, release: str, says: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        opened("1.13/windows-rocksdb-canonical").check(flink_version=release, claim_mode=mode)
    assert says in str(caught.value)


def test_older_releases_restore_as_with_legacy() -> None:
    assert opened("1.13/windows-rocksdb-canonical").check(flink_version="1.14", claim_mode="LEGACY").restores


def test_the_command_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    path = opened("1.20/chain-rocksdb/2-checkpoint-by-1").path
    assert main(["check", path, "--claim-mode", "CLAIM"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        ON_2 in shown
        and "→ restore with -claimMode NO_CLAIM; or claim a copy: stateproc convert --to canonical " in shown
    )
    assert main(["check", path, "--claim-mode", "CLAIM", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["claim_mode"] == "CLAIM" and [item["what"] for item in document["cautions"]] == [ON_2]
