"""A ``_metadata`` that names files outside of its checkpoint root: no command and no method reads or copies them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.cli import main
from stateproc.errors import CorruptSnapshot, InvalidOption, SnapshotError, UnsupportedSnapshot, UntrustedPath
from stateproc.metadata import read_metadata, walk_stream_handles
from stateproc.metadata.stream_handles import FileHandle, RelativeFileHandle, SegmentHandle
from stateproc.readers.rocksdb.database import database_files
from stateproc.storage import SnapshotLocation, locate, open_handle
from stateproc.storage.store import StorePath
from stateproc.writers.savepoint_writer import SavepointWriter
from tests.helpers.command_runs import CommandRun, command_runner
from tests.helpers.damage.foreign_files import foreign_copy, opened_files
from tests.helpers.fixtures import Fixture, fixtures

JOB = "0123456789abcdef0123456789abcdef"
SECRET = b"root:x:0:0:the contents of a file that is none of the snapshot's"
ROLES = [
    ("1.20/kitchen-hashmap-checkpoint", "managed keyed"),
    ("1.20/operators-hashmap-checkpoint", "managed operator"),
    ("1.20/inflight-hashmap-checkpoint", "channel"),
    ("1.20/kitchen-rocksdb-incremental", "rocksdb meta"),
    ("1.20/kitchen-rocksdb-incremental", "rocksdb shared"),
    ("1.20/kitchen-rocksdb-incremental", "rocksdb private"),
    ("1.20/chain-filemerging/6", "rocksdb meta"),
    ("1.20/chain-filemerging/6", "rocksdb shared"),
    ("1.20/chain-changelog/7", "rocksdb meta"),
    ("1.20/chain-changelog/7", "changelog segment"),
    ("2.3/chain-forst/8", "raw keyed"),
]
"""A fixture for each kind of handle that has a path, and for each role of a stream."""


def named(name: str) -> Fixture:
    return next(fixture for fixture in fixtures() if fixture.name in (name, f"{name}-checkpoint-by-1"))


@pytest.mark.parametrize(("name", "role"), ROLES)
def test_a_file_outside_is_read_only_if_its_directory_is_allowed(tmp_path: Path, name: str, role: str) -> None:
    fixture = named(name)
    directory, outside = foreign_copy(fixture, tmp_path, role, lambda path: f"file:{path}")
    uses = [use for use in walk_stream_handles(_metadata(directory)) if use.role.startswith(role)]
    assert uses
    for use in uses:
        with opened_files() as opened, pytest.raises(UntrustedPath) as caught:
            open_handle(use.handle, locate(directory), whole=False).read(0, 1)
        path = f"{outside}/{os.path.basename(use.handle.path)}"  # type: ignore[union-attr]
        assert not any(file.startswith(str(outside)) for file in opened)
        assert caught.value.where.file == path
        assert f"the handle at byte {use.handle.offset} of {directory}/_metadata" in caught.value.message  # type: ignore[union-attr]
        assert f"allowed_roots=['{outside}']" in (caught.value.advice or "")
        allowed = locate(directory, allowed_roots=[str(outside)])
        assert open_handle(use.handle, allowed, whole=False).name == path
        expected = Path(path).read_bytes()[_start(use.handle) :][:1]
        assert open_handle(use.handle, allowed, whole=False).read(0, 1) == expected
        mapped = locate(directory, path_mapping={f"file:{outside}": str(outside)})
        assert open_handle(use.handle, mapped, whole=False).read(0, 1)


def _start(handle: Any) -> int:
    return handle.start if isinstance(handle, SegmentHandle) else 0


def _metadata(directory: Path) -> Any:
    return read_metadata((directory / "_metadata").read_bytes(), file=str(directory))


@pytest.fixture
def place(tmp_path: Path) -> SnapshotLocation:
    """Return a checkpoint beside a file that is none of its own, and beside a link to that file's directory."""
    directory = tmp_path / "checkpoints" / JOB / "chk-4"
    directory.mkdir(parents=True)
    (directory / "_metadata").touch()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_bytes(SECRET)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "checkpoints" / ".ssh").mkdir()
    (tmp_path / "checkpoints" / ".ssh" / "id").write_bytes(SECRET)
    (tmp_path / "checkpoints" / JOB / "shared").symlink_to(tmp_path / "etc")
    (directory / "linked").symlink_to(tmp_path / "etc" / "passwd")
    return locate(directory)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda top: f"{top}/etc/passwd",
    "file:": lambda top: f"file:{top}/etc/passwd",
    "file://": lambda top: f"FILE://{top}/etc/passwd",
    "local host": lambda top: f"file://localhost{top}/etc/passwd",
    "double slashes": lambda top: f"/{top}//etc//passwd",
    "above": lambda top: f"{top}/checkpoints/{JOB}/chk-4/../../../etc/passwd",
    "above a missing directory": lambda top: f"{top}/checkpoints/none/../../etc/passwd",
    "encoded": lambda top: f"{top}/checkpoints/%2e%2e/etc/passwd",
    "encoded twice": lambda top: f"{top}/checkpoints/%252e%252e%252fetc/passwd",
    "a link to a directory": lambda top: f"{top}/checkpoints/{JOB}/shared/passwd",
    "a link to a file": lambda top: f"{top}/checkpoints/{JOB}/chk-4/linked",
    "above a link": lambda top: f"{top}/checkpoints/{JOB}/shared/../etc/passwd",
    "hidden": lambda top: f"{top}/checkpoints/.ssh/id",
    "the tail of another path": lambda top: f"s3://bucket{top}/etc/passwd",
    "a tail above the root": lambda top: "/elsewhere/etc/passwd",
    "the root of another host": lambda top: f"file://host{top}/etc/passwd",
    "chained": lambda top: f"file:{top}/checkpoints/x::file:{top}/etc/passwd",
    "another bucket": lambda top: "s3://bucket/etc/passwd",
    "another authority": lambda top: "hdfs://name:8020/etc/passwd",
    "webhdfs": lambda top: "webhdfs://127.0.0.1:9/etc/passwd",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_path_is_resolved_before_it_is_checked(place: SnapshotLocation, spelling: str) -> None:
    top = str(Path(place.directory_uri).parents[2])
    path = SPELLINGS[spelling](top)
    for handle in (FileHandle(path, len(SECRET)), SegmentHandle(path, 3, 9, "SHARED", "id")):
        for read in (lambda source: source.read(0, 9), lambda source: source.read_all(1 << 20)):
            with opened_files() as opened, pytest.raises(UntrustedPath, match="allowed_roots="):
                read(open_handle(handle, place))
            foreign = {f"{top}/etc/passwd", f"{top}/checkpoints/.ssh/id"}
            assert not foreign & {os.path.realpath(file) for file in opened}


