"""PySpark's daemon of Python workers, with what the workers need imported before it forks the first one.

Workers that fail are not used again: where each task fails, each of the next would import a second's worth of modules.
Spark starts it with ``spark.python.daemon.module``.
"""

from __future__ import annotations

import gc

import fsspec.implementations.local as local_files
import pandas
import pyspark.worker as pyspark_worker
from pyspark import daemon

import pyspark_savepoint
import stateproc.writers.spark.data_source_writer as data_source_writer
import stateproc.writers.spark.execution as execution

LOADED = (local_files, pandas, pyspark_worker, pyspark_savepoint, data_source_writer, execution)

if __name__ == "__main__":
    gc.freeze()  # as `keep_loaded` does in workers of the original
    daemon.manager()
