"""Locating a snapshot by path, and opening its files after it was moved."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from stateproc.errors import (
    AccessDenied,
    CorruptSnapshot,
    InvalidOption,
    MissingFile,
    MissingPackage,
    StoreUnavailable,
    UnsupportedSnapshot,
)
from stateproc.metadata import read_metadata, walk_stream_handles
from stateproc.metadata.stream_handles import (
    ByteStreamHandle,
    EmptySegmentHandle,
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
)
from stateproc.storage import FileSource, InlineSource, SnapshotLocation, locate, open_handle, read_ranges
from stateproc.storage.remote_memory import StoredFile
from stateproc.storage.store import FileStatus, StorePath
from tests.helpers.paths import FIXTURES

JOB = "0123456789abcdef0123456789abcdef"


def put(path: Path, data: bytes = b"m") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_snapshot_is_located_by_directory_or_file_in_every_spelling(tmp_path: Path) -> None:
    directory = tmp_path / "savepoint-abcdef-0123456789ab"
    put(directory / "_metadata")
    expected = SnapshotLocation(StorePath(f"{directory}/_metadata"))
    spellings = [
        directory,
        f"{directory}/",
        f"{directory}/_metadata",
        f"file:{directory}",
        f"file://{directory}/",
    ]
    for spelling in spellings:
        assert locate(spelling) == expected
    assert locate(os.path.relpath(directory)) == expected


def test_other_file_systems_and_their_options() -> None:
    import fsspec

    fs = fsspec.filesystem("memory")
    fs.pipe("/store/chk-1/_metadata", b"m")
    fs.pipe("/store/chk-1/part", b"0123456789")
    found = locate("memory://store/", {"skip_instance_cache": False})
    assert (found.directory_uri, found.metadata_uri) == (
        "memory://store/chk-1",
        "memory://store/chk-1/_metadata",
    )
    assert open_handle(RelativeFileHandle("part", 10), found).read(2, 3) == b"234"
    assert open_handle(FileHandle("memory://store/chk-1/part", 10), found).read(9, 1) == b"9"


def test_the_newest_completed_checkpoint_is_located(tmp_path: Path) -> None:
    for number in (9, 10, 2):
        put(tmp_path / JOB / f"chk-{number}" / "_metadata")
    (tmp_path / JOB / "chk-11").mkdir()
    (tmp_path / JOB / "shared").mkdir()
    for path in (tmp_path / JOB, tmp_path):
        found = locate(path)
        assert found.directory_uri == f"{tmp_path}/{JOB}/chk-10"
        assert found.note is not None and "chk-10, the newest completed" in found.note
        assert "not completed: chk-11" in found.note


def test_the_only_savepoint_in_a_directory_is_located(tmp_path: Path) -> None:
    put(tmp_path / "savepoint-1" / "_metadata")
    found = locate(tmp_path)
    assert found.directory_uri == f"{tmp_path}/savepoint-1"
    assert found.note == f"opened savepoint-1, the only snapshot in {tmp_path}"
    put(tmp_path / "savepoint-2" / "_metadata")
    with pytest.raises(MissingFile, match="2 snapshots to choose from: savepoint-1, savepoint-2"):
        locate(tmp_path)


def test_errors_of_missing_snapshots_list_existing_files(tmp_path: Path) -> None:
    put(tmp_path / "savepoint-abc" / "_metadata")
    with pytest.raises(MissingFile, match=f"did you mean {tmp_path}/savepoint-abc"):
        locate(tmp_path / "savepoint-abd")
    with pytest.raises(MissingFile, match=f"{tmp_path} holds savepoint-abc"):
        locate(tmp_path / "q" / "r")
    put(tmp_path / "other" / "data")
    with pytest.raises(MissingFile, match="no _metadata here, but data"):
        locate(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFile, match="nothing at all"):
        locate(tmp_path / "empty")
    (tmp_path / "job" / "chk-3").mkdir(parents=True)
    with pytest.raises(MissingFile, match="none of the checkpoints here is completed: chk-3 lack"):
        locate(tmp_path / "job")


def test_unknown_and_uninstalled_file_systems() -> None:
    with pytest.raises(InvalidOption, match="no file system for this path"):
        locate("nowhere://a/b")
    with pytest.raises(InvalidOption, match="chained"):
        locate("memory://a::file:///etc")


@pytest.mark.parametrize(
    ("raised", "expected", "text"),
    [
        (FileNotFoundError("x"), MissingFile, "no such file"),
        (PermissionError("x"), AccessDenied, "access denied"),
        (ConnectionError("refused"), StoreUnavailable, "cannot be read: refused"),
        (RuntimeError("a client's own error"), StoreUnavailable, "cannot be read: a client's own error"),
        (TypeError("unexpected keyword 'endpoint'"), InvalidOption, "does not accept these storage options"),
        (ImportError("No module named 's3fs'"), MissingPackage, "needs a package that is not installed"),
        (CorruptSnapshot("damaged"), CorruptSnapshot, "damaged"),
        (
            AttributeError("'int' object has no attribute 'copy'"),
            InvalidOption,
            "does not accept these storage options",
        ),
        (NameError("a bug"), NameError, "a bug"),
        (AssertionError("a bug"), AssertionError, "a bug"),
    ],
)
def test_storage_errors_are_typed_and_other_errors_are_not_caught(
    raised: Exception, expected: type[Exception], text: str
) -> None:
    with pytest.raises(expected, match=text), StorePath("s3://bucket/file").explained():
        raise raised


@pytest.fixture
def location(tmp_path: Path) -> SnapshotLocation:
    put(tmp_path / "new" / JOB / "chk-4" / "_metadata")
    return locate(tmp_path / "new" / JOB)


def test_inline_sources(location: SnapshotLocation) -> None:
    source = open_handle(ByteStreamHandle("a", b"0123"), location)
    assert source.size == 4 and source.read(1, 2) == b"12" and source.read_all(4) == b"0123"
    assert open_handle(EmptySegmentHandle(), location).read_all(0) == b""
    inner = KeyGroupsHandle(3, 0, (0,), ByteStreamHandle("a", b"xyz"))
    assert open_handle(inner, location).read_all(9) == b"xyz"


def test_whole_files_and_segments(location: SnapshotLocation, tmp_path: Path) -> None:
    path = put(tmp_path / "new" / "abs", b"0123456789")
    whole = open_handle(FileHandle(f"file:{path}", 10), location)
    assert whole.read(0, 10) == whole.read_all(10) == b"0123456789" and whole.read(10, 0) == b""
    part = open_handle(SegmentHandle(str(path), 3, 4, "SHARED", "id"), location)
    assert part.size == 4 and part.read_all(4) == b"3456" and part.read(1, 2) == b"45"
    again = pickle.loads(pickle.dumps(part))
    assert again == part and again.read(0, 1) == b"3"


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, 11), (11, 0), (5, -1), (2**62, 2**62)])
def test_reads_outside_a_file_are_refused(location: SnapshotLocation, tmp_path: Path, start: int, length: int) -> None:
    path = put(tmp_path / "abs", b"0123456789")
    for source in (InlineSource("i", b"0123456789"), FileSource(StorePath(str(path)), 10)):
        with pytest.raises(CorruptSnapshot, match="outside of 10 bytes"):
            source.read(start, length)
        with pytest.raises(CorruptSnapshot, match="10 bytes where at most 9"):
            source.read_all(9)


@pytest.mark.parametrize("size", [9, 11])
def test_files_of_another_length_are_refused(location: SnapshotLocation, tmp_path: Path, size: int) -> None:
    path = put(tmp_path / "new" / "abs", b"0123456789")
    with pytest.raises(CorruptSnapshot, match=f"has 10 bytes where the snapshot says {size}") as caught:
        open_handle(FileHandle(str(path), size), location).read(0, 1)
    assert caught.value.where.file == str(path)
    with pytest.raises(CorruptSnapshot, match="says at least 11"):
        open_handle(SegmentHandle(str(path), 9, 2, "SHARED", ""), location).read(0, 1)


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "", "a//b", ".", "file:x", "a\\b", "a\0"])
def test_relative_names_stay_in_the_directory(location: SnapshotLocation, name: str) -> None:
    with pytest.raises(CorruptSnapshot, match="is no plain name"):
        open_handle(RelativeFileHandle(name, 1), location)


def test_handles_of_other_storages_are_not_opened(location: SnapshotLocation) -> None:
    with pytest.raises(UnsupportedSnapshot, match="http: is not a storage"):
        open_handle(FileHandle("http://host/x", 1), location)
    with pytest.raises(CorruptSnapshot, match="no absolute path"):
        open_handle(FileHandle("x", 1), location)


@pytest.mark.parametrize("old", ["file:/old", "hdfs://name:8020/flink/checkpoints", "s3a://bucket"])
@pytest.mark.parametrize("tail", [f"{JOB}/shared/u", f"{JOB}/chk-4/u", f"{JOB}/taskowned/u", f"{JOB}/shared/d/u"])
def test_moved_snapshots(location: SnapshotLocation, tmp_path: Path, old: str, tail: str) -> None:
    put(tmp_path / "new" / tail, b"found")
    source = open_handle(FileHandle(f"{old}/{tail}", 5), location)
    assert source.read_all(5) == b"found" and source.name == f"{tmp_path}/new/{tail}"


def test_a_file_of_a_moved_savepoint_is_located_by_its_name(tmp_path: Path) -> None:
    put(tmp_path / "sp" / "_metadata")
    put(tmp_path / "sp" / "u", b"x")
    assert open_handle(FileHandle("/gone/savepoint-1/u", 1), locate(tmp_path / "sp")).read_all(1) == b"x"


def test_path_mapping_has_precedence_and_uses_the_longest_prefix(tmp_path: Path) -> None:
    put(tmp_path / "sp" / "_metadata")
    put(tmp_path / "right" / "u", b"right")
    mapping = {"s3://b": "/wrong", "s3://b/in/": str(tmp_path / "right"), "s3://b/i": "/wrong"}
    found = locate(tmp_path / "sp", path_mapping=mapping)
    assert open_handle(FileHandle("s3://b/in/u", 5), found).read_all(5) == b"right"
    assert open_handle(FileHandle("s3://b/in/u", 5), found).name == f"{tmp_path}/right/u"


def test_relative_files_may_be_mapped_to_another_directory(location: SnapshotLocation, tmp_path: Path) -> None:
    """Flink's changelogs may name files of a savepoint's directory relative to the checkpoint's directory."""
    put(tmp_path / "savepoint" / "u", b"there")
    beside = put(Path(location.directory_uri) / "v", b"here")
    with pytest.raises(MissingFile, match="path_mapping"):
        open_handle(RelativeFileHandle("u", 5), location).read(0, 1)
    mapped = locate(location.directory_uri, path_mapping={f"file:{location.directory_uri}": f"{tmp_path}/savepoint"})
    assert open_handle(RelativeFileHandle("u", 5), mapped).read_all(5) == b"there"
    assert open_handle(RelativeFileHandle("v", 4), mapped).read_all(4) == b"here"
    with pytest.raises(MissingFile, match=f"also looked for {beside.with_name('w')}") as caught:
        open_handle(RelativeFileHandle("w", 1), mapped).read(0, 1)
    assert caught.value.where.file == f"{tmp_path}/savepoint/w"


