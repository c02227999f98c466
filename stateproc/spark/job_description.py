"""Describe the jobs that a thread runs, in Spark's user interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from pyspark.sql import SparkSession

_DESCRIPTION = "spark.job.description"
"""The property in which Spark keeps what setJobDescription sets."""


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
