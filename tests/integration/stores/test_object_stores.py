"""Snapshots in an object store: read, listed, written, given up."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.cli import main
from stateproc.errors import InvalidOption, MissingFile, StoreUnavailable, WriteFailed
from stateproc.metadata import OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.metadata.stream_handles import KeyGroupsHandle, RelativeFileHandle
from stateproc.storage import locate
from stateproc.storage.store import StorePath
from stateproc.storage.writing import file_version, publish_over
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from tests.helpers.paths import FIXTURES
from tests.helpers.stores.object_store import BUCKET, Store, object_store

DEMO = FIXTURES / "1.20/demo/snapshot"
KINDS = [
    "1.20/demo/snapshot",
    "1.20/kitchen-hashmap-canonical-snappy/snapshot",
    "1.20/kitchen-hashmap-checkpoint/snapshot",
    "1.20/kitchen-rocksdb-incremental/snapshot",
    "1.20/chain-filemerging/snapshot",
    "1.20/chain-changelog/snapshot",
    "1.8/chain-rocksdb/snapshot",
    "2.3/chain-forst/snapshot",
]
ONE_REQUEST = {"config_kwargs": {"retries": {"max_attempts": 0}}}
LARGER_THAN_A_PART = 60 << 20


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as made:
        yield made


def newest(directory: Path) -> Path:
    """The directory of the last of a chain's snapshots, or the only one."""
    return sorted(path.parent for path in directory.rglob("_metadata"))[-1]


