"""Encode rows of DataFrames as blocks of entries, and combine all blocks by the state file they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from stateproc.errors import InvalidOption
from stateproc.spark.workers import keep_loaded
from stateproc.writers.bootstrap.frame_columns import is_spark
from stateproc.writers.bootstrap.operator_state_encoder import POSITION, element_rows
from stateproc.writers.bootstrap.spark_frames import column_named
from stateproc.writers.formats.entry_batches import FILE
from stateproc.writers.plan.planning import PlannedOperator
from stateproc.writers.rewrite.existing_operator import ExistingOperator, RawCopies
from stateproc.writers.spark.row_batches import (
    FlatColumn,
    FlatField,
    SelectedColumn,
    can_be_padded,
    coalesced,
    flattened,
    is_bounded,
    padded,
    reassembled,
    sliced,
    unpadded,
)
from stateproc.writers.spark.shuffle_blocks import BLOCKS_SCHEMA, block_numbers, packed
from stateproc.writers.write_spec import WriteSpec
from stateproc.writers.write_task import Encoding, Source

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

    Args:
        spark: the session.
        operators: the operators of ``spec.operators``.
        spec: the write.
        rows: counts the rows encoded.

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
