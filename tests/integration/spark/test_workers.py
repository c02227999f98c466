"""Garbage collection in Python workers that are reused for several tasks (see stateproc/spark/workers.py)."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from stateproc.spark.workers import keep_loaded


def test_processes_other_than_workers_are_not_changed() -> None:
    before = gc.get_freeze_count()
    keep_loaded()
    assert gc.get_freeze_count() == before


def test_workers_exclude_loaded_modules_from_garbage_collection(spark: SparkSession, fixtures: Path) -> None:
    """They do so once per worker; later objects are collected as usual."""

    def freeze_counts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            counts = []
            for _ in range(2):
                keep_loaded()
                counts.append(gc.get_freeze_count())
            yield pa.RecordBatch.from_pydict({"counts": pa.array([counts], pa.list_(pa.int64()))})

    rows = spark.range(4, numPartitions=4).mapInArrow(freeze_counts, "counts array<bigint>").collect()
    assert len(rows) == 4
    for row in rows:
        first, second = row.counts
        assert first == second > 1000
