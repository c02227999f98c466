"""Refuse ``spark.readStream`` with a clear error: a snapshot is read once, not as a stream."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from stateproc.errors import InvalidOption


class UnsupportedStreamReader(DataSourceStreamReader):
    """A stream reader that raises as soon as Spark asks for an offset.

    Spark 4 hides an error of ``DataSource.streamReader`` itself: its worker stops the reader that it did not get
    (pyspark/sql/streaming/python_streaming_source_runner.py), and reports an UnboundLocalError instead.
    """

    def initialOffset(self) -> NoReturn:
        raise no_stream("readStream", "read")

    def latestOffset(self, start: Any = None, limit: Any = None) -> NoReturn:
        raise no_stream("readStream", "read")

    def partitions(self, start: Any, end: Any) -> NoReturn:
        raise no_stream("readStream", "read")

    def read(self, partition: Any) -> NoReturn:
        raise no_stream("readStream", "read")


def no_stream(method: str, instead: str) -> InvalidOption:
    """Return the error for a streaming ``method`` of the session or DataFrame; ``instead`` names the batch method."""
    return InvalidOption(
        f'{method}.format("savepoint"): a savepoint does not change, so that there is no stream of it',
        advice=f'use {instead}.format("savepoint")',
    )
