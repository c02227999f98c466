"""Spark's way in: ``spark.read.format("savepoint")`` and ``stateproc.attach(spark, path)``."""
