"""Spark's engine: shuffle, sort and write entries in its tasks."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TextIO

import pyarrow as pa
import pyspark
from pyspark import Accumulator, StatusTracker
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from stateproc.errors import InvalidOption, package_for
from stateproc.metadata.stream_handles import ByteStreamHandle, RelativeFileHandle
from stateproc.spark.workers import check_executors, check_worker_python, described_jobs, keep_loaded
from stateproc.storage.concurrency import map_in_order
from stateproc.writers.bootstrap.frame_columns import is_spark
from stateproc.writers.bootstrap.operator_state_encoder import POSITION, element_rows
from stateproc.writers.bootstrap.spark_frames import column_named
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.entry_batches import FILE
from stateproc.writers.plan.planning import PlannedOperator
from stateproc.writers.plan.savepoint_plan import SavepointPlan
from stateproc.writers.rewrite.edited_splits import RawCopies
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.file_copy import CopyPlan
from stateproc.writers.sorting.external_sort import sorted_entries
from stateproc.writers.spark.row_batches import (
    FlatColumn,
    FlatField,
    SelectedColumn,
    batches_limited,
    can_be_padded,
    coalesced,
    flattened,
    is_bounded,
    padded,
    reassembled,
    sliced,
    unpadded,
)
from stateproc.writers.spark.shuffle_blocks import BLOCKS_SCHEMA, block_numbers, packed, unpacked
from stateproc.writers.write_snapshot import WrittenSnapshot, finish
from stateproc.writers.write_spec import WriteSpec
from stateproc.writers.write_task import Encoding, Source, WrittenFile, reporting_thread, write_state_files

# Encode rows of DataFrames as blocks of entries, and combine all blocks by the state file they belong to.


_TASK_BYTES = 64 << 20
"""Stored bytes that one task copies."""


@dataclass(frozen=True)
class EntryBlocks:
    """Blocks of entries as a DataFrame (BLOCKS). ``bounded``: the rows they are encoded from have bounded bytes."""

    frame: DataFrame
    bounded: bool


@dataclass(frozen=True)
class StateEncoding:
    """One state's columns in a batch of flat rows, by their role, and its encoding.

    ``parallelism``: for operator state, whose rows without SUBTASK are assigned to subtasks in turn; None for keyed
    state. ``broadcast``: every subtask gets all rows.
    """

    columns: Mapping[str, FlatColumn]
    encoding: Encoding
    parallelism: int | None = None
    broadcast: bool = False

    def entries(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """FILE_ENTRIES of the batch's rows."""
        roles, arrays = list(self.columns), [column.rebuilt(batch) for column in self.columns.values()]
        if self.parallelism is None:
            yield from self.encoding([pa.RecordBatch.from_arrays(arrays, roles)])
            return
        columns = dict(zip(roles, arrays, strict=True))
        yield from self.encoding(element_rows(columns, self.parallelism, broadcast=self.broadcast))