def test_errors_of_missing_files_list_the_searched_paths(location: SnapshotLocation) -> None:
    source = open_handle(FileHandle("file:/old/shared/u", 5), location)
    with pytest.raises(MissingFile, match=r"also looked for .*/chk-4/u and in") as caught:
        source.read(0, 1)
    assert caught.value.where.file == "/old/shared/u" and "path_mapping" in str(caught.value)


@pytest.mark.slow
def test_every_file_of_a_moved_snapshot_is_located() -> None:
    """Absolute handles of the fixtures name the directory in which Flink wrote them."""
    snapshots = sorted(FIXTURES.glob("**/_metadata"))
    kinds = set()
    for path in snapshots:
        location = locate(path)
        for use in walk_stream_handles(read_metadata(path.read_bytes(), file=str(path))):
            source = open_handle(use.handle, location, whole=not use.role.startswith("changelog"))
            assert len(source.read_all(1 << 30)) == source.size
            kinds.add(type(use.handle))
    assert {ByteStreamHandle, RelativeFileHandle, FileHandle} <= kinds


class Counting:
    """A source that records its requests."""

    name = "counting"
    size = 1000

    def __init__(self) -> None:
        self.requests: list[tuple[int, int]] = []

    def read(self, start: int, length: int) -> bytes:
        self.requests.append((start, length))
        return bytes((start + i) % 251 for i in range(length))

    def read_all(self, limit: int) -> bytes:
        return self.read(0, self.size)


