"""Choose the engine of a write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateproc.writers.local.engine import LocalEngine
from stateproc.writers.write_snapshot import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def engine_of(spark: SparkSession | None) -> Engine:
    """Return the engine of a session; the local engine without one."""
    if spark is None:
        return LocalEngine()
    from stateproc.writers.spark.execution import SparkEngine  # Lazy: the local engine needs no Spark.

    return SparkEngine(spark)
