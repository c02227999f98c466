"""What Spark pushes into the reader: filters, and columns and limits in releases that have these for Python sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class PushFilters:
    """The reader's ``pushFilters``: stores all filters, and returns all of them for Spark to evaluate as well.

    Spark refuses a reader that overrides pushFilters while spark.sql.python.filterPushdown.enabled is false, which it
    recognizes by the method's ``__func__`` (pyspark.sql.worker.plan_data_source_read). This callable has that of the
    base class: Spark calls it if the setting is true, and takes it for not overridden if it is false. Spark 4.0 pushes
    no filters into Python sources.
    """

    __func__ = staticmethod(getattr(DataSourceReader, "pushFilters", list))

    def __init__(self) -> None:
        self.filters: tuple[Filter, ...] = ()

    def __call__(self, filters: Sequence[Filter]) -> list[Filter]:
        self.filters = tuple(filters)
        return list(filters)


class LimitingReader(Protocol):
    """A reader that can be limited to columns and to a number of rows."""

    def prune_columns(self, required: StructType) -> StructType: ...

    def push_limit(self, limit: int) -> bool: ...


Reader = TypeVar("Reader", bound=LimitingReader)


def with_offered_pushdowns(reader: type[Reader], base: type = DataSourceReader) -> type[Reader]:
    """Give a reader the methods by which newer releases of Spark limit columns and rows, if the base class has them.

    ``pruneColumns`` is that of SPARK-51713, ``pushLimit`` that of SPARK-58551.
    """
    for name, method in (("pruneColumns", reader.prune_columns), ("pushLimit", reader.push_limit)):
        if hasattr(base, name):
            setattr(reader, name, method)
    return reader


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first rows of batches, and read no further; all without a limit."""
    remaining = limit
    for batch in batches:
        yield batch if remaining is None else batch.slice(0, remaining)
        if remaining is not None:
            remaining -= len(batch)
            if remaining <= 0:
                return