@pytest.fixture
def remote(request: pytest.FixtureRequest) -> tuple[FileSource, bytes]:
    """Return a file of 10 MiB on a non-local file system, and its contents."""
    import fsspec

    data = bytes(range(251)) * (10 * (1 << 20) // 251)
    path = f"/remote/{request.node.name}"
    fsspec.filesystem("memory").pipe(path, data)
    return FileSource(StorePath(f"memory:/{path}"), len(data)), data


@pytest.mark.parametrize(("start", "length"), [(0, 1), (7, 4 << 20), (1, (4 << 20) + 1), (5, (10 << 20) - 1000)])
def test_large_reads_are_split_into_requests(remote: tuple[FileSource, bytes], start: int, length: int) -> None:
    source, data = remote
    target = bytearray(length)
    source.read_into(start, memoryview(target))
    assert target == data[start : start + length]


def test_large_reads_of_shorter_files_are_refused(remote: tuple[FileSource, bytes]) -> None:
    source, data = remote
    longer = FileSource(StorePath(source.uri), len(data) + 10, whole=False)
    longer._found.append(StoredFile(source.uri, longer.size))
    with pytest.raises(CorruptSnapshot, match=f"{len(data) + 10} bytes wanted, {len(data)} there"):
        longer.read_into(0, memoryview(bytearray(len(data) + 10)))


def test_many_ranges_are_read_from_a_remote_file_system(remote: tuple[FileSource, bytes]) -> None:
    source, data = remote
    ranges = [(at, 4) for at in range(9 << 20, 0, -100_003)]
    assert [bytes(found) for found in read_ranges(source, ranges)] == [data[at : at + 4] for at, _ in ranges]


def test_ranges_are_coalesced_and_returned_in_their_order() -> None:
    source = Counting()
    ranges = [(500, 10), (0, 10), (15, 5), (2, 3), (31, 4), (7, 0), (0, 10)]
    found = read_ranges(source, ranges, gap=5)
    assert source.requests == [(0, 20), (31, 4), (500, 10)]
    assert [bytes(part) for part in found] == [bytes((s + i) % 251 for i in range(n)) for s, n in ranges]
    with pytest.raises(CorruptSnapshot, match="outside of 1000 bytes"):
        read_ranges(source, [(999, 2)])


def test_list_directory(tmp_path: Path) -> None:
    put(tmp_path / "b", b"123")
    (tmp_path / "a").mkdir()
    listed: list[Any] = [
        (entry.name, entry.is_directory, status and status.size)
        for entry in StorePath(str(tmp_path)).entries()
        for status in [entry.status()]
    ]
    assert listed == [("a", True, None), ("b", False, 3)]
    with pytest.raises(MissingFile, match="no such file"):
        StorePath(str(tmp_path / "c")).entries()


@pytest.mark.processes
def test_import_does_not_load_heavy_packages() -> None:
    heavy = ("pyarrow", "pandas", "numba", "fsspec")
    code = f"import sys, stateproc.storage; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"[]"


@pytest.mark.parametrize(
    ("info", "seconds"),
    [
        ({"mtime": 1_700_000_000.5}, 1_700_000_000.5),
        ({"modificationTime": 1_700_000_000_500}, 1_700_000_000.5),
        ({"LastModified": datetime.fromtimestamp(1_700_000_000, timezone(timedelta(hours=2)))}, 1_700_000_000),
        ({"mtime": 0}, None),
        ({"mtime": "yesterday"}, None),
        ({"mtime": 1e300}, None),
        ({}, None),
    ],
)
def test_file_systems_say_when_a_file_was_written(
    monkeypatch: pytest.MonkeyPatch, info: dict[str, Any], seconds: float | None
) -> None:
    monkeypatch.setattr(StorePath, "filesystem", lambda path: (_Info({"type": "file", **info}), path.uri))
    status = StorePath("x://y").status()
    assert status is not None and status.modified == seconds


class _Info:
    def __init__(self, info: dict[str, Any]) -> None:
        self._info = info

    def info(self, path: str) -> dict[str, Any]:
        return self._info


def test_what_exists(tmp_path: Path) -> None:
    path = StorePath(str(tmp_path))
    (tmp_path / "file").write_bytes(b"abc")
    os.mkfifo(tmp_path / "pipe")
    assert (path / "file").status() == FileStatus(3, (tmp_path / "file").stat().st_mtime)
    assert path.exists() and path.file_status() is None
    # Reading a pipe would wait for ever.
    assert [(path / name).status() for name in ("missing", "pipe", "file/below")] == [None] * 3
