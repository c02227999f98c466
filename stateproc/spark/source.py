"""Answer Spark's calls of the data source: the schema of what the options select, and its reader."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from stateproc.errors import CorruptSnapshot, InvalidOption, MissingFile, NotFound
from stateproc.model.schema_merging import narrowed
from stateproc.spark.options import SourceOptions, source_options
from stateproc.spark.reader import SavepointReader
from stateproc.spark.relations import relation
from stateproc.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def schema_of(raw: Mapping[str, str]) -> StructType:
    """Return the columns of what the options select. Raises SnapshotError."""
    options = source_options(raw)
    return spark_schema(narrowed(_schema(options), options.columns))


def _schema(options: SourceOptions) -> pa.Schema:
    if options.feed is None and not options.streamed:
        return relation(options).schema()
    # Lazy: start-up. Reading a snapshot compares nothing.
    from stateproc.spark.streaming import newest_plan, schema_of_plan, stream_schema

    if options.streamed:
        return stream_schema(options)
    try:
        return relation(options).schema()
    except (CorruptSnapshot, MissingFile, NotFound):
        # Spark does not say whether a stream asks. A stream goes on although the checkpoint that it once started after
        # is gone, or one is being written or deleted; reading as a batch raises the error when it is planned.
        newest = newest_plan(options) if options.starting_snapshot is None else None
        if newest is None or newest.found.commits[0].version < (options.starting_checkpoint or 0):
            raise
        return schema_of_plan(newest, options)


def reader_of(raw: Mapping[str, str], schema: StructType) -> SavepointReader:
    """Return the reader of these columns. Raises InvalidOption."""
    options = source_options(raw)
    if options.streamed:
        raise InvalidOption(
            f"option {options.streamed[0]} is one of streams",
            advice='use readStream.format("savepoint"), or leave it away',
        )
    return SavepointReader(options, schema)


# Register the data source in Python, which Spark has since 4.0.

_ALREADY_THERE = "DATA_SOURCE_ALREADY_EXISTS"


def register_source(spark: SparkSession) -> None:
    """Register the data source, which Spark finds itself in an installed package, but not in an editable installation.

    Raises:
        InvalidOption: The release of Spark has no data sources in Python.
    """
    check_python_sources()
    from pyspark_savepoint import DefaultSource  # Lazy: not before Spark 4.0.

    try:
        spark.dataSource.register(DefaultSource)
    except AnalysisException as error:
        # Spark 4.0 found it itself, and registers nothing twice.
        if _ALREADY_THERE not in str(error):
            raise


def check_python_sources() -> None:
    """Raise InvalidOption before Spark 4.0, which brought data sources in Python."""
    if find_spec("pyspark.sql.datasource") is None:
        raise InvalidOption(
            f"PySpark {pyspark.__version__} has no data sources in Python",
            advice="install pyspark>=4.1; or read one state after another: stateproc.load(spark, path, uid=…, state=…)",
        )
