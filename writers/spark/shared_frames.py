"""Keep DataFrames from which several others are derived, so that a write evaluates each of them once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame


@contextmanager
def persisted(frames: Iterable[DataFrame]) -> Iterator[None]:
    """Persist ``frames`` in memory and on disk while the context lasts.

    Spark then computes each partition once, for all DataFrames derived from them, also those that exist already. A
    DataFrame that the user has persisted stays as it is.
    """
    with ExitStack() as stack:
        for frame in frames:
            level = frame.storageLevel
            if not (level.useMemory or level.useDisk):
                stack.callback(frame.persist().unpersist)
        yield
