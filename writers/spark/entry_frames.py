"""DataFrames of rows as one DataFrame of blocks of entries, put together by the state file they go to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from stateproc.spark.workers import keep_loaded
from stateproc.writers.bootstrap.naming import column_named
from stateproc.writers.bootstrap.operator_state_encoder import POSITION, SUBTASK
from stateproc.writers.file_assignment import Encoding, Source
from stateproc.writers.formats.common.entry_batches import TARGET
from stateproc.writers.spark.arrow_batching import LargeRows, check_small, small, take_all, together
from stateproc.writers.spark.shuffle_blocks import BLOCKS_SCHEMA, UNFINISHED, packed
from stateproc.writers.spark.struct_flattening import Flat, Leaf, Selected, flattened

_DEALT = "dealt"


@dataclass(frozen=True)
class Part:
    """One state of a batch of rows: its columns by role, its encoding, how many copies of all rows it has (or one)."""

    columns: Mapping[str, Flat]
    encoding: Encoding
    copies: int | None = None

    def entries(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """TARGETED entries of the batch's rows."""
        roles, arrays = list(self.columns), [column.rebuilt(batch) for column in self.columns.values()]
        if self.copies is None:
            yield from self.encoding([pa.RecordBatch.from_arrays(arrays, roles)])
            return
        for subtask in range(self.copies):
            whose = pa.array([subtask], pa.int32()).take(pa.array([0] * batch.num_rows, pa.int32()))
            yield from self.encoding([pa.RecordBatch.from_arrays([*arrays, whose], [*roles, SUBTASK])])


@dataclass(frozen=True)
class Parts:
    """For mapInArrow: all states that come of the same rows, batch by batch, in blocks."""

    parts: tuple[Part, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = iter(batches)
        try:
            for block in packed(self._entries(rows)):
                keep_loaded()
                yield block
        except LargeRows:
            yield UNFINISHED
            take_all(rows)

    def _entries(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in together(batches):
            check_small(batch)
            for part in self.parts:
                yield from part.entries(batch)


def entries_of(sources: Iterable[Source], parallelism: int, *, only_small: bool = False) -> Iterator[DataFrame]:
    """The sources' rows as BLOCKS, wherever they are; a DataFrame that fills many states is run once.

    ``only_small``: large rows leave UNFINISHED instead of their entries, see ``handing_over``. Raises LargeRows where
    nothing tells which are large.
    """
    by_frame: dict[int, list[Source]] = {}
    for source in sources:
        by_frame.setdefault(id(source.frame), []).append(source)
    for alike in by_frame.values():
        frame = alike[0].frame
        wanted = dict.fromkeys(column for source in alike for column in source.columns.values())
        columns: list[Selected] = []
        flat: dict[str, Flat] = {}
        chosen = frame.select(*(column_named(column) for column in wanted)).schema.fields
        for number, (column, field) in enumerate(zip(wanted, chosen, strict=True)):
            flat[column], parts = flattened(column_named(column), field.dataType, field.nullable, f"c{number}")
            columns += parts
        if not all(source.keyed for source in alike):
            position = F.monotonically_increasing_id()
            columns += [(position, POSITION, LongType()), (position % F.lit(parallelism), _DEALT, LongType())]
        every = Parts(tuple(_part(source, flat, parallelism) for source in alike))
        if only_small:
            selected = small(frame, columns)
        else:
            selected = frame.select(*(column.alias(name) for column, name, _ in columns))
        yield selected.mapInArrow(every, BLOCKS_SCHEMA)


def _part(source: Source, flat: Mapping[str, Flat], parallelism: int) -> Part:
    columns = {role: flat[column] for role, column in source.columns.items()}
    if source.keyed:
        return Part(columns, source.encoding)
    columns[POSITION] = Leaf(POSITION)
    if source.broadcast:
        return Part(columns, source.encoding, parallelism)
    columns.setdefault(SUBTASK, Leaf(_DEALT))
    return Part(columns, source.encoding)


def put_together(frames: Sequence[DataFrame], n_targets: int) -> DataFrame:
    """All blocks, one partition per target; the tasks that write them sort their entries."""
    return reduce(DataFrame.unionAll, frames).repartitionById(n_targets, TARGET)
