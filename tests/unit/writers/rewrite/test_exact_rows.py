"""Rows that a writer reads are exact: a state that a function returns as it is has the same values afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.jobs.source_tables import snapshot_state
from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers import LayoutContext
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.cases import case_snapshots
from tests.helpers.fixtures import CLASSES, fixtures

READS_EVERY_MODE = False
NANOSECONDS = next(one for one in case_snapshots() if one.case == "nanoseconds")
TRANSFORMED = {StateKind.VALUE, StateKind.LIST, StateKind.MAP, StateKind.REDUCING, StateKind.AGGREGATING}
REFUSED = {
    "text with half of a surrogate pair": "on_loss='cut'",
    "are read only": "",
}
"""Values that no column holds, or that cannot be written: what errors say, and what they advise."""


def identity(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    return rows


def ordered(value: Any) -> str:
    """Return text of a value in which the entries of maps are in order."""
    if isinstance(value, list):
        parts = list(map(ordered, value))
        pairs = bool(value) and all(isinstance(item, tuple) for item in value)
        return f"[{', '.join(sorted(parts) if pairs else parts)}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(ordered, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {ordered(item)}' for name, item in value.items())}}}"
    return repr(value)


def is_sql(type_name: str) -> bool:
    return "RowData" in type_name or "ROW<" in type_name


def exact_rows(operator: Operator, state: str, kinds: bool = True) -> list[str]:
    options = replace(operator.options, temporal="exact", row_kind=kinds, on_loss="cut")
    return sorted(map(ordered, operator.with_options(options).state(state).to_arrow().to_pylist()))


def alone(snapshot: Snapshot, operator: Operator) -> SavepointWriter:
    """Return a writer of a snapshot with one of its operators."""
    writer = SavepointWriter.from_snapshot(None, snapshot).drop_in_flight_data()
    for other in snapshot.operators:
        if other.operator_id != operator.operator_id:
            writer.remove_operator(other.operator_id)
    return writer


def kinds_of_states() -> Iterator[tuple[Snapshot, Operator, str]]:
    """Yield one state of each kind and each type of keys and values that the fixtures have."""
    seen = set()
    for one in fixtures():
        if one.part:
            continue
        snapshot = one.open(classes=CLASSES)
        for operator in snapshot.operators:
            for state in operator.keyed_states:
                kind = (state.value_type, state.key_type, state.keyed.kind)
                if state.keyed.kind in TRANSFORMED and kind not in seen:
                    seen.add(kind)
                    yield snapshot, operator, state.name


def test_states_that_stay_as_they_are_keep_all_values_and_types(tmp_path: Path) -> None:
    compared, refused = 0, set()
    for number, (snapshot, operator, name) in enumerate(kinds_of_states()):
        writer = alone(snapshot, operator).transform_state(operator.operator_id, name, identity)
        try:
            path = writer.write(tmp_path / str(number))
        except SnapshotError as error:
            message = next(text for text in REFUSED if text in error.message)
            assert REFUSED[message] in (error.advice or "")
            refused.add(message)
            continue
        again = stateproc.open(path, classes=CLASSES).operator(operator.operator_id)
        # Rows of SQL operators are written as +I: the operators set the kind when they emit a row.
        kinds = not is_sql(operator.state(name).value_type)
        assert exact_rows(again, name, kinds) == exact_rows(operator, name, kinds), (snapshot.path, name)
        assert again.state(name).value_type == operator.state(name).value_type
        compared += 1
    assert compared > 50
    assert refused == set(REFUSED)


@pytest.mark.parametrize("name", ["instant", "datetime", "time", "timestamp", "event", "byName"])
def test_nanoseconds_are_kept(name: str, tmp_path: Path) -> None:
    before = NANOSECONDS.open().operator("op")
    for options in ({}, {"temporal": "exact"}, {"temporal": "lossless"}):
        writer = SavepointWriter.from_existing_savepoint(None, NANOSECONDS.path, {"uids": "op", **options})
        path = writer.transform_state("op", name, identity).write(tmp_path / options.get("temporal", "default"))
        after = stateproc.open(path, uids=["op"]).operator("op")
        assert exact_rows(after, name) == exact_rows(before, name)
        assert after.state(name).value_type == before.state(name).value_type


def test_a_type_that_was_chosen_and_cannot_hold_a_value_is_an_error(tmp_path: Path) -> None:
    chosen = {"uids": "op", "temporal": "micros"}
    writer = SavepointWriter.from_existing_savepoint(None, NANOSECONDS.path, chosen)
    writer.transform_state("op", "event", identity)
    with pytest.raises(UnsupportedSnapshot, match="digits below a microsecond") as refused:
        writer.write(tmp_path / "out")
    assert refused.value.where.state == "event" and "temporal='lossless'" in (refused.value.advice or "")
    assert not (tmp_path / "out").exists()
    cut = SavepointWriter.from_existing_savepoint(None, NANOSECONDS.path, {**chosen, "onLoss": "cut"})
    path = cut.transform_state("op", "instant", identity).write(tmp_path / "cut")
    rows = stateproc.open(path, uids=["op"], temporal="exact").state("op", "instant").to_arrow()
    assert all(len(text) == len("2023-11-14T22:13:20.123456Z") for text in rows["value"].to_pylist())


def test_functions_may_return_timestamps_where_they_got_text(tmp_path: Path) -> None:
    """The state keeps Flink's type."""

    def typed(rows: pa.RecordBatchReader) -> pa.Table:
        table = rows.read_all()
        times = pc.cast(pc.utf8_slice_codeunits(table["value"], 0, 26), pa.timestamp("us"))
        return table.set_column(table.column_names.index("value"), "value", times)

    writer = SavepointWriter.from_existing_savepoint(None, NANOSECONDS.path, {"uids": "op"})
    path = writer.transform_state("op", "datetime", typed).write(tmp_path / "out")
    assert stateproc.open(path, uids=["op"]).state("op", "datetime").value_type == "LocalDateTime"


