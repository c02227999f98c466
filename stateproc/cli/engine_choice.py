"""Choose where a write runs: in this process, or in Spark's tasks."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stateproc.errors import InvalidOption, MissingPackage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def chosen_engine(arguments: Namespace, name: str) -> Iterator[SparkSession | None]:
    """Yield the session of ``--engine spark``, or None for the local engine; a session that was started is stopped.

    Args:
        arguments: Parsed arguments with ``engine`` and ``master``.
        name: The application's name in Spark's user interface.

    Raises:
        InvalidOption: ``--master`` for the local engine.
        MissingPackage: PySpark is not installed.
    """
    if arguments.engine != "spark":
        if arguments.master is not None:
            raise InvalidOption(f"--master {arguments.master} for the local engine", advice="add --engine spark")
        yield None
        return
    try:
        from pyspark.sql import SparkSession  # Lazy: the local engine needs no Spark.
    except ImportError as error:
        raise MissingPackage("--engine spark needs PySpark", advice="pip install 'stateproc[spark]'") from error
    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName(name)
    if arguments.master is not None:
        builder = builder.master(arguments.master)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        if running is None:
            session.stop()
