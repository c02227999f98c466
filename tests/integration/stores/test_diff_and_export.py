"""Snapshots in an object store and in HDFS are compared, and exported into it, as on a disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import fsspec
import pyarrow as pa
import pyarrow.parquet
import pytest

import stateproc
from stateproc.cli import main
from stateproc.diff.snapshot_diff import SnapshotComparison
from stateproc.errors import InvalidOption, MissingFile
from stateproc.storage import StorePath
from tests.helpers.paths import FIXTURES
from tests.helpers.stores.hdfs import hdfs
from tests.helpers.stores.object_store import BUCKET, Store, object_store
from tests.helpers.stores.remote_store import RemoteStore

DEMO = FIXTURES / "1.20/demo/snapshot"
UIDS = ["orders-from-kafka", "orders-per-customer", "revenue-per-product"]


@pytest.fixture(scope="module")
def bucket() -> Iterator[Store]:
    with object_store() as made:
        yield made


@pytest.fixture(scope="module", params=["s3", "hdfs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteStore]:
    if request.param == "s3":
        yield RemoteStore(f"s3://{BUCKET}", request.getfixturevalue("bucket").options)
        return
    with hdfs(tmp_path_factory.mktemp("hdfs")) as uri:
        yield RemoteStore(f"{uri}/tests", {})


def demo(store: RemoteStore) -> stateproc.Snapshot:
    return stateproc.open(store.upload(DEMO, "demo"), uids=UIDS, storage_options=store.options)


def differences(comparison: SnapshotComparison) -> list[Any]:
    """What a comparison found, with its rows, in the order of the states."""
    return [
        (operator.operator_id, state.to_dict(), sorted(map(repr, state.to_arrow().to_pylist())))
        for operator in comparison.operators
        for state in operator.states
        if state.counts is not None
    ]


@pytest.mark.parametrize(
    ("chain", "rows"), [("chain-rocksdb", 644), ("chain-changelog", 303), ("chain-filemerging", 172)]
)
def test_differences_are_those_on_a_disk(store: RemoteStore, chain: str, rows: int) -> None:
    directory = FIXTURES / "1.20" / chain / "snapshot"
    uri = store.upload(directory, chain)
    first, *_, last = sorted(path.parent for path in directory.rglob("_metadata"))
    there = [
        stateproc.open(f"{uri}/{path.relative_to(directory)}", storage_options=store.options) for path in (first, last)
    ]
    here = [stateproc.open(path) for path in (first, last)]
    wanted = differences(here[0].diff(here[1]))
    assert sum(len(changes) for _, _, changes in wanted) == rows
    assert differences(there[0].diff(there[1])) == wanted
    assert differences(here[0].diff(there[1])) == wanted
    assert there[0].diff(here[0]).equal


def test_the_command_compares_two_snapshots_in_a_store(store: RemoteStore, capsys: pytest.CaptureFixture[str]) -> None:
    directory = FIXTURES / "1.20/chain-rocksdb/snapshot"
    uri = store.upload(directory, "chain-rocksdb")
    found = sorted(path.parent.relative_to(directory) for path in directory.rglob("chk-*/_metadata"))
    first, last = found[0], found[-1]
    assert main(["diff", f"{uri}/{first}", f"{uri}/{last}", "--json", *store.arguments]) == 1
    remote = json.loads(capsys.readouterr().out)
    assert main(["diff", str(directory / first), str(directory / last), "--json"]) == 1
    local = json.loads(capsys.readouterr().out)
    assert (remote["left"], remote["right"]) == (f"{uri}/{first}", f"{uri}/{last}")
    assert remote["operators"] == local["operators"]
    assert main(["diff", f"{uri}/{first}", f"{uri}/{first}", *store.arguments]) == 0


def table_of(store: RemoteStore, directory: str, files: list[str]) -> pa.Table:
    parts = []
    for file in files:
        with store.fs.open(f"{store.path(directory)}/{file}", "rb") as stream:
            parts.append(pa.parquet.read_table(stream))
    return pa.concat_tables(parts)


def expected(operator: str | None, state: str) -> pa.Table:
    found = stateproc.open(DEMO, uids=UIDS)
    return found.operator(operator or "").state(state).to_arrow()


def test_an_export_within_a_store_has_the_rows_of_the_states(store: RemoteStore) -> None:
    target = f"{store.root}/exported"
    manifest = demo(store).export(target, uids=UIDS[1:], storage_options=store.options)
    assert manifest.status == "complete" and manifest.rows == 1310
    for entry in manifest.states:
        if entry.operator is not None:
            found = table_of(store, target, [file.path for file in entry.files])
            assert found.equals(expected(entry.operator, entry.state)), entry.state
    listed = {file.path for entry in manifest.states for file in entry.files}
    assert store.names(target) == {"manifest.json", *listed}


@pytest.mark.parametrize("form", ["arrow", "csv", "jsonl"])
def test_every_format_is_exported_as_to_a_disk(store: RemoteStore, form: str, tmp_path: Path) -> None:
    target = f"{store.root}/as-{form}"
    remote = demo(store).export(target, format=form, storage_options=store.options)
    local = stateproc.open(DEMO, uids=UIDS).export(str(tmp_path), format=form)
    files = [file.path for entry in local.states for file in entry.files]
    assert [file.path for entry in remote.states for file in entry.files] == files and files
    for file in files:
        assert store.fs.cat_file(f"{store.path(target)}/{file}") == (tmp_path / file).read_bytes(), file


def test_the_command_exports_from_a_disk_into_a_store(store: RemoteStore, capsys: pytest.CaptureFixture[str]) -> None:
    target = f"{store.root}/from-a-disk"
    given = [part.replace("--storage-options", "--output-storage-options") for part in store.arguments]
    chosen = ["--uids", UIDS[1], "--uid", UIDS[1], "--state", "profile"]
    assert main(["export", str(DEMO), "-o", target, *chosen, "--json", *given]) == 0
    manifest = json.loads(capsys.readouterr().out)
    (state,) = manifest["states"]
    found = table_of(store, target, [file["path"] for file in state["files"]])
    assert found.equals(expected(UIDS[1], "profile")) and len(found) == 300


class Interrupted(Exception):
    """What ends a run in the middle."""


def interrupted_after(splits: int) -> Callable[[int], Callable[[int], None]]:
    calls: list[int] = []

    def advance(size: int) -> None:
        calls.append(size)
        if len(calls) == splits:
            raise Interrupted

    return lambda _: advance


def test_an_interrupted_export_continues(store: RemoteStore) -> None:
    target, snapshot = f"{store.root}/interrupted", demo(store)

    def run(**more: Any) -> stateproc.export.ExportManifest:
        return snapshot.export(target, key_group_ranges=2, storage_options=store.options, **more)

    with pytest.raises(Interrupted):
        run(threads=1, _start=interrupted_after(4))
    saved = json.loads(store.fs.cat_file(f"{store.path(target)}/manifest.json"))
    kept = {file["path"]: file["bytes"] for state in saved["states"] for file in state["files"]}
    assert saved["status"] == "incomplete" and len(kept) == 3
    assert store.names(target) == {"manifest.json", *kept}, "nothing is left of the file that was being written"
    for path in kept:
        # Other bytes, which only a file that is not written again keeps.
        store.fs.pipe_file(f"{store.path(target)}/{path}", b"kept")
    manifest = run()
    assert manifest.status == "complete"
    files = {file.path for entry in manifest.states for file in entry.files}
    assert store.names(target) == {"manifest.json", *files} and kept.keys() < files
    found = {path for path in files if store.fs.cat_file(f"{store.path(target)}/{path}") == b"kept"}
    assert found == kept.keys()
    for entry in manifest.states:
        own = [file.path for file in entry.files]
        if entry.operator in UIDS[1:] and not kept.keys() & set(own):
            rows = table_of(store, target, own).to_pylist()
            assert sorted(map(repr, rows)) == sorted(map(repr, expected(entry.operator, entry.state).to_pylist()))


def test_an_export_does_not_touch_other_files_and_is_replaced_on_request(store: RemoteStore) -> None:
    snapshot, target = demo(store), f"{store.root}/replaced"
    with pytest.raises(InvalidOption, match="contains files that are no export"):
        snapshot.export(f"{store.root}/demo", overwrite=True, storage_options=store.options)
    first = snapshot.export(target, storage_options=store.options)
    with pytest.raises(InvalidOption, match="other settings: format parquet"):
        snapshot.export(target, format="csv", storage_options=store.options)
    second = snapshot.export(target, format="csv", overwrite=True, storage_options=store.options)
    files = {file.path for entry in second.states for file in entry.files}
    assert store.names(target) == {"manifest.json", *files}
    assert files.isdisjoint(file.path for entry in first.states for file in entry.files)


def test_delta_tables_in_an_object_store(bucket: Store) -> None:
    target = f"s3://{BUCKET}/lake"
    snapshot = stateproc.open(DEMO, uids=UIDS)
    manifest = snapshot.export(target, format="delta", states=["profile"], storage_options=bucket.options)
    settings = {**bucket.environment, "AWS_ALLOW_HTTP": "true"}
    table = deltalake.DeltaTable(f"{target}/{manifest.states[0].folder}", storage_options=settings)
    rows = pa.table(table.to_pyarrow_table()).to_pylist()
    assert rows == expected(UIDS[1], "profile").to_pylist() and len(rows) == 300
    assert snapshot.export(target, format="delta", states=["profile"], storage_options=bucket.options).rows == 300


def test_a_large_file_given_up_leaves_no_parts(bucket: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """s3fs uploads files of more than one part while they are written."""
    snapshot, target = stateproc.open(DEMO, uids=UIDS), f"s3://{BUCKET}/large"
    monkeypatch.setattr(fsspec.get_filesystem_class("s3"), "default_block_size", 5 << 20)
    started: list[str] = []
    parts = [bytes(1 << 20)] * 12

    class Endless:
        """Splits whose rows exceed several parts, and end with an error."""

        bytes, key_groups = 1, (0,)

        def read(self) -> Iterator[pa.RecordBatch]:
            for part in parts:
                yield pa.record_batch({"value": pa.array([part], pa.binary())})
            started.extend(bucket.unfinished_uploads())
            raise MissingFile("a file is gone")

    from stateproc.export.file_formats import FileTask, write_file
    from stateproc.export.manifest import ExportSettings

    task = FileTask("a/b", "part-0.arrow", pa.schema([("value", pa.binary())]), (Endless(),))  # type: ignore[arg-type]
    with pytest.raises(MissingFile, match="a file is gone"):
        directory = StorePath(target, bucket.options)
        list(write_file(task, directory, ExportSettings("arrow", "none", "micros"), lambda _: None))
    assert started == ["large/a/b/part-0.arrow"]
    assert bucket.names("large") == [] and bucket.unfinished_uploads() == []
    assert snapshot.export(target, states=["profile"], storage_options=bucket.options).status == "complete"
