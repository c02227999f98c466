"""Answer Spark's calls of the data source: the schema of what the options select, and its reader."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import StructType

from stateproc.errors import CorruptSnapshot, InvalidOption, MissingFile, NotFound
from stateproc.model.schema_merging import narrowed
from stateproc.spark.options import SourceOptions, source_options
from stateproc.spark.reader import SavepointReader
from stateproc.spark.relations import relation
from stateproc.spark.types import spark_schema
from stateproc.spark.workers import keep_loaded


def schema_of(raw: Mapping[str, str]) -> StructType:
    """Return the columns of what the options select. Raises SnapshotError."""
    options = source_options(raw)
    schema = spark_schema(narrowed(_schema(options), options.columns))
    keep_loaded()
    return schema


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
