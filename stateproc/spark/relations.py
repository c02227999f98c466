"""Turn options into a relation: the rows of a state, or a metadata table."""

from __future__ import annotations

import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.errors import InvalidOption, located, package_for
from stateproc.feed.feed_rows import FeedQuery
from stateproc.model.operator import Operator
from stateproc.model.operator_state import opened_state
from stateproc.model.rocksdb_tables import TableSplit
from stateproc.model.schema_merging import aligned, narrowed, portions
from stateproc.model.state import State
from stateproc.options.definition import option_texts
from stateproc.readers.splits import Split
from stateproc.snapshot.metadata_tables import METADATA_TABLES
from stateproc.snapshot.opening import open
from stateproc.snapshot.selection import select_state
from stateproc.snapshot.snapshot import Snapshot
from stateproc.spark.options import SourceOptions, source_options
from stateproc.spark.types import arrow_schema, spark_schema
from stateproc.spark.workers import check_executors, check_worker_python, keep_loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_SPLIT = 100_000
Pruning = Callable[[State], "set[int] | None"]


class Relation(ABC):
    """A table: its columns and splits.

    Attributes:
        operator: The operator's name for errors.
        name: The state's name for errors.
    """

    operator: str | None = None
    name: str | None = None

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns. Raises SnapshotError."""

    @abstractmethod
    def splits(
        self, pruning: Pruning, keys: Sequence[Any] | None = None, columns: Collection[str] | None = None
    ) -> list[Split]:
        """Divide the rows into splits.

        Args:
            pruning: Returns the key groups of a state that can contain rows; None for all.
            keys: Only rows with these keys are needed.
            columns: Only these columns are needed.

        Raises:
            SnapshotError: The snapshot cannot be read.
        """


class StateRelation(Relation):
    """The rows of a state."""

    def __init__(self, state: State, options: SourceOptions) -> None:
        self.operator = state.operator.uid_or_id
        self.name = state.name
        self._state = state
        self._options = options

    def schema(self) -> pa.Schema:
        return self._state.schema(flatten=self._options.flatten)

    def splits(
        self, pruning: Pruning, keys: Sequence[Any] | None = None, columns: Collection[str] | None = None
    ) -> list[Split]:
        options, chosen = self._options, pruning(self._state)
        for groups in (options.key_groups, self._of_keys()):
            if groups is not None:
                chosen = set(groups) if chosen is None else chosen & groups
        return self._state.splits(
            flatten=options.flatten,
            key_groups=chosen,
            split_bytes=options.split_bytes,
            keys=options.keys if keys is None else keys,
            columns=columns,
        )

    def _of_keys(self) -> set[int] | None:
        keys = self._options.keys
        return None if keys is None else self._state.key_groups_of(keys)


class CatalogRelation(Relation):
    """A metadata table of the snapshot, or of one of its operators."""

    def __init__(self, name: str, snapshot: Snapshot, operators: Sequence[Operator] | None) -> None:
        self.name = name
        self._snapshot = snapshot
        self._operators = operators

    def schema(self) -> pa.Schema:
        return METADATA_TABLES[self.name or ""].schema

    def splits(
        self, pruning: Pruning, keys: Sequence[Any] | None = None, columns: Collection[str] | None = None
    ) -> list[Split]:
        table = METADATA_TABLES[self.name or ""].table(self._snapshot, self._operators)
        return [TableSplit([batch]) for batch in table.to_batches(max_chunksize=ROWS_PER_SPLIT)]


def relation(options: SourceOptions) -> Relation:
    """Open the snapshot and select what the options specify. Raises SnapshotError."""
    if options.feed is not None:
        return StateRelation(_feed(options, options.feed), options)
    snapshot, selection = open(options.path, **options.opening), options.selection
    operator = None if selection.operator is None else snapshot.operator(selection.operator)
    if operator is None or selection.table is not None:
        return CatalogRelation(selection.table or "states", snapshot, None if operator is None else [operator])
    state = select_state(operator, selection)
    return StateRelation(state if options.raw else opened_state(state), options)


def _feed(options: SourceOptions, query: FeedQuery) -> State:
    # Lazy: start-up. Reading a snapshot compares nothing.
    from stateproc.feed.changes import feed_of_root, open_feed, state_feed

    if options.roots:
        ids = (query.starting_checkpoint, query.ending_checkpoint)
        found = feed_of_root(options.all_roots, *ids, query.mode, options.opening)
        return state_feed(found, options.selection, query.form)
    start, path = options.starting_snapshot, options.path
    old, new = (path, None) if start is None else (start, path)
    return open_feed(old, new, options.selection, query, options.opening)


# Read what options select as a DataFrame without Spark's data sources in Python, which Spark has since 4.0.

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
        with located(operator=self.operator, state=self.state):
            for batch in pickle.loads(pickled).read():
                keep_loaded()
                yield from portions(aligned(batch, self.schema))


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
    with package_for("reading splits in tasks of mapInArrow"):
        import pandas  # noqa: F401  # Lazy: start-up. PySpark asks for it.
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
