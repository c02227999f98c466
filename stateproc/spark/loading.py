"""Read what options select as a DataFrame without Spark's data sources in Python, which Spark has since 4.0."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.errors import InvalidOption, SnapshotError
from stateproc.model.schema_merging import aligned, narrowed, portions
from stateproc.options.definition import option_texts
from stateproc.spark.executors import check_executors
from stateproc.spark.options import source_options
from stateproc.spark.relations import relation
from stateproc.spark.types import arrow_schema, spark_schema
from stateproc.spark.workers import check_worker_python, keep_loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPLIT = "split binary"


@dataclass(frozen=True)
class SplitReader:
    """For mapInArrow: reads pickled splits as batches of exactly the schema."""

    schema: pa.Schema
    operator: str | None
    state: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for item in batch.column(0):
                # Pickled by the driver, as Spark does with the partitions of data sources.
                yield from self._rows(item.as_buffer())

    def _rows(self, pickled: pa.Buffer) -> Iterator[pa.RecordBatch]:
        try:
            for batch in pickle.loads(pickled).read():
                keep_loaded()
                yield from portions(aligned(batch, self.schema))
        except SnapshotError as error:
            raise error.at(operator=self.operator, state=self.state) from error


def load(spark: SparkSession, path: str | os.PathLike[str], **options: Any) -> DataFrame:
    """Return the rows of a state, or of a metadata table, as ``spark.read.format("savepoint")`` returns them.

    It needs no data source in Python and so works with Spark 3.5. The snapshot is opened, and its splits are planned,
    when it is called. Filters of the DataFrame are not pushed down: ``keys`` and ``keyGroups`` limit the key
    groups that are read.

    Args:
        spark: The session; not one of Spark Connect.
        path: The snapshot's directory, its ``_metadata``, or a checkpoint root.
        **options: Options of the data source (``uid``, ``state``, ``keys`` …), as text or Python values.

    Raises:
        InvalidOption: An option is not valid, is one of streams, or Spark's Python workers or executors cannot import
            stateproc.
        SnapshotError: The snapshot cannot be read.
    """
    check_worker_python(spark)
    check_executors(spark)
    given = option_texts(options)
    parsed = source_options({**given, "path": os.fspath(path)})
    if parsed.streamed:
        raise InvalidOption(
            f"option {parsed.streamed[0]} is one of streams",
            advice='use readStream.format("savepoint"), which needs Spark 4.1 or later, or leave it away',
        )
    chosen = relation(parsed)
    schema = spark_schema(narrowed(chosen.schema(), parsed.columns))
    arrow = arrow_schema(schema)
    splits = [pickle.dumps(split) for split in chosen.splits(lambda state: None, None, arrow.names)]
    rows = spark.sparkContext.parallelize([(split,) for split in splits], max(1, len(splits)))
    return rows.toDF(_SPLIT).mapInArrow(SplitReader(arrow, chosen.operator, chosen.name), schema)
