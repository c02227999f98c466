"""Conversion of input columns to state: times before the epoch, struct fields, and errors that name the column."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import stateproc
from stateproc.errors import InvalidOption, InvalidRows, UnsupportedSnapshot
from stateproc.storage.store import StorePath
from stateproc.writers.spark.data_source_writer import writer_of

MICROS = [-1, -1000, -1001, 0, 999, 1_700_000_000_123_456]
MILLIS = [-1, -1, -2, 0, 0, 1_700_000_000_123]


def written(target: Path, rows: pa.Table, **options: str) -> stateproc.Snapshot:
    options = {"path": str(target), "uid": "op", "state": "s", **options}
    writer = writer_of(options, from_arrow_schema(rows.schema), False)
    writer.commit([writer.write(iter(rows.to_batches()))])
    return stateproc.open(target)


def test_timers_before_the_epoch_are_rounded_down(tmp_path: Path) -> None:
    """Java's Instant.toEpochMilli rounds down, too, so that no timer fires late."""
    rows = pa.table({"key": range(6), "timestamp": pa.array(MICROS, pa.timestamp("us", "UTC"))})
    snapshot = written(tmp_path / "s", rows, stateKind="event-timers", state="")
    found = snapshot.operator("op").timers("event").to_arrow().sort_by("key")
    assert found.column("timestamp").to_pylist() == MILLIS


def test_last_access_and_windows_before_the_epoch_are_rounded_down(tmp_path: Path) -> None:
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
def test_columns_of_unusable_types_are_named_in_the_error(
    tmp_path: Path, columns: dict[str, Any], options: dict[str, str], message: str
) -> None:
    with pytest.raises((InvalidRows, InvalidOption), match=message):
        written(tmp_path / "s", pa.table(columns), **options)


def test_struct_fields_are_matched_by_name_and_tuple_fields_by_position(tmp_path: Path) -> None:
    """Additional fields are ignored, and the order of the fields in Spark's struct does not matter."""
    pairs = [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    values = pa.StructArray.from_arrays(
        [pa.array(pairs), pa.array([{"p": 5, "q": 6}, {"p": 7, "q": 8}]), pa.array(["extra", None])], ["b", "a", "more"]
    )
    rows = pa.table({"key": [0, 1], "value": values})
    kind = "Pojo com.acme.A {a: Tuple2<Long, Long>, b: Pojo com.acme.B {x: Long, y: Long}}"
    found = written(tmp_path / "s", rows, valueType=kind).operator("op").state("s").to_arrow().sort_by("key")
    assert found.column("value").to_pylist() == [
        {"a": {"f0": 5, "f1": 6}, "b": pairs[0]}, {"a": {"f0": 7, "f1": 8}, "b": pairs[1]},
    ]  # fmt: skip


def test_ttl_false_ignores_a_last_access_column(tmp_path: Path) -> None:
    """Without the option ttl, a last_access column makes a state with time to live."""
    rows = pa.table({"key": [0], "value": [1], "last_access": pa.array([5], pa.timestamp("ms", "UTC"))})
    assert written(tmp_path / "with", rows).operator("op").state("s").keyed.ttl
    assert not written(tmp_path / "without", rows, ttl="false").operator("op").state("s").keyed.ttl


@pytest.mark.parametrize(
    ("options", "message"),
    [({"uid": "", "uidHash": "xyz"}, "32 hex digits"), ({"uid": "op", "uidHash": "0" * 32}, "both given")],
)
def test_an_operator_is_specified_either_by_uid_or_by_uid_hash(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    options = {name: text for name, text in options.items() if text}
    full = {"path": str(tmp_path / "s"), "state": "s", **options}
    with pytest.raises(InvalidOption) as caught:
        writer_of(full, from_arrow_schema(pa.schema({"key": pa.int64(), "value": pa.int64()})), False)
    assert message in str(caught.value)
    assert not (tmp_path / "s").exists()


def test_an_in_memory_path_is_refused() -> None:
    options = {"path": "memory://unused/s", "uid": "op", "state": "s"}
    rows = pa.table({"key": [1], "value": [2]})
    with pytest.raises(InvalidOption, match="memory of one process"):
        writer_of(options, from_arrow_schema(rows.schema), False)
    assert not StorePath("memory://unused/s").exists()


@pytest.mark.parametrize(
    ("kind", "type_"), [("value", "VARIANT"), ("value", "ROW<v VARIANT>"), ("operator-list", "VARIANT")]
)
def test_read_only_types_are_reported_with_operator_and_state(tmp_path: Path, kind: str, type_: str) -> None:
    texts = pa.array(['{"a": 1}'])
    values = pa.StructArray.from_arrays([texts], ["v"]) if "ROW" in type_ else texts
    rows = pa.table({"key": [1], "value": values})
    with pytest.raises(UnsupportedSnapshot, match="VARIANT are read only, as JSON text") as raised:
        written(tmp_path / "s", rows, stateKind=kind, valueType=type_, flinkVersion="2.3")
    assert (raised.value.where.operator, raised.value.where.state) == ("op", "s")
    assert "carried over as they are" in str(raised.value)
