"""Writes of Spark in which nothing happens any more from one of their steps on, as if the driver had been killed there.

Steps on the files of a target are made by the driver, by Spark's tasks, and by the processes in which Spark creates,
commits and aborts the writer of a data source. Each of them counts its steps in one file; before step N, and before
all later ones, the process ends. The driver, which owns the JVM, has an error instead that nothing catches.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyspark_savepoint import DefaultSource
from stateproc import SavepointWriter
from stateproc.writers.spark import execution
from stateproc.writers.spark.data_source_writer import PlainWriter
from stateproc.writers.spark.execution import EntriesWriter
from tests.helpers.paths import DEMO
from tests.helpers.writers.write_steps import step_of


class Killed(BaseException):
    """The end of the driver."""


@dataclass(frozen=True)
class Kill:
    """The end of a write: before which step, the process of the driver, and the file that has a line for each step."""

    target: str
    number: int
    log: str
    driver: int

    def watch(self) -> None:
        """Count the steps of this process from now on, in place of those of an earlier write."""
        _install()
        _watched[:] = [self]

    def step(self, name: str) -> None:
        with open(self.log, "a+") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            log.seek(0)
            ended = len(log.readlines()) >= self.number - 1
            log.write(f"{'ended before ' if ended else ''}{name}\n")
        if ended and os.getpid() != self.driver:
            os._exit(1)
        if ended:
            raise Killed(name)


_watched: list[Kill] = []
"""The write whose steps this process makes, if any."""


@cache
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for kill in _watched:
        step = step_of(event, arguments, kill.target)
        if step is not None:
            kill.step(step)


def watched(writer: type[Any], kill: Kill) -> type[Any]:
    """The writer, in which every process counts its steps."""

    class Watched(writer):  # type: ignore[misc]
        def write(self, rows: Any) -> Any:
            kill.watch()
            return super().write(rows)

        def commit(self, messages: Any) -> None:
            kill.watch()
            super().commit(messages)

        def abort(self, messages: Any) -> None:
            kill.watch()
            super().abort(messages)

    return Watched


def _source(kill: Kill) -> type[Any]:
    class KilledSource(DefaultSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "savepoint-killed"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            kill.watch()
            writer = super().writer(schema, overwrite)
            writer.__class__ = watched(PlainWriter, kill)
            return writer

    return KilledSource


def save(frame: DataFrame, mode: str, kill: Kill) -> None:
    """Write state ``name`` of operator ``op`` by the data source."""
    frame.sparkSession.dataSource.register(_source(kill))
    writing = frame.write.format("savepoint-killed").option("uid", "op").option("state", "name")
    writing.mode(mode).save(kill.target)


def rescale(spark: SparkSession, mode: Any, kill: Kill) -> None:
    """Write the bundled snapshot with other key groups, by the tasks of the session."""
    with _tasks_watched(kill):
        kill.watch()
        writer = SavepointWriter.from_existing_savepoint(spark, str(DEMO)).with_max_parallelism(256)
        writer.write(Path(kill.target), mode)


@contextmanager
def _tasks_watched(kill: Kill) -> Iterator[None]:
    execution.EntriesWriter = watched(EntriesWriter, kill)  # type: ignore[misc]
    try:
        yield
    finally:
        execution.EntriesWriter = EntriesWriter  # type: ignore[misc]
        _watched.clear()
