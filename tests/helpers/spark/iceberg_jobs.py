"""Run a job over an Iceberg table and print what it made: `python -m tests.helpers.spark.iceberg_jobs DIR`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import stateproc
from tests.helpers.quick_java import QUICK_SPARK

PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
"""50 MB, for Spark 4.1; there is none for 4.2 yet."""
TABLE = "lake.shop.customers"


def iceberg_session(folder: Path) -> SparkSession:
    """Start a session with Iceberg's jar and a catalog ``lake`` in a folder."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", PACKAGE)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", str(folder / "lake"))
        .config(map=QUICK_SPARK)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def results(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Return what runs say and write: on an empty table, one with rows, unchanged, with more rows, and older ones."""
    spark.sql(f"CREATE TABLE {TABLE} (key BIGINT, value STRING) USING iceberg")

    def run(target: str, **source: Any) -> dict[str, Any]:
        customers = {"format": "iceberg", "path": TABLE, **source}
        operators = [{"uid": "a", "states": [{"kind": "value", "name": "v", "source": "customers"}]}]
        job = {
            "job": "customers",
            "sources": {"customers": customers},
            "operators": operators,
            "target": {"path": str(folder / target), "overwrite": "changed"},
        }
        report = stateproc.run_job(job, spark)
        rows = stateproc.open(report.target, uids=["a"]).state("a", "v").to_arrow().to_pylist()
        values = {str(row["key"]): row["value"] for row in sorted(rows, key=lambda row: row["key"])}
        facts = {name: report.inputs[0].get(name) for name in ("version", "rows", "files")}
        return {"status": report.status, "values": values, "warnings": report.warnings, **facts}

    found = {"empty": run("newest")}
    spark.sql(f"INSERT INTO {TABLE} VALUES (1, 'Ada'), (2, 'Bob')")
    found["first"], found["again"] = run("newest"), run("newest")
    spark.sql(f"INSERT INTO {TABLE} VALUES (3, 'Cy')")
    found["second"] = run("newest")
    found["older"] = run("older", snapshot_id=found["first"]["version"]["snapshot_id"])
    found["by_directory"] = run("directory", path=str(folder / "lake/shop/customers"))
    history = spark.sql(f"SELECT snapshot_id FROM {TABLE}.snapshots ORDER BY committed_at").collect()
    return {**found, "snapshots": [row.snapshot_id for row in history]}


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    print(json.dumps(results(iceberg_session(directory), directory)))
