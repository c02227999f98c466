"""Spark finds ``format("savepoint")`` here: it imports all ``pyspark_*`` modules for their ``DefaultSource``.

A failing import in any such module disables all of them, so this one imports pyspark and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):  # type: ignore[misc]  # pyspark is not type-checked
    """A Flink savepoint or checkpoint as a table, see :mod:`stateproc.spark.source`."""

    @classmethod
    def name(cls) -> str:
        return "savepoint"

    def schema(self) -> StructType:
        from stateproc.spark.source import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from stateproc.spark.source import reader_of

        return reader_of(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from stateproc.spark.source import writer_of

        return writer_of(self.options, schema, overwrite)
