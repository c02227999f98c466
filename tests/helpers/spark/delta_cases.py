"""Run everything that needs Delta in one JVM, and write what it found: `python -m tests.helpers.spark.delta_cases DIR`.

Delta's jars are loaded when the JVM starts, and its start and first transactions are most of what few cases cost.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc.jobs.run_report import RunReport
from tests.helpers.growing_root import GrowingRoot
from tests.helpers.paths import ROOT
from tests.helpers.spark.delta_session import delta_session

# Run jobs over Delta tables.


class DeltaJobs:
    """The cases; each returns JSON values. docs/howto/lake.md shows, and tests, the round trip and schema changes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.lake, self.savepoints = folder / "lake", folder / "savepoints"

    def rows(self, snapshot: str, state: str, uid: str = "customers") -> dict[str, Any]:
        """Return the values of a state by key."""
        found = stateproc.open(snapshot, uids=[uid]).state(uid, state).to_arrow().to_pylist()
        return {str(row["key"]): row["value"] for row in sorted(found, key=lambda row: row["key"])}

    def nightly(self, **variables: Any) -> RunReport:
        """Run the example of a nightly bootstrap."""
        values = {"lake": str(self.lake), "savepoints": str(self.savepoints), "date": "2026-01-31", **variables}
        return stateproc.run_job(ROOT / "examples/nightly-bootstrap.yaml", self.spark, variables=values)

    def bootstrap(self) -> dict[str, Any]:
        """The example, twice on one version of its table, and once on the next."""
        table = str(self.lake / "customers")
        rows = [(1, "Ada", 2.5, True), (2, "Bob", 1.0, True), (3, "Cy", 9.0, False)]
        schema = "id BIGINT, name STRING, total DOUBLE, active BOOLEAN"
        self.spark.createDataFrame(rows, schema).write.format("delta").save(table)
        first, second = self.nightly(), self.nightly()
        DeltaTable.forPath(self.spark, table).update("id = 2", {"total": F.lit(7.5)})
        third = self.nightly()
        views = [view.name for view in self.spark.catalog.listTables() if view.isTemporary]
        name = {"kind": "value", "name": "name", "source": "old", "value": "name"}
        pinned = {
            "job": "pinned",
            "sources": {"old": {"format": "delta", "path": table, "version": 0}},
            "operators": [{"uid": "customers", "key": "id", "states": [name]}],
            "target": {"path": str(self.savepoints / "pinned"), "max_parallelism": 64},
        }  # fmt: skip
        fourth = stateproc.run_job(pinned, self.spark)
        failed = stateproc.CheckFailed("not raised")
        try:
            self.nightly(least=3)
        except stateproc.CheckFailed as error:
            failed = error
        return {
            "statuses": [report.status for report in (first, second, third, fourth)],
            "versions": [report.inputs[0]["version"]["delta_version"] for report in (first, third, fourth)],
            "targets": len({report.target for report in (first, second, third)}),
            "totals": [self.rows(report.target, "total") for report in (first, third)],
            "names": [self.rows(report.target, "name") for report in (first, fourth)],
            "latest": (self.savepoints / "latest").read_text() == f"{third.target}\n",
            "report": json.loads((self.savepoints / "reports/bootstrap-2026-01-31.json").read_text())["status"],
            "views": views,
            "failed": str(failed),
        }

    def features(self) -> dict[str, Any]:
        """Tables with deletion vectors and with mapped columns, read without Spark."""
        found = {}
        for name, setting in {"vectors": "enableDeletionVectors'='true", "mapped": "columnMapping.mode'='name"}.items():
            path = str(self.lake / name)
            columns = "key BIGINT, value STRUCT<n: BIGINT>"
            self.spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta TBLPROPERTIES ('delta.{setting}')")
            rows = self.spark.range(4).selectExpr("id AS key", "named_struct('n', id * 10) AS value").coalesce(1)
            rows.write.format("delta").mode("append").save(path)
            self.spark.sql(f"DELETE FROM delta.`{path}` WHERE key = 2")
            values = {"sql": "SELECT key, value.n AS value FROM rows"}
            job = {
                "job": name,
                "engine": "local",
                "sources": {"rows": {"format": "delta", "path": path}, "values": values},
                "operators": [{"uid": "customers", "states": [{"kind": "value", "name": "n", "source": "values"}]}],
                "target": {"path": str(self.savepoints / name)},
            }
            found[name] = self.rows(stateproc.run_job(job).target, "n")
        return found


# Merge feeds into Delta tables.


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


def main(folder: Path) -> None:
    """Run all cases, those of jobs and those of copies in folders of their own."""
    spark = delta_session(folder)
    jobs, copies = DeltaJobs(spark, folder / "jobs"), Copies(spark, folder / "copies")
    cases = (jobs.bootstrap, jobs.features, copies.chain, copies.merged, copies.refused)
    found = {case.__name__: case() for case in cases}
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
