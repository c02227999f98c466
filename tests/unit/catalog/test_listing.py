"""Snapshots below a directory: found, sized, grouped by job; beside files that real Flink wrote."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

import stateproc
from stateproc.catalog.discovery import discover
from stateproc.catalog.entries import CatalogEntry
from stateproc.catalog.listing import catalog_of
from stateproc.errors import InvalidOption, MissingFile
from stateproc.metadata import walk_stream_handles
from stateproc.metadata.stream_handles import FileHandle, RelativeFileHandle, SegmentHandle
from tests.helpers.fixtures import fixtures
from tests.helpers.paths import FIXTURES
from tests.helpers.sweeps import exhaustive

CHAIN = FIXTURES / "1.20/chain-rocksdb"
JOB = "483d9b89067afda5f16b578f2e8da24a"
OTHER_JOB = "0123456789abcdef0123456789abcdef"


@pytest.fixture()
def chain(tmp_path: Path) -> Path:
    """A job's directory: seven incremental checkpoints of real Flink, which share files, and two savepoints."""
    return Path(shutil.copytree(CHAIN / "snapshot", tmp_path / "root"))


def files_of(path: str) -> dict[object, int]:
    """The files of a snapshot by name (of merged files, their segments) with their sizes."""
    found: dict[object, int] = {}
    for use in walk_stream_handles(stateproc.open(path).metadata):
        handle = use.handle
        while not isinstance(handle, FileHandle | RelativeFileHandle | SegmentHandle):
            if not hasattr(handle, "stream"):
                break
            handle = handle.stream
        else:
            segment = (handle.start, handle.size) if isinstance(handle, SegmentHandle) else None
            found[handle.path.rpartition("/")[2], segment] = handle.size
    return found


def check_sizes(entries: list[CatalogEntry]) -> None:
    """Own and shared bytes are those that follow from the snapshots one by one."""
    files = {entry.path: files_of(entry.path) for entry in entries}
    uses = Counter(name for names in files.values() for name in names)
    for entry in entries:
        mine = files[entry.path]
        shared = sum(size for name, size in mine.items() if uses[name] > 1)
        own = sum(mine.values()) - shared + os.path.getsize(f"{entry.path}/_metadata")
        assert (entry.shared_bytes, entry.own_bytes, entry.files) == (shared, own, len(mine)), entry.path


_FEW = [FIXTURES / f"1.20/chain-{name}" for name in ("rocksdb", "filemerging", "claimed", "changelog")]
_CHAINS = sorted({item.path for item in fixtures() if item.path.name.startswith("chain")} - set(_FEW))


@pytest.mark.parametrize("path", [*_FEW, *map(exhaustive, _CHAINS)])
def test_sizes_are_those_of_the_files_that_flink_wrote(path: Path) -> None:
    entries = stateproc.ls(path)
    assert len(entries) == len({item.snapshot for item in fixtures() if item.path == path})
    assert {entry.status for entry in entries} == {"complete"}
    check_sizes(entries)


def test_snapshots_of_a_job_in_order_with_their_kinds(chain: Path) -> None:
    entries = stateproc.ls(chain)
    assert [entry.checkpoint_id for entry in entries] == list(range(1, 10))
    assert [entry.name[:5] for entry in entries] == [*(f"chk-{i}" for i in range(1, 8)), "savep", "savep"]
    assert [entry.kind for entry in entries[6:]] == ["checkpoint", "canonical savepoint", "native savepoint"]
    # A savepoint's name has the first digits of the job's id.
    assert {entry.job_id for entry in entries} == {JOB}
    assert [entry.newest for entry in entries] == [False] * 8 + [True]


def test_time_decides_which_is_newest_and_a_higher_number_is_reported(chain: Path) -> None:
    for number in range(1, 8):
        os.utime(chain / JOB / f"chk-{number}/_metadata", (1_700_000_000 - number, 1_700_000_000 - number))
    catalog = catalog_of(discover([chain / JOB]))
    assert [entry.checkpoint_id for entry in catalog.entries] == [7, 6, 5, 4, 3, 2, 1]
    assert [entry.checkpoint_id for entry in catalog.entries if entry.newest] == [1]
    assert str(catalog.entries[-1].completed_at) == "2023-11-14 22:13:19+00:00"
    assert "chk-7 has a higher number" in catalog.groups[0].notes[0]


