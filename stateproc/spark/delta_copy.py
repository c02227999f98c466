"""Keep a Delta table that is a copy of a state: merge the batches of a change feed into it, each commit once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stateproc.diff.change_rows import CHANGE_TYPE, DELETE, KEY_COLUMNS, UPDATE_BEFORE
from stateproc.errors import InvalidOption, package_for
from stateproc.feed.feed_rows import COMMIT_VERSION
from stateproc.feed.streams import TRUNCATE
from stateproc.row_formats.case_collisions import colliding_names, java_fold
from stateproc.spark.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRANSACTION = "stateproc.merge_changes"
"""Delta's transaction identifier (txnAppId) under which the newest merged commit is recorded in the table's log."""
_SETTING = "spark.databricks.delta.write."
_WINDOW_COLUMNS = ("window_start", "window_end")
_ROW = "_stateproc_row"


@dataclass(frozen=True)
class ChangeMerge:
    """A function for ``foreachBatch``; see `merge_changes`.

    Attributes:
        target: The table: a path, the name of a table, or a DeltaTable.
        keys: The columns that identify a row; None: those that do in a feed.
        starting_checkpoint: The checkpoint whose state the table has already; None: it is made by the first batch.
    """

    target: Any
    keys: tuple[str, ...] | None = None
    starting_checkpoint: int | None = None

    def __call__(self, batch: DataFrame, batch_id: int = -1) -> None:
        """Merge the rows of a batch.

        Raises:
            InvalidOption: The rows are not those of a change feed, the columns that identify a row are not known, or
                the table has rows that this stream did not write.
        """
        keys = self._keys(batch)
        batch.persist()
        try:
            versions = _versions(batch)
            if versions.newest is None:
                return
            table = self._table(batch)
            if batch_id == 0 and self.starting_checkpoint is None:
                _check_beginning(table.toDF(), versions)
            _merge(table, batch, keys, versions)
        finally:
            batch.unpersist()

    def _keys(self, batch: DataFrame) -> tuple[str, ...]:
        missing = [name for name in (CHANGE_TYPE, COMMIT_VERSION) if name not in batch.columns]
        if missing:
            raise InvalidOption(
                f"the batch has no column {missing[0]}: it is not a change feed",
                advice='read it with option("readChangeFeed", "true")',
            )
        keys = self.keys or tuple(name for name in (*KEY_COLUMNS, *_WINDOW_COLUMNS) if name in batch.columns)
        unknown = [name for name in keys if name not in batch.columns]
        if unknown or not keys:
            what = f"the feed has no column {unknown[0]}" if unknown else "the rows of this state have no key"
            columns = [name for name in batch.columns if not name.startswith("_")]
            raise InvalidOption(
                what, advice=f"give keys=[…], the columns that identify a row; of: {', '.join(columns)}"
            )
        return keys

    def _table(self, batch: DataFrame) -> Any:
        """Return the table, which is created where there is none."""
        with package_for("a copy in Delta"):
            from delta.tables import DeltaTable  # Lazy: optional dependency.

        if isinstance(self.target, DeltaTable):
            return self.target
        spark, target = batch.sparkSession, str(self.target)
        unclear = colliding_names(arrow_schema(batch.schema), java_fold)
        if unclear:
            raise InvalidOption(
                f"the columns or fields {', '.join(unclear)} differ by case only, which Delta tables cannot have",
                advice="rename them in the batch, or write it to another format",
            )
        is_path = "/" in target or "\\" in target
        builder = DeltaTable.createIfNotExists(spark)
        builder = builder.location(target) if is_path else builder.tableName(target)
        for field in batch.drop(CHANGE_TYPE).schema.fields:
            builder = builder.addColumn(field.name, field.dataType)
        builder.execute()
        return DeltaTable.forPath(spark, target) if is_path else DeltaTable.forName(spark, target)


def merge_changes(
    table: Any, keys: Sequence[str] | None = None, *, starting_checkpoint: int | None = None
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that keeps a Delta table a copy of a state.

    ``feed.writeStream.foreachBatch(stateproc.merge_changes("/lake/orders"))`` inserts, updates and deletes the rows of
    a stream with ``readChangeFeed``. Of several changes of a row in one batch the last counts. The table has the
    columns of the state, ``_commit_version`` and ``_commit_timestamp``: those of the last change of each row.

    Each commit is merged once, also when Spark repeats a batch: the newest merged ``_commit_version`` is recorded in
    Delta's log together with the rows, and a row is replaced only by one of a newer commit. Rows of other streams in
    the table are not supported: one table is the copy of one state.

    Args:
        table: The path of the table or its name, which is created by the first batch where it does not exist, or a
            ``DeltaTable``.
        keys: The columns that identify a row; default those of key, namespace, map key, list index and timers.
        starting_checkpoint: The checkpoint of which the table is a copy already: the stream's ``startingCheckpoint``.

    Raises:
        InvalidOption: Of the returned function: a batch is no change feed, its rows have no key, or the table has rows
            of an earlier stream.
    """
    return ChangeMerge(table, None if keys is None else tuple(keys), starting_checkpoint)


