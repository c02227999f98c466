"""Writing native RocksDB snapshots with Spark from DataFrames and from snapshots in other formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc import NotFound, OperatorBootstrap, SavepointWriter
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.readers.rocksdb import database_files, table_properties
from tests.helpers.fixtures import FIXTURES, differences, fixtures_in

KEY = "state.backend.rocksdb."


def tables(path: str) -> list[str]:
    """Return the compression of each table of a snapshot."""
    snapshot = stateproc.open(path)
    found = []
    for operator in snapshot.metadata.operators:
        for subtask in operator.subtasks:
            assert isinstance(subtask.managed_keyed, IncrementalHandle)
            files = database_files(subtask.managed_keyed, snapshot.location)
            found += [table_properties(file.source).compression for file in files if file.name.endswith(".sst")]
    return found


def test_states_are_written_from_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(2000).select(
        F.col("id").alias("key"), F.concat(F.lit("név-"), "id").alias("value"), F.array("id", F.lit(7)).alias("numbers")
    )
    state = OperatorBootstrap().value_state("name", rows).list_state("numbers", rows, "numbers")
    state.event_time_timers(rows, "key")
    writer = SavepointWriter.new_savepoint(spark, 1024).with_operator("op", state).with_parallelism("op", 3)
    writer.with_format("native-rocksdb").with_rocksdb_options(
        {
            KEY + "predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
            KEY + "compression.per.level": "LZ4_COMPRESSION",
        }
    )
    path = writer.write(tmp_path / "s")
    operator = stateproc.open(path).operator("op")
    names, numbers = (operator.state(name).to_arrow() for name in ("name", "numbers"))
    pairs = zip(names["key"].to_pylist(), names["value"].to_pylist(), strict=True)
    assert sorted(pairs) == [(k, f"név-{k}") for k in range(2000)]
    lists = zip(numbers["key"].to_pylist(), numbers["value"].to_pylist(), strict=True)
    assert sorted(lists) == [(k, [k, 7]) for k in range(2000)]
    assert sorted(operator.timers("event").to_arrow()["timestamp"].to_pylist()) == list(range(2000))
    assert tables(path) == ["LZ4"] * 9


@pytest.mark.parametrize("case", ["kitchen-hashmap-native", "windows-hashmap-checkpoint", "tiny-rocksdb-changelog"])
def test_snapshots_in_other_formats_are_converted_to_native_rocksdb(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    (item,) = fixtures_in(FIXTURES / "1.20" / case)
    writer = SavepointWriter.from_existing_savepoint(spark, item.snapshot).with_format("native-rocksdb")
    path = writer.write(tmp_path / "s")
    uids = sorted({line["uid"] for line in item.expected() if line["uid"]})
    assert differences(item, stateproc.open(path, uids=uids)) == []
    assert set(tables(path)) == {"Snappy"}


def test_unknown_rocksdb_options_are_refused(spark: SparkSession) -> None:
    with pytest.raises(NotFound, match=r"did you mean 'state\.backend\.rocksdb\.block\.blocksize'"):
        SavepointWriter.new_savepoint(spark).with_rocksdb_options({KEY + "block.block-size": "4kb"})


def test_one_state_is_written_by_the_data_source(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(500).select(F.col("id").alias("key"), (F.col("id") * 2).alias("value"))
    sink = rows.write.format("savepoint").option("uid", "op").option("state", "double").mode("append")
    sink = sink.option("snapshotFormat", "native-rocksdb").option(KEY + "compression.per.level", "ZSTD_COMPRESSION")
    sink.save(str(tmp_path / "s"))
    found = stateproc.open(tmp_path / "s").state("op", "double").to_arrow()
    assert sorted(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)) == [
        (k, 2 * k) for k in range(500)
    ]
    assert tables(str(tmp_path / "s")) == ["ZSTD"]
