"""Check and tune the Python workers that Spark starts."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TypeAlias, cast
from uuid import uuid4

from pyspark import SparkContext
from pyspark.sql import SparkSession

from stateproc.errors import InvalidOption

# Describe and group the jobs that a thread runs.

_DESCRIPTION = "spark.job.description"
"""The property in which Spark keeps what setJobDescription sets."""
_GROUP = "spark.jobGroup.id"
"""The property in which Spark keeps what setJobGroup sets."""


@contextmanager
def described_jobs(spark: SparkSession, description: str) -> Iterator[None]:
    """Describe the jobs that this thread runs within the context; the description from before is restored.

    Sessions of Spark Connect have no descriptions.
    """
    if not isinstance(spark, SparkSession):
        yield
        return
    context = spark.sparkContext
    previous = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(description)
    try:
        yield
    finally:
        context.setJobDescription(cast(str, previous))  # None removes the description


@contextmanager
def grouped_jobs(context: SparkContext, description: str) -> Iterator[str]:
    """Put the jobs that this thread runs within the context into a group of their own, with a description.

    Yields:
        The id of the group. Group and description from before are restored.
    """
    group = uuid4().hex
    previous = {name: context.getLocalProperty(name) for name in (_GROUP, _DESCRIPTION)}
    context.setLocalProperty(_GROUP, group)
    context.setLocalProperty(_DESCRIPTION, description)
    try:
        yield group
    finally:
        for name, value in previous.items():
            context.setLocalProperty(name, cast(str, value))  # None removes the property


_DAEMON = "pyspark.daemon"
_kept = False


def keep_loaded() -> None:
    """Exclude all objects that are loaded by now from garbage collection, once, in a Spark worker that is reused.

    Workers collect garbage after each task. Modules and types are 70,000 objects that never become garbage; visiting
    them takes 34 ms each time, as long as decoding 300,000 rows. Cycles that are garbage when it is called stay; those
    of later tasks do not. In any other process nothing happens.
    """
    # gc.get_freeze_count would count all excluded objects each time.
    global _kept
    if not _kept and _main_module() == _DAEMON:
        _kept = True
        gc.freeze()


def _main_module() -> str:
    """Return the module that this process was started with by ``python -m``."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "" if spec is None else str(spec.name)


_PROBE = "import sys, stateproc, pyspark_savepoint; print(*sys.version_info[:2], sep='.')"
_DEFAULT_PYTHON = "python3"


def check_worker_python(spark: SparkSession) -> None:
    """Check that the interpreters which Spark starts on this machine can import this package.

    Spark plans Python data sources in a worker of its own, which it starts as the session's PYSPARK_PYTHON (default
    ``python3``), not as the interpreter that runs the driver program. Sessions of Spark Connect and interpreters that
    are not on this machine are not checked.

    Raises:
        InvalidOption: An interpreter cannot import stateproc, or has another minor version than the driver.
    """
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has none; which error it raises depends on the release
        return
    lookup = os.environ.get("PYSPARK_DRIVER_PYTHON", os.environ.get("PYSPARK_PYTHON", _DEFAULT_PYTHON))
    for name in dict.fromkeys((context.pythonExec, lookup)):
        path = shutil.which(name)
        problem = None if path is None or path == sys.executable else _probe(path)
        if problem is not None:
            raise InvalidOption(
                f"Spark's Python workers run {path}, which {problem}",
                advice=f"set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to {sys.executable} before the Spark session "
                "starts, or activate the virtual environment",
            )


@cache
def _probe(path: str) -> str | None:
    """Return why the interpreter at ``path`` cannot serve as a worker; None if it can."""
    result = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        last = result.stderr.strip().rpartition("\n")[2]
        return f"cannot import stateproc ({last})"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return None if result.stdout.strip() == version else f"is Python {result.stdout.strip()}, the driver {version}"


# Check that the executors of a cluster can run this package.

