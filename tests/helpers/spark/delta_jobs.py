"""Run jobs over Delta tables and write what they made: `python -m tests.helpers.spark.delta_jobs DIR`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc.jobs.run_report import RunReport
from tests.helpers.paths import ROOT
from tests.helpers.spark.delta_session import delta_session

_PROFILE = "Pojo com.acme.Profile {name: String, total: Double}"
_WITH_TIER = "Pojo com.acme.Profile {name: String, total: Double, tier: String}"


class DeltaJobs:
    """The cases; each returns JSON values."""

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

    def round_trip(self) -> dict[str, Any]:
        """Snapshot → Delta → corrected, with a new column → savepoint → Delta, with the new column."""
        people = [(1, ("Ada", 2.5)), (2, ("Bob", 1.0))]
        schema = "key BIGINT, value STRUCT<name: STRING, total: DOUBLE>"
        self.spark.createDataFrame(people, schema).write.format("delta").save(str(self.lake / "people"))
        state = {"kind": "value", "name": "profile", "type": _PROFILE}
        made = stateproc.run_job(self._job("made", "people", [state]), self.spark)
        table = str(self.lake / "profiles")
        self._state(made.target).write.format("delta").save(table)
        DeltaTable.forPath(self.spark, table).update(
            "key = 2", {"value": F.expr("named_struct('name', 'Bo', 'total', 3D)")}
        )
        wider = (
            self.spark.read.format("delta")
            .load(table)
            .withColumn("value", F.col("value").withField("tier", F.lit("gold")))
        )
        wider.write.format("delta").mode("overwrite").option("mergeSchema", "true").save(table)
        base = {"base": {"path": made.target, "open": {"uids": ["customers"]}}}
        extended = self._job("corrected", "profiles", [{**state, "type": _WITH_TIER}], extend=True)
        corrected = stateproc.run_job({**extended, **base}, self.spark)
        copy = str(self.lake / "copy")
        self._state(made.target).write.format("delta").save(copy)
        target = DeltaTable.forPath(self.spark, copy).alias("old")
        merged = target.merge(self._state(corrected.target).alias("new"), "old.key = new.key").withSchemaEvolution()
        merged.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        found = self.spark.read.format("delta").load(copy).orderBy("key").toArrow().to_pylist()
        return {
            "made": self.rows(made.target, "profile"),
            "corrected": self.rows(corrected.target, "profile"),
            "copy": {str(row["key"]): row["value"] for row in found},
            "kept": self.rows(corrected.target, "n"),
            "actions": [state["action"] for state in (corrected.plan or {})["operators"][0]["states"]],
        }

    def _job(self, name: str, table: str, states: list[dict[str, Any]], **operator: Any) -> dict[str, Any]:
        numbers = {"kind": "value", "name": "n", "source": "numbers"}
        filled = [{**state, "source": "rows"} for state in states] + ([] if operator else [numbers])
        sources = {
            "rows": {"format": "delta", "path": str(self.lake / table)},
            "numbers": {"sql": "SELECT key, key * 10 AS value FROM rows"},
        }
        return {
            "job": name,
            "sources": sources,
            "operators": [{"uid": "customers", "states": filled, **operator}],
            "target": {"path": str(self.savepoints / name)},
        }  # fmt: skip

    def _state(self, snapshot: str) -> Any:
        reader = self.spark.read.format("savepoint").option("uid", "customers").option("state", "profile")
        return reader.option("classes", "{}").load(snapshot).drop("key_group")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    session = delta_session(folder)
    cases = DeltaJobs(session, folder)
    found = {"bootstrap": cases.bootstrap(), "round trip": cases.round_trip()}
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")
