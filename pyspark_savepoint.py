"""Define the Spark data source ``format("savepoint")``.

Spark imports every module ``pyspark_*`` on its path and registers its ``DefaultSource``. A failing import in one of
them disables them all, so this one imports pyspark and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):  # type: ignore[misc]  # pyspark is not type-checked
    """A Flink savepoint or checkpoint as a table, see :mod:`stateproc.spark.source`."""

    @classmethod
    def name(cls) -> str:
        return "savepoint"

    # Lazy: start-up. Spark imports this module in every session, also in those that read no savepoint.

    def schema(self) -> StructType:
        from stateproc.spark.source import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from stateproc.spark.source import reader_of

        return reader_of(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from stateproc.writers.spark.data_source_writer import writer_of

        return writer_of(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from stateproc.spark.streaming import stream_reader

        return stream_reader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        from stateproc.spark.streaming import no_stream_writer

        no_stream_writer()