_SHIPPING = (
    "install stateproc for the Python of every node (PYSPARK_PYTHON), or ship a packed environment with --archives: "
    "docs/howto/clusters.md"
)
_ZIPPED = (
    "Spark's executors import stateproc from a ZIP file (--py-files), without its compiled kernels: each Python worker "
    "compiles them anew. Ship it with --archives: docs/howto/clusters.md"
)
Answer: TypeAlias = "tuple[str, str | None, bool]"
"""Of one executor: its host, why it cannot import the package, and whether it imports it from a ZIP file."""
_checked: set[str] = set()
"""Ids of applications whose executors were found to have the package."""
_TASKS_PER_CORE = 2
_CAUSE = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\] [^\n]*?(?=, PySpark cannot|\n|$)|Cannot run program[^\n]*|No module named [^\n]*"
)
_TASK_SECONDS = (0.0, 3.0, 10.0)
"""How long the tasks of each round last. Attempts that fail take less, a start of Python each."""
_COUNTED_SECONDS = 3.0
"""How long Spark may take to count the attempts of a job that has ended."""


def check_executors(spark: SparkSession) -> None:
    """Check, once per application, that the executors of a cluster have this package and the driver's Python.

    It runs short tasks, two for each core, which as a rule reach every executor. One that starts later is not checked.
    Spark repeats a failed task, perhaps on another host, where it succeeds. So if tasks failed, the check is repeated
    with tasks that occupy the other executors, and those that fail are repeated where they fail.

    Raises:
        InvalidOption: An executor has not; the message names its host.
    """
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has none; which error it raises depends on the release
        return
    if str(context.master).startswith("local") or context.applicationId in _checked:
        return
    for seconds in _TASK_SECONDS:
        if _executor_answers(context, seconds) == 0:
            _checked.add(context.applicationId)
            return
    raise InvalidOption(
        "Python tasks fail on some of the executors",
        advice=f"the logs of the executors say why; {_SHIPPING}",
    )


def _check(seconds: float) -> Callable[[int], Answer]:
    """Return what executors run: whether they can import what the tasks of a write import, Arrow among it.

    Spark sends a function within a function by its code, and others by the name of their module, which the executors
    may not have.
    """

    def answer(_: int) -> Answer:
        import importlib
        import os
        import socket
        import time

        time.sleep(seconds)
        host = socket.gethostname()
        try:
            importlib.import_module("stateproc.writers.write_task")
        except Exception as error:  # whatever an import raises: the driver raises it
            return host, str(error), False
        return host, None, not os.path.exists(str(importlib.import_module("stateproc").__file__))

    return answer


def _executor_answers(context: SparkContext, seconds: float) -> int:
    """Run the check in tasks that last so many seconds; return how many attempts failed. Raises InvalidOption."""
    tasks = max(1, context.defaultParallelism) * (_TASKS_PER_CORE if seconds == 0 else 1)
    before = _failures_by_host(context)
    try:
        with grouped_jobs(context, "stateproc: check that the executors have the package") as group:
            found = context.parallelize(range(tasks), tasks).map(_check(seconds)).collect()
            failed = _failed_attempts(context, group, tasks)
    except Exception as error:  # of Spark, py4j or Java, by where Python failed
        cause = _CAUSE.search(str(error))
        if cause is None:
            raise
        hosts = ", ".join(sorted(_failures_by_host(context) - before))
        raise InvalidOption(
            f"Spark's executors{hosts and f' on {hosts}'} cannot run Python: {cause[0].strip()}", advice=_SHIPPING
        ) from None
    problems = {host: problem for host, problem, _ in found if problem}
    if problems:
        raise InvalidOption(
            f"Spark's executors on {', '.join(sorted(problems))} cannot import stateproc ({min(problems.values())})",
            advice=_SHIPPING,
        )
    if any(zipped for _, _, zipped in found):
        warnings.warn(_ZIPPED, RuntimeWarning, stacklevel=2)
    return failed


def _failed_attempts(context: SparkContext, group: str, tasks: int) -> int:
    """Return how many attempts of a job's tasks failed, once Spark has counted all that succeeded."""
    tracker, until = context.statusTracker(), time.monotonic() + _COUNTED_SECONDS
    while True:
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
        counted = [stage for stage in stages if stage is not None]
        if sum(stage.numCompletedTasks for stage in counted) >= tasks or time.monotonic() > until:
            return sum(stage.numFailedTasks for stage in counted)
        time.sleep(0.01)


def _failures_by_host(context: SparkContext) -> Counter[str]:
    """Return how many tasks of the application failed on each host; empty where Spark does not say."""
    failures: Counter[str] = Counter()
    with suppress(Exception):  # no public API; it makes a message better
        executors = context._jsc.sc().statusStore().executorList(True)
        for number in range(executors.size()):
            executor = executors.apply(number)
            failures[executor.hostPort().rpartition(":")[0]] += executor.failedTasks()
    return +failures
