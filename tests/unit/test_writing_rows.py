"""Columns on their way into state: times before the epoch, and columns that are of no use, told by their names."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import stateproc
from stateproc.errors import InvalidOption, InvalidRows
from stateproc.writers.spark.plain_sink import writer_of

MICROS = [-1, -1000, -1001, 0, 999, 1_700_000_000_123_456]
MILLIS = [-1, -1, -2, 0, 0, 1_700_000_000_123]


def written(target: Path, rows: pa.Table, **options: str) -> stateproc.Snapshot:
    options = {"path": str(target), "uid": "op", "state": "s", **options}
    writer = writer_of(options, from_arrow_schema(rows.schema), False)
    writer.commit([writer.write(iter(rows.to_batches()))])
    return stateproc.open(target)


def test_timers_before_the_epoch(tmp_path: Path) -> None:
    """Rounded down, as Java's Instant.toEpochMilli does: a timer does not fire late."""
    rows = pa.table({"key": range(6), "timestamp": pa.array(MICROS, pa.timestamp("us", "UTC"))})
    snapshot = written(tmp_path / "s", rows, stateKind="event-timers", state="")
    found = snapshot.operator("op").timers("event").to_arrow().sort_by("key")
    assert found.column("timestamp").to_pylist() == MILLIS


def test_last_access_and_windows_before_the_epoch(tmp_path: Path) -> None:
    moments = pa.array(MICROS, pa.timestamp("us", "UTC"))
    later = pa.array([micros + 5000 for micros in MICROS], pa.timestamp("us", "UTC"))
    windows = pa.StructArray.from_arrays([moments, later], ["start", "end"])
    rows = pa.table({"key": range(6), "namespace": windows, "value": range(6), "last_access": moments})
    snapshot = written(tmp_path / "s", rows, ttl="true", namespaceType="TimeWindow")
    found = snapshot.operator("op").state("s").to_arrow().sort_by("key")
    assert found.column("last_access").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist() == MILLIS
    starts = [window["start"] for window in found.column("namespace").to_pylist()]
    assert pa.array(starts, pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist() == MILLIS


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"key": [1], "timestamp": ["1"]}, {"stateKind": "event-timers"}, "timestamp"),
        ({"key": [1], "timestamp": [date(2020, 1, 1)]}, {"stateKind": "event-timers"}, "timestamp"),
        ({"key": [1], "value": [1], "last_access": ["soon"]}, {"ttl": "true"}, "last_access"),
        ({"key": [1], "value": [1], "last_access": [[1]]}, {"ttl": "true"}, "last_access"),
        ({"key": ["x"], "value": [1]}, {"keyType": "Long"}, "key"),
        ({"key": ["x"], "value": [1], "hash": [2**40]}, {}, "hash"),
        ({"key": ["x"], "value": [1], "hash": ["none"]}, {}, "hash"),
    ],
)
def test_columns_of_no_use_are_named(
    tmp_path: Path, columns: dict[str, Any], options: dict[str, str], message: str
) -> None:
    with pytest.raises((InvalidRows, InvalidOption), match=message):
        written(tmp_path / "s", pa.table(columns), **options)
