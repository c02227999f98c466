"""Rows that Flink jobs recorded, compared with a Spark session's for each job and mode as the newest release wrote it.

These and one older have every schema that a fixture has. `test_reader_fixtures.py` runs the source for all of them
without a session: how a release writes makes no difference to Spark, which sees Arrow batches of a schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stateproc.model.schema_merging import aligned
from stateproc.model.state import State
from stateproc.snapshot.snapshot import Snapshot
from stateproc.spark.types import arrow_schema
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, differences, fixtures, fixtures_in, newest_fixtures
from tests.helpers.spark.reader_contract import selecting_exact

JOBS_AT_ONCE = 4
"""Number of threads that start Spark jobs; a single one would leave the two cores idle while it plans a job."""

_OLDER = "1.20/edges-hashmap-canonical"
"""Flink 2 has serializers of its own for what older releases leave to Kryo, whose columns have other types."""
_CHOSEN = [*newest_fixtures(), *(item for item in fixtures() if item.name == _OLDER)]


def _through_spark(fixture: Fixture, spark: SparkSession) -> list[str]:
    """Return the differences from the expected contents and from the rows and types of the Arrow reader."""
    retyped: list[str] = []

    def rows(_snapshot: Snapshot, state: State) -> list[dict[str, Any]]:
        options = selecting_exact(fixture, state) | {"plugins": "frozen_worker"}
        frame = spark.read.format("savepoint").options(**options).load()
        schema, table = arrow_schema(frame.schema), frame.toArrow()
        own = [row for batch in state.batches() for row in aligned(batch, schema).to_pylist()]
        found = list(table.to_pylist())
        # Text distinguishes types and -0.0 from 0.0, and represents every NaN equally.
        if not table.schema.equals(schema) or repr(found) != repr(own):
            retyped.append(f"{state.name}: {table.schema} {found!r} is not {schema} {own!r}")
        return found

    return differences(fixture, fixture.open(classes=CLASSES, temporal="exact"), rows) + retyped


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[dict[str, Future[list[str]]]]:
    """Compute the differences of the selected fixtures concurrently, in the order of the tests."""
    asked = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    wanted = {
        call.params["fixture"].name: call.params["fixture"] for call in asked if call and "fixture" in call.params
    }
    pool = ThreadPoolExecutor(JOBS_AT_ONCE)
    yield {name: pool.submit(_through_spark, fixture, spark) for name, fixture in wanted.items()}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("fixture", _CHOSEN, ids=lambda fixture: fixture.name)
def test_rows_in_spark_equal_those_that_the_job_recorded(
    fixture: Fixture, outcomes: dict[str, Future[list[str]]]
) -> None:
    assert outcomes[fixture.name].result() == []


@pytest.mark.parametrize("state", ["text", "items", "entries", "sum", "totals", "late"])
def test_snapshots_of_one_job_in_every_format_have_equal_rows(state: str, spark: SparkSession) -> None:
    *_, checkpoint, canonical, native = fixtures_in(FIXTURES / "1.20" / "chain-rocksdb")
    frames = [
        spark.read.format("savepoint").option("uid", "chain-ttl").option("state", state).load(item.snapshot)
        for item in (checkpoint, canonical, native)
    ]
    assert frames[0].count() > 10
    for frame in frames[1:]:
        assert frame.schema == frames[0].schema
        assert sorted(map(repr, frame.collect())) == sorted(map(repr, frames[0].collect()))