def contents(path: str | Path, options: dict[str, Any] | None = None) -> list[Any]:
    """All that is in a snapshot, without the paths of its files."""
    snapshot = stateproc.open(path, storage_options=options)
    return [
        (operator.operator_id, state.name, state.kind, state.to_arrow())
        for operator in snapshot.operators
        for state in operator.states
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_reads_as_from_a_disk(store: Store, kind: str) -> None:
    directory = FIXTURES / kind
    uri = store.upload(directory, kind)
    inside = newest(directory)
    found = contents(f"{uri}/{inside.relative_to(directory)}".removesuffix("/."), store.options)
    assert found == contents(inside) and found


def test_spellings_and_places_that_are_none(store: Store) -> None:
    uri = store.upload(DEMO, "jobs/0123456789abcdef0123456789abcdef/chk-7")
    root = f"s3a://{BUCKET}/jobs"
    assert locate(root, store.options).directory_uri == uri.replace("s3:", "s3a:")
    assert locate(f"{uri}/_metadata/", store.options).directory_uri == uri
    with pytest.raises(MissingFile, match="nothing there"):
        locate("s3://mistyped/jobs", store.options)
    with pytest.raises(MissingFile, match="did you mean s3n://flink/jobs"):
        locate(f"s3n://{BUCKET}/job", store.options)


def test_a_store_that_does_not_answer() -> None:
    options = {"endpoint_url": "http://127.0.0.1:9", "key": "a", "secret": "b", **ONE_REQUEST}
    with pytest.raises(StoreUnavailable, match="cannot be read: Could not connect") as caught:
        locate(f"s3://{BUCKET}/s", options)
    assert caught.value.advice == "check the address and the storage options (credentials, endpoint)"
    with pytest.raises(StoreUnavailable, match="Could not connect"):
        Commit.begin(StorePath.of(f"s3://{BUCKET}/s", options))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"endpoint_url": "no address"}, StoreUnavailable, "cannot be read: "),
        ({"surely_no_option": 1}, InvalidOption, "does not accept these storage options: .*surely_no_option"),
        ({"config_kwargs": 5}, InvalidOption, "does not accept these storage options: "),
    ],
)
def test_options_that_the_client_refuses(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        locate(f"s3://{BUCKET}/s", options)
    assert "storage options" in str(caught.value.advice)


def test_a_page_about_a_snapshot_says_when_it_was_written(store: Store, tmp_path: Path) -> None:
    uri = store.upload(DEMO, "pages/demo")
    given = [part for name, value in store.options.items() for part in ("--storage-options", f"{name}={value}")]
    assert main(["inspect", uri, *given, "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<dt>written</dt><dd>{datetime.now(timezone.utc):%Y-%m-%d}" in page and uri in page


def test_the_command_line_takes_a_client_s_settings(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    uri = store.upload(DEMO, "from-the-command-line")
    settings = {**store.options, "client_kwargs": json.dumps({"region_name": "eu-central-1"}), "anon": "false"}
    given = [part for name, value in settings.items() for part in ("--storage", f"{name}={value}")]
    assert main(["inspect", uri, "--json", *given]) == 0
    on_disk = capsys.readouterr().out
    assert main(["inspect", str(DEMO), "--json"]) == 0
    assert on_disk.replace(uri, str(DEMO)) == capsys.readouterr().out


def begun(store: Store, prefix: str, **more: Any) -> Commit:
    return Commit.begin(StorePath.of(f"s3://{BUCKET}/{prefix}", store.options), **more)


def metadata(*handles: RelativeFileHandle) -> SnapshotMetadata:
    subtasks = tuple(
        SubtaskState(index, managed_keyed=KeyGroupsHandle(7, index, (0,), handle))
        for index, handle in enumerate(handles)
    )
    return SnapshotMetadata(4, 1, (), (OperatorEntry("0" * 31 + "1", len(handles), 128, subtasks=subtasks),))


def a_file(commit: Commit, size: int) -> RelativeFileHandle:
    with commit.staging.new_file() as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    assert isinstance(file.handle, RelativeFileHandle)
    return file.handle


def test_a_write_its_replacement_and_one_given_up(store: Store) -> None:
    write = begun(store, "written")
    small, large = a_file(write, 1 << 20), a_file(write, LARGER_THAN_A_PART)
    with pytest.raises(MissingFile, match="no _metadata here"):
        locate(f"s3://{BUCKET}/written", store.options)
    write.complete(metadata(small, large), 4)
    assert store.names("written") == ["_metadata", *sorted([small.path, large.path])]
    with pytest.raises(InvalidOption, match="a snapshot is here already"):
        begun(store, "written")
    given_up = begun(store, "written", overwrite=True)
    a_file(given_up, 1 << 20)
    given_up.abort()
    assert store.names("written") == ["_metadata", *sorted([small.path, large.path])]
    again = begun(store, "written", overwrite=True)
    other = a_file(again, 1 << 20)
    assert again.complete(metadata(other), 4) == ()
    assert store.names("written") == ["_metadata", other.path]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_write_that_another_one_overtakes_after_its_last_look_at_the_marker(store: Store, overwrite: bool) -> None:
    prefix = f"overtaken-{overwrite}"
    if overwrite:
        begun(store, prefix).complete(metadata(), 4)
    first = begun(store, prefix, overwrite=overwrite)
    file = a_file(first, 1 << 20)
    kept: list[str] = []

    def overtake(self: Staging) -> None:
        if self.run == first.staging.run and not kept:
            second = begun(store, prefix, overwrite=overwrite)
            other = a_file(second, 1 << 20)
            kept.append(other.path)
            second.complete(metadata(other), 4)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Staging, "check_under_way", overtake)
        with pytest.raises(WriteFailed, match="another program has written this file meanwhile") as caught:
            first.complete(metadata(file), 4)
    assert "one write at a time" in str(caught.value)
    first.abort()
    assert store.names(prefix) == ["_metadata", *kept]


def test_a_request_that_is_repeated_meets_what_it_has_written(store: Store) -> None:
    path = StorePath(f"s3://{BUCKET}/repeated/_metadata", store.options)
    assert publish_over(path, b"first", file_version(path) or "")
    version = file_version(path)
    assert version and publish_over(path, b"second", version) and publish_over(path, b"second", version)
    assert path.read_range(0, 99) == b"second"
    with pytest.raises(WriteFailed, match="another program"):
        publish_over(path, b"third", version)
    with pytest.raises(WriteFailed, match="another program"):
        publish_over(path, b"third", "")
    assert path.read_range(0, 99) == b"second"


@pytest.mark.parametrize("error", [OSError(errno.ENOSYS, "a header you provided"), "client"])
def test_stores_and_clients_that_do_not_know_conditions(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: OSError | str
) -> None:
    if isinstance(error, str):
        # As botocore before 1.35.69 does, which has no such parameter.
        from botocore.exceptions import ParamValidationError

        raised: Exception = ParamValidationError(report='Unknown parameter in input: "IfMatch"')
    else:
        raised = error
    fs, _ = StorePath(f"s3://{BUCKET}/unknown", store.options).filesystem()
    real, refused = fs.pipe_file, []

    def pipe_file(path: str, data: bytes, **more: Any) -> None:
        if {"IfMatch", "IfNoneMatch"} & {*more}:
            refused.append(path)
            raise raised
        real(path, data, **more)

    monkeypatch.setattr(fs, "pipe_file", pipe_file)
    name = f"unknown-{type(raised).__name__}"
    for overwrite in (False, True):
        write = begun(store, name, overwrite=overwrite)
        file = a_file(write, 1 << 20)
        assert write.complete(metadata(file), 4) == ()
        assert store.names(name) == ["_metadata", file.path]
    assert len(refused) == 2


def test_a_large_file_given_up_leaves_no_parts(store: Store) -> None:
    write = begun(store, "given-up")
    file = write.staging.new_file()
    for _ in range(2 * LARGER_THAN_A_PART >> 20):
        file.write(bytes(1 << 20))
    assert store.unfinished_uploads() == [f"given-up/{file.name}"]
    file.discard()
    late = write.staging.new_file()
    late.write(bytes(LARGER_THAN_A_PART))
    write.abort()
    with pytest.raises(WriteFailed, match="is over"):
        late.close()
    assert store.names("given-up") == [] and store.unfinished_uploads() == []


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "s3p"])
def test_a_source_is_not_written_to_by_another_name(store: Store, scheme: str) -> None:
    for target in (f"{scheme}://{BUCKET}/job/chk-3", f"{scheme}://{BUCKET}/job/chk-3/in", f"{scheme}://{BUCKET}/job"):
        with pytest.raises(InvalidOption, match="made from"):
            Commit.begin(StorePath.of(target, store.options), sources=[f"s3a://{BUCKET}/job/chk-3"])


def test_no_bucket_is_made(store: Store) -> None:
    with pytest.raises(WriteFailed, match=r"cannot be written.*bucket does not exist"):
        Commit.begin(StorePath.of("s3://mistyped/savepoints/1", store.options))
    assert [item["Name"] for item in store.client.list_buckets()["Buckets"]] == [BUCKET]
    Commit.begin(StorePath.of(f"s3://{BUCKET}", store.options), overwrite=True).abort()
    assert [item["Name"] for item in store.client.list_buckets()["Buckets"]] == [BUCKET]


@pytest.mark.parametrize("change", ["copy", "native-rocksdb", "rescale"])
def test_the_local_engine_writes_to_a_store_and_back(store: Store, tmp_path: Path, change: str) -> None:
    source = newest(FIXTURES / "1.20/kitchen-rocksdb-incremental/snapshot")
    there = f"s3://{BUCKET}/local-{change}"
    writer = SavepointWriter.from_existing_savepoint(None, source).with_storage_options(store.options)
    if change == "rescale":
        writer.with_max_parallelism(300)
    elif change != "copy":
        writer.with_format(change)  # type: ignore[arg-type]
    writer.write(there)
    with pytest.raises(InvalidOption, match="already"):
        writer.write(there)
    snapshot = stateproc.open(there, storage_options=store.options)
    SavepointWriter.from_snapshot(None, snapshot).with_storage_options({}).write(tmp_path / "back")
    assert sorted_rows(tmp_path / "back") == sorted_rows(there, store.options)
    if change != "rescale":
        assert sorted_rows(there, store.options) == sorted_rows(source)


def sorted_rows(path: str | Path, options: dict[str, Any] | None = None) -> list[Any]:
    found = contents(path, options)
    return sorted((operator, name, kind, sorted(map(repr, rows.to_pylist()))) for operator, name, kind, rows in found)
