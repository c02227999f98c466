"""Choose the engine of a run, and start a Spark session where one is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stateproc.errors import InvalidOption
from stateproc.jobs.job_model import Job
from stateproc.jobs.local_tables import SPARK_ONLY, LocalTables
from stateproc.jobs.prepared_run import PreparedRun
from stateproc.jobs.source_tables import SourceTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL, SPARK = "local", "spark"
SPARK_KINDS = frozenset({"window"})
"""Kinds of states that only Spark derives from rows."""
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the programs that it starts."""


def engine_of(job: Job, spark: Any) -> str:
    """Return the engine of a run: that of the job, else Spark if there is a session, or something needs one.

    Raises:
        InvalidOption: The job's engine is ``local``, and something needs Spark.
    """
    reason = _reason_for_spark(job)
    if job.engine == LOCAL:
        if reason is not None:
            raise job.document.error(("engine",), f"{reason}, which needs Spark", "give `engine: spark`, or remove it")
        return LOCAL
    wanted = job.engine == SPARK or spark is not None or reason is not None or _GATEWAY in os.environ
    return SPARK if wanted else LOCAL


def _reason_for_spark(job: Job) -> str | None:
    kinds = {state.kind for operator in job.operators for state in operator.states}
    if kinds & SPARK_KINDS:
        return f"states of the kind '{min(kinds & SPARK_KINDS)}' are derived from rows"
    read = next((source for source in job.sources.values() if source.format in SPARK_ONLY), None)
    return None if read is None else f"source '{read.name}' is {read.format}"


@contextmanager
def session_of(run: PreparedRun, engine: str, spark: SparkSession | None) -> Iterator[SparkSession | None]:
    """Yield the given session, or one of the job's own; None for the local engine. Raises InvalidOption."""
    if engine == LOCAL or spark is not None:
        yield spark if engine == SPARK else None
        return
    try:
        from pyspark.sql import SparkSession  # Lazy: optional dependency.
    except ImportError as error:
        raise InvalidOption("this job needs Spark", advice="pip install 'stateproc[spark]'") from error
    active = SparkSession.getActiveSession()
    builder: Any = SparkSession.builder.appName(f"stateproc run {run.job.name}")
    if "master" in run.job.spark:
        builder = builder.master(run.job.spark["master"])
    for name, value in run.secrets.reveal(dict(run.job.spark.get("conf", {}))).items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    try:
        yield session
    finally:
        if active is None:
            session.stop()


@contextmanager
def opened_tables(run: PreparedRun, spark: SparkSession | None) -> Iterator[SourceTables]:
    """Yield the sources of a run as tables. Raises SnapshotError."""
    if spark is None:
        with LocalTables(run) as tables:
            yield tables
        return
    from stateproc.jobs.spark_tables import SparkTables  # Lazy: needs pyspark.

    with SparkTables(run, spark) as found:
        yield found
