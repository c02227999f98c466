"""Report the progress of a write on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from pyspark import Accumulator, StatusTracker
from pyspark.sql import SparkSession

from stateproc.writers.reporting_thread import reporting_thread

_FIRST_SECONDS, _MOST_SECONDS = 5.0, 60.0
"""When the first line is printed, and the longest time between two; the time doubles until then."""
_GROUP = "spark.jobGroup.id"
"""The property in which Spark keeps what setJobGroup sets."""


@contextmanager
def reported_progress(spark: SparkSession, out: TextIO | None = None) -> Iterator[Accumulator[int] | None]:
    """Print the rows encoded, their rate and the tasks completed while the context lasts; a short write prints nothing.

    Args:
        spark: the session that runs the write, in this thread.
        out: where to print, by default standard error. Nothing is printed unless it is a terminal.

    Yields:
        What tasks add their rows to; None if nothing is printed.
    """
    out = sys.stderr if out is None else out
    if not out.isatty():
        yield None
        return
    context = spark.sparkContext
    rows, group, tracker = context.accumulator(0), context.getLocalProperty(_GROUP), context.statusTracker()
    with reporting_thread(lambda ended: _report(tracker, group, rows, ended, out)):
        yield rows


def _report(
    tracker: StatusTracker, group: str | None, rows: Accumulator[int], ended: threading.Event, out: TextIO
) -> None:
    begin, seconds = time.monotonic(), _FIRST_SECONDS
    while not ended.wait(seconds):
        completed, tasks = _tasks(tracker, group)
        rate = rows.value / (time.monotonic() - begin)
        print(
            f"stateproc: {completed} of {tasks} tasks, {rows.value:,} rows encoded, {rate:,.0f} rows/s",
            file=out,
            flush=True,
        )
        seconds = min(2 * seconds, _MOST_SECONDS)


def _tasks(tracker: StatusTracker, group: str | None) -> tuple[int, int]:
    """(completed tasks, all tasks) of the stages of the group's running jobs."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    running = [job for job in jobs if job is not None and job.status == "RUNNING"]
    stages = [tracker.getStageInfo(stage) for job in running for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
