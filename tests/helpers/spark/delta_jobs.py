"""Run jobs over Delta tables, for `tests.helpers.spark.delta_cases`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import stateproc
from stateproc.jobs.run_report import RunReport
from tests.helpers.paths import ROOT


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
