"""Access by index, single keys, first rows, conditions, and other libraries' tables."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import stateproc
from stateproc.errors import InvalidOption, NotFound
from stateproc.model.state import State
from tests.helpers.fixtures import FIXTURES, Fixture, newest_fixtures

READS_EVERY_MODE = False

DEMO = str(FIXTURES / "1.20/demo/snapshot")
UIDS = ["orders-from-kafka", "orders-per-customer", "revenue-per-product"]


def demo() -> stateproc.Snapshot:
    return stateproc.open(DEMO, uids=UIDS)


def test_snapshots_and_operators_are_indexed_by_name() -> None:
    snapshot = demo()
    assert set(snapshot) == set(snapshot.keys()) == set(snapshot._ipython_key_completions_()) == set(UIDS)
    operator = snapshot["orders-per-customer"]
    assert list(operator) == operator._ipython_key_completions_()
    assert operator.keys() == ["profile", "spent-per-product", "event timers", "processing timers"]
    assert operator["profile"].to_arrow() == snapshot.state("orders-per-customer", "profile").to_arrow()
    assert "profile" in operator and "x" not in operator
    assert "orders-per-customer" in snapshot and "x" not in snapshot and 3 not in snapshot
    with pytest.raises(NotFound, match="profil"):
        operator["profil"]


def test_source_states_are_decoded_unless_raw() -> None:
    operator = demo()["orders-from-kafka"]
    assert operator["SourceReaderState"].schema().names[:3] == ["subtask", "topic", "partition"]
    raw = operator.state("SourceReaderState", raw=True)
    assert raw.schema().names == ["subtask", "value"]
    assert demo().state("orders-from-kafka", "SourceReaderState", raw=True).to_arrow() == raw.to_arrow()


def test_offsets_and_the_catalog_are_tables() -> None:
    offsets = demo().offsets()
    assert offsets.column_names == [
        "operator", "connector", "split", "kind", "position", "phase", "stops_at", "subtask", "topic", "partition",
        "offset", "stopping_offset",
    ]  # fmt: skip
    assert offsets.column("partition").to_pylist() == [0, 1, 2, 3, 4, 5]
    catalog = demo().catalog()
    rows = {(row["uid"], row["state"]): row for row in catalog.to_pylist()}
    assert rows["orders-per-customer", "profile"]["kind"] == "value"
    assert len(rows) == 8


def test_get_returns_the_value_of_one_key() -> None:
    operator = demo()["orders-per-customer"]
    profiles = {row["key"]: row["value"] for row in operator["profile"].to_arrow().to_pylist()}
    spent = {row["key"]: dict(row["value"]) for row in operator["spent-per-product"].to_arrow().to_pylist()}
    for key in (1, 42, 299):
        assert operator["profile"].get(key) == profiles[key]
        assert operator["spent-per-product"].get(key) == spent[key]
        (timer,) = operator["event timers"].get(key)
        assert set(timer) == {"timestamp", "service"}
        (wide,) = operator.wide().get(key)
        assert wide["profile"] == profiles[key]
    assert operator["profile"].get(-1) is None
    assert operator["profile"].get(-1, "nothing") == "nothing"
    assert operator["event timers"].get(-1) == []
    with pytest.raises(InvalidOption, match="no key of type int64"):
        operator["profile"].get("x")
    with pytest.raises(InvalidOption, match="has no keys"):
        demo()["orders-from-kafka"]["SourceReaderState"].get(1)


def test_get_returns_the_rows_of_all_windows() -> None:
    state = demo()["revenue-per-product"]["window-contents"]
    rows = state.to_arrow().to_pylist()
    key = rows[0]["key"]
    assert state.get(key) == [
        {name: value for name, value in row.items() if name not in ("key", "key_group")}
        for row in rows
        if row["key"] == key
    ]


@pytest.mark.parametrize("fixture", newest_fixtures(), ids=lambda item: item.name)
def test_get_finds_keys_of_every_type(fixture: Fixture) -> None:
    for state in fixture.open().states:
        if state.distribution != "keyed" or state.problem is not None or "timers" in state.kind:
            continue
        try:
            rows = state.head(2, columns=["key", "value"]).to_pylist()
        except stateproc.SnapshotError:
            continue
        for row in rows:
            key = row["key"]
            if _has_nan(key):
                continue
            found = state.get(key)
            shown = dict(row["value"]) if isinstance(found, dict) and isinstance(row["value"], list) else row["value"]
            values = [item["value"] for item in found] if "namespace" in state.schema().names else [found]
            assert repr(shown) in map(repr, values), (state, key)


def _has_nan(key: Any) -> bool:
    parts = key.values() if isinstance(key, dict) else [key]
    return any(isinstance(part, float) and part != part for part in parts)


def test_keys_of_dates_and_structs() -> None:
    class Reader:
        schema = pa.schema([("key", pa.struct([("a", pa.date32()), ("b", pa.string())])), ("value", pa.int64())])

    from stateproc.model.row_access import rows_of_key

    keys: list[dict[str, Any] | None] = [{"a": datetime.date(2024, 2, 29), "b": "x"}, {"a": None, "b": "x"}]
    batch = pa.RecordBatch.from_pydict({"key": keys, "value": [1, 2]}, schema=Reader.schema)
    assert list(rows_of_key([batch], keys[0])) == [{"value": 1}]
    assert list(rows_of_key([batch], keys[1])) == [{"value": 2}]


def test_head_returns_the_first_rows() -> None:
    state = demo()["orders-per-customer"]["profile"]
    assert state.head(3) == state.to_arrow().slice(0, 3).combine_chunks()
    assert state.head(2, columns=["key"]).column_names == ["key"]
    assert state.head(0).num_rows == 0
    assert state.head(1000).num_rows == 300
    assert state.head(2, where="key = 42").column("key").to_pylist() == [42]


def test_where_filters_rows_as_on_the_command_line() -> None:
    state = demo()["orders-per-customer"]["profile"]
    assert state.to_arrow(where="key = 42").column("key").to_pylist() == [42]
    found = state.to_arrow(where="value.total > 450", columns=["key"])
    assert found.column_names == ["key"] and 299 in found.column("key").to_pylist()
    assert state.to_reader(where="key IN (1, 2)").read_all().num_rows == 2
    assert state.to_arrow(where="key < 100", keys=[42]).column("key").to_pylist().count(42) == 1
    with pytest.raises(InvalidOption, match="where: no field 'nam' in value"):
        state.to_arrow(where="value.nam = 1")


def test_polars_and_duckdb_get_all_rows() -> None:
    state = demo()["orders-per-customer"]["profile"]
    frame = state.to_polars(columns=["key"], where="key < 10")
    assert isinstance(frame, polars.DataFrame)
    keys = state.to_arrow(columns=["key"]).column("key").to_pylist()
    assert frame["key"].to_list() == [key for key in keys if key < 10]
    with duckdb.connect() as connection:
        relation = state.to_duckdb(connection, columns=["key"])
        assert relation.aggregate("count(*), sum(key)").fetchall() == [(300, sum(keys))]
        assert len(relation.fetchall()) == len(relation.fetchall()) == 300


def test_conditions_decode_source_states() -> None:
    state: State = demo()["orders-from-kafka"]["SourceReaderState"]
    assert state.to_arrow(where="partition = 1", columns=["topic", "partition"]).num_rows == 1
