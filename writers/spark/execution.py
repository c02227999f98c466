"""Spark's engine: shuffle, sort and write entries in its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pyspark
from pyspark.sql import DataFrame, SparkSession

from stateproc.errors import InvalidOption
from stateproc.metadata.handles import ByteStreamHandle, RelativeFileHandle
from stateproc.spark.job_description import described_jobs
from stateproc.spark.workers import check_executors, check_worker_python
from stateproc.writers.assemble_metadata import CompletedWrite, finish
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.rewrite.file_copy import CopyPlan
from stateproc.writers.scaled_operators import AnyOperator
from stateproc.writers.spark.arrow_batching import batches_limited
from stateproc.writers.spark.entry_frames import by_target, entry_blocks
from stateproc.writers.spark.progress import reported_progress
from stateproc.writers.spark.shared_frames import persisted
from stateproc.writers.spark.snapshot_sink import save
from stateproc.writers.write_plan import WriteJob

_DRIVER_COPY_BYTES = 1 << 30
"""Up to this size files are copied by the driver: starting Spark's tasks takes as long."""
_COPY_THREADS = 4


class SparkEngine:
    """Writes savepoints with the tasks of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    name = "spark"

    @property
    def default_parallelism(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def check(self) -> None:
        """Raise InvalidOption for a release or session that cannot write, or workers without this package."""
        _check_release()
        _check_classic(self._spark)
        check_worker_python(self._spark)
        check_executors(self._spark)

    def described(self, description: str) -> AbstractContextManager[None]:
        return described_jobs(self._spark, description)

    def copy_files(self, plan: CopyPlan, staging: Staging) -> list[RelativeFileHandle | ByteStreamHandle]:
        # On one machine, Spark's tasks would copy no faster.
        context = self._spark.sparkContext
        if plan.bytes <= _DRIVER_COPY_BYTES or str(context.master).startswith("local"):
            with ThreadPoolExecutor(_COPY_THREADS) as pool:
                return list(pool.map(lambda copy: copy.run(staging), plan.copies))
        copies = context.parallelize(plan.copies, len(plan.copies))
        return list(copies.map(lambda copy: copy.run(staging)).collect())

    def write_entries(self, operators: Sequence[AnyOperator], job: WriteJob, commit: Commit) -> CompletedWrite:
        spark = self._spark
        with reported_progress(spark) as rows:
            blocks = entry_blocks(spark, operators, job, rows)
            if not blocks:
                return finish(job, commit, [])
            commit.staging.check_shared()
            shared = [frame for item in operators for frame in item.shared_frames]
            with persisted(shared), batches_limited(spark, by_rows=all(item.bounded for item in blocks)):
                return save(by_target(blocks, len(job.targets)), job, commit)


def _check_release() -> None:
    """Raise InvalidOption for a release without a shuffle to partitions of given numbers."""
    if not hasattr(DataFrame, "repartitionById"):
        raise InvalidOption(
            f"SavepointWriter needs Spark 4.1 or later to write with its tasks; this is PySpark {pyspark.__version__}",
            advice="install pyspark>=4.1; or write in this process, without a session: "
            "SavepointWriter.new_savepoint(None), from Arrow data",
        )


def _check_classic(spark: SparkSession) -> None:
    """Raise InvalidOption for a session of Spark Connect, which has no Spark context on this side."""
    if not isinstance(spark, SparkSession):
        raise InvalidOption(
            "SavepointWriter cannot write through a session of Spark Connect: it copies files from the driver program",
            advice="use a classic session (SparkSession.builder.master(…)), or, for one state, "
            "df.write.format('savepoint')",
        )