@pytest.mark.parametrize(
    "path",
    [
        "simplecache::s3://bucket/x",
        "zip://a::file:///etc/passwd",
        "filecache::file:///etc/passwd",
        "memory://etc/passwd",
    ],
)
def test_other_file_systems_are_not_opened(place: SnapshotLocation, path: str) -> None:
    with pytest.raises((CorruptSnapshot, UnsupportedSnapshot)) as caught:
        open_handle(FileHandle(path, 9), place).read(0, 9)
    assert path in caught.value.message


@pytest.mark.parametrize("name", ["../passwd", "..%2fpasswd", "%2e%2e/passwd", "/etc/passwd", "a/../../x"])
def test_relative_names_do_not_lead_out(place: SnapshotLocation, name: str) -> None:
    with pytest.raises(CorruptSnapshot, match="is no plain name"):
        open_handle(RelativeFileHandle(name, 9), place)


def test_a_relative_name_that_is_a_link_is_not_followed(place: SnapshotLocation, tmp_path: Path) -> None:
    with pytest.raises(UntrustedPath, match=f"symbolic link to {tmp_path}/etc/passwd"):
        open_handle(RelativeFileHandle("linked", len(SECRET)), place).read_all(1 << 20)
    allowed = locate(place.directory_uri, allowed_roots=[f"{tmp_path}/etc"])
    assert open_handle(RelativeFileHandle("linked", len(SECRET)), allowed).read_all(1 << 20) == SECRET