def test_without_metadata_incomplete(chain: Path) -> None:
    directory = chain / JOB / "chk-7"
    (directory / "_metadata").unlink()
    for file in directory.iterdir():
        os.utime(file, (1_700_000_000, 1_700_000_000))
    savepoint = chain / "savepoint-483d9b-00112233aabb"
    savepoint.mkdir()
    found = {entry.name: entry for entry in stateproc.ls(chain)}
    entry = found["chk-7"]
    assert (entry.status, entry.kind, entry.checkpoint_id, entry.newest) == ("incomplete", "checkpoint", 7, False)
    assert entry.own_bytes == sum(file.stat().st_size for file in directory.iterdir())
    assert (entry.completed_at, str(entry.last_write)) == (None, "2023-11-14 22:13:20+00:00")
    assert (found[savepoint.name].status, found[savepoint.name].kind) == ("incomplete", "savepoint")
    assert found["chk-6"].status == "complete"


@pytest.mark.parametrize("data", [b"", b"nothing of the kind", b"\x49\x60\x67\x2d\0\0\0\x63"])
def test_a_damaged_metadata_is_a_row_with_its_reason(chain: Path, data: bytes) -> None:
    (chain / JOB / "chk-3/_metadata").write_bytes(data)
    entries = stateproc.ls(chain)
    assert [entry.name for entry in entries if entry.status == "unreadable"] == ["chk-3"]
    damaged = next(entry for entry in entries if entry.status == "unreadable")
    assert (damaged.checkpoint_id, damaged.own_bytes, damaged.job_id) == (3, None, JOB)
    assert damaged.problem and "[byte " in damaged.problem
    assert len(entries) == 9


def test_impossible_sizes_and_times(chain: Path) -> None:
    from stateproc.catalog.entries import utc_time
    from stateproc.metadata import OperatorEntry, SnapshotMetadata, SubtaskState
    from stateproc.metadata.stream_handles import KeyGroupsHandle
    from stateproc.metadata.writer import write_metadata

    subtasks = tuple(
        SubtaskState(i, managed_keyed=KeyGroupsHandle(7, i, (0,), RelativeFileHandle(f"f{i}", (1 << 63) - 1)))
        for i in range(3)
    )
    metadata = SnapshotMetadata(3, 1, (), (OperatorEntry("0a" * 16, 3, 3, subtasks=subtasks),))
    (chain / JOB / "chk-3/_metadata").write_bytes(write_metadata(metadata, 3))
    damaged = next(entry for entry in stateproc.ls(chain) if entry.status == "unreadable")
    assert damaged.name == "chk-3" and "bytes, by their handles" in str(damaged.problem)
    assert utc_time(1e30) is None


@pytest.mark.skipif(os.getuid() == 0, reason="root may read every directory")
def test_a_directory_that_may_not_be_listed_is_a_row(chain: Path) -> None:
    closed = chain / "closed"
    closed.mkdir(mode=0o000)
    try:
        entries = stateproc.ls(chain)
    finally:
        closed.chmod(0o755)
    assert [(entry.path, entry.status) for entry in entries if entry.problem] == [(str(closed), "unreadable")]


