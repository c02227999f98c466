"""Merge feeds into Delta tables, for `tests.helpers.spark.delta_cases`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import stateproc
from tests.helpers.growing_root import GrowingRoot

SCHEMA = "key STRING, value STRUCT<n: INT>, _change_type STRING, _commit_version BIGINT, _commit_timestamp TIMESTAMP"


class Copies:
    """The cases; each returns JSON values."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def followed(self, state: str, path: str, **options: str) -> None:
        """Merge what is new below a root, with the stream's checkpoint beside the table."""
        frame = self.spark.readStream.format("savepoint").options(uid="chain", state=state, readChangeFeed="true")
        (
            frame.options(**options)
            .load(path)
            .writeStream.foreachBatch(stateproc.merge_changes(self.table(state)))
            .option("checkpointLocation", f"{self.table(state)}-checkpoint")
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    def table(self, name: str) -> str:
        return str(self.folder / f"table-{name}")

    def contents(self, name: str) -> list[str]:
        """Return the rows as text, without those columns that say when they changed."""
        frame = self.spark.read.format("delta").load(self.table(name))
        kept = frame.drop("key_group", "_commit_version", "_commit_timestamp")
        return sorted(repr(row) for row in kept.toArrow().to_pylist())

    def commits(self, name: str) -> int:
        """Return how many transactions the table has."""
        return int(DeltaTable.forPath(self.spark, self.table(name)).history().count())

    def changes(self, *rows: tuple[Any, ...]) -> DataFrame:
        """Return rows of a feed: key, number, type and version of the change."""
        made = [(key, None if n is None else (n,), kind, version, None) for key, n, kind, version in rows]
        return self.spark.createDataFrame(made, SCHEMA)

    def chain(self) -> dict[str, Any]:
        """A chain that is followed in several runs, in one of which checkpoints are missing.

        How batches are limited, and what follows a reset, does not depend on the kind of state: the map has fewer runs.
        """
        root = GrowingRoot(self.folder / "root")
        found: dict[str, Any] = {}
        for state in ("totals", "entries"):
            root.add(*[version for version in (1, 2) if not root.checkpoint(version).exists()])
            self.followed(state, root.path)
        root.add(3, 4, 5)
        for state, limit in (("totals", {"maxCheckpointsPerTrigger": "1"}), ("entries", {})):
            self.followed(state, root.path, **limit)
            found[f"{state} at 5"] = self.contents(state) == _expected(root, 5, state)
        root.add(6, 7)
        root.delete([1, 2, 3, 4, 5])
        for state in ("totals", "entries"):
            self.followed(state, root.path, failOnDataLoss="false")
            found[f"{state} at 7"] = self.contents(state) == _expected(root, 7, state)
            found[f"{state} rows"] = len(self.contents(state))
        root.add(8, 9)
        self.followed("totals", root.path)
        return {**found, "totals at 9": self.contents("totals") == _expected(root, 9, "totals")}

    def merged(self) -> dict[str, Any]:
        """Changes of the same rows in one batch, and batches that are repeated."""
        merge = stateproc.merge_changes(self.table("merged"))
        first = self.changes(("a", 1, "insert", 1), ("b", 1, "insert", 1), ("c", 1, "insert", 1))
        merge(first, 0)
        second = self.changes(
            ("a", 1, "update_preimage", 2),
            ("a", 2, "update_postimage", 2),
            ("a", 2, "update_preimage", 3),
            ("a", 3, "update_postimage", 3),
            ("b", 1, "delete", 2),
            ("c", 1, "delete", 2),
            ("c", 9, "insert", 3),
            ("d", 1, "insert", 2),
            ("d", 1, "delete", 3),
        )
        merge(second, 1)
        found: dict[str, Any] = {"rows": self.numbers("merged"), "commits": self.commits("merged")}
        merge(second, 1)
        merge(first, 0)
        found["repeated"] = [self.numbers("merged"), self.commits("merged")]
        merge(self.changes(), 2)
        found["empty"] = self.commits("merged")
        merge(self.changes((None, None, "truncate", 5), ("c", 7, "insert", 5), ("e", 1, "insert", 6)), 3)
        found["reset"] = self.numbers("merged")
        settings = self.spark.conf.get("spark.databricks.delta.write.txnVersion", "-1")
        return {**found, "setting": settings}

    def numbers(self, name: str) -> dict[str, list[int]]:
        rows = self.spark.read.format("delta").load(self.table(name)).collect()
        return {row["key"]: [row["value"]["n"], row["_commit_version"]] for row in rows}

    def refused(self) -> dict[str, Any]:
        """What is refused, and what is accepted instead."""
        merge = stateproc.merge_changes(self.table("refused"))
        merge(self.changes(("a", 1, "insert", 4)), 0)
        later = self.changes(("b", 1, "insert", 8))
        found = {"another stream": _error(lambda: merge(later, 0))}
        stateproc.merge_changes(self.table("refused"), starting_checkpoint=4)(later, 0)
        found["continued"] = self.numbers("refused")
        found["no feed"] = _error(lambda: merge(later.drop("_change_type"), 1))
        found["no key"] = _error(lambda: merge(later.drop("key"), 1))
        other = stateproc.merge_changes(self.table("refused"), keys=["kee"])
        return {**found, "unknown key": _error(lambda: other(later, 1))}


def _error(run: Any) -> str:
    try:
        run()
    except stateproc.InvalidOption as error:
        return str(error)
    return "accepted"


def _expected(root: GrowingRoot, version: int, state: str) -> list[str]:
    feed = stateproc.changes(str(root.checkpoint(version)), uid="chain", state=state).to_arrow()
    kept = [name for name in feed.column_names if not name.startswith("_") and name != "key_group"]
    return sorted(repr(row) for row in feed.select(kept).to_pylist())
