"""Plan the partitions on the driver and read them in the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from stateproc.errors import located
from stateproc.model.schema_merging import aligned, portions
from stateproc.model.state import State
from stateproc.readers.splits import Split
from stateproc.spark.filters import PushFilters, key_groups_of_filters, keys_of_filters, limited, with_offered_pushdowns
from stateproc.spark.options import SourceOptions
from stateproc.spark.relations import relation
from stateproc.spark.types import arrow_schema, check_wanted
from stateproc.spark.workers import keep_loaded


class SplitPartition(InputPartition):
    """A Spark partition: one split, and the names of its operator and state for errors."""

    def __init__(self, split: Split, operator: str | None, state: str | None) -> None:
        super().__init__(split)
        self.operator = operator
        self.state = state


@with_offered_pushdowns
class SavepointReader(DataSourceReader):
    """Read the rows that the options select as the columns of ``schema``."""

    pushFilters: Any

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.pushFilters = PushFilters()
        self._options = options
        self._full = schema
        self._limit: int | None = None
        self._schema: pa.Schema = arrow_schema(schema)

    def prune_columns(self, required: StructType) -> StructType:
        """Read only these columns and fields; return what is read. One column stays, for rows to be counted."""
        kept = required if len(required) else StructType(self._full.fields[:1])
        self._schema = arrow_schema(kept)
        return kept

    def push_limit(self, limit: int) -> bool:
        """Stop each partition after so many rows; return that fewer rows are read. Spark limits their sum."""
        self._limit = limit
        return True

    def partitions(self) -> list[InputPartition]:
        """Plan one partition per split. Raises SnapshotError."""
        chosen = relation(self._options)
        check_wanted(self._schema, chosen.schema())
        splits = chosen.splits(self._pruned, keys_of_filters(self.pushFilters.filters), self._schema.names)
        keep_loaded()
        # For an empty list Spark makes one such partition itself.
        return [SplitPartition(split, chosen.operator, chosen.name) for split in splits] or [InputPartition(None)]

    def _pruned(self, state: State) -> set[int] | None:
        filters, schema = self.pushFilters.filters, state.schema()
        key_type = schema.field("key").type if "key" in schema.names else None
        return key_groups_of_filters(filters, state.operator.max_parallelism, state.key_groups_of, key_type)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the partition's rows in batches of exactly the schema. Raises SnapshotError."""
        if not isinstance(partition, SplitPartition):
            return
        with located(operator=partition.operator, state=partition.state):
            for batch in limited(partition.value.read(), self._limit):
                keep_loaded()
                yield from portions(aligned(batch, self._schema))
