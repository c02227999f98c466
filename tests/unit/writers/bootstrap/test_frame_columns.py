"""Columns of rows that fill states: their names and types, whichever library holds the rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types

from stateproc.writers.bootstrap import arrow_frames, spark_frames
from stateproc.writers.bootstrap.frame_columns import columns_of, is_spark

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))])
STRUCT = (
    types.StructType()
    .add("id", types.LongType())
    .add("at", types.TimestampType())
    .add("tags", types.ArrayType(types.StringType()))
)


class SparkFrame:
    """What is asked of a DataFrame of Spark: its schema."""

    schema = STRUCT


FRAMES = [pytest.param(SCHEMA.empty_table(), id="arrow"), pytest.param(SparkFrame(), id="spark")]


@pytest.mark.parametrize("frame", FRAMES)
def test_types_by_name(frame: Any) -> None:
    columns = columns_of(frame)
    assert columns is not None
    assert list(columns.names) == ["id", "at", "tags"]
    assert [columns.type_of(name).kind for name in columns.names] == ["whole", "time", "list"]
    assert columns.type_of("tags").children[0].arrow == pa.string()
    with pytest.raises(ValueError, match="none"):
        columns.type_of("none")


@pytest.mark.parametrize("frame", FRAMES)
def test_only_the_type_that_is_asked_for_is_converted(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise hundreds of states from rows of hundreds of columns take minutes before anything is written."""
    module, convert = (spark_frames, "spark_type") if is_spark(frame) else (arrow_frames, "arrow_type")
    converted = []
    original = getattr(module, convert)
    monkeypatch.setattr(module, convert, lambda found: converted.append(str(found)) or original(found))
    columns = columns_of(frame)
    assert columns is not None
    columns.type_of("at")
    assert len(converted) == 1


@pytest.mark.parametrize("frame", [None, [{"id": 1}], {"id": [1]}, SCHEMA.names])
def test_anything_else_has_no_columns(frame: Any) -> None:
    assert columns_of(frame) is None
    assert not is_spark(frame)
