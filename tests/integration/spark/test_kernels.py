"""Spark's Python workers run the compiled kernels of the library: they import no numba, whether they read or write."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from stateproc import OperatorBootstrap, SavepointWriter
from tests.helpers.kernel_library import require_library


def _numba_in_workers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        loaded = [name for name in ("numba", "stateproc.codec.native.jit") if name in sys.modules]
        yield pa.RecordBatch.from_pydict({"loaded": pa.array([loaded], pa.list_(pa.string()))})


@pytest.mark.skipif(os.environ.get("STATEPROC_KERNELS") == "numba", reason="the workers are started with numba forced")
def test_workers_that_read_and_write_import_no_numba(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    require_library()
    for name, uid, state in (
        ("kitchen-rocksdb-incremental", "kitchen-ttl", "counter"),
        ("kitchen-hashmap-canonical", "kitchen-ttl", "counter"),
        ("kitchen-hashmap-native", "kitchen-ttl", "counter"),
    ):
        path = str(fixtures / "1.20" / name / "snapshot")
        assert spark.read.format("savepoint").options(uid=uid, state=state).load(path).collect()
    rows = spark.range(1000).select(
        F.col("id").alias("key"), F.col("id").cast("string").alias("value"), F.array("id").alias("numbers")
    )
    for name in ("canonical", "native-hashmap", "native-rocksdb"):
        state = OperatorBootstrap().value_state("name", rows).list_state("numbers", rows, "numbers")
        writer = SavepointWriter.new_savepoint(spark).with_operator("op", state).with_format(name)
        writer.write(tmp_path / name)
    found = spark.range(8, numPartitions=8).mapInArrow(_numba_in_workers, "loaded array<string>").collect()
    assert {tuple(row.loaded) for row in found} == {("stateproc.codec.native.jit",)}
