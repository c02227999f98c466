"""A Spark session with Delta's jars. They are loaded when the JVM starts, so it needs a process of its own."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.helpers.quick_java import QUICK_SPARK

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"


def delta_session(folder: Path) -> SparkSession:
    """Start a session whose warehouse is in a folder."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", PACKAGE)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config(map=QUICK_SPARK)
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
