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
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from pyspark.sql.utils import is_remote

from stateproc.writers.spark.flattening import Selected, has_fields_as_columns

LARGE = "large"
"""The column that marks large rows."""
BATCH_ROWS, ROW_BYTES = 2000, 32 << 10
"""Rows of a batch, and the most bytes of strings in one: together 64 MB, which is Spark's own limit."""
_BYTES, _ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
_UNLIMITED = {_BYTES: str(2**31 - 1), _ROWS: str(BATCH_ROWS)}
_FIXED = (NumericType, BooleanType, DateType, TimestampType, TimestampNTZType)
_TOGETHER = 1 << 20
"""Bytes of small batches that are encoded at once."""


def small_rows(spark: SparkSession, frames: Iterable[DataFrame]) -> bool:
    """Whether rows of these can go without a limit of bytes: the session has no limits of its own, columns are of types
    whose bytes are easily told, and nothing else in the DataFrames hands rows to Python. Not of a session of Spark
    Connect, whose jobs have no properties that one could set."""
    if is_remote():
        return False
    own = spark._jsparkSession.conf().getAll()
    return not any(own.contains(name) for name in (_BYTES, _ROWS)) and all(map(_is_plain, frames))


def _is_plain(frame: DataFrame) -> bool:
    if not all(_is_told(field.dataType) for field in frame.schema.fields):
        return False
    # Names of columns may have these words in them: then rows are only handed over more slowly.
    plan = str(frame._jdf.queryExecution().optimizedPlan().toString())
    return not any(word in plan for word in ("Python", "Pandas", "Arrow"))


def _is_told(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return has_fields_as_columns(kind) and all(_is_told(field.dataType) for field in kind.fields)
    return isinstance(kind, (*_FIXED, StringType, BinaryType))


def marked(columns: Sequence[Selected]) -> list[Column]:
    """The columns (with their names) and LARGE; large rows have nulls for strings."""
    of_strings = [column for column, _, kind in columns if isinstance(kind, (StringType, BinaryType))]
    if not of_strings:
        return [column.alias(name) for column, name, _ in columns]
    sizes = [F.coalesce(F.octet_length(column).cast("bigint"), F.lit(0)) for column in of_strings]
    large = reduce(add, sizes) > ROW_BYTES
    left = [
        F.when(~large, column) if isinstance(kind, (StringType, BinaryType)) else column for column, _, kind in columns
    ]
    names = [name for _, name, _ in columns]
    return [*(column.alias(name) for column, name in zip(left, names, strict=True)), large.alias(LARGE)]


class LargeRows(Exception):
    """A row is large, and its bytes are not there."""


def check_small(batch: pa.RecordBatch) -> None:
    """Raises LargeRows."""
    if LARGE in batch.schema.names and batch.column(LARGE).true_count:
        raise LargeRows


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
