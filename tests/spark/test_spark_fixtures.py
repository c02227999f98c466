"""What real Flink's jobs wrote down, row by row, through Spark."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures_check import differences, fixtures
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
