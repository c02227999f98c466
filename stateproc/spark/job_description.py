"""Describe and group the jobs that a thread runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from uuid import uuid4

from pyspark import SparkContext
from pyspark.sql import SparkSession

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
