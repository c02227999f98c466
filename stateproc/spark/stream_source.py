"""Make the stream reader that the installed release of Spark can call."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from pyspark.sql.types import StructType

from stateproc.spark.streaming import CheckpointStreamReader, UnlimitedStreamReader


def stream_reader_of(raw: Mapping[str, str], schema: StructType) -> CheckpointStreamReader:
    """Return the stream reader of these columns."""
    if find_spec("pyspark.sql.streaming.datasource") is None:
        return UnlimitedStreamReader(raw, schema)
    # Lazy: Spark 4.1 does not have what it imports.
    from stateproc.spark.limited_stream import LimitedStreamReader

    return LimitedStreamReader(raw, schema)
