"""Lists of snapshots in an object store and in HDFS are those of the same files on a disk; few requests are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import s3fs

import stateproc
from stateproc.catalog.entries import CatalogEntry
from stateproc.errors import MissingFile
from stateproc.storage.store import StorePath
from tests.helpers.paths import FIXTURES
from tests.helpers.stores.hdfs import hdfs
from tests.helpers.stores.object_store import BUCKET, Store, object_store
from tests.helpers.stores.remote_store import RemoteStore

CHAIN = FIXTURES / "1.20/chain-rocksdb/snapshot"
JOB = "483d9b89067afda5f16b578f2e8da24a"


@pytest.fixture()
def store() -> Iterator[Store]:
    with object_store() as made:
        yield made


def facts(entries: list[CatalogEntry], root: str | Path) -> list[Any]:
    """What does not depend on where and when the files were written."""
    times = {"completed_at": None, "path": None, "newest": None}
    return sorted((entry.path.removeprefix(str(root)), {**entry.to_dict(), **times}.items()) for entry in entries)


def test_object_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    root = store.upload(CHAIN, "checkpoints")
    options = store.options
    calls: Counter[str] = Counter()
    call = s3fs.S3FileSystem._call_s3

    async def counted(self: Any, method: str, *given: Any, **more: Any) -> Any:
        calls[method] += 1
        return await call(self, method, *given, **more)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", counted)
    entries = stateproc.ls(root, storage_options=options)
    # One of each for a snapshot, one list for the root and one for the job, and one to see what the root is.
    assert calls["get_object"] == 9 and calls["head_object"] <= 10 and sum(calls.values()) <= 22
    assert facts(entries, root) == facts(stateproc.ls(CHAIN), CHAIN)
    assert all(entry.completed_at for entry in entries)
    assert len(stateproc.ls(root.replace("s3:", "s3a:"), storage_options=options)) == 9

    store.client.delete_object(Bucket=BUCKET, Key=f"checkpoints/{JOB}/chk-7/_metadata")
    incomplete = next(item for item in stateproc.ls(root, storage_options=options) if item.status == "incomplete")
    assert incomplete.name == "chk-7" and incomplete.own_bytes == 3106 + 4198 and incomplete.last_write
    assert stateproc.find_orphans(root, storage_options=options).orphans == ()
    report = stateproc.find_orphans(root, min_age="0s", storage_options=options)
    assert (len(report.orphans), report.unsafe) == (32, ())
    with pytest.raises(MissingFile, match="nothing there"):
        stateproc.ls(f"s3://{BUCKET}/none", storage_options=options)


def test_hdfs(tmp_path: Path) -> None:
    with hdfs(tmp_path) as uri:
        fs, _ = StorePath(uri).filesystem()
        RemoteStore(uri, {}).upload(CHAIN, "flink")
        entries = stateproc.ls(f"{uri}/flink")
        assert facts(entries, f"{uri}/flink") == facts(stateproc.ls(CHAIN), CHAIN)
        assert all(entry.completed_at and entry.completed_at.year > 2020 for entry in entries)
        fs.rm_file(f"/flink/{JOB}/chk-7/_metadata")
        report = stateproc.find_orphans(f"{uri}/flink", min_age="0s")
        assert (len(report.orphans), report.unsafe) == (32, ())
