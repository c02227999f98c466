"""Avro in Flink's encoding with handwritten bytes: unions, blocks, logical types, recursion and damage."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stateproc.codec.avro_schema import parse_schema
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.serializers.core.base import LayoutContext, Serializer
from tests.helpers.byte_builders.serializers import i32, i64, read, utf, versioned

NAME = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"


def avro(schema: Any) -> Serializer:
    """Return the serializer of a version 2 snapshot, whose strings are plain."""
    return read(versioned(NAME, 2, utf("com.acme.User") + utf(json.dumps(schema))))


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def text(value: str) -> bytes:
    return i32(len(value.encode())) + value.encode()


def test_numbers_have_fixed_width_and_strings_a_length() -> None:
    serializer = avro(record("R", a="int", b="long", c="string", d="boolean", e="null"))
    assert serializer.decode(i32(-1) + i64(2) + text("é") + b"\x01") == {
        "a": -1, "b": 2, "c": "é", "d": True, "e": None,
    }  # fmt: skip
    assert serializer.type_name == "Avro R"


def test_snapshot_version_1_contains_only_the_schema() -> None:
    assert read(versioned(NAME, 1, utf('"int"'))).decode(i32(5)) == 5
    with pytest.raises(UnsupportedSnapshot, match="version 4"):
        read(versioned(NAME, 4))


@pytest.mark.parametrize(("schema", "data", "expected"), [
    (["null", "int"], i32(0), None),
    (["null", "int"], i32(1, 7), 7),
    (["int", "null"], i32(1), None),
    (["int"], i32(0, 7), 7),
    (["null"], i32(0), None),
])  # fmt: skip
def test_a_union_of_null_and_one_type_is_that_type(schema: Any, data: bytes, expected: int | None) -> None:
    assert avro(schema).decode(data) == expected


def test_the_arrow_type_of_a_nullable_union_is_that_of_the_value() -> None:
    assert avro(["null", "long"]).layout(LayoutContext()).arrow_type == pa.int64()


def test_other_unions_are_structs_with_one_field_set() -> None:
    schema = ["null", "int", "string", record("a.X", n="int"), record("b.X", n="int")]
    serializer = avro(schema)
    none = {"int": None, "string": None, "X": None, "b.X": None}
    assert serializer.decode(i32(0)) is None
    assert serializer.decode(i32(2) + text("t")) == none | {"string": "t"}
    assert serializer.decode(i32(4, 9)) == none | {"b.X": {"n": 9}}
    with pytest.raises(CorruptSnapshot):
        serializer.decode(i32(5))


def test_arrays_and_maps_are_read_in_blocks() -> None:
    assert avro({"type": "array", "items": "int"}).decode(b"\x02" + i32(1, 2) + b"\x01" + i32(3) + b"\x00") == [1, 2, 3]
    assert avro({"type": "array", "items": "int"}).decode(b"\x00") == []
    assert avro({"type": "map", "values": "int"}).decode(b"\x01" + text("k") + i32(5) + b"\x00") == [("k", 5)]
    assert avro({"type": "array", "items": ["null", "int"]}).decode(b"\x02" + i32(0, 1, 4) + b"\x00") == [
        None,
        4,
    ]


@pytest.mark.parametrize("items", ["int", "null"])
def test_a_block_with_an_impossible_number_of_items_is_refused(items: str) -> None:
    with pytest.raises(CorruptSnapshot):
        avro({"type": "array", "items": items}).decode(b"\xff\xff\xff\xff\x07" + bytes(64))


def test_enums_and_fixed() -> None:
    suit = {"type": "enum", "name": "Suit", "symbols": ["A", "B"]}
    assert avro(suit).decode(i32(1)) == "B"
    with pytest.raises(CorruptSnapshot, match="constant 2"):
        avro(suit).decode(i32(2))
    assert avro({"type": "fixed", "name": "F", "size": 3}).decode(b"abc") == b"abc"


@pytest.mark.parametrize(("kind", "logical", "data", "expected"), [
    ("int", "date", i32(-1), dt.date(1969, 12, 31)),
    ("int", "time-millis", i32(1), dt.time(0, 0, 0, 1_000)),
    ("long", "time-micros", i64(86_399_999_999), dt.time(23, 59, 59, 999_999)),
    ("long", "timestamp-millis", i64(-1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.timezone.utc)),
    ("long", "timestamp-nanos", i64(1), "1970-01-01T00:00:00.000000001Z"),
    ("long", "local-timestamp-micros", i64(1), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
    ("string", "uuid", text("u"), "u"),
    ("int", "made-up", i32(3), 3),
])  # fmt: skip
def test_logical_types(kind: str, logical: str, data: bytes, expected: Any) -> None:
    assert avro({"type": kind, "logicalType": logical}).decode(data) == expected


def test_a_time_of_24_hours_or_more_is_refused() -> None:
    with pytest.raises(CorruptSnapshot):
        avro({"type": "long", "logicalType": "time-micros"}).decode(i64(86_400_000_000))


@pytest.mark.parametrize("precision", [5, 50])
def test_decimals_of_any_precision(precision: int) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
    assert avro(schema).decode(i32(2) + b"\xff\x85") == Decimal("-1.23")
    fixed = {
        "type": "fixed",
        "name": "D",
        "size": 2,
        "logicalType": "decimal",
        "precision": precision,
        "scale": 2,
    }
    assert avro(fixed).decode(b"\xff\x85") == Decimal("-1.23")


def test_an_invalid_decimal_type_is_read_as_bytes() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}
    assert avro(schema).decode(i32(1) + b"\x05") == b"\x05"


def test_namespaces_are_inherited() -> None:
    inner = record("Inner", n="int")
    outer = record("com.acme.Outer", first=inner, second="Inner", third="com.acme.Inner")
    assert avro(outer).decode(i32(1, 2, 3)) == {"first": {"n": 1}, "second": {"n": 2}, "third": {"n": 3}}


def test_recursive_types_are_json_text_from_the_second_level_on() -> None:
    serializer = avro(record("Node", id="long", next=["null", "Node"]))
    arrow = serializer.layout(LayoutContext()).arrow_type
    assert arrow == pa.struct([pa.field("id", pa.int64()), pa.field("next", pa.string())])
    data = i64(1) + i32(1) + i64(2) + i32(1) + i64(3) + i32(0)
    assert serializer.decode(data) == {"id": 1, "next": {"id": 2, "next": {"id": 3, "next": None}}}
    for end in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            serializer.decode(data[:end])


def test_json_text_of_every_kind() -> None:
    fields = {
        "float": "float", "bytes": "bytes", "flag": "boolean",
        "day": {"type": "int", "logicalType": "date"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
        "either": ["int", "string"], "map": {"type": "map", "values": "int"},
        "next": ["null", "T"],
    }  # fmt: skip
    one = bytes.fromhex("7fc00000") + i32(1) + b"\xff" + b"\x01" + i32(1) + i32(1) + b"\x0f" + i32(1) + text("s")
    one += b"\x01" + text("k") + i32(5) + b"\x00"
    decoded = avro(record("T", **fields)).decode(one + i32(1) + one + i32(0))
    assert decoded["next"] == {
        "float": "NaN", "bytes": "/w==", "flag": True, "day": "1970-01-02", "price": "1.5",
        "either": {"string": "s"}, "map": [{"key": "k", "value": 5}], "next": None,
    }  # fmt: skip


def test_an_infinitely_recursive_type_is_refused() -> None:
    with pytest.raises(SnapshotError):
        avro(record("A", a="A")).decode(b"")


def test_a_small_schema_that_expands_to_a_huge_one_is_refused() -> None:
    fields: dict[str, Any] = {"l0": record("T0", a="int", b="int")}
    for level in range(1, 30):
        fields[f"l{level}"] = record(f"T{level}", a=f"T{level - 1}", b=f"T{level - 1}")
    with pytest.raises(UnsupportedSnapshot, match="20000 parts"):
        avro(record("Root", **fields)).decode(b"")


@pytest.mark.parametrize("schema", [
    "{", "1", '"Unknown"', '{"type": "record", "name": "R"}', '{"type": "record", "fields": []}', "{}",
    '{"type": "enum", "name": "E"}', '{"type": "fixed", "name": "F", "size": -1}', '{"type": "array"}',
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
    '[{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 1}]', "[" * 5000,
])  # fmt: skip
def test_a_malformed_schema_is_refused(schema: str) -> None:
    with pytest.raises(CorruptSnapshot):
        read(versioned(NAME, 1, utf(schema)))


def test_a_too_deeply_nested_schema_is_refused() -> None:
    deep: Any = "int"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    with pytest.raises(UnsupportedSnapshot, match="64 levels"):
        parse_schema(json.dumps(deep))