def test_a_mapped_path_stays_below_its_new_prefix(place: SnapshotLocation, tmp_path: Path) -> None:
    new = tmp_path / "moved"
    new.mkdir()
    (new / "file").write_bytes(b"moved")
    location = locate(place.directory_uri, path_mapping={"hdfs://old/": str(new)})
    assert open_handle(FileHandle("hdfs://old/file", 5), location).read_all(9) == b"moved"
    for path in ("hdfs://old/../etc/passwd", "hdfs://old/%2e%2e/etc/passwd", f"{tmp_path}/moved/file"):
        with pytest.raises(UntrustedPath):
            open_handle(FileHandle(path, len(SECRET)), location).read(0, 1)


@pytest.fixture
def web_server() -> Iterator[tuple[str, list[str]]]:
    """Return the address of a server, and the requests that it received."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(SECRET)

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", requests
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("scheme", ["http", "webhdfs", "ftp", "HTTP"])
def test_no_request_is_sent_to_a_host_that_a_snapshot_names(
    place: SnapshotLocation, web_server: tuple[str, list[str]], scheme: str
) -> None:
    host, requests = web_server
    with pytest.raises((UntrustedPath, UnsupportedSnapshot)):
        open_handle(FileHandle(f"{scheme}://{host}/x", len(SECRET)), place).read_all(1 << 20)
    assert requests == []


@pytest.mark.parametrize("name", ["../000012.sst", "/tmp/000012.sst", "..", "", "a/b", "a\\b", "a\0.sst"])
def test_names_of_a_database_are_plain(place: SnapshotLocation, name: str) -> None:
    """RocksDB itself opens a directory in which the files have these names."""
    fixture = named("1.20/kitchen-rocksdb-incremental")
    snapshot = stateproc.open(fixture.snapshot)
    handle = next(
        subtask.managed_keyed
        for operator in snapshot.metadata.operators
        for subtask in operator.subtasks
        if subtask.managed_keyed is not None
    )
    crafted = type(handle)(**{**_fields(handle), "private": ((name, handle.private[0][1]),)})  # type: ignore[union-attr]
    with pytest.raises(CorruptSnapshot, match="is no name of a RocksDB file"):
        database_files(crafted, snapshot.location)  # type: ignore[arg-type]


def _fields(handle: Any) -> dict[str, Any]:
    return {name: getattr(handle, name) for name in handle.__dataclass_fields__}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    return command_runner(capfd, monkeypatch)


OPERATOR = "kitchen-string"
ROWS = ("--uid", OPERATOR, "--state", "profile", "--format", "jsonl")
COMMANDS: dict[str, Callable[[Path, str], tuple[str, ...]]] = {
    "read": lambda _, honest: ROWS,
    "inspect": lambda _, honest: ("--json",),
    "verify": lambda _, honest: ("--json",),
    "describe": lambda _, honest: ("--uid", OPERATOR, "--json"),
    "classes": lambda _, honest: ("--json",),
    "sql": lambda _, honest: (f'SELECT count(*) AS n FROM "{OPERATOR}"."profile"', "--format", "json"),
    "export": lambda folder, honest: ("-o", str(folder / "export"), "--format", "jsonl"),
    "diff": lambda _, honest: (honest, "--json"),
    "changes": lambda _, honest: (honest, *ROWS),
    "copy": lambda folder, honest: (str(folder / "copy"),),
    "rescale": lambda folder, honest: (str(folder / "copy"), "--max-parallelism", "256"),
}
"""Arguments of the commands that read files, after the path; the second argument is the snapshot in its own tree."""


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_reads_a_file_outside(run: Callable[..., CommandRun], tmp_path: Path, command: str) -> None:
    fixture = named("1.20/kitchen-rocksdb-incremental")
    directory, outside = foreign_copy(fixture, tmp_path, "rocksdb")
    uids = ",".join(sorted({str(line["uid"]) for line in fixture.expected() if line["uid"]}))
    more = (*COMMANDS[command](tmp_path, fixture.snapshot), "--uids", uids)
    with opened_files() as opened:
        refused = run(command, str(directory), *more)
    assert not any(file.startswith(str(outside)) for file in opened)
    if command in ("inspect", "describe", "classes"):  # they list what cannot be read, and go on
        assert "not followed" in refused.out + refused.err
    else:
        assert refused.status in (1, 3)
        assert f"--allow-root {outside}" in refused.out + refused.err
    assert not (tmp_path / "copy" / "_metadata").exists()
    with opened_files() as opened:
        allowed = run(command, str(directory), *more, "--allow-root", "/nowhere", "--allow-root", f"file:{outside}/")
    assert any(file.startswith(str(outside)) for file in opened)
    assert (allowed.status, "outside of" in allowed.out + allowed.err) == (0, False)


def test_python_reads_a_file_outside_only_if_it_is_allowed(tmp_path: Path) -> None:
    fixture = named("1.20/kitchen-rocksdb-incremental")
    directory, outside = foreign_copy(fixture, tmp_path, "rocksdb shared")
    honest = stateproc.open(fixture.snapshot, uids=[OPERATOR]).state(OPERATOR, "profile").to_arrow()
    with pytest.raises(UntrustedPath) as caught:
        stateproc.open(str(directory), uids=[OPERATOR]).state(OPERATOR, "profile").to_arrow()
    assert caught.value.where.operator == OPERATOR and (caught.value.where.file or "").startswith(str(outside))
    allowed = stateproc.open(str(directory), uids=[OPERATOR], allowed_roots=[str(outside)])
    assert allowed.state(OPERATOR, "profile").to_arrow() == honest
    with pytest.raises(UntrustedPath):
        stateproc.changes(str(directory), fixture.snapshot, OPERATOR, "profile", uids=[OPERATOR]).to_arrow()


def test_a_snapshot_that_belongs_to_no_job_trusts_its_own_directory(tmp_path: Path) -> None:
    """A directory that somebody downloaded: what is beside it is none of its own but for Flink's directories."""
    for name in ("evil/_metadata", "evil/u", "documents/u", "shared/u", ".ssh/u", "u"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    location = locate(tmp_path / "evil")

    def found(path: str) -> str:
        source = open_handle(FileHandle(path, 1), location, whole=False)
        source.read(0, 1)
        return source.name

    assert found(f"{tmp_path}/evil/u") == f"{tmp_path}/evil/u"
    (tmp_path / "evil" / "u").unlink()
    assert found("/old/job/shared/u") == f"{tmp_path}/shared/u"
    for path in ("/old/documents/u", "/old/.ssh/u", f"{tmp_path}/documents/u", f"{tmp_path}/u", "/old/u"):
        with pytest.raises(UntrustedPath):
            open_handle(FileHandle(path, 1), location, whole=False).read(0, 1)


def test_a_root_of_the_file_system_is_not_trusted_by_itself() -> None:
    assert not SnapshotLocation(StorePath(f"/{JOB}/chk-1/_metadata")).roots.contains("/etc/passwd")
    assert not SnapshotLocation(StorePath("/chk-1/_metadata")).roots.contains("/etc/passwd")
    assert not SnapshotLocation(StorePath(f"hdfs://n/{JOB}/chk-1/_metadata")).roots.contains("hdfs://n/user/x")
    assert SnapshotLocation(StorePath(f"/{JOB}/chk-1/_metadata"), allowed_roots=("/",)).roots.contains("/etc/passwd")
    assert SnapshotLocation(StorePath(f"s3://b/{JOB}/chk-1/_metadata")).roots.contains(f"s3a://b/{JOB[::-1]}/shared/u")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"s3://bucket/checkpoints/{JOB}/shared/u", True),
        (f"S3A://bucket/checkpoints/{JOB[::-1]}/shared/u", True),
        ("s3://bucket/checkpoints/dstl/u", True),
        ("s3://bucket/checkpoints-of-others/u", False),
        ("s3://other/checkpoints/u", False),
        ("s3://BUCKET/checkpoints/u", False),
        ("s3://bucket/checkpoints//u", False),
        ("s3://bucket/other/../checkpoints/u", False),
        ("s3://bucket@other/checkpoints/u", False),
        ("gs://bucket/checkpoints/u", False),
        ("s3:/bucket/checkpoints/u", False),
        ("/bucket/checkpoints/u", False),
    ],
)
def test_objects_of_a_bucket(uri: str, expected: bool) -> None:
    directory = f"s3://bucket/checkpoints/{JOB}/chk-4"
    assert SnapshotLocation(StorePath(f"{directory}/_metadata")).roots.contains(uri) is expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"hdfs://Name:8020/flink/{JOB}/shared/u", True),
        (f"hdfs://name:8020//flink/./{JOB}/shared/u", False),
        (f"hdfs://name:8020//flink/{JOB}/shared/u", True),
        (f"hdfs://other:8020/flink/{JOB}/shared/u", False),
        (f"hdfs://user@name:8020/flink/{JOB}/shared/u", False),
        (f"hdfs:///flink/{JOB}/shared/u", False),
        (f"webhdfs://name:8020/flink/{JOB}/shared/u", False),
    ],
)
def test_files_of_hdfs(uri: str, expected: bool) -> None:
    directory = f"hdfs://name:8020/flink/{JOB}/chk-4"
    assert SnapshotLocation(StorePath(f"{directory}/_metadata")).roots.contains(uri) is expected


