"""Spark: rows that a writer reads are exact, although Spark's timestamps have microseconds only."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc import SavepointWriter
from tests.helpers.cases import case_snapshots

SNAPSHOT = next(one for one in case_snapshots() if one.case == "nanoseconds").path
STATES = ("instant", "datetime", "time", "timestamp", "event", "byName")


def rows_of(path: str, state: str) -> list[str]:
    rows = stateproc.open(path, uids=["op"], temporal="exact").state("op", state).to_arrow().to_pylist()
    return sorted(map(repr, rows))


def test_nanoseconds_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, SNAPSHOT, {"uids": "op"})
    for state in STATES:
        writer.transform_state("op", state, lambda rows: rows)
    path = writer.write(tmp_path / "out")
    for state in STATES:
        assert rows_of(path, state) == rows_of(SNAPSHOT, state)
    types = [stateproc.open(one, uids=["op"]).operator("op").keyed_states for one in (SNAPSHOT, path)]
    assert [state.value_type for state in types[0]] == [state.value_type for state in types[1]]


def test_timestamps_that_were_chosen_refuse_finer_digits(spark: SparkSession, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, SNAPSHOT, {"uids": "op", "temporal": "micros"})
    writer.transform_state("op", "instant", lambda rows: rows)
    with pytest.raises(Exception, match="digits below a microsecond"):
        writer.write(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_timestamps_that_a_function_returns_keep_flinks_type(spark: SparkSession, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(spark, SNAPSHOT, {"uids": "op"})
    later = F.to_timestamp_ntz("value") + F.expr("INTERVAL 1 HOUR")
    writer.transform_state("op", "datetime", lambda rows: rows.withColumn("value", later))
    state = stateproc.open(writer.write(tmp_path / "out"), uids=["op"]).state("op", "datetime")
    assert state.value_type == "LocalDateTime"
    before = {
        row["key"]: row["value"]
        for row in stateproc.open(SNAPSHOT, uids=["op"]).state("op", "datetime").to_arrow().to_pylist()
    }
    assert all((row["value"] - before[row["key"]]).total_seconds() == 3600 for row in state.to_arrow().to_pylist())
