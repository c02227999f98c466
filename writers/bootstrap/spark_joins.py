"""When joins by time look for rows that they drop, as DataFrames of Spark; `plan_joins` says what they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stateproc.query_plans.state_parts import Waiting
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, TIMESTAMP
from stateproc.writers.bootstrap.spark_frames import column_named
from stateproc.writers.bootstrap.spark_slices import long

_KEY, _TEXT = "$key", "$text"


def due_times(kept: Sequence[tuple[Waiting, DataFrame]]) -> DataFrame:
    """Return a row per key with the times of its timers, null for none."""
    none = F.lit(None).cast("long")
    parts = [
        rows.select(
            KEY, *((F.col(MAP_KEY) + long(of.due) if other is of else none).alias(other.timer) for other, _ in kept)
        )
        for of, rows in kept
    ]
    # Spark groups -0.0 with 0.0, which Flink distinguishes: as text they differ.
    groups = reduce(DataFrame.unionAll, parts).groupBy(KEY, F.to_json(F.struct(KEY)).alias(_TEXT))
    once = groups.agg(F.first(KEY).alias(_KEY), *(F.min(of.timer).alias(of.timer) for of, _ in kept))
    return once.select(column_named(_KEY).alias(KEY), *(of.timer for of, _ in kept))


def due_timers(totals: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the timers of keys, each once."""
    due = F.explode(F.array_distinct(F.array_compact(F.array(*names))))
    return totals.select(KEY, due.alias(TIMESTAMP))