@dataclass(frozen=True)
class _Versions:
    """The commits of a batch.

    Attributes:
        oldest: The first that has rows; None without rows.
        newest: The last that has rows.
        reset: The last that voids all before; None if there is none.
    """

    oldest: int | None
    newest: int | None
    reset: int | None


def _versions(batch: DataFrame) -> _Versions:
    from pyspark.sql import functions as F

    version = F.col(COMMIT_VERSION)
    truncated = F.when(F.col(CHANGE_TYPE) == TRUNCATE, version)
    (row,) = batch.agg(F.min(version), F.max(version), F.max(truncated)).collect()
    return _Versions(*row)


def _check_beginning(rows: DataFrame, versions: _Versions) -> None:
    """Raise InvalidOption if the first batch of a stream meets rows of older commits: some may have been deleted."""
    from pyspark.sql import functions as F

    if versions.reset is not None:
        return
    (row,) = rows.agg(F.max(COMMIT_VERSION)).collect()
    if row[0] is not None and row[0] < versions.oldest:
        where = f'option("startingCheckpoint", "{row[0]}") and merge_changes(…, starting_checkpoint={row[0]})'
        raise InvalidOption(
            f"the table has rows of checkpoint {row[0]}, and this stream begins at {versions.oldest}",
            advice="give the stream the checkpointLocation it had, or a new table; or let it begin where the table "
            f"ends: {where}",
        )


def _merge(table: Any, batch: DataFrame, keys: Sequence[str], versions: _Versions) -> None:
    """Merge the last change of each row, and delete what a reset voids, in one transaction."""
    source = _last_changes(batch, keys, versions.reset)
    columns = [name for name in batch.columns if name != CHANGE_TYPE]
    values = {name: f"source.`{name}`" for name in columns}
    newer = f"target.{COMMIT_VERSION} < source.{COMMIT_VERSION}"
    is_deleted = f"source.{CHANGE_TYPE} = '{DELETE}'"
    merge = (
        table.alias("target")
        .merge(source.alias("source"), " AND ".join(f"target.`{name}` <=> source.`{name}`" for name in keys))
        .withSchemaEvolution()
        .whenMatchedDelete(f"{newer} AND {is_deleted}")
        .whenMatchedUpdate(newer, values)
        .whenNotMatchedInsert(f"NOT {is_deleted}", values)
    )
    if versions.reset is not None:
        merge = merge.whenNotMatchedBySourceDelete(f"target.{COMMIT_VERSION} < {versions.reset}")
    with _transaction(batch.sparkSession, versions.newest):
        merge.execute()


def _last_changes(batch: DataFrame, keys: Sequence[str], reset: int | None) -> DataFrame:
    """Return the last change of each row; within a commit a row that is deleted and inserted is inserted."""
    from pyspark.sql import functions as F

    kinds = F.col(CHANGE_TYPE)
    rows = batch.where(~kinds.isin(UPDATE_BEFORE, TRUNCATE))
    if reset is not None:
        rows = rows.where(F.col(COMMIT_VERSION) >= reset)
    order = F.struct(F.col(COMMIT_VERSION), (kinds != DELETE).cast("int"))
    identity = [F.col(f"`{name}`") for name in keys]
    last = F.max_by(F.struct(*[F.col(f"`{name}`") for name in batch.columns]), order).alias(_ROW)
    return rows.groupBy(*identity).agg(last).select(f"{_ROW}.*")


@contextmanager
def _transaction(spark: SparkSession, version: int | None) -> Iterator[None]:
    """Have Delta record the version with what is written, and write nothing if it has recorded it or a later one."""
    settings = {f"{_SETTING}txnAppId": TRANSACTION, f"{_SETTING}txnVersion": str(version)}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
