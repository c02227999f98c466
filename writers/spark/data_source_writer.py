"""Write a savepoint of one state with ``df.write.format("savepoint")``, whatever the partitions of the DataFrame.

Tasks write their rows as sorted runs, which the commit merges into state files. SavepointWriter is faster for large
state: it shuffles entries by file, and tasks write the files.

Save modes: ``append`` writes a new savepoint and refuses a directory that has one, because savepoints cannot be
extended; ``overwrite`` replaces it. Spark refuses its other modes, including the default, for data sources in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType, YearMonthIntervalType

from stateproc.errors import InvalidOption
from stateproc.flink_versions import DEFAULT, release
from stateproc.serializers import LayoutContext
from stateproc.spark.workers import keep_loaded
from stateproc.writers.assemble_metadata import finish
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.bootstrap.operator_state_encoder import POSITION, SUBTASK
from stateproc.writers.commit.commit import Commit
from stateproc.writers.file_assignment import Source
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.sorting.external_sort import RUN_BYTES, StagedRun, staged_entries, written_runs
from stateproc.writers.spark.write_options import bootstrap_of, sink_options
from stateproc.writers.write_plan import WriteJob, check_parallelism
from stateproc.writers.write_task import write_targets

_ROWS_PER_PARTITION = 33
"""Bits of a row's number within its partition, as in Spark's monotonically_increasing_id."""


class RunsWritten(WriterCommitMessage):
    """The sorted runs of one task."""

    def __init__(self, runs: list[StagedRun]) -> None:
        self.runs = runs


class PlainWriter(DataSourceArrowWriter):
    """Writes one state from rows in any order; tasks hold ``run_bytes`` of entries at a time."""

    def __init__(self, job: WriteJob, commit: Commit, source: Source, run_bytes: int = RUN_BYTES) -> None:
        self._job, self._commit, self._run_bytes = job, commit, run_bytes
        self._columns, self._encoding = dict(source.columns), source.encoding
        self._keyed, self._broadcast = source.keyed, source.broadcast

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RunsWritten:
        entries = self._encoding(self._rows(iterator))
        runs = RunsWritten(list(written_runs(self._job.staging, entries, self._run_bytes)))
        keep_loaded()
        return runs

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        runs = [run for message in messages if isinstance(message, RunsWritten) for run in message.runs]
        finish(self._job, self._commit, write_targets(self._job, staged_entries(self._job.staging, runs)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit.abort()

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches' columns by their roles; elements of operator state get their position and subtask."""
        context = TaskContext.get()
        position = (context.partitionId() if context is not None else 0) << _ROWS_PER_PARTITION
        for batch in batches:
            columns = {role: batch.column(name) for role, name in self._columns.items()}
            if not self._keyed:
                columns = self._placed(columns, position, batch.num_rows)
                position += batch.num_rows
            yield pa.RecordBatch.from_pydict(columns)

    def _placed(self, columns: dict[str, pa.Array], position: int, n: int) -> dict[str, pa.Array]:
        parallelism = self._job.operators[0].parallelism
        places = np.arange(position, position + n, dtype=np.int64)
        if self._broadcast:
            rows = pa.array(np.repeat(np.arange(n), parallelism))
            columns = {role: column.take(rows) for role, column in columns.items()}
            return {**columns, POSITION: pa.array(np.repeat(places, parallelism)),
                    SUBTASK: pa.array(np.tile(np.arange(parallelism), n))}  # fmt: skip
        if SUBTASK not in columns:
            columns = {**columns, SUBTASK: pa.array(places % parallelism)}
        return {**columns, POSITION: pa.array(places)}


def writer_of(raw: Mapping[str, str], schema: StructType, overwrite: bool) -> PlainWriter:
    """The writer of these options for rows of ``schema``; it has begun to write. Raises SnapshotError."""
    options = sink_options(raw)
    _check_handed_over(schema)
    operator = NewOperator(options.uid, bootstrap_of(options, schema))
    chosen = DEFAULT if options.version is None else release(options.version)
    check_parallelism(options.parallelism, options.max_parallelism, options.uid)
    operator_job = operator.job(chosen, options.parallelism, options.max_parallelism)
    format_ = OutputFormat.of(options.format)
    commit = Commit.begin(options.path, overwrite=overwrite, storage_options=dict(options.storage_options))
    try:
        commit.staging.check_shared()
        job = WriteJob(
            commit.staging, chosen, (operator_job,), format_, options.compressed, options.verify,
            context=LayoutContext(kryo=chosen.kryo), rocksdb=options.rocksdb,
        )  # fmt: skip
        return PlainWriter(job, commit, _only(list(operator.sources(job, 0))))
    except BaseException:
        commit.abort()
        raise


def _check_handed_over(schema: StructType) -> None:
    """Raise InvalidOption for a column that Spark cannot pass to Python; it passes all columns, needed or not."""
    for field in schema.fields:
        if isinstance(field.dataType, YearMonthIntervalType):
            raise InvalidOption(
                f"column '{field.name}' is {field.dataType.simpleString()}, which Spark cannot hand to Python",
                advice=f"leave it out: df.drop('{field.name}'), or make a number of it: "
                f"extract(YEAR FROM {field.name}) * 12 + extract(MONTH FROM {field.name})",
            )


def _only(sources: Sequence[Source]) -> Source:
    (source,) = sources
    return source
