"""Descriptions of user classes: the type language, JSON, and POJO serializers derived from them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.codec.kryo.types import FieldType, UserClass
from stateproc.errors import InvalidOption
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.java.field_types import parse_type
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.serializer import Pojo, Subclass, described_pojo, pojo_field_serializer

STRING = FieldType("java.lang.String")


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("int", FieldType("int")),
        ("Integer", FieldType("java.lang.Integer")),
        (" String ", STRING),
        ("java.util.List<java.lang.String>", FieldType("java.util.List", (STRING,))),
        ("list<string>", FieldType("java.util.List", (STRING,))),
        ("map<string, long>", FieldType("java.util.Map", (STRING, FieldType("java.lang.Long")))),
        ("long[][]", FieldType("[]", (FieldType("[]", (FieldType("long"),)),))),
        ("array<int>", FieldType("[]", (FieldType("int"),))),
        ("date", FieldType("java.time.LocalDate")),
        ("Date", FieldType("java.util.Date")),
        ("List<? extends a.B$C>", FieldType("java.util.List", (FieldType("a.B$C"),))),
        ("final a.B", FieldType("a.B", (), True)),
        ("Map<UUID, List<byte[]>>",
         FieldType("java.util.Map", (FieldType("java.util.UUID"),
                                     FieldType("java.util.List", (FieldType("[]", (FieldType("byte"),)),))))),
    ],
)  # fmt: skip
def test_type_texts_are_parsed(text: str, type_: FieldType) -> None:
    assert parse_type(text) == type_


@pytest.mark.parametrize(
    "text",
    ["", "list<", "list<>", "map<String>", "int<String>", "a b", "list<int>>", "array", "x!", "[]", ","],
)
def test_invalid_type_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="is no type"):
        parse_type(text)


def test_too_deeply_nested_types_are_refused() -> None:
    with pytest.raises(InvalidOption, match="too deep"):
        parse_type("list<" * 100 + "int" + ">" * 100)


SPEC = {"com.acme.X": {"a": "int", "b": "com.acme.Color"}, "com.acme.Color": ["RED", "GREEN"]}


def test_descriptions_as_dict_text_and_file_are_equal(tmp_path: Path) -> None:
    file = tmp_path / "classes.json"
    file.write_text(json.dumps(SPEC), encoding="utf-8")
    parsed = parse_classes(SPEC)
    assert parsed == {
        "com.acme.X": UserClass("com.acme.X", (("a", FieldType("int")), ("b", FieldType("com.acme.Color")))),
        "com.acme.Color": UserClass("com.acme.Color", constants=("RED", "GREEN")),
    }
    assert parse_classes(json.dumps(SPEC)) == parsed
    assert parse_classes(str(file)) == parse_classes(file) == parsed
    assert parse_classes(parsed) == parsed
    assert pickle.loads(pickle.dumps(parsed)) == parsed
    assert len({hash(description) for description in parsed.values()}) == 2
    assert parse_classes(None) == parse_classes("") == {}


def test_type_variables_are_declared_or_inferred() -> None:
    assert parse_classes({"a.Pair<V, K>": {"k": "K", "v": "V"}})["a.Pair"].variables == ("V", "K")
    assert parse_classes({"a.Box": {"content": "T", "more": "list<U>"}})["a.Box"].variables == ("T", "U")
    assert parse_classes({"final a.B": {}})["a.B"].final is True


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"a.B": 5}, "'a.B' is neither fields nor a list"),
        ({"a.B": []}, "'a.B' is neither fields nor a list"),
        ({"a.B": {"x": 1}}, "the field 'x' of 'a.B' has no type"),
        ({"a.B": {"x": "list<"}}, "the field 'x' of 'a.B': 'list<' is no type"),
        ({"int": {"x": "int"}}, "'int' is no class name"),
        ({"a.B": ["X", "X"]}, "twice"),
        ("{", "not JSON"),
        ("/no/such/file.json", "cannot be read"),
        ([1], "must be a mapping"),
    ],
)
def test_invalid_descriptions_are_refused(spec: object, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        parse_classes(spec)


def test_a_described_pojo_has_its_fields_sorted_by_name() -> None:
    pojo = described_pojo("a.X", {"a.X": {"z": "int", "b": "String", "e": "a.E"}, "a.E": ["P", "Q"]})
    assert pojo is not None
    assert [name for name, _ in pojo.fields] == ["b", "e", "z"]
    data = bytes.fromhex("02" + "00" + "0278" + "00" + "00000001" + "00" + "00000007")
    assert pojo.decode(data) == {"b": "x", "e": "Q", "z": 7}
    assert pojo.decode(memoryview(data)) == pojo.decode(data)
    assert described_pojo("a.E", {"a.E": ["P"]}) is None
    assert described_pojo("a.Y", {}) is None


def test_collections_in_pojos_have_another_serializer_in_flink_2() -> None:
    serializer = pojo_field_serializer(parse_type("list<int>"), {})
    assert serializer.decode(bytes.fromhex("00" + "00000001" + "00" + "00000005"), kryo=5) == [5]
    by_class = bytes.fromhex("5701010a").replace(b"\x0a", b"\x02\x0a")
    as_list = bytes.fromhex("0100") + b"java.util.ArrayLis\xf4" + by_class[1:]
    assert serializer.decode(as_list, kryo=2) == [5]
    strings = pojo_field_serializer(parse_type("map<String, int>"), {})
    encoded = bytes.fromhex("00" + "00000001" + "00" + "0278" + "00" + "00000005")
    assert strings.decode(encoded, kryo=5) == [("x", 5)]


def test_classes_without_a_flink_serializer_use_kryo() -> None:
    serializer = pojo_field_serializer(parse_type("LocalDate"), {})
    assert serializer == Kryo("java.time.LocalDate", ("java.time.LocalDate",))
    assert serializer.layout(LayoutContext(kryo=5)).min_size == 1


def test_a_recursive_class_uses_kryo() -> None:
    pojo = described_pojo("a.Node", {"a.Node": {"next": "a.Node", "n": "int"}})
    assert pojo is not None
    assert dict(pojo.fields)["next"] == Kryo("a.Node", ("a.Node",))


def test_fields_of_described_classes_that_use_kryo() -> None:
    """The expected types are those that TypeInformation.of(Leaf.class) prints in Flink 1.20."""
    classes = {
        "Base": {"id": "int"},
        "Mid extends Base": {"id": "int"},
        "Leaf extends Mid": {
            "id": "int",
            "inner": "Base",
            "many": "Base[]",
            "mid": "Mid",
            "self": "Leaf",
            "selves": "Leaf[]",
            "deep": "Leaf[][]",
            "other": "Other",
            "others": "Other[]",
        },
        "Above": {"p": "int"},
        "Other extends Above": {
            "p": "int",
            "leaf": "Leaf",
            "base": "Base",
            "o": "Other",
            "os": "Other[]",
            "bs": "Base[]",
            "op": "Above",
            "third": "Third",
        },
        "Third": {"oo": "Other", "ooo": "Other[]", "t": "Third"},
    }
    other = {
        "base": "Kryo Base",
        "bs": "Pojo Base[]",
        "leaf": "Kryo Leaf",
        "o": "Kryo Other",
        "op": "Kryo Above",
        "os": "Kryo Other[]",
        "p": "Integer",
        "third": {"oo": "Kryo Other", "ooo": "Kryo Other[]", "t": "Kryo Third"},
    }
    third = {"oo": "Kryo Other", "ooo": "Kryo [LOther;", "t": "Kryo Third"}
    assert _type_names(described_pojo("Leaf", classes)) == {
        "deep": "Kryo Leaf[][]",
        "id": "Integer",
        "inner": "Kryo Base",
        "many": "Pojo Base[]",
        "mid": "Kryo Mid",
        "other": other,
        "others": [{**other, "os": "Kryo [LOther;", "third": third}],
        "self": "Kryo Leaf",
        "selves": "Kryo Leaf[]",
    }


def test_fields_of_an_undescribed_superclass_use_kryo() -> None:
    classes = {"Leaf": {"id": "int", "inner": "Base", "many": "Base[]"}, "Base": {"id": "int"}}
    names = _type_names(described_pojo("Leaf", classes, ("Base",)))
    assert names == {"id": "Integer", "inner": "Kryo Base", "many": "Pojo Base[]"}


def _type_names(serializer: Serializer | None) -> Any:
    """Return names of types; POJOs with several fields and their arrays are expanded."""
    assert serializer is not None
    if isinstance(serializer, Pojo) and len(serializer.fields) > 1:
        return {name: _type_names(field) for name, field in serializer.fields}
    if isinstance(serializer, ListOf) and isinstance(_type_names(serializer.element), dict):
        return [_type_names(serializer.element)]
    return serializer.type_name


def test_collections_of_described_subclasses_have_the_described_types() -> None:
    """The same is true of subclasses in a snapshot, whose list may differ between subtasks of an operator."""
    classes = {"Leaf": {"id": "int", "tags": "list<String>"}}
    listed = Pojo("Base", (("id", SCALAR_INT),), (Subclass("Leaf", _leaf(Kryo("java.util.List", ())), None),))
    types = [
        pojo.layout(LayoutContext(kryo=2, classes=classes)).arrow_type
        for pojo in (Pojo("Base", (("id", SCALAR_INT),)), listed)
    ]
    assert types[0].field("tags").type == pa.list_(pa.string())
    assert types[0] == types[1]


SCALAR_INT = pojo_field_serializer(parse_type("int"), {})


def _leaf(tags: Serializer) -> Pojo:
    return Pojo("Leaf", (("id", SCALAR_INT), ("tags", tags)))
