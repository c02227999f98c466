"""Commit protocol: aborted, killed, late and concurrent writes and full disks never leave a partial snapshot."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from stateproc.errors import InvalidOption, MissingFile, WriteFailed
from stateproc.metadata import OperatorEntry, SnapshotMetadata, SubtaskState, read_metadata
from stateproc.metadata.stream_handles import ByteStreamHandle, KeyGroupsHandle, RelativeFileHandle
from stateproc.storage import locate, writing
from stateproc.storage.layout import run_of_file, run_of_marker
from stateproc.storage.store import StorePath
from stateproc.writers.commit import commit
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging, StateFile

Handle = ByteStreamHandle | RelativeFileHandle
BIG = bytes(range(256)) * 100
UID = "00112233445566778899aabbccddeeff"


def metadata(*handles: Handle, checkpoint_id: int = 1) -> SnapshotMetadata:
    subtasks = tuple(
        SubtaskState(index, managed_keyed=KeyGroupsHandle(7, index, (0,), handle))
        for index, handle in enumerate(handles)
    )
    return SnapshotMetadata(4, checkpoint_id, (), (OperatorEntry(UID, len(handles), 128, subtasks=subtasks),))


def state_file(staging: Staging, data: bytes = BIG) -> Handle:
    with staging.new_file() as file:
        file.write(data)
    assert file.handle is not None
    return file.handle


def write_snapshot(target: Path | str, *, overwrite: bool = False, checkpoint_id: int = 1) -> list[str]:
    """Write a snapshot with one file handle and one inline handle; return the names of its files."""
    begun = Commit.begin(StorePath.of(target), overwrite=overwrite)
    handles = [state_file(begun.staging), state_file(begun.staging, b"small")]
    assert begun.complete(metadata(*handles, checkpoint_id=checkpoint_id), 4) == ()
    return [handle.path for handle in handles if isinstance(handle, RelativeFileHandle)]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def checkpoint_id(directory: Path) -> int:
    return read_metadata((directory / "_metadata").read_bytes(), file="").checkpoint_id


def test_a_completed_write(tmp_path: Path) -> None:
    target = tmp_path / "a" / "savepoint"
    begun = Commit.begin(StorePath.of(target))
    staging = pickle.loads(pickle.dumps(begun.staging))
    (marker,) = names(target)
    assert run_of_marker(marker) == staging.run
    file, inline = state_file(staging), state_file(staging, b"x" * 20_480)
    assert isinstance(file, RelativeFileHandle) and file.size == len(BIG)
    assert (target / file.path).read_bytes() == BIG
    assert isinstance(inline, ByteStreamHandle) and inline.data == b"x" * 20_480
    with pytest.raises(MissingFile, match="no _metadata here"):
        locate(target)
    unused = state_file(staging)
    assert isinstance(unused, RelativeFileHandle) and run_of_file(unused.path) == staging.run
    assert begun.complete(metadata(file, inline), 6) == ()
    assert names(target) == ["_metadata", file.path]
    found = read_metadata((target / "_metadata").read_bytes(), file="")
    assert (found.version, found.operators) == (6, metadata(file, inline).operators)
    begun.abort()
    assert names(target) == ["_metadata", file.path]


def test_an_aborted_write_leaves_no_files(tmp_path: Path) -> None:
    for target, expected in ((tmp_path / "new", []), (tmp_path / "there", [])):
        if target.name == "there":
            target.mkdir()
        begun = Commit.begin(StorePath.of(target))
        state_file(begun.staging)
        begun.abort()
        assert names(target) == expected
        assert target.exists() == (target.name == "there")


def test_a_task_that_ends_after_the_abort_leaves_no_files(tmp_path: Path) -> None:
    begun = Commit.begin(StorePath.of(tmp_path / "s"))
    open_file, unused = begun.staging.new_file(), begun.staging.new_file()
    open_file.write(BIG)
    begun.abort()
    with pytest.raises(WriteFailed, match="the write is over"):
        open_file.close()
    with pytest.raises(WriteFailed, match="the write is over"):
        unused.write(BIG)
    with pytest.raises(WriteFailed, match="the write is over"):
        begun.complete(metadata(), 4) if (tmp_path / "s").exists() else begun.staging.check_under_way()
    assert names(tmp_path / "s") == []


def test_a_task_that_ends_after_the_commit_leaves_no_files(tmp_path: Path) -> None:
    begun = Commit.begin(StorePath.of(tmp_path / "s"))
    file, late = state_file(begun.staging), begun.staging.new_file()
    late.write(BIG)
    begun.complete(metadata(file), 4)
    with pytest.raises(WriteFailed, match="is over"):
        late.close()
    assert names(tmp_path / "s") == sorted(["_metadata", file.path])  # type: ignore[union-attr]


@pytest.mark.parametrize("moment", ["_metadata", "marker"])
def test_files_of_an_attempt_that_ends_during_the_commit_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """An attempt may create further files until it learns that the write is over."""
    target = tmp_path / "savepoint"
    begun = Commit.begin(StorePath.of(target))
    file, late = state_file(begun.staging), pickle.loads(pickle.dumps(begun.staging))
    ended: list[Handle | str] = []

    def another() -> None:
        try:
            ended.append(state_file(late))
        except WriteFailed as error:
            ended.append(str(error))

    def rename(*arguments: Any) -> None:
        inner_rename(*arguments)
        another()

    def remove_quietly(path: StorePath) -> bool:
        removed = inner_remove(path)
        if path == begun.staging.marker:
            another()
        return removed

    inner_rename, inner_remove = commit.rename, commit.remove_quietly
    if moment == "_metadata":
        monkeypatch.setattr(commit, "rename", rename)
    else:
        monkeypatch.setattr(commit, "remove_quietly", remove_quietly)
    assert begun.complete(metadata(file), 4) == ()
    (end,) = ended
    assert isinstance(end, RelativeFileHandle) if moment == "_metadata" else "is over" in str(end)
    assert names(target) == ["_metadata", file.path]


def test_an_attempt_that_fails_removes_its_file(tmp_path: Path) -> None:
    begun = Commit.begin(StorePath.of(tmp_path / "s"))
    with pytest.raises(ZeroDivisionError), begun.staging.new_file() as file:
        file.write(BIG)
        raise ZeroDivisionError
    assert [run_of_file(name) for name in names(tmp_path / "s")] == [None]


KILLED = """
import os, signal, sys
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
begun = Commit.begin(StorePath.of(sys.argv[1]), overwrite=sys.argv[2] == "overwrite")
with begun.staging.new_file() as file:
    file.write(bytes(30_000))
