"""Streams of checkpoints: which batches there are, what they contain, and what happens when checkpoints are deleted."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import stateproc
from pyspark_savepoint import DefaultSource
from stateproc.feed.feed_rows import CHANGE_FIELDS
from tests.helpers.growing_root import GrowingRoot

pytestmark = pytest.mark.spark
STATE = {"uid": "chain", "state": "totals"}
FEED = {**STATE, "readChangeFeed": "true"}
LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether Spark limits the first batch of a query: since 4.2."""
Batches = list[pa.Table]
Follow = Callable[..., Batches]


@pytest.fixture
def root(tmp_path: Path) -> GrowingRoot:
    return GrowingRoot(tmp_path / "root")


@pytest.fixture
def follow(spark: SparkSession, tmp_path: Path) -> Follow:
    """Return a function that reads what is new, from where the last call stopped, and returns its batches."""

    def run(path: str | None, place: str = "checkpoint", options: dict[str, Any] = FEED, **more: str) -> Batches:
        found: Batches = []
        frame = spark.readStream.format("savepoint").options(**{**options, **more})
        query = (
            (frame.load(path) if path else frame.load())
            .writeStream.foreachBatch(lambda batch, _: found.append(_table(batch)))
            .option("checkpointLocation", str(tmp_path / place))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return found

    return run


def _table(batch: DataFrame) -> pa.Table:
    return batch.toArrow()


def rows(table: pa.Table) -> list[str]:
    """Return rows as text in any order; the time of a checkpoint is another in a copy."""
    kept = [name for name in table.column_names if name != "_commit_timestamp"]
    return sorted(map(repr, table.select(kept).to_pylist()))


def changed(root: GrowingRoot, first: int, last: int, state: str = "totals") -> list[str]:
    """Return the changes after a checkpoint up to another, as Python has them."""
    feed = stateproc.changes(
        str(root.origin), uid="chain", state=state, starting_checkpoint=first, ending_checkpoint=last
    )
    return rows(feed.to_arrow())


def inserted(root: GrowingRoot, version: int) -> list[str]:
    """Return the rows of a checkpoint as a feed has them that begins there."""
    path = next(commit.path for commit in root.source if commit.version == version)
    return rows(stateproc.changes(path, uid="chain", state="totals").to_arrow())


def test_each_new_checkpoint_is_read_once(root: GrowingRoot, follow: Follow) -> None:
    """The initial snapshot, changes as checkpoints appear, jobs that were restored, and nothing when nothing is new."""
    root.add(1, 2)
    (first,) = follow(root.path)
    assert rows(first) == inserted(root, 2)
    assert follow(root.path) == []
    root.add(3)
    (second,) = follow(root.path)
    assert rows(second) == changed(root, 2, 3)
    assert set(second.column("_commit_timestamp").to_pylist()) != {None}
    root.add(4, 5, 6, 7)
    (third,) = follow(root.path)
    assert rows(third) == changed(root, 3, 7)
    assert set(third.column("_commit_version").to_pylist()) == {
        5,
        6,
        7,
    }  # 4 is equal to 3, from which the job was restored
    assert third.column_names[-3:] == [field.name for field in CHANGE_FIELDS]


def test_batches_are_limited(root: GrowingRoot, follow: Follow) -> None:
    root.add(*root.versions)
    found = follow(root.path, startingCheckpoint="1", maxCheckpointsPerTrigger="3")
    batches = [changed(root, 1, 4), changed(root, 4, 7), changed(root, 7, 9)]
    assert [rows(batch) for batch in found] == (batches if LIMITS else [changed(root, 1, 9)])
    net = follow(root.path, "net", startingCheckpoint="1", changeFeedMode="net", endingCheckpoint="8")
    expected = stateproc.changes(
        root.path, uid="chain", state="totals", starting_checkpoint=1, ending_checkpoint=8, mode="net"
    )
    assert [rows(batch) for batch in net] == [rows(expected.to_arrow())]


def test_unfinished_checkpoints_are_not_read(root: GrowingRoot, follow: Follow) -> None:
    root.add(1, 2)
    root.begin(3)
    assert [rows(batch) for batch in follow(root.path)] == [inserted(root, 2)]
    root.complete(3, size=200)
    assert follow(root.path) == []
    root.complete(3)
    assert [rows(batch) for batch in follow(root.path)] == [changed(root, 2, 3)]
    # One that stays damaged is passed over when a later one is complete.
    root.begin(4)
    root.complete(4, size=200)
    root.add(5)
    (batch,) = follow(root.path)
    assert set(batch.column("_commit_version").to_pylist()) == {5}
    net = stateproc.changes(
        str(root.origin), uid="chain", state="totals", starting_checkpoint=3, ending_checkpoint=5, mode="net"
    )
    assert rows(batch) == rows(net.to_arrow())


def test_several_roots_follow_a_restored_job(root: GrowingRoot, follow: Follow) -> None:
    one, two, three = root.jobs
    root.add(1, 2, 3)
    later = f"{two},{three}"
    assert [rows(batch) for batch in follow(one, roots=later)] == [inserted(root, 3)]
    root.add(4, 5)
    assert [rows(batch) for batch in follow(one, roots=later)] == [changed(root, 3, 5)]
    root.add(6, 7)
    # The directory of the last checkpoint that was read need not be a root any more.
    assert [rows(batch) for batch in follow(three)] == [_net(root, 5, 7)]


def _net(root: GrowingRoot, first: int, last: int) -> list[str]:
    feed = stateproc.changes(
        str(root.origin),
        uid="chain",
        state="totals",
        starting_checkpoint=first,
        ending_checkpoint=last,
        mode="net",
    )
    return rows(feed.to_arrow())


def test_deleted_checkpoints_are_an_error_or_a_new_beginning(root: GrowingRoot, follow: Follow) -> None:
    root.add(1, 2)
    follow(root.path)
    root.add(3, 4)
    root.delete([1, 2])
    with pytest.raises(StreamingQueryException) as caught:
        follow(root.path)
    text = str(caught.value)
    assert "LostCheckpoint" in text and "checkpoint 2 below" in text
    assert "failOnDataLoss=false" in text and "execution.checkpointing.num-retained" in text
    (batch,) = follow(root.path, failOnDataLoss="false")
    kinds = batch.column("_change_type").to_pylist()
    assert kinds.count("truncate") == 1
    mark = batch.to_pylist()[kinds.index("truncate")]
    assert mark["_commit_version"] == 3 and mark["key"] is None and mark["value"] is None
    rest = batch.filter(pa.array([kind != "truncate" for kind in kinds]))
    assert rows(rest) == sorted(inserted(root, 3) + changed(root, 3, 4))


def test_whole_states_at_each_checkpoint(root: GrowingRoot, follow: Follow) -> None:
    options = {**STATE, "streamingMode": "snapshots"}
    root.add(1, 2)
    (first,) = follow(root.path, options=options)
    expected = stateproc.open(str(root.checkpoint(2))).state("chain", "totals").to_arrow()
    assert first.column_names == [*expected.column_names, "_commit_version", "_commit_timestamp"]
    assert set(first.column("_commit_version").to_pylist()) == {2}
    assert rows(first.select(expected.column_names)) == rows(expected)
    root.add(3, 4)
    root.delete([1, 2])
    found = follow(root.path, options=options, maxCheckpointsPerTrigger="1")
    versions = [set(batch.column("_commit_version").to_pylist()) for batch in found]
    assert versions == ([{3}, {4}] if LIMITS else [{3, 4}])
    last = stateproc.open(str(root.checkpoint(4))).state("chain", "totals").to_arrow()
    newest = found[-1].filter(pc.field("_commit_version") == 4)
    assert rows(newest.select(last.column_names)) == rows(last)


def test_a_batch_that_failed_is_repeated_with_the_same_rows(
    spark: SparkSession, root: GrowingRoot, follow: Follow, tmp_path: Path
) -> None:
    root.add(1, 2)
    follow(root.path)
    root.add(3)
    seen: Batches = []

    def fail(batch: DataFrame, _: int) -> None:
        seen.append(_table(batch))
        raise RuntimeError("killed before the batch was committed")

    frame = spark.readStream.format("savepoint").options(**FEED).load(root.path)
    writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException):
        writer.trigger(availableNow=True).start().awaitTermination()
    root.add(4, 5)
    found = follow(root.path)
    # Before Spark 4.2 a query with availableNow that repeats a batch ends with it.
    repeated, following = found if LIMITS else [*found, *follow(root.path)]
    assert rows(repeated) == rows(seen[0]) == changed(root, 2, 3)
    assert rows(following) == changed(root, 3, 5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (STATE, "give readChangeFeed=true or streamingMode=snapshots"),
        ({**FEED, "startingSnapshot": "/p"}, "give startingCheckpoint, the id of a checkpoint"),
    ],
)
def test_options_that_ask_for_no_stream_are_refused(root: GrowingRoot, options: dict[str, str], says: str) -> None:
    root.add(1)
    source = DefaultSource({**options, "path": root.path})
    with pytest.raises(stateproc.InvalidOption) as caught:
        source.streamReader(StructType([])).initialOffset()
    assert says in str(caught.value)