def test_names_with_percent_signs_are_read_as_they_are(tmp_path: Path) -> None:
    directory = tmp_path / "a%20b%2e" / JOB / "chk-1"
    directory.mkdir(parents=True)
    (directory / "_metadata").touch()
    (directory / "50%").write_bytes(b"x")
    assert open_handle(FileHandle(f"{directory}/50%", 1), locate(directory)).read_all(1) == b"x"


def test_addresses_with_passwords_are_refused_without_showing_them() -> None:
    with pytest.raises(InvalidOption) as caught:
        stateproc.open("webhdfs://user:hunter22@name/savepoint")
    assert "hunter22" not in repr(caught.value) + str(caught.value) and "user:***@name" in str(caught.value)
    assert issubclass(UntrustedPath, SnapshotError)


@pytest.mark.parametrize("max_parallelism", [None, 256])
def test_a_copy_of_a_savepoint_contains_no_file_of_others(tmp_path: Path, max_parallelism: int | None) -> None:
    """Files are copied as they are, or (with another max parallelism) read and written anew."""
    directory, outside = foreign_copy(named("1.20/kitchen-rocksdb-incremental"), tmp_path, "rocksdb private")

    def write(options: dict[str, Any], target: Path) -> None:
        writer = SavepointWriter.from_existing_savepoint(None, directory, options)
        if max_parallelism is not None:
            writer.with_max_parallelism(max_parallelism)
        writer.write(target)

    with opened_files() as opened, pytest.raises(UntrustedPath) as caught:
        write({}, tmp_path / "refused")
    assert not any(file.startswith(str(outside)) for file in opened)
    assert caught.value.where.operator is not None and "allowed_roots=" in str(caught.value)
    assert not (tmp_path / "refused" / "_metadata").exists()
    foreign = {path.read_bytes() for path in outside.iterdir()}
    assert not any(path.read_bytes() in foreign for path in (tmp_path / "refused").rglob("*") if path.is_file())
    write({"allowedRoots": str(outside)}, tmp_path / "allowed")
    assert main(["verify", str(tmp_path / "allowed")]) == 0
