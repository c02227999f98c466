"""The Spark data source that takes shuffled entries: tasks write state files, the commit makes them a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from stateproc.writers.committing.commit import Commit
from stateproc.writers.committing.finish import finish
from stateproc.writers.job import WriteJob
from stateproc.writers.spark.blocks import unpacked
from stateproc.writers.spark.runs import sorted_entries
from stateproc.writers.tasks import Written, write_targets


class TargetsWritten(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not type-checked
    """What one task tells the driver."""

    def __init__(self, written: list[Written]) -> None:
        self.written = written


class EntriesWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is not type-checked
    """Writes partitions of blocks of entries, each target in one partition."""

    def __init__(self, job: WriteJob, commit: Commit) -> None:
        self._job, self._commit = job, commit

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TargetsWritten:
        return TargetsWritten(write_targets(self._job, sorted_entries(unpacked(iterator))))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [item for message in messages if isinstance(message, TargetsWritten) for item in message.written]
        finish(self._job, self._commit, written)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit.abort()


def save(entries: DataFrame, job: WriteJob, commit: Commit) -> None:
    """Write the entries (BLOCKS, one partition per target) and complete the snapshot."""
    name, columns = f"stateproc-{job.staging.run}", entries.schema

    # Made here, so that the class travels with its job: options would have to carry it as text.
    class EntriesSink(DataSource):  # type: ignore[misc]  # pyspark is not type-checked
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> Any:
            return columns

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
            return EntriesWriter(job, commit)

    entries.sparkSession.dataSource.register(EntriesSink)
    entries.write.format(name).mode("append").save()
