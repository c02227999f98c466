"""Read snapshots in Spark: ``spark.read.format("savepoint")`` and ``stateproc.attach(spark, path)``.

It may import ``stateproc.snapshot`` and the layers below, neither the command line nor the writers.
"""
