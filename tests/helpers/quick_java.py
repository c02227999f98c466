"""Options of JVMs and of Spark for programs that run for seconds and have few rows."""

from __future__ import annotations

QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m")
"""Half of a short program's CPU time is the second compiler, which pays later, and the threads of the other collector.

Without the second compiler a JVM reserves 48 MB for code, which Delta fills in half a minute of streaming: from then on
it compiles nothing more.
"""
QUICK_SPARK = {
    "spark.driver.extraJavaOptions": " ".join(QUICK_JAVA),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
