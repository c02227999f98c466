"""Names of struct fields: kept by the serializers of Flink that store names, positions by those that do not."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter

_PERSON = pa.struct([("name", pa.string()), ("visits", pa.int64())])
_ADA = {"name": "Ada", "visits": 3}
_POJO = "Pojo com.acme.Person {name: String, visits: Long}"
_ROW_DATA = "ROW<name STRING, visits BIGINT>"
_AVRO = (
    'Avro {"type": "record", "name": "Person", "fields": '
    '[{"name": "name", "type": "string"}, {"name": "visits", "type": "long"}]}'
)


def _names(value: pa.DataType) -> list[str]:
    return [field.name for field in value]


def _read(folder: Path, operator: OperatorBootstrap, state: str) -> pa.Table:
    path = SavepointWriter.new_savepoint(None).with_operator("op", operator).write(folder / "savepoint")
    return stateproc.open(path, uids=["op"]).state("op", state).to_arrow()


@pytest.mark.parametrize("type_", [_POJO, _AVRO])
def test_types_with_names_keep_them(tmp_path: Path, type_: str) -> None:
    rows = pa.table({"key": [1], "value": pa.array([_ADA], _PERSON)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = _read(tmp_path, OperatorBootstrap().value_state("v", rows, type=type_), "v")
    assert _names(table.schema.field("value").type) == ["name", "visits"]
    assert table["value"].to_pylist() == [_ADA]


@pytest.mark.parametrize("type_", [_POJO, _AVRO])
def test_names_within_lists_maps_and_keys(tmp_path: Path, type_: str) -> None:
    people = pa.table({"key": [1], "value": pa.array([[_ADA]], pa.list_(_PERSON))})
    by_name = pa.table({"key": [1], "value": pa.array([[("a", _ADA)]], pa.map_(pa.string(), _PERSON))})
    operator = OperatorBootstrap().list_state("people", people, element_type=type_)
    operator.map_state("by_name", by_name, map_value_type=type_)
    assert _read(tmp_path / "lists", operator, "people")["value"].to_pylist() == [[_ADA]]
    assert _read(tmp_path / "maps", operator, "by_name")["value"].to_pylist() == [[("a", _ADA)]]


@pytest.mark.parametrize(
    ("type_", "warned"),
    [(None, True), ("Row<String, Long>", False), ("Tuple2<String, Long>", False), (_ROW_DATA, False)],
)
def test_rows_tuples_and_row_data_have_positions(tmp_path: Path, type_: str | None, warned: bool) -> None:
    rows = pa.table({"key": [1], "value": pa.array([_ADA], _PERSON)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        operator = OperatorBootstrap().value_state("v", rows, type=type_)
    advice = "the names name, visits are not stored; give a type with names (types.Pojo, types.Avro) to keep them"
    assert any(advice in str(item.message) for item in caught) == warned
    assert _read(tmp_path, operator, "v")["value"].to_pylist() == [{"f0": "Ada", "f1": 3}]


def test_row_data_within_row_data_has_names(tmp_path: Path) -> None:
    rows = pa.table({"key": [1], "value": pa.array([{"person": _ADA}], pa.struct([("person", _PERSON)]))})
    operator = OperatorBootstrap().value_state("v", rows, type=f"ROW<person {_ROW_DATA}>")
    assert _read(tmp_path, operator, "v")["value"].to_pylist() == [{"f0": _ADA}]
