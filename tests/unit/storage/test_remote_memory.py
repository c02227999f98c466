"""Sources of one snapshot share where its remote files are, and small reads; files of other snapshots do not."""

from __future__ import annotations

import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stateproc.cli import main
from stateproc.errors import CorruptSnapshot
from stateproc.metadata.stream_handles import FileHandle
from stateproc.storage import FileSource, SnapshotLocation, open_handle
from stateproc.storage.remote_memory import RemoteMemory, StoredFile
from stateproc.storage.store import StorePath
from tests.helpers.paths import FIXTURES
from tests.helpers.stores.counting_filesystem import counted, counting
from tests.helpers.sweeps import sampled

SIZE = 200_000


@pytest.fixture()
def location(tmp_path: Path) -> SnapshotLocation:
    """A snapshot that was moved, with two files in ``shared``."""
    (tmp_path / "shared").mkdir()
    for name in ("a", "b"):
        (tmp_path / "shared" / name).write_bytes(name.encode() * SIZE)
    (tmp_path / "chk-1").mkdir()
    return SnapshotLocation(StorePath(counted(tmp_path / "chk-1/_metadata")))


def opened(location: SnapshotLocation, name: str, size: int = SIZE) -> FileSource:
    source = open_handle(FileHandle(f"counted:///old/job/shared/{name}", size), location)
    assert isinstance(source, FileSource)
    return source


def test_files_of_one_directory_are_looked_for_where_the_first_one_is(location: SnapshotLocation) -> None:
    with counting() as count:
        assert opened(location, "a").read(0, 1) == b"a"
        first = len(count.lookups)
        assert opened(location, "b").read(0, 1) == b"b"
        assert opened(location, "b").read(SIZE - 1, 1) == b"b"
    assert (first > 2, len(count.lookups)) == (True, first + 1)


def test_a_file_that_is_elsewhere_than_the_first_one_is_found(location: SnapshotLocation, tmp_path: Path) -> None:
    opened(location, "a").read(0, 1)
    os.replace(tmp_path / "shared/b", tmp_path / "chk-1/b")
    assert opened(location, "b").read(0, 1) == b"b"


def test_small_reads_are_requested_once_for_a_snapshot(location: SnapshotLocation) -> None:
    other = SnapshotLocation(location.metadata)
    with counting() as count:
        for _ in range(3):
            assert opened(location, "a").read(10, 64 << 10) == b"a" * (64 << 10)
        assert len(count.requests) == 1
        opened(other, "a").read(10, 64 << 10)
        assert len(count.requests) == 2
        opened(location, "a").read(10, (64 << 10) + 1)
        opened(location, "a").read(10, (64 << 10) + 1)
    assert len(count.requests) == 4


def test_a_file_of_another_length_is_refused_wherever_it_was_found(location: SnapshotLocation) -> None:
    opened(location, "a").read(0, 1)
    with pytest.raises(CorruptSnapshot, match=f"has {SIZE} bytes where the snapshot says {SIZE + 1}"):
        opened(location, "a", SIZE + 1).read(0, 1)


def test_other_processes_begin_with_nothing() -> None:
    memory = RemoteMemory()
    memory.add_file("s3://b/a", StoredFile("s3://b/c", 7))
    memory.add_read(("s3://b/c", 0, 7), b"1234567")
    copied = pickle.loads(pickle.dumps(memory))
    assert memory.file("s3://b/a") == StoredFile("s3://b/c", 7) and memory.read(("s3://b/c", 0, 7)) == b"1234567"
    assert copied.file("s3://b/a") is None and copied.read(("s3://b/c", 0, 7)) is None


def test_the_bytes_of_small_reads_are_bounded() -> None:
    memory, data = RemoteMemory(), bytes(64 << 10)
    for number in range(200):
        memory.add_read(("s3://b/c", number, 0), data)
        assert memory.read(("s3://b/c", 0, 0)) is data, "used last"
    kept = sum(memory.read(("s3://b/c", number, 0)) is not None for number in range(200))
    assert kept == (8 << 20) // (64 << 10)


@pytest.mark.parametrize(
    ("fixture", "reads"),
    [sampled("chain-changelog", 30), ("chain-rocksdb", 60), sampled("kitchen-hashmap-checkpoint", 30)],
)
def test_commands_look_for_each_file_once_and_make_few_reads(
    fixture: str, reads: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fixtures are not where Flink wrote them, so that each file has to be searched."""
    path = sorted(item.parent for item in (FIXTURES / "1.20" / fixture / "snapshot").glob("*/chk-*/_metadata"))[-1]
    # With one thread: several may request the same bytes at the same time.
    for command in (["inspect"], ["verify", "--threads", "1"], ["diff", counted(path), "--threads", "1"]):
        with counting() as count:
            assert main([command[0], counted(path), *command[1:]]) == 0
        capsys.readouterr()
        sides = 2 if command[0] == "diff" else 1
        searched = [name for name in count.lookups if "_metadata" not in name and name != str(path)]
        assert len(searched) <= sides * (len(set(searched)) + 2)
        assert len(count.requests) <= sides * reads, (command, len(count.requests))


def test_threads_that_want_the_same_bytes_make_one_request() -> None:
    memory, requests, ready = RemoteMemory(), [], threading.Barrier(8)
    wanted = ("s3://b/c", 0, 3)

    def request() -> bytes:
        requests.append(threading.get_ident())
        time.sleep(0.05)
        return b"abc"

    def read(_: int) -> bytes:
        ready.wait()
        return memory.read_once(wanted, request)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(8))) == [b"abc"] * 8
    assert len(requests) == 1
    assert memory.read_once(wanted, request) == b"abc" and len(requests) == 1


def test_a_request_that_fails_is_made_again_by_the_next() -> None:
    memory, outcomes = RemoteMemory(), [OSError("cut"), b"abc"]

    def request() -> bytes:
        outcome = outcomes.pop(0)
        if isinstance(outcome, OSError):
            raise outcome
        return bytes(outcome)

    with pytest.raises(OSError, match="cut"):
        memory.read_once(("s3://b/c", 0, 3), request)
    assert memory.read_once(("s3://b/c", 0, 3), request) == b"abc"