open_file = begun.staging.new_file()
open_file.write(bytes(30_000))
if sys.argv[3] == "metadata":
    from stateproc.storage import writing
    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    from stateproc.metadata import SnapshotMetadata
    begun.complete(SnapshotMetadata(4, 9, (), ()), 4)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(target: Path, mode: str, moment: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), mode, moment], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.processes
@pytest.mark.parametrize("moment", ["files", "metadata"])
def test_a_killed_write_leaves_no_snapshot_and_the_next_write_removes_its_files(tmp_path: Path, moment: str) -> None:
    target = tmp_path / "s"
    killed(target, "error", moment)
    killed(target, "error", moment)
    left = names(target)
    assert sum(run_of_file(name) is not None for name in left) == 2
    assert sum(run_of_marker(name) is not None for name in left) == (2 if moment == "metadata" else 1)
    with pytest.raises(MissingFile):
        locate(target)
    files = write_snapshot(target)
    assert names(target) == ["_metadata", *files]


@pytest.mark.processes
@pytest.mark.parametrize("moment", ["files", "metadata"])
def test_a_killed_overwrite_leaves_the_old_snapshot(tmp_path: Path, moment: str) -> None:
    target = tmp_path / "s"
    old = write_snapshot(target)
    before = {name: (target / name).read_bytes() for name in names(target)}
    killed(target, "overwrite", moment)
    assert {name: (target / name).read_bytes() for name in before} == before
    assert checkpoint_id(target) == 1
    new = write_snapshot(target, overwrite=True, checkpoint_id=2)
    assert names(target) == ["_metadata", *new] and old != new
    assert checkpoint_id(target) == 2


def test_overwrite_keeps_files_that_do_not_belong_to_the_snapshot(tmp_path: Path) -> None:
    target = tmp_path / "s"
    write_snapshot(target)
    (target / "notes.txt").write_text("mine")
    new = write_snapshot(target, overwrite=True)
    assert names(target) == sorted(["_metadata", "notes.txt", *new])


def test_existing_snapshots_files_and_directories_are_not_overwritten(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "s")
    with pytest.raises(InvalidOption, match="a snapshot is here already") as caught:
        Commit.begin(StorePath.of(tmp_path / "s"))
    assert "mode 'overwrite'" in str(caught.value)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidOption, match=r"holds other files: notes\.txt"):
        Commit.begin(StorePath.of(tmp_path / "other"))
    with pytest.raises(InvalidOption, match="the path is a file"):
        Commit.begin(StorePath.of(tmp_path / "other" / "notes.txt"))
    assert names(tmp_path / "other") == ["notes.txt"]


