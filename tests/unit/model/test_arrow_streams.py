"""States as Arrow streams: the C stream protocol, with the options of batches, in bounded memory."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest

import stateproc
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.model import parallel_scan
from stateproc.model.operator_state import opened_state
from stateproc.model.state import State
from tests.helpers.paths import FIXTURES

DEMO = str(FIXTURES / "1.20/demo/snapshot")


@pytest.fixture(autouse=True)
def no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parallel_scan, "_SMALLEST_SPLIT", 256)
    monkeypatch.setattr(parallel_scan, "SMALLEST_SCAN", 0)
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stateproc-scan")]


def every_state() -> list[State]:
    snapshot = stateproc.open(DEMO)
    keyed = [operator for operator in snapshot.operators if operator.keyed_states]
    return [*snapshot.states, *map(opened_state, snapshot.states), *(operator.wide() for operator in keyed)]


def test_every_kind_of_state_is_a_stream() -> None:
    states = every_state()
    assert len({type(state) for state in states}) == 5
    for state in states:
        expected = state.to_arrow()
        assert pa.table(state).equals(expected)
        assert pa.RecordBatchReader.from_stream(state).read_all().equals(expected)


def profile() -> State:
    return stateproc.open(DEMO).state("orders-per-customer", "profile")


def test_a_stream_is_cast_to_a_requested_schema() -> None:
    wanted = pa.schema([("key_group", pa.int64()), ("key", pa.int64()), profile().schema().field("value")])
    table = pa.RecordBatchReader.from_stream(profile(), schema=wanted).read_all()
    assert table.schema == wanted
    assert table.to_pylist() == profile().to_arrow().to_pylist()


def test_a_reader_has_the_options_of_batches() -> None:
    reader = profile().to_reader(columns=["key"], keys=[42], threads=2)
    assert reader.schema == pa.schema([("key", pa.int64())])
    assert 42 in reader.read_all().column("key").to_pylist()
    dataset_rows = pa.dataset.Scanner.from_batches(profile().to_reader()).to_table()
    assert dataset_rows.num_rows == 300
    with pytest.raises(InvalidOption, match="no column 'nothing'"):
        profile().to_reader(columns=["nothing"])


def test_a_stream_that_is_not_read_to_its_end_stops_its_threads() -> None:
    reader = pa.RecordBatchReader.from_stream(profile())
    assert len(reader.read_next_batch()) > 0
    del reader


def test_errors_of_planning_are_typed_and_errors_of_reading_name_the_file(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path / "s")
    state = stateproc.open(str(tmp_path / "s")).state("orders-per-customer", "profile")
    for file in {Path(split.origin) for split in state.splits()}:  # type: ignore[attr-defined]
        file.unlink()
    with pytest.raises(pa.ArrowInvalid, match=r"no such file .*operator orders-per-customer, state 'profile'"):
        pa.table(state)

    class Undecodable(type(state)):  # type: ignore[misc]
        def schema(self, *, flatten: bool = False) -> pa.Schema:
            raise UnsupportedSnapshot("no type")

    state.__class__ = Undecodable
    with pytest.raises(UnsupportedSnapshot, match="no type"):
        pa.table(state)
