"""Errors of class descriptions that do not fit the data: they name the class, the field and the correction."""

from __future__ import annotations

from typing import Any

import pytest

from stateproc.errors import CorruptSnapshot, InvalidOption
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.serializer import Kryo

POINT = bytes.fromhex("57010204")
"""A com.acme.Point {x: 1, y: 2} as Kryo 5 writes it."""


def decode(fields: dict[str, str], data: bytes = POINT, **more: Any) -> Any:
    serializer = Kryo("com.acme.Point", ("com.acme.Point",))
    return serializer.decode(data, kryo=5, classes={"com.acme.Point": fields, **more})


def test_an_additional_last_field_is_named() -> None:
    with pytest.raises(InvalidOption) as caught:
        decode({"x": "int", "y": "int", "z": "int"})
    assert caught.value.message == (
        "the description of class 'com.acme.Point' declares 3 fields, but the bytes hold 2: they fit without "
        "'x', 'y' or 'z'"
    )
    assert "remove the field that the class does not have" in str(caught.value.advice)
    assert caught.value.where.offset == 0


def test_an_additional_middle_field_is_named() -> None:
    with pytest.raises(InvalidOption, match="declares 3 fields, but the bytes hold 2: they fit without 'xx'"):
        decode({"x": "int", "xx": "String", "y": "int"})


def test_several_additional_fields_are_counted() -> None:
    with pytest.raises(InvalidOption, match="declares 5 fields, but the bytes hold 2"):
        decode({"x": "int", "y": "int", "z1": "int", "z2": "int", "z3": "String"})


def test_a_missing_field_is_reported_as_remaining_bytes() -> None:
    with pytest.raises(InvalidOption) as caught:
        decode({"x": "int"})
    assert caught.value.message == (
        "the description of class 'com.acme.Point' declares 1 field, but the bytes hold more: 1 byte is left after the "
        "last field 'x'"
    )
    assert "add the missing fields" in str(caught.value.advice)


def test_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(InvalidOption) as caught:
        decode({"x": "int", "y": "double"})
    assert caught.value.message.startswith(
        "the bytes do not fit the field 'y' (double) of class 'com.acme.Point' as described: "
    )
    assert "correct the description of 'com.acme.Point'" in str(caught.value.advice)


def test_a_nested_class_is_named() -> None:
    line = Kryo("com.acme.Line", ("com.acme.Line",))
    classes = {
        "com.acme.Line": {"a": "com.acme.Point", "b": "com.acme.Point"},
        "final com.acme.Point": {"x": "int", "y": "int", "z": "int"},
    }
    with pytest.raises(InvalidOption, match=r"description of class 'com\.acme\.Point' declares 3 fields, .*hold 2"):
        line.decode(bytes.fromhex("570101020401" + "0608"), kryo=5, classes=classes)


def test_damage_without_descriptions_is_reported_as_corruption() -> None:
    with pytest.raises(CorruptSnapshot, match="a reference to object"):
        Kryo("java.lang.Object", ("java.lang.Object",)).decode(bytes.fromhex("5709"), kryo=5)


@pytest.mark.parametrize(
    ("classes", "message", "advice"),
    [
        (
            {"com.acme.Order": {"id": "long", "name": "Strin"}},
            "the field 'name' of 'com.acme.Order': unknown type 'Strin'",
            "did you mean 'String'",
        ),
        (
            {"com.acme.Order": {"tags": "list<Strin>"}},
            "the field 'tags' of 'com.acme.Order': unknown type 'Strin' in 'java.util.List<Strin>'",
            "did you mean 'String'",
        ),
        (
            {"com.acme.Order": {"state": "State"}, "com.acme.State": ["NEW"]},
            "the field 'state' of 'com.acme.Order': unknown type 'State'",
            "did you mean 'com.acme.State'",
        ),
        (
            {"com.acme.Order": {"a": "TreeMap<String, int>"}},
            "unknown type 'TreeMap'",
            "its full name with the package, such as java.util.TreeMap",
        ),
        (
            {"com.acme.Pair<K, V>": {"k": "K", "v": "T"}},
            "the field 'v' of 'com.acme.Pair': unknown type 'T'",
            "type variables of the class: K, V",
        ),
        (
            {"com.acme.Order extends Bas": {"a": "int"}},
            "the superclass of 'com.acme.Order': unknown type 'Bas'",
            "full name",
        ),
    ],
)
def test_unknown_types_are_refused(classes: dict[str, Any], message: str, advice: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_classes(classes)
    assert message in caught.value.message
    assert advice in str(caught.value.advice)


@pytest.mark.parametrize(
    "classes",
    [
        {"Order": {"next": "Order", "state": "State"}, "State": ["NEW"]},
        {"a.Box": {"content": "T", "more": "list<U>"}},
        {"a.Pair<Key, Value>": {"k": "Key", "v": "Value"}},
        {"a.Order": {"other": "com.acme.Undescribed", "m": "java.util.TreeMap<String, int>"}},
        {"a.Order extends com.acme.Base": {"a": "int"}},
    ],
)
def test_known_types_are_accepted(classes: dict[str, Any]) -> None:
    assert parse_classes(classes)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ('{"a.B": {"x": "int"}, "a.B": {"y": "int"}}', "'a.B' occurs twice"),
        ('{"a.B": {"x": "int", "x": "long"}}', "'x' occurs twice"),
        ({"a.B": {"x": "int"}, "final a.B": {"x": "int"}}, "the class 'a.B' is described twice"),
        ({"Date": {"x": "int"}}, "'Date' is short for java.util.Date"),
        ({"list": ["A"]}, "'list' is short for java.util.List"),
        ({"a.B<K, K>": {"x": "K"}}, "the class 'a.B' has the type variable 'K' twice"),
    ],
)
def test_duplicates_and_short_names_of_jdk_classes_are_refused(spec: Any, message: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_classes(spec)
    assert message in caught.value.message
    assert caught.value.advice
