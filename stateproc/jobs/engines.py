"""Choose the engine of a run, and start a Spark session where one is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stateproc.errors import InvalidOption, package_for
from stateproc.jobs.job_model import Job
from stateproc.jobs.loading import Secrets
from stateproc.jobs.local_tables import SPARK_ONLY, LocalTables
from stateproc.jobs.prepared_run import PreparedRun
from stateproc.jobs.source_tables import SourceTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL, SPARK = "local", "spark"
ENGINES = ("auto", LOCAL, SPARK)
SPARK_KINDS = frozenset({"window"})
"""Kinds of states that only Spark derives from rows."""
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the programs that it starts."""


def with_engine(job: Job, engine: str | None, master: str | None) -> Job:
    """Return the job with another engine than its file names, and another master of a session of its own.

    Args:
        engine: ``auto``, ``local`` or ``spark``; None for that of the job.
        master: The Spark master URL; None for that of the job, or as configured.

    Raises:
        InvalidOption: There is no such engine, or a master is given although the engine is ``local``.
    """
    if engine is not None and engine not in ENGINES:
        raise InvalidOption(f"no engine is called {engine!r}", advice=f"there are {', '.join(ENGINES)}")
    chosen = replace(job, engine=job.engine if engine is None else engine)
    if master is None:
        return chosen
    if engine_of(chosen, None) == LOCAL:
        raise InvalidOption(f"the master {master} for the local engine", advice="give the engine spark as well")
    return replace(chosen, spark={**job.spark, "master": master})


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


class JobSession:
    """The Spark session of a run: the given one, else one of its own, which starts when it is first needed.

    Used as a context: left, it stops a session that it started.
    """

    def __init__(self, job: Job, secrets: Secrets, engine: str, given: SparkSession | None) -> None:
        self._job, self._secrets, self._engine, self._given = job, secrets, engine, given
        self._own: SparkSession | None = None

    def get(self) -> SparkSession | None:
        """Return the session; None for the local engine. Raises InvalidOption."""
        return None if self._engine == LOCAL else self.started()

    def started(self) -> SparkSession:
        """Return the session. Raises MissingPackage without PySpark."""
        if self._given is None:
            self._given = self._start()
        return self._given

    def __enter__(self) -> JobSession:
        return self

    def __exit__(self, *error: object) -> None:
        if self._own is not None:
            self._own.stop()

    def _start(self) -> SparkSession:
        with package_for("this job"):
            from pyspark.sql import SparkSession  # Lazy: optional dependency.
        active = SparkSession.getActiveSession()
        builder: Any = SparkSession.builder.appName(f"stateproc run {self._job.name}")
        if "master" in self._job.spark:
            builder = builder.master(self._job.spark["master"])
        for name, value in self._secrets.reveal(dict(self._job.spark.get("conf", {}))).items():
            builder = builder.config(name, value)
        session: SparkSession = builder.getOrCreate()
        if active is None:
            self._own = session
        return session


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
