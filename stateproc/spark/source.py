"""Answer Spark's calls of the data source: the schema of what the options select, and its reader."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from stateproc.spark.options import source_options
from stateproc.spark.reader import SavepointReader
from stateproc.spark.relations import relation
from stateproc.spark.types import spark_schema
from stateproc.states.schema_merging import narrowed


def schema_of(raw: Mapping[str, str]) -> StructType:
    """Return the columns of what the options select. Raises SnapshotError."""
    options = source_options(raw)
    return spark_schema(narrowed(relation(options).schema(), options.columns))


def reader_of(raw: Mapping[str, str], schema: StructType) -> SavepointReader:
    """Return the reader of these columns. Raises InvalidOption."""
    return SavepointReader(source_options(raw), schema)