def test_a_directory_that_cannot_be_listed_is_a_row(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (chain / "closed").mkdir()
    scan = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    entries = stateproc.ls(chain)
    assert [(entry.name, entry.problem) for entry in entries if entry.status == "unreadable"] == [
        ("closed", "this directory cannot be listed: access denied")
    ]


def test_shared_directories_and_snapshots_are_not_descended_into(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scanned: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: scanned.append(path) or scan(path))
    assert len(stateproc.ls(chain)) == 9
    assert sorted(scanned) == [str(chain), str(chain / JOB)]


def test_directories_with_flinks_names_elsewhere_are_descended_into(chain: Path) -> None:
    shutil.move(chain / JOB, chain / "shared" / "team" / JOB)
    assert len(stateproc.ls(chain)) == 9


def test_checkpoints_without_a_directory_of_their_job(chain: Path) -> None:
    """With execution.checkpointing.create-subdir: false the checkpoints of a job are beside shared and taskowned."""
    entries = stateproc.ls(shutil.move(chain / JOB, chain.parent / "flat"))
    assert [(entry.job_id, entry.checkpoint_id) for entry in entries] == [(None, i) for i in range(1, 8)]
    check_sizes(entries)


def test_jobs_of_one_id_in_two_directories_are_two_jobs(chain: Path, tmp_path: Path) -> None:
    """Every application cluster with high availability gives its job the id 0…0."""
    root = tmp_path / "pipelines"
    for name in ("a", "b"):
        shutil.copytree(chain / JOB, root / name / ("0" * 32))
    shutil.rmtree(root / "b" / ("0" * 32) / "chk-7")
    newest = [entry for entry in stateproc.ls(root) if entry.newest]
    assert sorted(Path(entry.path).relative_to(root).parts[0::2] for entry in newest) == [
        ("a", "chk-7"),
        ("b", "chk-6"),
    ]


def test_copies_whose_original_is_gone_share_nothing(chain: Path, tmp_path: Path) -> None:
    one = {entry.name: entry.own_bytes for entry in stateproc.ls(chain)}
    shutil.copytree(chain, tmp_path / "both" / "a")
    shutil.copytree(chain, tmp_path / "both" / "b")
    entries = stateproc.ls(tmp_path / "both")
    assert len(entries) == 18
    assert {(entry.name, entry.own_bytes) for entry in entries} == set(one.items())


def test_the_root_may_be_a_snapshot_or_its_metadata(chain: Path) -> None:
    for path in (chain / JOB / "chk-7", chain / JOB / "chk-7/_metadata"):
        assert [entry.path for entry in stateproc.ls(path)] == [str(chain / JOB / "chk-7")]


def test_links_are_followed_once_and_not_in_circles(chain: Path, tmp_path: Path) -> None:
    (chain / "again").symlink_to(chain / JOB)
    (chain / JOB / "up").symlink_to(chain)
    (chain / "gone").symlink_to(chain / "nowhere")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(FIXTURES / "1.20/demo/snapshot", elsewhere / "savepoint-abcdef-0123456789ab")
    (elsewhere / "back").symlink_to(elsewhere)
    (chain / "more").symlink_to(elsewhere)
    (chain / "more2").symlink_to(elsewhere)
    assert len(stateproc.ls(chain)) == 10


def test_roots_within_others_are_listed_once(chain: Path) -> None:
    assert len(catalog_of(discover([chain / JOB, chain, f"file:{chain}/"])).entries) == 9


def test_a_snapshot_that_is_removed_meanwhile_is_left_out(chain: Path) -> None:
    found = discover([chain])
    shutil.rmtree(chain / JOB / "chk-2")
    entries = catalog_of(found).entries
    assert [entry.status for entry in entries] == ["complete"] * 8


def test_a_root_that_is_not_there_or_no_directory_is_an_error(chain: Path) -> None:
    with pytest.raises(MissingFile, match="did you mean"):
        stateproc.ls(f"{chain}s")
    with pytest.raises(InvalidOption, match="this is a file"):
        stateproc.ls(next((chain / JOB / "shared").iterdir()))
    with pytest.raises(InvalidOption, match="empty"):
        stateproc.ls("")


def test_nothing_below_a_directory(tmp_path: Path) -> None:
    assert stateproc.ls(tmp_path) == []


def test_a_savepoint_whose_digits_fit_two_jobs_belongs_to_neither(chain: Path) -> None:
    shutil.copytree(chain / JOB, chain / (JOB[:6] + OTHER_JOB[6:]))
    savepoints = [entry for entry in stateproc.ls(chain) if "savepoint" in entry.name]
    assert [(entry.job_id, entry.job_id_prefix) for entry in savepoints] == [(None, JOB[:6])] * 2
