"""Change feeds of Spark: between snapshots and over checkpoints, with filters, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

import stateproc
from stateproc.feed.commits import commits
from stateproc.snapshot.selection import state_option
from stateproc.spark.filters import limited, with_offered_pushdowns
from stateproc.spark.options import source_options
from stateproc.spark.reader import SavepointReader
from stateproc.spark.source import reader_of, schema_of
from stateproc.spark.views import register_source
from tests.helpers.change_feeds import apply_feed, rows_of
from tests.helpers.fixtures import FIXTURES, fixtures_in

CHAIN = FIXTURES / "1.20/chain-rescaled"
RUNS = str(CHAIN / "snapshot")
OPTIONS = {"readChangeFeed": "true", "uid": "chain"}


def loaded(spark: SparkSession, path: str | None, **options: str) -> DataFrame:
    register_source(spark)
    return spark.read.format("savepoint").options(**{**OPTIONS, **options}).load(path)


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.toArrow().to_pylist()))


def expected(feed: pa.Table) -> list[str]:
    return sorted(map(repr, feed.to_pylist()))


@pytest.mark.spark
def test_a_range_has_the_rows_that_python_has(spark: SparkSession) -> None:
    for state in ("totals", "entries"):
        frame = loaded(spark, RUNS, state=state, startingCheckpoint="2")
        feed = stateproc.changes(RUNS, uid="chain", state=state, starting_checkpoint=2)
        assert frame.columns == feed.schema().names
        assert rows(frame) == expected(feed.to_arrow())
        assert frame.rdd.getNumPartitions() == 7  # one per checkpoint
    net = loaded(spark, RUNS, state="totals", startingCheckpoint="2", changeFeedMode="net")
    assert {row._commit_version for row in net.collect()} == {9}


@pytest.mark.spark
def test_two_snapshots_are_compared_with_filters(spark: SparkSession) -> None:
    log = commits(RUNS)
    given: dict[str, str] = {"state": "totals", "startingSnapshot": log[1].path}
    both = loaded(spark, None, endingSnapshot=log[-1].path, **given)
    feed = stateproc.changes(log[1].path, log[-1].path, "chain", "totals").to_arrow()
    assert rows(both) == rows(loaded(spark, log[-1].path, **given)) == expected(feed)
    key = feed.column("key")[0].as_py()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        one = loaded(spark, log[-1].path, **given).where(f"key = '{key}'")
        assert rows(one) == expected(feed.filter(pc.equal(feed.column("key"), key)))
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    updated = both.where("_change_type = 'update_postimage'").selectExpr("value.count AS n", "_commit_timestamp AS at")
    assert {row["at"].timestamp() for row in updated.collect()} == {log[-1].timestamp.timestamp()}  # type: ignore[union-attr]


@pytest.mark.spark
def test_a_copy_is_kept_by_merging_the_feed(spark: SparkSession) -> None:
    """Applied to the first state, what Spark reads gives the last, for every state of the job."""
    members = [member.open() for member in fixtures_in(CHAIN)]
    for state in members[-1]["chain"].states:
        option, value = state_option(state)
        name = {"state": "state", "timers": "timers", "operator_state": "operatorState"}[option]
        table = loaded(spark, RUNS, startingCheckpoint="1", **{name: value}).toArrow()
        before = next((item for item in members[0]["chain"].states if item.name == state.name), None)
        assert apply_feed(rows_of(before), table) == rows_of(state), state


@pytest.mark.spark
def test_errors_of_planning_have_advice(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="checkpoint 99 does not exist"):
        loaded(spark, RUNS, state="totals", startingCheckpoint="99")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"path": "/p", "startingCheckpoint": "1"}, "option startingCheckpoint is one of change feeds"),
        ({"path": "/p", "readChangeFeed": "true", "endingSnapshot": "/q"}, "two later snapshots are given: /p and /q"),
        (
            {"path": "/p", "readChangeFeed": "true", "startingSnapshot": "/q", "endingCheckpoint": "1"},
            "options endingCheckpoint and startingSnapshot exclude each other",
        ),
        ({"readChangeFeed": "true"}, "no path given"),
        ({"path": "/p", "readChangeFeed": "true", "changeFeedMode": "nett"}, "option changeFeedMode='nett'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(stateproc.InvalidOption) as raised:
        source_options(options)
    assert says in str(raised.value)


def test_spark_has_no_pruning_of_columns_and_no_limits_for_python_sources_yet() -> None:
    """Fails with the first release that has them: then let a query show that the reader's methods are called."""
    assert [name for name in ("pruneColumns", "pushLimit") if hasattr(DataSourceReader, name)] == []
    assert not hasattr(SavepointReader, "pruneColumns") and not hasattr(SavepointReader, "pushLimit")


class _NewerBase:
    """The methods of a newer DataSourceReader."""

    def pruneColumns(self, requiredSchema: StructType) -> StructType | None: ...

    def pushLimit(self, limit: int) -> bool: ...


@pytest.mark.parametrize(
    "options",
    [
        {"path": RUNS, "readChangeFeed": "true", "uid": "chain", "state": "totals"},
        {"path": RUNS + "/f26995802f5e37705f2a6dd0d07ef2b7", "uid": "chain", "state": "totals"},
        {"path": RUNS + "/f26995802f5e37705f2a6dd0d07ef2b7"},
    ],
    ids=["changes", "state", "catalog"],
)
def test_all_relations_are_limited_where_spark_asks_for_it(options: dict[str, Any]) -> None:
    full = schema_of(options)

    @with_offered_newer
    class Reader(SavepointReader):
        pass

    def read(required: StructType | None, limit: int | None) -> pa.Table:
        reader: Any = Reader(source_options(options), full)
        if required is not None:
            assert reader.pruneColumns(required) == (required if len(required) else StructType(full.fields[:1]))
        if limit is not None:
            assert reader.pushLimit(limit)
        parts = [list(reader.read(part)) for part in reader.partitions()]
        if limit is not None:
            assert all(sum(map(len, batches)) <= limit for batches in parts)
        return pa.Table.from_batches([batch for batches in parts for batch in batches])

    plain = reader_of(options, full)
    everything = pa.Table.from_batches([batch for part in plain.partitions() for batch in plain.read(part)])
    two = StructType([full[full.names[-1]], full[full.names[1]]])
    assert read(two, None).to_pylist() == everything.select(two.names).to_pylist()
    assert len(read(StructType([]), None)) == len(everything)
    assert 0 < len(read(None, 1)) < len(everything)


def with_offered_newer(reader: type[SavepointReader]) -> type[SavepointReader]:
    return with_offered_pushdowns(reader, _NewerBase)


def test_a_limit_reads_no_further_batch() -> None:
    taken: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            taken.append(number)
            yield pa.RecordBatch.from_pydict({"n": [number] * 4})

    assert [len(batch) for batch in limited(batches(), 6)] == [4, 2]
    assert taken == [0, 1]
