"""New operators and states from Arrow data, without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.connectors.kafka import EARLIEST
from stateproc.errors import DuplicateKey, InvalidOption, InvalidRows, NotFound
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.fixtures import FIXTURES, fixtures_in

N = 5_000
FORMATS = ("canonical", "native-hashmap", "native-rocksdb")
NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.timezone.utc)


def rows() -> pa.Table:
    """One row per key, with nested values, nulls and times."""
    keys = np.arange(N)
    labels = [[("a", key), ("b", None)][: key % 3] for key in range(N)]
    return pa.table(
        {
            "key": keys,
            "value": [f"nåme-{key}" for key in range(N)],
            "numbers": [list(range(key % 4)) for key in range(N)],
            "labels": pa.array(labels, pa.map_(pa.string(), pa.int64())),
            "total": keys.astype(np.float64) / 4,
            "time": pa.array([NOON + dt.timedelta(minutes=key) for key in range(N)], pa.timestamp("us", "UTC")),
            "space": pa.array([key % 7 for key in range(N)], pa.int32()),
        }
    )


def written(path: Path, *operators: tuple[str, OperatorBootstrap], form: Any = "canonical") -> Snapshot:
    writer = SavepointWriter.new_savepoint(None, 64).with_format(form)
    for uid, state in operators:
        writer.with_operator(uid, state).with_parallelism(uid, 3)
    result = writer.write(path)
    assert result.report.engine == "local"
    return stateproc.open(result, uids=[uid for uid, _ in operators])


def column(snapshot: Snapshot, state: str, name: str = "value", uid: str = "op") -> list[Any]:
    table = snapshot.operator(uid).state(state).to_arrow()
    return (
        table.sort_by("key").column(name).to_pylist() if "key" in table.column_names else table.column(name).to_pylist()
    )


@pytest.mark.parametrize("form", FORMATS)
def test_every_kind_of_keyed_state(tmp_path: Path, form: str) -> None:
    table = rows()
    state = (
        OperatorBootstrap()
        .value_state("value", table, ttl=True, last_access="time")
        .list_state("list", table, "numbers")
    )
    state.map_state("map", table, "labels").reducing_state("sum", table, "total").aggregating_state(
        "acc", table, "total"
    )
    state.value_state("spaced", table, namespace="space").event_time_timers(table, "time")
    state.processing_time_timers(table, "time", service="other")
    found = written(tmp_path / "s", ("op", state), form=form)
    assert column(found, "value") == table["value"].to_pylist()
    assert column(found, "value", "last_access") == table["time"].to_pylist()
    assert column(found, "list") == [items for items in table["numbers"].to_pylist() if items]
    assert [sorted(items) for items in column(found, "map")] == [
        sorted(items) for items in table["labels"].to_pylist() if items
    ]
    assert column(found, "sum") == column(found, "acc") == table["total"].to_pylist()
    assert column(found, "spaced", "namespace") == table["space"].to_pylist()
    assert column(found, "event timers", "timestamp") == [
        time // 1000 for time in table["time"].cast(pa.int64()).to_pylist()
    ]
    assert found.operator("op").parallelism == 3 and found.operator("op").max_parallelism == 64


@pytest.mark.parametrize(
    "made",
    [
        lambda table, path: table,
        lambda table, path: table.combine_chunks().to_batches()[0],
        lambda table, path: table.to_reader(max_chunksize=100),
        lambda table, path: pl.from_arrow(table),
        lambda table, path: dataset(table, path),
        lambda table, path: table.set_column(1, "value", table["value"].dictionary_encode()),
        lambda table, path: table.set_column(1, "value", table["value"].cast(pa.large_string())),
    ],
    ids=["table", "batch", "reader", "polars", "dataset", "dictionary", "large-string"],
)
def test_every_form_of_arrow_data(tmp_path: Path, made: Callable[[pa.Table, Path], Any]) -> None:
    table = rows().select(["key", "value", "space"])
    data = made(table, tmp_path)
    state = OperatorBootstrap().value_state("v", data).map_state("m", data, map_key="space", map_value="value")
    found = written(tmp_path / "s", ("op", state))
    assert column(found, "v") == table["value"].to_pylist()
    assert column(found, "m") == [[(key % 7, f"nåme-{key}")] for key in range(N)]


def dataset(table: pa.Table, path: Path) -> ds.Dataset:
    (path / "data").mkdir()
    for number in range(4):
        pq.write_table(table.slice(number * N // 4, N // 4), path / "data" / f"{number}.parquet")
    return ds.dataset(path / "data")


def test_operator_state(tmp_path: Path) -> None:
    table = rows().select(["key", "value", "space"])
    state = OperatorBootstrap().operator_list_state("list", table).union_list_state("union", table, "key")
    state.operator_list_state(
        "placed", table.set_column(2, "subtask", pa.array([key % 2 for key in range(N)])), subtask="subtask"
    )
    state.broadcast_state("rules", table.slice(0, 5), map_key="key", map_value="value")
    found = written(tmp_path / "s", ("op", state))
    for subtask, values in enumerate((range(0, N, 3), range(1, N, 3), range(2, N, 3))):
        mine = [row for row in found.operator("op").state("list").to_arrow().to_pylist() if row["subtask"] == subtask]
        assert [row["value"] for row in mine] == [f"nåme-{key}" for key in values]
    assert sorted(column(found, "union")) == list(range(N))
    placed = found.operator("op").state("placed").to_arrow().to_pylist()
    assert {(row["subtask"], int(row["value"][5:]) % 2) for row in placed} == {(0, 0), (1, 1)}
    rules = found.operator("op").state("rules").to_arrow().to_pylist()
    assert [row for row in rules if row.get("subtask", 0) == 0]


def test_kafka_offsets(tmp_path: Path) -> None:
    offsets = pa.table({"topic": ["t", "t"], "partition": [0, 1], "offset": pa.array([7, EARLIEST], pa.int64())})
    found = written(tmp_path / "s", ("source", OperatorBootstrap().kafka_source(offsets)))
    splits = found.operator("source").state("SourceReaderState").to_arrow().to_pylist()
    assert {(row["topic"], row["partition"], row["starting_offset"]) for row in splits} == {
        ("t", 0, 7),
        ("t", 1, EARLIEST),
    }
    assert found.operator("source").metadata.coordinator is not None


def test_a_reader_fills_states_of_two_operators_in_one_pass(tmp_path: Path) -> None:
    table = rows().select(["key", "value"])
    reader = table.to_reader()
    found = written(tmp_path / "s", *((uid, OperatorBootstrap().value_state("v", reader)) for uid in ("a", "b")))
    for uid in ("a", "b"):
        assert column(found, "v", uid=uid) == table["value"].to_pylist()


def test_a_reader_that_was_read_is_refused(tmp_path: Path) -> None:
    writer = SavepointWriter.new_savepoint(None)
    writer.with_operator("op", OperatorBootstrap().value_state("v", rows().to_reader())).write(tmp_path / "s")
    with pytest.raises(InvalidOption, match="only once"):
        writer.write(tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_states_are_added_to_an_existing_operator(tmp_path: Path) -> None:
    item = fixtures_in(FIXTURES / "1.20" / "kitchen-rocksdb-incremental")[-1]
    before = stateproc.open(item.snapshot, uids=["kitchen-string"]).operator("kitchen-string")
    added = pa.table({"key": ["x", "y"], "value": pa.array([1, 2], pa.int64())})
    writer = SavepointWriter.from_existing_savepoint(None, item.snapshot)
    writer.with_states("kitchen-string", lambda op: op.value_state("added", added))
    operator = stateproc.open(writer.write(tmp_path / "s"), uids=["kitchen-string"]).operator("kitchen-string")
    assert operator.state("added").to_arrow().sort_by("key").select(["key", "value"]).to_pylist() == added.to_pylist()
    for state in before.states:
        kept = [row | {"key_group": 0} for row in state.to_arrow().to_pylist()]
        assert sorted(map(repr, kept)) == sorted(
            repr(row | {"key_group": 0}) for row in operator.state(state.name).to_arrow().to_pylist()
        )


def without_keys(table: pa.Table) -> pa.Table:
    return table.set_column(0, "key", pa.nulls(N, pa.int64()))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda op, table: op.value_state("v", table, "gone"), NotFound, "gone"),
        (lambda op, table: op.value_state("v", [1, 2]), InvalidOption, "Arrow data"),
        (lambda op, table: op.list_state("v", table), InvalidOption, "array of all elements"),
        (lambda op, table: op.map_state("v", table), InvalidOption, "needs a map"),
        (lambda op, table: op.event_time_timers(table, "value"), InvalidOption, "timestamp"),
        (lambda op, table: op.operator_list_state("v", table, subtask="value"), InvalidOption, "whole number"),
        (lambda op, table: op.window_state(table), InvalidOption, "derived from rows by Spark"),
        (lambda op, table: op.value_state("v", table.append_column("key", table["key"])), InvalidOption, "two columns"),
        (lambda op, table: op.value_state("v", pa.concat_tables([table, table])), DuplicateKey, "key=0|same key"),
        (lambda op, table: op.value_state("v", without_keys(table)), InvalidRows, "a null"),
    ],
)  # fmt: skip
def test_rows_that_cannot_become_state_are_refused(
    tmp_path: Path, change: Callable[[OperatorBootstrap, pa.Table], OperatorBootstrap], error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        written(tmp_path / "s", ("op", change(OperatorBootstrap(), rows())))
    assert not (tmp_path / "s").exists()


def test_a_state_without_rows_is_registered(tmp_path: Path) -> None:
    empty = rows().slice(0, 0)
    found = written(tmp_path / "s", ("op", OperatorBootstrap().value_state("v", empty).operator_list_state("l", empty)))
    assert [state.name for state in found.operator("op").states] == ["v", "l"]
    assert found.operator("op").state("v").to_arrow().num_rows == 0


def test_types_are_those_of_the_columns_or_given(tmp_path: Path) -> None:
    table = rows().select(["key", "space", "total"])
    state = OperatorBootstrap(key_type=types.STRING).value_state(
        "v", table.set_column(0, "key", table["key"].cast(pa.string())), "space"
    )
    found = written(
        tmp_path / "s",
        (
            "op",
            state.value_state("d", table.set_column(0, "key", table["key"].cast(pa.string())), "total", type="Double"),
        ),
    )
    assert found.operator("op").state("v").to_arrow().schema.field("value").type == pa.int32()
    assert found.operator("op").state("d").to_arrow().schema.field("value").type == pa.float64()


def test_rows_are_transformed(tmp_path: Path) -> None:
    """A function of record batches, one after another."""
    item = fixtures_in(FIXTURES / "1.20" / "kitchen-rocksdb-incremental")[-1]
    before = stateproc.open(item.snapshot, uids=["kitchen-ttl"]).operator("kitchen-ttl")

    def without_large_keys(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        kept = (batch.filter(pc.less(batch["key"], 10)) for batch in rows)
        return pa.RecordBatchReader.from_batches(rows.schema, kept)

    for form in FORMATS:
        writer = SavepointWriter.from_existing_savepoint(None, item.snapshot).with_format(form)  # type: ignore[arg-type]
        changed = [state.name for state in before.keyed_states if not state.keyed.kind.is_queue]
        for name in changed:
            writer.transform_state("kitchen-ttl", name, without_large_keys)
        operator = stateproc.open(writer.write(tmp_path / form), uids=["kitchen-ttl"]).operator("kitchen-ttl")
        for state in before.keyed_states:
            rows = state.to_arrow().to_pylist()
            kept = [row for row in rows if row["key"] < 10 or state.name not in changed]
            assert sorted(map(repr, operator.state(state.name).to_arrow().to_pylist())) == sorted(map(repr, kept))


def test_transformed_rows_get_other_types(tmp_path: Path) -> None:
    state = OperatorBootstrap().value_state("v", rows().select(["key", "space"]), "space")
    SavepointWriter.new_savepoint(None).with_operator("op", state).write(tmp_path / "a")
    writer = SavepointWriter.from_existing_savepoint(None, tmp_path / "a")

    def doubled(found: pa.RecordBatchReader) -> pa.Table:
        table = found.read_all()
        return table.set_column(
            table.column_names.index("value"), "value", pc.multiply(table["value"].cast(pa.int64()), 2)
        )

    found = stateproc.open(writer.transform_state("op", "v", doubled).write(tmp_path / "b"), uids=["op"])
    assert column(found, "v") == [2 * (key % 7) for key in range(N)]
    assert found.operator("op").state("v").to_arrow().schema.field("value").type == pa.int64()
    with pytest.raises(InvalidOption, match="the function gave a list"):
        writer.transform_state("op", "v", lambda found: found.read_all().to_pylist())
