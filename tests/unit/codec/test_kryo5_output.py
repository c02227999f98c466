"""Values of Kryo 2 are converted to the bytes that Flink 2.3 itself wrote for equal objects (tests/vectors)."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest

from stateproc.codec.kryo.kryo5_output import Unconvertible, kryo5_bytes
from stateproc.codec.kryo.reader import read_kryo
from stateproc.codec.kryo.recorded_graph import record_kryo
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.values import KryoMap, Text
from stateproc.codec.layouts import Layout
from stateproc.codec.machine import ValueDecoder
from stateproc.serializers import LayoutContext, read_snapshot
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.wire import Cursor
from tests.helpers.paths import VECTORS
from tests.unit.serializers.test_kryo_maps import DESCRIBED
from tests.unit.serializers.test_kryo_vectors import ENUMS, JDK_CLASSES

EXCEPTIONS = {
    # Kryo 2 writes no flags of a Pattern: Flink 1.x itself reads this one back without them.
    ("Kryo Pattern", "4e018278"): "4e01827800",
}
"""(name, bytes of Kryo 2) → bytes that are not those of the same object in Flink 2.3."""


def converted(data: bytes, setting: KryoSetting) -> bytes:
    cursor = Cursor(data + b"\x7f" * 3)
    found = kryo5_bytes(record_kryo(Cursor(data), setting, True), setting)
    assert kryo5_bytes(record_kryo(cursor, setting, False), setting) == found
    assert cursor.pos == len(data)
    return found


def setting_of(entry: dict[str, Any], **classes: Any) -> KryoSetting:
    serializer = read_snapshot(bytes.fromhex(entry["snapshot"]))
    assert isinstance(serializer, Kryo)
    return serializer.setting(LayoutContext(kryo=2, classes=ENUMS | entry.get("classes", {})))


def serializers(release: str) -> dict[str, Any]:
    entries = json.loads((VECTORS / f"flink-{release}.json").read_bytes())["serializers"]
    return {entry["name"]: entry for entry in entries if entry["serializer"].endswith(".KryoSerializer")}


OLD, NEW = serializers("1.20.3"), serializers("2.3.0")


@pytest.mark.parametrize("name", OLD)
def test_values_become_those_that_flink_2_writes(name: str) -> None:
    setting = setting_of(OLD[name])
    assert len(OLD[name]["cases"]) == len(NEW[name]["cases"])
    for old, new in zip(OLD[name]["cases"], NEW[name]["cases"], strict=True):
        found = converted(bytes.fromhex(old["data"]), setting).hex()
        assert found == EXCEPTIONS.get((name, old["data"]), new["data"]), old


SHARED = json.loads((VECTORS / "shared-kryo.json").read_bytes())["vectors"]
MAPS = json.loads((VECTORS / "kryo-maps.json").read_bytes())["vectors"]


@pytest.mark.parametrize("name", JDK_CLASSES)
def test_values_of_jdk_classes_become_those_that_flink_2_writes(name: str) -> None:
    class_name = JDK_CLASSES[name][0]
    setting = Kryo(class_name, (class_name,)).setting(LayoutContext(kryo=2))
    assert converted(bytes.fromhex(SHARED[name]["1.20.5"]), setting).hex() == SHARED[name]["2.3.0"]


@pytest.mark.parametrize("name", MAPS)
def test_classes_that_are_maps_and_collections_become_those_that_flink_2_writes(name: str) -> None:
    setting = KryoSetting(2, classes=parse_classes(DESCRIBED))
    assert converted(bytes.fromhex(MAPS[name]["1.20.5"]), setting).hex() == MAPS[name]["2.3.0"]


GENERICS = json.loads((VECTORS / "kryo-generics.json").read_bytes())


@pytest.mark.parametrize("name", GENERICS["vectors"])
def test_objects_with_type_arguments_become_those_that_flink_2_writes(name: str) -> None:
    """In a Pair<List<Long>, T> no Kryo knows the Long, in a List<Pair<Long, T>> only Kryo 5 does."""
    of_class = GENERICS["vectors"][name]
    serializer = Kryo(of_class["class"], (of_class["class"],))
    old, new = (LayoutContext(kryo=kryo, classes=GENERICS["classes"]) for kryo in (2, 5))
    for case in of_class["cases"]:
        before, after = (bytes.fromhex(case[line]) for line in ("1.20.3", "2.3.0"))
        assert converted(before, serializer.setting(old)) == after
        assert decoded(serializer.layout(old), before) == decoded(serializer.layout(new), after)


def decoded(layout: Layout, data: bytes) -> Any:
    found = ValueDecoder(layout).decode(np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]))
    return found.to_pylist()


STREAMS = json.loads((VECTORS / "kryo-object-streams.json").read_bytes())
ONE, TWO, THREE = (
    {"class": f"java.lang.{name}Exception", "message": text}
    for name, text in (("IllegalState", "one"), ("Runtime", "two"), ("IllegalState", "three"))
)
INNER = {"class": "java.lang.RuntimeException", "message": "in"}
SHOWN: dict[str, Any] = {
    "one": "en_US",
    "list": ["en_US", "fr_FR"],
    "same": ["en_US", "en_US"],
    "throwables": [ONE, "between", TWO, THREE, "en_GB", ONE],
    "cause": [{"class": "java.lang.IllegalStateException", "message": "out", "cause": INNER}, INNER],
    "map": [["en_US", "fr_FR"], ["k", "en_GB"]],
}


@pytest.mark.parametrize("name", STREAMS)
def test_objects_of_java_serialization_in_one_value_are_in_one_stream(name: str) -> None:
    """The stream of a serializer goes on with the next object, between bytes of Kryo, and refers to what it has."""
    entry = STREAMS[name]
    settings = [Kryo(entry["class"], (entry["class"],)).setting(LayoutContext(kryo=kryo)) for kryo in (2, 5)]
    before, after = bytes.fromhex(entry["1.20.3"]), bytes.fromhex(entry["2.3.0"])
    assert converted(before, settings[0]) == after
    for data, setting in zip((before, after), settings, strict=True):
        value = read_kryo(Cursor(data), setting, True)
        assert plain(value.pairs if isinstance(value, KryoMap) else value) == SHOWN[name]


def test_each_class_of_java_serialization_has_a_stream_of_its_own() -> None:
    """Flink 1.20's list of M$A, M$B, M$A, M$B, whose default serializers are JavaSerializers: two headers."""
    written = (
        "57010401004d24c101aced0005737200034d2441970861b09e1d6df10200014900016178700000000101014d24c201aced0005737200034d"
        "2442c017d46c887f017d0200014c0001627400124c6a6176612f6c616e672f537472696e673b78707400036f6e650100017371007e000000"
        "0000020101017371007e000074000374776f"
    )
    setting = Kryo("java.util.ArrayList", ("java.util.ArrayList",)).setting(LayoutContext(kryo=2))
    assert read_kryo(Cursor(bytes.fromhex(written)), setting, True) == [
        {"class": "M$A", "fields": {"a": 1}},
        {"class": "M$B", "fields": {"b": "one"}},
        {"class": "M$A", "fields": {"a": 2}},
        {"class": "M$B", "fields": {"b": "two"}},
    ]


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.text if isinstance(value, Text) else value


