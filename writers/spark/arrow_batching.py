"""The size of the Arrow batches in which Spark passes rows to Python, and in which rows are encoded."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import SparkSession

BATCH_ROWS = 2000
"""Rows of a batch without a byte limit; with rows of 32 KB at most (`row_slicing`) a batch has 64 MB, Spark's limit."""
ARROW_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
}
"""Spark does not ask for a batch's bytes before each row if the limit is 2^31 - 1."""
_ENCODED_BYTES = 1 << 20
"""Bytes of small batches that are encoded together: what is done per batch takes long for few rows."""


class _SessionWrites:
    """The writes of one session that run now, and whether they run with the settings."""

    def __init__(self) -> None:
        self.count = 0
        self.by_rows = False
        self.changed: list[str] = []


_sessions: WeakKeyDictionary[SparkSession, _SessionWrites] = WeakKeyDictionary()
_released = threading.Condition()


@contextmanager
def batches_limited(spark: SparkSession, *, by_rows: bool) -> Iterator[None]:
    """Limit Arrow batches of the session's queries by rows instead of by bytes, and restore its settings afterwards.

    Args:
        spark: the session whose settings change. A session that sets one of ARROW_SETTINGS itself keeps both.
        by_rows: False leaves the session as it is, for rows whose bytes nothing else bounds. Writes of one session that
            differ in this wait for each other.
    """
    with _released:
        writes = _sessions.setdefault(spark, _SessionWrites())
        _released.wait_for(lambda: not writes.count or writes.by_rows == by_rows)
        writes.by_rows = by_rows
        if by_rows and not writes.count and all(spark.conf.get(name, None) is None for name in ARROW_SETTINGS):
            writes.changed = list(ARROW_SETTINGS)
            for name, value in ARROW_SETTINGS.items():
                spark.conf.set(name, value)
        writes.count += 1
    try:
        yield
    finally:
        with _released:
            writes.count -= 1
            if not writes.count:
                for name in writes.changed:
                    spark.conf.unset(name)
                writes.changed = []
            _released.notify_all()


def coalesced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, with small batches joined into batches of up to a megabyte."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if pending and size + batch.nbytes > _ENCODED_BYTES:
            yield _joined(pending)
            pending, size = [], 0
        pending.append(batch)
        size += batch.nbytes
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = pa.Table.from_batches(batches).combine_chunks().columns
    return pa.RecordBatch.from_arrays([column.chunk(0) for column in columns], schema=batches[0].schema)
