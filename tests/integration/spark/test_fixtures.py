"""What real Flink's jobs wrote down, row by row, through a Spark session: every fixture, the newest of every chain."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from stateproc.snapshot.schema_merging import aligned
from stateproc.snapshot.snapshot import Snapshot
from stateproc.snapshot.state import State
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, differences, fixtures, fixtures_in
from tests.helpers.spark.reader_contract import selecting_exact

JOBS_AT_ONCE = 4
"""Spark jobs from so many threads: a job of two tasks leaves its two cores idle while it is planned."""


def _chosen() -> list[Fixture]:
    """Every fixture; of each chain the snapshot taken last."""
    found = fixtures()
    last = {item.path: item for item in found}
    return [item for item in found if item is last[item.path]]


def _through_spark(fixture: Fixture, spark: SparkSession) -> list[str]:
    """What differs from the expected contents, or from the Arrow core's rows in any type."""
    retyped: list[str] = []

    def rows(_snapshot: Snapshot, state: State) -> list[dict[str, Any]]:
        options = selecting_exact(fixture, state) | {"plugins": "frozen_worker"}
        frame = spark.read.format("savepoint").options(**options).load()
        schema, table = to_arrow_schema(frame.schema, timezone="UTC"), frame.toArrow()
        own = [row for batch in state.batches() for row in aligned(batch, schema).to_pylist()]
        found = list(table.to_pylist())
        # As texts, which tell types too, -0.0 from 0.0, and one NaN like another.
        if not table.schema.equals(schema) or repr(found) != repr(own):
            retyped.append(f"{state.name}: {table.schema} {found!r} is not {schema} {own!r}")
        return found

    return differences(fixture, fixture.open(classes=CLASSES, temporal="exact"), rows) + retyped


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[dict[str, Future[list[str]]]]:
    """The differences of the fixtures that this run asks for, several at a time, in the order of the tests."""
    asked = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    wanted = {
        call.params["fixture"].name: call.params["fixture"] for call in asked if call and "fixture" in call.params
    }
    pool = ThreadPoolExecutor(JOBS_AT_ONCE)
    yield {name: pool.submit(_through_spark, fixture, spark) for name, fixture in wanted.items()}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("fixture", _chosen(), ids=lambda fixture: fixture.name)
def test_rows_through_spark_are_what_the_job_wrote(fixture: Fixture, outcomes: dict[str, Future[list[str]]]) -> None:
    assert outcomes[fixture.name].result() == []


@pytest.mark.parametrize("state", ["text", "items", "entries", "sum", "totals", "late"])
def test_one_job_s_snapshots_in_every_format_are_one_data_frame(state: str, spark: SparkSession) -> None:
    *_, checkpoint, canonical, native = fixtures_in(FIXTURES / "1.20" / "chain-rocksdb")
    frames = [
        spark.read.format("savepoint").option("uid", "chain-ttl").option("state", state).load(item.snapshot)
        for item in (checkpoint, canonical, native)
    ]
    assert frames[0].count() > 10
    for frame in frames[1:]:
        assert frame.schema == frames[0].schema
        assert sorted(map(repr, frame.collect())) == sorted(map(repr, frames[0].collect()))
