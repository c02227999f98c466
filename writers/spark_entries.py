"""DataFrames of rows as one DataFrame of entries, put together by the state file they go to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stateproc.writers.elements import POSITION, SUBTASK
from stateproc.writers.targets import Source
from stateproc.writers.tasks import TARGET, TARGETED

ENTRIES_SCHEMA = "target int, key_group int, state_id int, key binary, value binary"


def entries_of(source: Source, parallelism: int) -> DataFrame:
    """The source's rows as TARGETED entries, wherever they are."""
    columns = [F.col(f"`{column}`").alias(role) for role, column in source.columns.items()]
    if source.keyed:
        return source.frame.select(*columns).mapInArrow(source.encoding, ENTRIES_SCHEMA)
    frame = source.frame.select(*columns, F.monotonically_increasing_id().alias(POSITION))
    if source.broadcast:
        every = F.explode(F.array(*(F.lit(subtask) for subtask in range(parallelism))))
        frame = frame.select("*", every.alias(SUBTASK))
    elif SUBTASK not in source.columns:
        frame = frame.withColumn(SUBTASK, F.col(POSITION) % F.lit(parallelism))
    return frame.mapInArrow(source.encoding, ENTRIES_SCHEMA)


def put_together(frames: Sequence[DataFrame], n_targets: int) -> DataFrame:
    """All entries, one partition per target, sorted as files want them: by key group, state, key bytes (unsigned)."""
    entries = reduce(DataFrame.unionAll, frames)
    placed = entries.repartitionById(n_targets, TARGET)
    return placed.sortWithinPartitions(*TARGETED.names[:4])
