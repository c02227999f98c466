"""How rows of DataFrames are handed to Python: without Spark's limit of bytes, where no row is large.

Before each row Spark asks all columns of a batch how large they have become, which takes longer than to fill them (of 5
million rows of four columns: 3.1 of 5.3 seconds of CPU time). Without the limit it does not ask. Then batches of few
rows are as bounded, if no row is large, and Spark itself looks for such rows: it leaves their bytes out and marks them.
A task that meets a mark says so, and everything is written again, with the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)
from pyspark.sql.utils import is_remote

from stateproc.writers.spark.struct_flattening import Selected

LARGE = "large"
"""The column that marks large rows."""
BATCH_ROWS, ROW_BYTES = 2000, 32 << 10
"""Rows of a batch, and the most bytes of strings in one: together 64 MB, which is Spark's own limit."""
_UNLIMITED = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
}
_STRINGS = (StringType, BinaryType)
_FIXED = (NumericType, BooleanType, DateType, TimestampType, TimestampNTZType)
_TOGETHER = 1 << 20
"""Bytes of small batches that are encoded at once."""


def has_no_limits(spark: SparkSession) -> bool:
    """Whether the session leaves limits to us: it sets none itself. Jobs of Spark Connect have no properties that one
    could set."""
    if is_remote():
        return False
    own = spark._jsparkSession.conf().getAll()
    return not any(own.contains(name) for name in _UNLIMITED)


def small(frame: DataFrame, columns: Sequence[Selected]) -> DataFrame:
    """The columns, and LARGE if there are any of strings, which are null in large rows.

    Raises LargeRows where that does not tell all bytes: of columns of other types, or where the DataFrame hands rows to
    Python, too, which would go without a limit as well.
    """
    if not all(isinstance(kind, (*_FIXED, *_STRINGS)) for _, _, kind in columns):
        raise LargeRows
    sizes = [
        F.coalesce(F.octet_length(column).cast("bigint"), F.lit(0))
        for column, _, kind in columns
        if isinstance(kind, _STRINGS)
    ]
    large = reduce(add, sizes, F.lit(0)) > ROW_BYTES
    left = [
        (F.when(~large, column) if isinstance(kind, _STRINGS) else column).alias(name) for column, name, kind in columns
    ]
    selected = frame.select(*left, *([large.alias(LARGE)] if sizes else []))
    # Names of columns may have these words in them: then rows are only handed over more slowly.
    plan = str(selected._jdf.queryExecution().optimizedPlan().toString())
    if any(word in plan for word in ("Python", "Pandas", "Arrow")):
        raise LargeRows
    return selected


class LargeRows(Exception):
    """A row is large, and its bytes are not there; or rows may be large."""


def check_small(batch: pa.RecordBatch) -> None:
    """Raises LargeRows."""
    if LARGE in batch.schema.names and batch.column(LARGE).true_count:
        raise LargeRows


def take_all(batches: Iterator[pa.RecordBatch]) -> None:
    """Take what Spark still gives: it uses workers again that have taken all."""
    for _ in batches:
        continue


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows; small batches joined to such of up to a megabyte, for what is done per batch takes long for few
    rows."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if held and size + batch.nbytes > _TOGETHER:
            yield _joined(held)
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = pa.Table.from_batches(batches).combine_chunks().columns
    return pa.RecordBatch.from_arrays([column.chunk(0) for column in columns], schema=batches[0].schema)


@contextmanager
def unlimited(spark: SparkSession) -> Iterator[None]:
    """Within it, queries of this thread hand over batches of few rows without a limit of bytes.

    By properties of the thread's jobs: settings of the session, which other threads may be using, stay as they are.
    """
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in _UNLIMITED}
    for name, value in _UNLIMITED.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)
