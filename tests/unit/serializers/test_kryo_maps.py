"""Kryo values of classes that are Maps or Collections: bytes that Flink wrote (tests/vectors/kryo-maps.json)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from stateproc.codec.kryo.reader import read_kryo
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.values import json_text
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import InvalidOption, SnapshotError, UnsupportedSnapshot
from stateproc.serializers.core.base import LayoutContext, Undecodable
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.wire import Cursor
from tests.helpers.paths import VECTORS

RELEASES = {"1.20.5": 2, "2.3.0": 5}
OWN = "com.acme.lab.Case04$"
DESCRIBED: dict[str, Any] = {
    f"{OWN}Props": "map<String, Object>",
    f"{OWN}Names": "list<String>",
    f"{OWN}Sorted": "java.util.TreeMap<String, Long>",
    f"{OWN}ByLength": {},
    "com.acme.lab.MapBytes$1": "TreeMap<Object, Object>",
    "com.acme.lab.MapBytes$2": "map<Object, Object>",
}
FOUND = json.loads((VECTORS / "kryo-maps.json").read_bytes())["vectors"]
OF_USER = ("own HashMap", "own ArrayList", "own TreeMap", "TreeMap reverse", "double brace")


def data(name: str, version: int) -> bytes:
    return bytes.fromhex(FOUND[name][next(release for release, kryo in RELEASES.items() if kryo == version)])


def as_object(name: str, version: int, classes: Any = None) -> Any:
    """Decode a value of static type Object, which is JSON text."""
    return Kryo("java.lang.Object").decode(data(name, version), kryo=version, classes=parse_classes(classes))


def as_itself(name: str, version: int, classes: Any = None) -> Any:
    """Decode a value whose class is the static type."""
    serializer = Kryo(FOUND[name]["class"])
    return serializer.decode(data(name, version), kryo=version, classes=parse_classes(classes), opaque=False)


def in_the_middle(name: str, version: int, classes: Any, more: bytes = b"\0" * 9) -> Any:
    """Walk over a value that other bytes follow; return it as JSON text."""
    cursor = Cursor(data(name, version) + more)
    value = read_kryo(cursor, KryoSetting(version, classes=parse_classes(classes)))
    assert cursor.remaining == len(more)
    return json.loads(json_text(value))


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize("name", FOUND)
def test_values_are_those_that_flink_wrote(name: str, version: int) -> None:
    classes = DESCRIBED if name in OF_USER else None
    assert as_object(name, version, classes) == FOUND[name]["value"]
    assert in_the_middle(name, version, DESCRIBED) == FOUND[name]["value"]


@pytest.mark.parametrize("version", [2, 5])
def test_a_described_class_has_a_typed_column(version: int) -> None:
    assert as_itself("own HashMap", version, DESCRIBED) == [("k", "ab")]
    assert as_itself("own ArrayList", version, DESCRIBED) == ["ab"]
    assert as_itself("own TreeMap", version, DESCRIBED) == [("k", 1)]
    assert as_itself("JSONObject ordered", version, {"com.alibaba.fastjson.JSONObject": "map<String, Object>"}) == [
        ("k", "ab"),
        ("n", None),
    ]


@pytest.mark.parametrize("version", [2, 5])
def test_a_class_is_what_its_superclass_is(version: int) -> None:
    heading = f"{OWN}Props extends java.util.HashMap<String, String>"
    assert as_itself("own HashMap", version, {heading: {"version": "int"}}) == [("k", "ab")]
    above = {f"{OWN}Props extends com.acme.Above": {}, "com.acme.Above": "map<String, String>"}
    assert as_itself("own HashMap", version, above) == [("k", "ab")]


@pytest.mark.parametrize("version", [2, 5])
def test_a_sorted_map_that_is_described_as_a_map(version: int) -> None:
    classes = {f"{OWN}Sorted": "map<String, Long>"}
    assert as_itself("own TreeMap", version, classes) == [("k", 1)]
    assert in_the_middle("own TreeMap", version, classes) == {"k": 1}


@pytest.mark.parametrize("version", [2, 5])
def test_an_undescribed_comparator_needs_the_end_of_the_value(version: int) -> None:
    assert as_object("TreeMap own comparator", version) == {"ab": 1}
    with pytest.raises(UnsupportedSnapshot, match="ByLength") as error:
        in_the_middle("TreeMap own comparator", version, None)
    assert f'classes={{"{OWN}ByLength": {{' in str(error.value.advice)


# What Kryo writes for an empty subclass of each: without and with a place for a comparator.
EMPTY_SUBCLASSES = {
    "HashMap": {2: "00", 5: "01"},
    "EnumMap": {2: "00", 5: "01"},
    "ArrayList": {2: "00", 5: "01"},
    "HashSet": {2: "00", 5: "01"},
    "TreeMap": {2: "0000", 5: "0100"},
    "TreeSet": {2: "0000", 5: "0100"},
    "PriorityQueue": {2: "00", 5: "0100"},
}
ONE_FIELD: list[dict[str, Any]] = [{"version": "int"}, {"a": "byte"}, {"a": "boolean"}, {"a": "long"}]
"""Fields that can have the byte of an empty map."""


def empty_value(superclass: str, version: int) -> bytes:
    """Return an empty value of class com.acme.Shop$Props by its name."""
    name = b"com.acme.Shop$Props"
    body = bytes.fromhex(EMPTY_SUBCLASSES[superclass][version])
    return b"\1\0" + name[:-1] + bytes([name[-1] | 0x80]) + b"\1" + body


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize("superclass", EMPTY_SUBCLASSES)
def test_an_empty_map_or_collection_is_never_an_object_with_one_field(superclass: str, version: int) -> None:
    name, value = "com.acme.Shop$Props", empty_value(superclass, version)
    for fields in ONE_FIELD:
        for serializer in (Kryo(name), Kryo("java.lang.Object")):
            if len(EMPTY_SUBCLASSES[superclass][version]) > 2:
                with pytest.raises(SnapshotError, match="the bytes hold more"):
                    serializer.decode(value, kryo=version, classes={name: fields})
                continue
            with pytest.raises(UnsupportedSnapshot, match="has the bytes of an empty Map or Collection") as error:
                serializer.decode(value, kryo=version, classes={name: fields})
            assert f'"class {name}": {{…}}' in str(error.value.advice)
            assert f'"{name}": "map<String, Object>" or "list<Object>"' in str(error.value.advice)
            found = serializer.decode(value, kryo=version, classes={f"class {name}": fields})
            assert isinstance(found, dict) and found.keys() >= fields.keys()
    is_map = superclass.endswith("Map")
    of = "<Object, Object>" if is_map else "<Object>"
    assert Kryo(name).decode(value, kryo=version, classes={name: f"java.util.{superclass}{of}"}) == []
    if is_map:
        assert Kryo(name).decode(value, kryo=version, classes={name: f"map{of}"}) == []


@pytest.mark.parametrize("version", [2, 5])
def test_two_fields_are_an_object(version: int) -> None:
    """An empty TreeMap has the bytes of two small fields; (0, 0) is a value that objects often have."""
    value, classes = empty_value("TreeMap", version), {"com.acme.Shop$Props": {"a": "int", "b": "int"}}
    assert rows([value], version, classes) == [{"a": 0 if version == 2 else -1, "b": 0}]


@pytest.mark.parametrize("version", [2, 5])
def test_rows_with_an_empty_map_among_them_are_refused(version: int) -> None:
    """The columns of a program are searched, also where other rows cannot be maps."""
    value, classes = empty_value("HashMap", version), {"com.acme.Shop$Props": {"a": "int"}}
    other = value[:-1] + b"\4"
    assert rows([other, other], version, classes) == [{"a": 2}] * 2
    with pytest.raises(UnsupportedSnapshot, match="has the bytes of an empty Map or Collection"):
        rows([other, value, other], version, classes)


def rows(values: list[bytes], version: int, classes: dict[str, Any]) -> list[Any]:
    """Decode values of one column at once."""
    context = LayoutContext(kryo=version, classes=parse_classes(classes))
    data = np.frombuffer(b"".join(values) + bytes(8), dtype=np.uint8)
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    decoder = ValueDecoder(Kryo("com.acme.Shop$Props").layout(context))
    return list(decoder.decode(data, starts, ends).to_pylist())


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize("fields", [{"version": "int"}, {}, {"a": "int", "b": "String"}])
def test_a_map_that_is_described_by_fields(version: int, fields: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="its bytes are those of a map") as error:
        as_itself("own HashMap", version, {f"{OWN}Props": fields})
    assert f'classes={{"{OWN}Props": "map<Object, Object>"}}' in str(error.value.advice)
    assert as_itself("own HashMap", version, {f"{OWN}Props": "map<Object, Object>"}) is not None


@pytest.mark.parametrize("version", [2, 5])
def test_a_known_map_is_not_described_by_fields(version: int) -> None:
    classes = {"com.alibaba.fastjson.JSONObject": {"map": "map<String, Object>"}}
    with pytest.raises(Undecodable, match="is a Map or a Collection") as error:
        as_itself("JSONObject ordered", version, classes)
    assert '"com.alibaba.fastjson.JSONObject": "map<String, Object>"' in str(error.value.advice)
    assert as_object("JSONObject ordered", version, classes) == {"k": "ab", "n": None}


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({"com.acme.X": "int"}, "no Map or Collection of Java"),
        ({"com.acme.X": "map<String>"}, "1 type arguments, not 2"),
        ({"class com.acme.X": "map<String, Long>"}, "described as a class, but"),
        ({"record com.acme.X extends java.util.HashMap": {}}, "described as a record, but"),
        ({"class record com.acme.X": {"a": "int"}}, "both a class and a record"),
        ({"com.acme.X": "list<Strin>"}, "unknown type 'Strin'"),
        ({"com.acme.X": "com.acme.A | com.acme.B", "com.acme.A": {"a": "int"}}, "'com.acme.B'.* is not described"),
        ({"com.acme.X": "com.acme.A | com.acme.A", "com.acme.A": ["A"]}, "no class with fields"),
    ],
)
def test_descriptions_that_say_nothing_sound_are_refused(classes: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message) as error:
        parse_classes(classes)
    assert error.value.advice


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize("name", [name for name in FOUND if name not in OF_USER])
def test_damage_is_an_error_or_another_value(name: str, version: int) -> None:
    """No byte that is cut off or altered ends in anything but a value or an error of the project."""
    intact = data(name, version)
    for at in range(len(intact)):
        for changed in (intact[:at], intact[:at] + bytes([intact[at] ^ 0xFF]) + intact[at + 1 :]):
            try:
                Kryo("java.lang.Object").decode(changed, kryo=version)
            except SnapshotError as error:
                assert error.message
