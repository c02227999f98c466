"""Write the archive of Spark's classes that the JVMs of tests map: a small program takes 6 s of CPU instead of 9.7.

``python -m tests.helpers.spark.class_archive`` runs queries such as tests run; the JVM archives the classes that it has
loaded when it ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.helpers.paths import DEMO, python_environment
from tests.helpers.quick_java import QUICK_JAVA, QUICK_SPARK, SPARK_CLASSES

SECONDS = 300


def main() -> None:
    """Write the archive, or nothing where Java cannot."""
    os.environ.update(python_environment({"PYSPARK_PYTHON": sys.executable}))
    with tempfile.TemporaryDirectory(dir=SPARK_CLASSES.parent) as directory:
        folder = Path(directory)
        fresh = folder / SPARK_CLASSES.name
        java = (*QUICK_JAVA, f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:cds*=off")
        conf = SparkConf().setMaster("local[2]").setAll(list(QUICK_SPARK.items()))
        conf.set("spark.driver.extraJavaOptions", " ".join(java)).set("spark.driver.memory", "1g")
        gateway = launch_gateway(conf)
        _run_queries(SparkSession(SparkContext(conf=conf, gateway=gateway)), folder)
        gateway.proc.stdin.close()
        gateway.proc.wait(SECONDS)
        if fresh.is_file():
            fresh.replace(SPARK_CLASSES)
        else:
            print("Java has not archived Spark's classes: tests run without", file=sys.stderr)


def _run_queries(spark: SparkSession, folder: Path) -> None:
    spark.sparkContext.setLogLevel("ERROR")
    numbers = spark.range(1000).withColumn("group", F.col("id") % 3)
    numbers.groupBy("group").count().orderBy("group").collect()
    numbers.join(numbers.groupBy("group").agg(F.max("id")), "group").collect()
    numbers.mapInArrow(lambda batches: batches, "id long, group long").write.parquet(str(folder / "numbers"))
    spark.read.parquet(str(folder / "numbers")).createOrReplaceTempView("numbers")
    spark.sql("SELECT sum(id), collect_list(group) FROM numbers WHERE id < 10").toArrow()
    spark.read.format("savepoint").option("table", "states").load(str(DEMO)).collect()
    spark.stop()


if __name__ == "__main__":
    main()