@dataclass(frozen=True)
class BlockEncoder:
    """For mapInArrow: encodes rows of `sliced` or `padded` into blocks of entries of all the states they fill."""

    states: tuple[StateEncoding, ...]
    frame: int
    """The DataFrame's position among those of the write."""
    rows: Accumulator[int] | None = None
    """Counts the rows encoded, for `progress`."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in packed(self._entries(batches), block_numbers(self.frame)):
            keep_loaded()
            yield block

    def _entries(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in coalesced(unpadded(reassembled(batches))):
            for state in self.states:
                yield from state.entries(batch)
            if self.rows is not None:
                self.rows.add(batch.num_rows)


@dataclass(frozen=True)
class RawCopier:
    """For mapInArrow: reads the raw copies whose numbers are the rows (``id``), as blocks of entries.

    ``frame``: the position of this DataFrame among those of the write.
    """

    copies: RawCopies
    frame: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column("id").to_pylist())
        entries = (entries for number in numbers for entries in self.copies.read(number))
        return packed(entries, block_numbers(self.frame))


def entry_blocks(
    spark: SparkSession,
    operators: Sequence[PlannedOperator],
    spec: WriteSpec,
    rows: Accumulator[int] | None = None,
) -> list[EntryBlocks]:
    """The entries of all operators, as DataFrames that each evaluate one DataFrame of the user once.

    Raises:
        InvalidOption: a state's rows are no DataFrame of Spark.
    """
    blocks: list[EntryBlocks] = []
    sources: list[Source] = []
    for index, item in enumerate(operators):
        if isinstance(item.operator, ExistingOperator):
            copies = item.operator.raw_copies(spec, index)
            if copies is not None and len(copies):
                blocks.append(EntryBlocks(_copied(spark, copies, len(blocks)), bounded=True))
        sources += item.sources
    by_frame: dict[int, list[Source]] = {}
    for source in sources:
        if not is_spark(source.frame):
            raise InvalidOption(
                f"rows of a state are a {type(source.frame).__name__}, which Spark does not read",
                advice="make a DataFrame of them: spark.createDataFrame(…); or write without a session: "
                "SavepointWriter.new_savepoint(None)",
            )
        by_frame.setdefault(id(source.frame), []).append(source)
    frames = enumerate(by_frame.values(), len(blocks))
    return blocks + [_encoded(alike, frame, rows) for frame, alike in frames]


def _copied(spark: SparkSession, copies: RawCopies, frame: int) -> DataFrame:
    tasks = min(len(copies), max(spark.sparkContext.defaultParallelism, -(-copies.bytes // _TASK_BYTES)))
    return spark.range(0, len(copies), 1, tasks).mapInArrow(RawCopier(copies, frame), BLOCKS_SCHEMA)


def _encoded(sources: Sequence[Source], position: int, counter: Accumulator[int] | None) -> EntryBlocks:
    """The blocks of all states that the same DataFrame fills; ``position``: among those of the write."""
    frame = sources[0].frame
    wanted = dict.fromkeys(column for source in sources for column in source.columns.values())
    columns: list[SelectedColumn] = []
    flat: dict[str, FlatColumn] = {}
    fields = frame.select(*(column_named(column) for column in wanted)).schema.fields
    for number, (column, field) in enumerate(zip(wanted, fields, strict=True)):
        flat[column], parts = flattened(column_named(column), field.dataType, field.nullable, f"c{number}")
        columns += parts
    if not all(source.keyed for source in sources):
        columns.append((F.monotonically_increasing_id(), POSITION, LongType()))
    selected = frame.select(*(column.alias(name) for column, name, _ in columns))
    encoder = BlockEncoder(tuple(_state_encoding(source, flat) for source in sources), position, counter)
    rows, bounded = _bounded(selected)
    return EntryBlocks(rows.mapInArrow(encoder, BLOCKS_SCHEMA), bounded)


def _bounded(frame: DataFrame) -> tuple[DataFrame, bool]:
    """The rows such that a number of them has bounded bytes, and whether they could be bounded."""
    if is_bounded(frame.schema):
        return sliced(frame), True
    return (padded(frame), True) if can_be_padded(frame.schema) else (frame, False)


def _state_encoding(source: Source, flat: Mapping[str, FlatColumn]) -> StateEncoding:
    columns = {role: flat[column] for role, column in source.columns.items()}
    if source.keyed:
        return StateEncoding(columns, source.encoding)
    columns[POSITION] = FlatField(POSITION)
    return StateEncoding(columns, source.encoding, source.parallelism, source.broadcast)


def by_file(blocks: Sequence[EntryBlocks], n_files: int) -> DataFrame:
    """All blocks, one partition per state file; the tasks that write them sort their entries."""
    return reduce(DataFrame.unionAll, [item.frame for item in blocks]).repartitionById(n_files, FILE)


# Write shuffled entries as a snapshot: tasks write state files, the driver completes the snapshot.
#
# Tasks return what they wrote as rows of a DataFrame. For a data source's writer Spark would start Python workers to
# create the source, the writer and the commit, one after another, which takes a third of a second.

_WRITTEN = pa.schema([pa.field("written", pa.binary(), nullable=False)])
_WRITTEN_SCHEMA = "written binary"


@dataclass(frozen=True)
class EntriesWriter:
    """For mapInArrow: writes partitions of blocks of entries, each state file in one partition."""

    spec: WriteSpec

    def __call__(self, blocks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark's own results of Python workers are pickled, too: this crosses no other boundary of trust.
        answer = pickle.dumps(self.write(blocks))
        yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], schema=_WRITTEN)

    def write(self, blocks: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
        """Write the files that these blocks belong to. Raises WriteFailed, DuplicateKey, InvalidEntries."""
        written = write_state_files(self.spec, sorted_entries(unpacked(blocks)))
        keep_loaded()
        return written


def save(entries: DataFrame, spec: WriteSpec, commit: Commit) -> WrittenSnapshot:
    """Write the entries (BLOCKS, one partition per state file) and complete the snapshot.

    Spark returns one answer of tasks that run more than once; the commit removes the files of the others.
    """
    answers = [answer.written for answer in entries.mapInArrow(EntriesWriter(spec), _WRITTEN_SCHEMA).collect()]
    return finish(spec, commit, [item for answer in answers for item in pickle.loads(answer)])


# Report the progress of a write on a terminal.

_FIRST_SECONDS, _MOST_SECONDS = 5.0, 60.0
"""When the first line is printed, and the longest time between two; the time doubles until then."""
_GROUP = "spark.jobGroup.id"
"""The property in which Spark keeps what setJobGroup sets."""


@contextmanager
def reported_progress(spark: SparkSession, out: TextIO | None = None) -> Iterator[Accumulator[int] | None]:
    """Print the rows encoded, their rate and the tasks completed while the context lasts; a short write prints nothing.

    Args:
        spark: the session that runs the write, in this thread.
        out: where to print, by default standard error. Nothing is printed unless it is a terminal.

    Yields:
        What tasks add their rows to; None if nothing is printed.
    """
    out = sys.stderr if out is None else out
    if not out.isatty():
        yield None
        return
    context = spark.sparkContext
    rows, group, tracker = context.accumulator(0), context.getLocalProperty(_GROUP), context.statusTracker()
    with reporting_thread(lambda ended: _report(tracker, group, rows, ended, out)):
        yield rows


def _report(
    tracker: StatusTracker, group: str | None, rows: Accumulator[int], ended: threading.Event, out: TextIO
) -> None:
    begin, seconds = time.monotonic(), _FIRST_SECONDS
    while not ended.wait(seconds):
        completed, tasks = _tasks(tracker, group)
        rate = rows.value / (time.monotonic() - begin)
        print(
            f"stateproc: {completed} of {tasks} tasks, {rows.value:,} rows encoded, {rate:,.0f} rows/s",
            file=out,
            flush=True,
        )
        seconds = min(2 * seconds, _MOST_SECONDS)


def _tasks(tracker: StatusTracker, group: str | None) -> tuple[int, int]:
    """(completed tasks, all tasks) of the stages of the group's running jobs."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    running = [job for job in jobs if job is not None and job.status == "RUNNING"]
    stages = [tracker.getStageInfo(stage) for job in running for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


# Keep DataFrames from which several others are derived, so that a write evaluates each of them once.


@contextmanager
def persisted(frames: Iterable[DataFrame]) -> Iterator[None]:
    """Persist ``frames`` in memory and on disk while the context lasts.

    Spark then computes each partition once, for all DataFrames derived from them, also those that exist already. A
    DataFrame that the user has persisted stays as it is.
    """
    with ExitStack() as stack:
        for frame in frames:
            level = frame.storageLevel
            if not (level.useMemory or level.useDisk):
                stack.callback(frame.persist().unpersist)
        yield


_DRIVER_COPY_BYTES = 1 << 30
"""Up to this size files are copied by the driver: starting Spark's tasks takes as long."""
_COPY_THREADS = 4


class SparkEngine:
    """Writes savepoints with the tasks of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    name = "spark"

    @property
    def default_parallelism(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def check(self) -> None:
        """Raise InvalidOption for a release or session that cannot write, or workers without this package.

        MissingPackage: pandas is not installed.
        """
        _check_release()
        with package_for("writing with Spark"):
            import pandas  # noqa: F401  # Lazy: start-up. PySpark's mapInArrow asks for it.
        _check_classic(self._spark)
        check_worker_python(self._spark)
        check_executors(self._spark)

    def check_space(self, plan: SavepointPlan) -> None:
        """Spark spills to the local directories of its executors, and reports it if one is full."""

    def described(self, description: str) -> AbstractContextManager[None]:
        return described_jobs(self._spark, description)

    def copy_files(self, plan: CopyPlan, staging: Staging) -> list[RelativeFileHandle | ByteStreamHandle]:
        # On one machine, Spark's tasks would copy no faster.
        context = self._spark.sparkContext
        if plan.bytes <= _DRIVER_COPY_BYTES or str(context.master).startswith("local"):
            return list(map_in_order(lambda copy: copy.run(staging), plan.copies, _COPY_THREADS))
        copies = context.parallelize(plan.copies, len(plan.copies))
        return list(copies.map(lambda copy: copy.run(staging)).collect())

    def write_entries(self, operators: Sequence[PlannedOperator], spec: WriteSpec, commit: Commit) -> WrittenSnapshot:
        spark = self._spark
        with reported_progress(spark) as rows:
            blocks = entry_blocks(spark, operators, spec, rows)
            if not blocks:
                return finish(spec, commit, [])
            commit.staging.check_shared()
            shared = [frame for item in operators for frame in item.operator.shared_frames]
            with persisted(shared), batches_limited(spark, by_rows=all(item.bounded for item in blocks)):
                return save(by_file(blocks, len(spec.state_files)), spec, commit)


def _check_release() -> None:
    """Raise InvalidOption for a release without a shuffle to partitions of given numbers."""
    if not hasattr(DataFrame, "repartitionById"):
        raise InvalidOption(
            f"SavepointWriter needs Spark 4.1 or later to write with its tasks; this is PySpark {pyspark.__version__}",
            advice="install pyspark>=4.1; or write in this process, without a session: "
            "SavepointWriter.new_savepoint(None), from Arrow data",
        )


def _check_classic(spark: SparkSession) -> None:
    """Raise InvalidOption for a session of Spark Connect, which has no Spark context on this side."""
    if not isinstance(spark, SparkSession):
        raise InvalidOption(
            "SavepointWriter cannot write through a session of Spark Connect: it copies files from the driver program",
            advice="use a classic session (SparkSession.builder.master(…)), or, for one state, "
            "df.write.format('savepoint')",
        )
