"""Streams follow checkpoints in an object store and in HDFS as on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import stateproc
from tests.helpers.growing_root import GrowingRoot
from tests.helpers.stores.hdfs import hdfs
from tests.helpers.stores.object_store import BUCKET, object_store
from tests.helpers.stores.remote_store import RemoteStore

pytestmark = pytest.mark.spark
STATE = {"uid": "chain", "state": "totals"}


@pytest.fixture(params=["s3", "hdfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RemoteStore]:
    if request.param == "s3":
        with object_store() as made:
            yield RemoteStore(f"s3://{BUCKET}", made.options)
    else:
        with hdfs(tmp_path) as uri:
            yield RemoteStore(f"{uri}/tests", {})


class RemoteRoot:
    """A root of checkpoints in a store, to which those of a root on disk are copied: state files first."""

    def __init__(self, store: RemoteStore, disk: GrowingRoot) -> None:
        self.store, self.disk, self.uri = store, disk, f"{store.root}/root"
        self._copied: set[Path] = set()

    def add(self, *versions: int) -> None:
        self.disk.add(*versions)
        new = [path for path in self.disk.folder.rglob("*") if path.is_file() and path not in self._copied]
        for is_metadata in (False, True):
            files = [path for path in new if (path.name == "_metadata") == is_metadata]
            self.store.put(self.disk.folder, "root", files)
        self._copied.update(new)

    def delete(self, version: int) -> None:
        directory = self.disk.checkpoint(version).relative_to(self.disk.folder)
        self.store.fs.rm(self.store.path(f"{self.uri}/{directory}"), recursive=True)


def follow(spark: SparkSession, root: RemoteRoot, place: Path, **options: str) -> list[pa.Table]:
    """Read what is new since the last call with this place; return the batches."""
    found: list[pa.Table] = []
    settings = {f"fs.{name}": value for name, value in root.store.options.items()}
    feed = spark.readStream.format("savepoint").options(**STATE, readChangeFeed="true", **settings, **options)
    query = (
        feed.load(root.uri)
        .writeStream.foreachBatch(lambda batch, _: found.append(batch.toArrow()))
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


def rows(table: pa.Table) -> list[str]:
    kept = [name for name in table.column_names if name != "_commit_timestamp"]
    return sorted(map(repr, table.select(kept).to_pylist()))


def changed(disk: GrowingRoot, first: int, last: int, **more: Any) -> pa.Table:
    """Return the changes after a checkpoint up to another, from the disk."""
    return stateproc.changes(
        str(disk.origin), **STATE, starting_checkpoint=first, ending_checkpoint=last, **more
    ).to_arrow()


def test_a_stream_follows_a_root_in_a_store(spark: SparkSession, store: RemoteStore, tmp_path: Path) -> None:
    disk = GrowingRoot(tmp_path / "root")
    root, place = RemoteRoot(store, disk), tmp_path / "stream"
    root.add(1, 2)
    (first,) = follow(spark, root, place)
    path = next(commit.path for commit in disk.source if commit.version == 2)
    assert rows(first) == rows(stateproc.changes(path, **STATE).to_arrow())
    root.add(3, 4, 5, 6)
    (second,) = follow(spark, root, place)
    assert rows(second) == rows(changed(disk, 2, 6)) and len(second) > 0
    assert follow(spark, root, place) == []
    root.add(7, 8, 9)
    root.delete(7)
    (third,) = follow(spark, root, place, failOnDataLoss="false")
    steps = (changed(disk, 6, 8, mode="net"), changed(disk, 8, 9))
    assert rows(third) == sorted(row for step in steps for row in rows(step))