def test_maps_of_kryo_2_know_no_arguments_of_their_values() -> None:
    """Of an Optional<Double> in a Map<String, Optional<Double>> it knows the Optional: Double is named."""
    classes = {"generic com.acme.M": {"m": "Map<String, Optional<Double>>"}}
    value = b"\x01\x00com.acme.\xcd\x01\x01\x01java.util.HashMa\xf0\x01\x01\x01\x82a\x01\x0a" + struct.pack(">d", 2.5)
    assert decoded(Kryo("com.acme.M").layout(LayoutContext(kryo=2, classes=classes)), value) == [{"m": [("a", 2.5)]}]


def test_type_variables_that_kryo_5_confuses_are_refused() -> None:
    """Of a Pair<Optional<Long>, Pair<String, Long>> Flink 2.3 takes the inner String for an Optional: it fails."""
    pair = "com.acme.lab.Fuzz$Pair"
    twice = {"com.acme.Twice": {"a": f"{pair}<java.util.Optional<Long>, {pair}<String, Long>>", "z": "String"}}
    # Its class; a: the class Pair; first: null; second: the class Pair, "a", 1; z: null.
    value = b"\x01\x00com.acme.Twic\xe5\x01\x01\x01com.acme.lab.Fuzz$Pai\xf2\x01\x00"
    value += b"\x01\x01\x01\x03\x01\x82a\x09\x02\x00"
    with pytest.raises(Unconvertible, match=r"takes the field 'first' of .* for a java.util.Optional"):
        converted(value, described(GENERICS["classes"] | twice))


def described(classes: dict[str, Any]) -> KryoSetting:
    return KryoSetting(2, ("com.acme.Order",), classes=parse_classes(classes))


def test_elements_of_a_class_that_may_be_final_need_its_description() -> None:
    """Kryo 5 knows the arguments of arguments, which Kryo 2 does not."""
    # 57 01: an Order; a list of one list of one Item, each after its class.
    value = bytes.fromhex("5701" + "01006a6176612e7574696c2e41727261794c6973f4" + "0101" + "0100" + "0101")
    item = "0101" + b"com.acme.Ite".hex() + "ed" + "01" + "02"
    classes = {"com.acme.Order": {"items": "List<List<com.acme.Item>>"}, "com.acme.Item": {"n": "int"}}
    with pytest.raises(Unconvertible, match=r"com\.acme\.Item.*nothing says whether it is final"):
        converted(value + bytes.fromhex(item), described(classes))
    open_ = {**classes, "open com.acme.Item": classes["com.acme.Item"]}
    del open_["com.acme.Item"]
    found = converted(value + bytes.fromhex(item), described(open_)).hex()
    assert found == (
        "5701"
        + "01006a6176612e7574696c2e41727261794c6973f4"
        + "01"
        + "820100"
        + "00"
        + "01"
        + "82"
        + item[:-4]
        + "00"
        + "0102"
    )


def test_classes_of_scala_are_refused() -> None:
    with pytest.raises(Unconvertible, match=r"Flink 2\.x registers nothing for Scala's classes"):
        converted(bytes.fromhex("11010202"), KryoSetting(2))
