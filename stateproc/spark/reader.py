"""Plan the partitions on the driver and read them in the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from stateproc.errors import SnapshotError
from stateproc.readers.common.splits import Split
from stateproc.spark.filters import key_groups_of_filters, keys_of_filters
from stateproc.spark.options import SourceOptions
from stateproc.spark.relations import relation
from stateproc.spark.types import arrow_schema, check_wanted
from stateproc.spark.workers import keep_loaded
from stateproc.states.schema_merging import aligned, portions
from stateproc.states.state import State


class SplitPartition(InputPartition):
    """A Spark partition: one split, and the names of its operator and state for errors."""

    def __init__(self, split: Split, operator: str | None, state: str | None) -> None:
        super().__init__(split)
        self.operator = operator
        self.state = state


class PushFilters:
    """The reader's ``pushFilters``: stores all filters, and returns all of them for Spark to evaluate as well.

    Spark refuses a reader that overrides pushFilters while spark.sql.python.filterPushdown.enabled is false, which it
    recognizes by the method's ``__func__`` (pyspark.sql.worker.plan_data_source_read). This callable has that of the
    base class: Spark calls it if the setting is true, and takes it for not overridden if it is false.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self) -> None:
        self.filters: tuple[Filter, ...] = ()

    def __call__(self, filters: Sequence[Filter]) -> list[Filter]:
        self.filters = tuple(filters)
        return list(filters)


class SavepointReader(DataSourceReader):
    """Read the rows that the options select as the columns of ``schema``."""

    pushFilters: Any

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.pushFilters = PushFilters()
        self._options = options
        self._schema: pa.Schema = arrow_schema(schema)

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
        try:
            for batch in partition.value.read():
                keep_loaded()
                yield from portions(aligned(batch, self._schema))
        except SnapshotError as error:
            raise error.at(operator=partition.operator, state=partition.state) from error