def test_writing_to_a_source_of_the_snapshot_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "s"
    write_snapshot(source)
    (tmp_path / "link").symlink_to(source)
    for target in (source, source / "below", tmp_path / "link", f"file://{source}/", tmp_path / "x" / ".." / "s"):
        for named in (str(source), f"file:{source}/", str(tmp_path / "link")):
            with pytest.raises(InvalidOption, match="onto one that it is made from"):
                Commit.begin(StorePath.of(target), overwrite=True, sources=[named])
    Commit.begin(StorePath.of(tmp_path / "s2"), sources=[str(source)]).abort()
    assert len(names(source)) == 2


@pytest.mark.parametrize("overwrite", [False, True])
def test_writing_to_a_parent_directory_of_a_source_is_refused(tmp_path: Path, overwrite: bool) -> None:
    """An example is a checkpoint's root, which contains chk-N and the files that a job's checkpoints share."""
    root = tmp_path / "job"
    write_snapshot(root / "chk-3")
    (tmp_path / "link").symlink_to(root)
    for target in (root, tmp_path, tmp_path / "link", f"file://{root}/"):
        for source in (f"{root}/chk-3", f"{tmp_path}/link/chk-3/"):
            with pytest.raises(InvalidOption, match=r"holds one it is made from: .*/job/chk-3"):
                Commit.begin(StorePath.of(target), overwrite=overwrite, sources=[source])
    assert names(root) == ["chk-3"] and len(names(root / "chk-3")) == 2
    Commit.begin(StorePath.of(tmp_path / "jo"), sources=[f"{root}/chk-3"]).abort()
    with pytest.raises(InvalidOption, match="that holds one it is made from"):
        Commit.begin(StorePath.of("memory://bucket/job"), overwrite=overwrite, sources=["memory://bucket/job/chk-3"])


def test_beginning_an_overwrite_removes_no_files_of_an_unreadable_snapshot(tmp_path: Path) -> None:
    target = tmp_path / "s"
    (old,) = write_snapshot(target)
    (target / "_metadata").write_bytes(b"damaged")
    begun = Commit.begin(StorePath.of(target), overwrite=True)
    assert old in names(target)
    begun.abort()
    assert names(target) == ["_metadata", old]


def test_the_later_of_two_concurrent_writes_is_committed(tmp_path: Path) -> None:
    target = tmp_path / "s"
    first = Commit.begin(StorePath.of(target))
    handle = state_file(first.staging)
    second = Commit.begin(StorePath.of(target))
    with pytest.raises(WriteFailed, match="is over"):
        state_file(first.staging)
    with pytest.raises(WriteFailed, match="is over"):
        first.complete(metadata(handle), 4)
    first.abort()
    handle = state_file(second.staging)
    second.complete(metadata(handle), 4)
    assert names(target) == sorted(["_metadata", handle.path])  # type: ignore[union-attr]


def test_a_write_superseded_during_its_commit_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "s"
    first = Commit.begin(StorePath.of(target))
    handle = state_file(first.staging)
    later: list[Commit] = []

    def rename(*arguments: Any) -> None:
        if not later:
            later.append(first)
            later.append(Commit.begin(StorePath.of(target)))
        writing.rename(*arguments)

    monkeypatch.setattr(commit, "rename", rename)
    with pytest.raises(WriteFailed, match="is over"):
        first.complete(metadata(handle), 4)
    assert "_metadata" not in names(target)
    handle = state_file(later[1].staging)
    later[1].complete(metadata(handle, checkpoint_id=2), 4)
    assert checkpoint_id(target) == 2


def test_missing_files_and_files_of_another_size_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "s"
    begun = Commit.begin(StorePath.of(target))
    handle = state_file(begun.staging)
    assert isinstance(handle, RelativeFileHandle)
    with pytest.raises(WriteFailed, match="has 25600 bytes instead of 9"):
        begun.complete(metadata(RelativeFileHandle(handle.path, 9)), 4)
    (target / handle.path).unlink()
    with pytest.raises(WriteFailed, match=f"is missing .*{handle.path}, operator {UID}"):
        begun.complete(metadata(handle), 4)
    assert "_metadata" not in names(target)


def test_invalid_metadata_is_refused(tmp_path: Path) -> None:
    begun = Commit.begin(StorePath.of(tmp_path / "s"))
    more = replace(metadata(), operators=(OperatorEntry(UID, 129, 128),))
    with pytest.raises(WriteFailed, match=r"the snapshot would be none: operator .* of parallelism 129") as caught:
        begun.complete(more, 4)
    assert caught.value.where.file == str(tmp_path / "s" / "_metadata")
    assert "_metadata" not in names(tmp_path / "s")


