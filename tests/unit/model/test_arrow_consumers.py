"""DuckDB and polars read states and results as Arrow streams, with every value exactly as it is."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import stateproc
from stateproc.model import parallel_scan
from stateproc.model.state import State
from tests.helpers.fixtures import fixtures
from tests.helpers.paths import FIXTURES

KITCHEN = [item for item in fixtures("canonical") if item.name in ("1.20/kitchen-hashmap-canonical", "1.20/demo")]


def states() -> Iterator[Any]:
    for fixture in KITCHEN:
        for state in fixture.open().states:
            yield pytest.param(state, id=f"{fixture.name}-{state.operator.display}-{state.name}")


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as Python values, by which types of equal content (string views, offsets' widths) are equal."""
    return rows.to_pylist()


@pytest.mark.parametrize("state", list(states()))
def test_duckdb_reads_every_state(state: State) -> None:
    expected = plain(state.to_arrow())
    found = duckdb.sql("select * from state")
    assert found.columns == state.schema().names
    assert plain(found.to_arrow_table()) == expected
    assert plain(duckdb.from_arrow(state).to_arrow_table()) == expected


@pytest.mark.parametrize("state", list(states()))
def test_polars_reads_every_state(state: State) -> None:
    expected = plain(state.to_arrow())
    frame = polars.DataFrame(state)
    assert frame.columns == state.schema().names
    assert plain(frame.to_arrow()) == expected
    assert plain(polars.from_arrow(state.to_arrow()).to_arrow()) == expected


def profiles() -> State:
    return stateproc.open(str(FIXTURES / "1.20/demo/snapshot")).state("orders-per-customer", "profile")


def test_duckdb_queries_states_and_their_readers() -> None:
    state = profiles()
    rows = {row["key"]: row["value"] for row in state.to_arrow().to_pylist()}
    found = duckdb.sql("select key, value.name, value.orders from state where key in (7, 42) order by key").fetchall()
    assert found == [(key, rows[key]["name"], rows[key]["orders"]) for key in (7, 42)]
    # A state can be read again and again, a reader once.
    joined = duckdb.sql("select count(*), sum(a.value.orders) from state a join state b using (key)").fetchall()
    assert joined == [(len(rows), sum(value["orders"] for value in rows.values()))]
    reader = state.to_reader(columns=["key"], keys=[42])  # noqa: F841  (DuckDB finds variables by their names)
    assert duckdb.sql("select key from reader where key = 42").fetchall() == [(42,)]


def test_a_query_that_stops_early_leaves_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_scan, "_SMALLEST_SPLIT", 256)
    monkeypatch.setattr(parallel_scan, "SMALLEST_SCAN", 0)
    state = profiles()  # noqa: F841
    assert len(duckdb.sql("select key from state limit 3").fetchall()) == 3
    gc.collect()  # DuckDB 1.5 leaves the stream in a cycle of references, and ends it meanwhile
    readers = [thread for thread in threading.enumerate() if thread.name.startswith("stateproc-scan")]
    for reader in readers:
        reader.join(10)
    assert not [reader.name for reader in readers if reader.is_alive()]


def test_polars_takes_a_stream_for_a_column_of_structs() -> None:
    column = polars.from_arrow(profiles())
    assert isinstance(column, polars.Series)
    assert column.struct.unnest().to_arrow().to_pylist() == profiles().to_arrow().to_pylist()
