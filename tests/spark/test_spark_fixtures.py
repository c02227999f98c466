"""What real Flink's jobs wrote down, row by row, through Spark."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures_check import FIXTURES, differences, fixtures, fixtures_in
from pyspark.sql import SparkSession

from stateproc.snapshot import Snapshot
from stateproc.states import State

CASES = (
    "1.20/kitchen-rocksdb-canonical-snappy",
    "1.20/windows-hashmap-checkpoint",
    "1.20/operators-hashmap-canonical",
    "2.3/tiny-rocksdb-full",
    "2.3/sql-hashmap-canonical",
    "1.8/tiny-rocksdb-canonical",
    "2.3/chain-rescaled-ingest/4-checkpoint-by-3",
    "1.20/chain-changelog-rescaled/12-checkpoint-by-1",
    "2.3/chain-forst/6-checkpoint-by-3",
)


@pytest.mark.parametrize("case", CASES)
def test_rows_through_spark_are_what_the_job_wrote(case: str, spark: SparkSession) -> None:
    found = [item for item in fixtures() if item.name == case]
    assert found, f"no fixture {case}"
    fixture = found[0]

    def rows(_snapshot: Snapshot, state: State) -> list[dict[str, Any]]:
        reader = spark.read.format("savepoint").option("uidHash", state.operator.operator_id)
        if state.kind.endswith(" timers"):
            reader = reader.option("timers", state.kind.removesuffix(" timers"))
        else:
            reader = reader.option("state", state.name)
        reader = reader.option("uids", ",".join(uids)).option("temporal", "exact")
        return list(reader.load(fixture.snapshot).toArrow().to_pylist())

    uids = sorted({line["uid"] for line in fixture.expected() if line["uid"]})
    assert differences(fixture, fixture.open(temporal="exact"), rows) == []


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