class Full:
    """A file system with a disk of ``capacity`` free bytes; with ``closing``, errors are raised only by `flush`."""

    def __init__(self, capacity: int, closing: bool = False) -> None:
        self.capacity, self.closing = capacity, closing
        self.local = fsspec.filesystem("file")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)

    def open(self, path: str, mode: str) -> Any:
        return _FullFile(self, self.local.open(path, mode))


class _FullFile:
    def __init__(self, disk: Full, file: Any) -> None:
        self._disk, self._file = disk, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> None:
        taken = min(len(data), self._disk.capacity)
        self._disk.capacity -= taken
        self._file.write(bytes(data[:taken]))
        if taken < len(data) and not self._disk.closing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        self._file.flush()
        if self._disk.capacity == 0 and self._disk.closing:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


@pytest.mark.parametrize("closing", [False, True])
def test_a_disk_that_is_full_after_any_byte_keeps_the_old_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closing: bool
) -> None:
    target = tmp_path / "s"
    write_snapshot(target)
    before = {name: (target / name).read_bytes() for name in names(target)}
    disk = Full(1 << 40)
    monkeypatch.setattr(StorePath, "filesystem", lambda path: (disk, path.uri))
    write_snapshot(tmp_path / "measured")
    needed = (1 << 40) - disk.capacity
    capacities = [0, 1, 100, 200, 5_000, len(BIG), needed - 400, needed - 50, needed - 1]
    for capacity in capacities:
        disk.capacity, disk.closing = capacity, closing
        begun = None
        with pytest.raises(WriteFailed, match=r"No space left|quota") as caught:
            begun = Commit.begin(StorePath.of(target), overwrite=True)
            begun.complete(metadata(state_file(begun.staging), state_file(begun.staging, b"small")), 4)
        assert "the disk is full, or a quota" in str(caught.value)
        assert str(target) in str(caught.value)
        if begun is not None:
            begun.abort()
        assert {name: (target / name).read_bytes() for name in names(target)} == before
    disk.capacity = 1 << 40
    write_snapshot(target, overwrite=True, checkpoint_id=2)
    assert checkpoint_id(target) == 2 and len(names(target)) == 2


LIMITED = """
import resource, signal, sys
from stateproc.errors import WriteFailed
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
begun = Commit.begin(StorePath.of(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
try:
    with begun.staging.new_file() as file:
        for _ in range(9):
            file.write(bytes(10_000))
except WriteFailed as error:
    begun.abort()
    print(error)
"""


@pytest.mark.processes
def test_the_file_size_limit_of_the_operating_system_is_reported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "s")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "File too large" in done.stdout and "free space" in done.stdout
    assert not (tmp_path / "s").exists()


def test_a_directory_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteFailed, match="cannot be written"):
        Commit.begin(StorePath.of(tmp_path / "file" / "below"))


def test_commit_on_an_object_store(request: pytest.FixtureRequest) -> None:
    """Object stores have no rename and no directories: each file is uploaded whole, ``_metadata`` last."""
    target = f"memory://bucket/{request.node.name}"
    store = fsspec.filesystem("memory")
    path = f"/bucket/{request.node.name}"
    begun = Commit.begin(StorePath.of(target))
    unused, handle = begun.staging.new_file(), state_file(begun.staging)
    unused.write(BIG)
    begun.complete(metadata(handle), 4)
    assert isinstance(handle, RelativeFileHandle)
    assert sorted(store.find(path)) == [f"{path}/_metadata", f"{path}/{handle.path}"]
    assert locate(target).metadata_uri == f"{target}/_metadata"
    with pytest.raises(WriteFailed, match="is over"):
        unused.close()
    with pytest.raises(InvalidOption, match="a snapshot is here already"):
        Commit.begin(StorePath.of(target))
    second = Commit.begin(StorePath.of(target), overwrite=True)
    state_file(second.staging)
    second.abort()
    assert sorted(store.find(path)) == [f"{path}/_metadata", f"{path}/{handle.path}"]


def test_a_file_can_be_closed_twice_and_discarded_without_a_context_manager(tmp_path: Path) -> None:
    begun = Commit.begin(StorePath.of(tmp_path / "s"))
    make: Callable[[], StateFile] = begun.staging.new_file
    file = make()
    file.write(BIG)
    assert file.close() is file.close()
    file.discard()
    assert len(names(tmp_path / "s")) == 1
