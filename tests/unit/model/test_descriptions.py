"""Descriptions of states agree with the schemas of their rows and with Spark's types, for every fixture."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stateproc.model.description import DescribedType
from stateproc.row_formats.column_types import spark_type
from tests.helpers.fixtures import Fixture, fixtures

_FEW = [item for item in fixtures() if item.name.startswith(("1.20/kitchen-hashmap-canonical", "2.3/sql-hashmap-can"))]


def _check(fixture: Fixture) -> int:
    described = 0
    for state in fixture.open().states:
        description = state.describe()
        described += 1
        assert str(description)
        if description.problem:
            continue
        schema = state.schema()
        assert [(item.name, item.arrow) for item in description.columns] == [
            (field.name, str(field.type)) for field in schema
        ]
        types = {node.name: node for node in description.types}
        assert types, state
        for name in ("key", "value"):
            if name in types and name in schema.names:
                assert types[name].arrow == str(schema.field(name).type), (fixture.name, state)
        for node in description.types:
            _check_node(node)
    return described


def _check_node(node: DescribedType) -> None:
    assert node.arrow is not None and node.spark is not None, node
    for field in node.fields:
        _check_node(field)


@pytest.mark.parametrize("fixture", _FEW, ids=lambda item: item.name)
def test_descriptions_agree_with_schemas(fixture: Fixture) -> None:
    assert _check(fixture) > 10


@pytest.mark.exhaustive
@pytest.mark.parametrize("release", sorted({item.path.parent.name for item in fixtures()}))
def test_every_state_of_every_fixture_is_described(release: str) -> None:
    assert sum(_check(item) for item in fixtures() if item.path.parent.name == release) > 10


@pytest.mark.parametrize(
    "of",
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(), pa.binary()),
        *(pa.binary(3), pa.date32(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.decimal128(10, 2)),
        *(pa.decimal256(60, 2), pa.null(), pa.list_(pa.int32()), pa.map_(pa.string(), pa.list_(pa.int64()))),
        *(pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.string())]))]), pa.time64("us"), pa.duration("us")),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_names_of_types_are_those_of_spark(of: pa.DataType) -> None:
    from stateproc.spark.types import spark_schema

    assert spark_type(of) == spark_schema(pa.schema([("column", of)]))["column"].dataType.simpleString()