def test_types_without_nanoseconds_are_no_text(tmp_path: Path) -> None:
    rows = pa.table({"key": [1], "value": pa.array(["2024-02-29T01:02:03.123"])})
    made = {
        "SQL TIMESTAMP(3)": pa.timestamp("us"), "SQL TIMESTAMP(6)": pa.timestamp("us"), "SQL TIMESTAMP(9)": pa.string(),
        "java.util.Date": pa.timestamp("us", "UTC"), "LocalDateTime": pa.string(),
    }  # fmt: skip
    for number, (type_, arrow) in enumerate(made.items()):
        state = OperatorBootstrap().value_state("v", rows, "value", type=type_)
        path = SavepointWriter.new_savepoint(None).with_operator("op", state).write(tmp_path / str(number))
        found = []

        def seen(batches: pa.RecordBatchReader, found: list[pa.DataType] = found) -> pa.RecordBatchReader:
            found.append(batches.schema.field("value").type)
            return batches

        writer = SavepointWriter.from_existing_savepoint(None, path).transform_state("op", "v", seen)
        again = stateproc.open(writer.write(tmp_path / f"again {number}"), temporal="exact").state("op", "v")
        assert found == [arrow], type_
        assert again.to_arrow()["value"].to_pylist()[0].startswith("2024-02-29T01:02:03.123")


@pytest.mark.parametrize("type_", ["Row<Integer, String>", "SQL ROW<a INT, b STRING>"])
def test_row_kinds_are_written_back(type_: str, tmp_path: Path) -> None:
    names = ("f0", "f1") if type_.startswith("Row") else ("a", "b")
    values = [{names[0]: n, names[1]: "x", "row_kind": kind} for n, kind in enumerate(("+I", "-U", "+U", "-D"))]
    rows = pa.table({"key": range(4), "value": pa.array(values)})
    state = OperatorBootstrap().value_state("v", rows, "value", type=type_)
    path = SavepointWriter.new_savepoint(None).with_operator("op", state).write(tmp_path / "source")
    plain = SavepointWriter.from_existing_savepoint(None, path).transform_state("op", "v", identity)
    if type_.startswith("Row"):
        with pytest.raises(UnsupportedSnapshot, match="RowKind") as error:
            plain.write(tmp_path / "plain")
        assert "row_kind=True" in (error.value.advice or "")
    else:
        state_of_inserts = stateproc.open(plain.write(tmp_path / "plain"), row_kind=True).state("op", "v")
        assert {row["value"]["row_kind"] for row in state_of_inserts.to_arrow().to_pylist()} == {"+I"}
    writer = SavepointWriter.from_existing_savepoint(None, path, {"rowKind": True}).transform_state("op", "v", identity)
    again = stateproc.open(writer.write(tmp_path / "again"), row_kind=True).state("op", "v")
    found = {row["key"]: row["value"]["row_kind"] for row in again.to_arrow().to_pylist()}
    assert found == {0: "+I", 1: "-U", 2: "+U", 3: "-D"}


def test_sources_of_jobs_are_exact() -> None:
    values = {"snapshot": NANOSECONDS.path, "uid": "op", "state": "instant", "open": {"uids": ["op"]}}
    assert snapshot_state(values).to_arrow()["value"].to_pylist()[0].startswith("2023-11-14T22:13:2")
    typed = snapshot_state({**values, "open": {"uids": ["op"], "temporal": "micros"}})
    with pytest.raises(UnsupportedSnapshot, match="digits below a microsecond"):
        typed.to_arrow()


def test_half_a_surrogate_pair_is_refused_and_whole_pairs_are_not() -> None:
    """UTF-16 units as varints after their number plus one, in both decoders: alone and among a thousand rows."""
    layout = types.of("String").layout(LayoutContext(strict=True))
    whole, half = "a😀\ufffdé", bytes([3, 0x80, 0xB0, 0x03, 0x61])
    raw = layout.encode(pa.array([whole])).to_arrow()[0].as_py()
    assert types.of("String").decode(raw, strict=True) == whole
    assert types.of("String").decode(half) == "\ufffda"
    with pytest.raises(UnsupportedSnapshot, match="half of a surrogate pair"):
        types.of("String").decode(half, strict=True)
    for type_, units in (("Character", b"\xdc\x00"), ("String[]", b"\0\0\0\1" + half)):
        with pytest.raises(UnsupportedSnapshot, match="half of a surrogate pair"):
            types.of(type_).decode(units, strict=True)
