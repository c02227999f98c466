"""Options of JVMs and of Spark for programs that run for seconds and have few rows."""

from __future__ import annotations

import sys
from pathlib import Path

QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m")
"""Half of a short program's CPU time is the second compiler, which pays later, and the threads of the other collector.

Without the second compiler a JVM reserves 48 MB for code, which Delta fills in half a minute of streaming: from then on
it compiles nothing more.
"""
SPARK_CLASSES = Path(sys.prefix) / "spark-classes.jsa"
"""Spark's classes as JVMs map them (class data sharing), which `tests.helpers.spark.class_archive` writes.

It belongs to the jars of one environment, and goes with it. A JVM with other jars, or another Java, does not use it.
"""
_SHARED = (f"-XX:SharedArchiveFile={SPARK_CLASSES}", "-Xshare:auto", "-Xlog:cds*=off", "-Xlog:class+path=off")
QUICK_SPARK_JAVA = (*QUICK_JAVA, *(_SHARED if SPARK_CLASSES.is_file() else ()))
"""Options of the JVMs of drivers, executors, masters and workers."""
QUICK_SPARK = {
    "spark.driver.extraJavaOptions": " ".join(QUICK_SPARK_JAVA),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
