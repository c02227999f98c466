"""Parsing of Java object streams that a JVM wrote (JavaObjects.java), and of invalid ones."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.wire import Cursor, java_plain
from stateproc.wire.java_plain import java_list, java_map, to_plain
from stateproc.wire.java_stream import JavaArray, JavaClass, JavaEnum, JavaObject, read_java_object
from tests.helpers.paths import VECTORS
from tests.helpers.sweeps import sweep

STREAMS = {name: bytes.fromhex(text) for name, text in json.loads((VECTORS / "java_objects.json").read_text()).items()}
K_V = [{"key": "k", "value": "v"}]

PLAIN: dict[str, Any] = {
    "null": None,
    "string": "hé\0😀",
    "integer": 5,
    "long": -1,
    "boolean": True,
    "character": "x",
    "double": 0.25,
    "enum": "RED",
    "enum_body": "GREEN",
    "class": "java.lang.String",
    "array_list": [1, "two", 3],
    "linked_list": ["a", "b"],
    "array_deque": ["a", "b"],
    "vector": ["a", "b"],
    "arrays_as_list": ["a", None, "b"],
    "list_of": [1, 2, 3],
    "list_of_empty": [],
    "set_of": ["one"],
    "map_of": [{"key": "k", "value": 1}],
    "linked_hash_set": ["z", "a"],
    "tree_set": ["a", "b"],
    "tree_set_reversed": ["b", "a"],
    "linked_hash_map": [{"key": "z", "value": 1}, {"key": 2, "value": None}],
    "hash_map": K_V,
    "tree_map": [{"key": "a", "value": 1}, {"key": "b", "value": 2}],
    "hashtable": K_V,
    "concurrent_map": K_V,
    "enum_map": [{"key": "RED", "value": "r"}],
    "unmodifiable_list": ["a"],
    "unmodifiable_map": K_V,
    "unmodifiable_set": ["a"],
    "synchronized_list": ["a"],
    "synchronized_map": K_V,
    "singleton_list": ["a"],
    "singleton_set": ["a"],
    "singleton_map": K_V,
    "empty_list": [],
    "empty_map": [],
    "big_integer": -123456789012345678901234567890,
    "big_decimal": "-12345678901234567890.1234",
    "big_decimal_scale": "1E+10",
    "date": "2017-07-14T02:40:00.123+00:00",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "bytes": "AAH/",
    "ints": [1, -1],
    "chars": ["a", "b"],
    "longs": [2**63 - 1],
    "booleans": [True, False],
    "doubles": [1.5],
    "floats": [2.5],
    "shorts": [-2],
    "strings": ["a", None, "a"],
    "nested_arrays": [[1], []],
    "externalizable": {
        "class": "JavaObjects$Ext",
        "fields": {},
        "written": {"JavaObjects$Ext": ["AAAAKg==", "inner", "AAF4"]},
    },
    "proxy": {
        "class": "$Proxy(java.lang.Runnable)",
        "fields": {"h": {"class": "JavaObjects$Handler", "fields": {}}},
    },
    "self_list": ["x", {"class": "java.util.ArrayList", "cycle": True}],
    "object_stream_class": "JavaObjects$Base",
    "reset": ["after reset", "after reset"],
}


def read(data: bytes) -> Any:
    return read_java_object(Cursor(data, file="f"))


@pytest.mark.parametrize("name", PLAIN)
def test_plain_value_and_exact_end(name: str) -> None:
    cursor = Cursor(STREAMS[name] + b"tail")
    assert to_plain(read_java_object(cursor)) == PLAIN[name]
    assert bytes(cursor.take(cursor.remaining)) == b"tail"


def test_fields_of_an_object_are_grouped_by_class() -> None:
    value = read(STREAMS["object"])
    assert isinstance(value, JavaObject) and value.class_name == "JavaObjects$Sub"
    assert value.by_class["JavaObjects$Base"] == {"x": 7, "name": "base"}
    assert value.fields["x"] == value.by_class["JavaObjects$Sub"]["x"] == 8
    assert value.fields["self"] is value
    raw = value.fields["raw"]
    assert isinstance(raw, JavaArray) and raw.values == b"\x01\x02\xff"
    numbers = {name: value.fields[name] for name in "cdfsbzl"}
    assert numbers == {"c": "é", "d": -0.5, "f": 1.5, "s": -3, "b": -128, "z": True, "l": -(2**63)}


def test_enums_classes_and_shared_references() -> None:
    assert read(STREAMS["enum_body"]) == JavaEnum("JavaObjects$Color", "GREEN")
    assert read(STREAMS["class"]) == JavaClass("java.lang.String")
    values = read(STREAMS["strings"]).values
    assert values[0] is values[2]


def test_lists_and_maps_of_other_classes_are_not_converted() -> None:
    assert java_list(read(STREAMS["hash_map"])) is None
    assert java_map(read(STREAMS["array_list"])) is None
    assert java_list("text") is None and java_map(None) is None


def test_failed_and_unmarked_streams_are_refused_with_their_cause() -> None:
    with pytest.raises(CorruptSnapshot, match=r"java\.io\.NotSerializableException"):
        read(STREAMS["failed"])
    with pytest.raises(UnsupportedSnapshot, match=r"JavaObjects\$Ext was written externally"):
        read(STREAMS["externalizable_v1"])


def test_long_strings_and_block_data_are_parsed() -> None:
    text = "ab" * 40000
    data = bytes.fromhex("aced00057c") + len(text).to_bytes(8, "big") + text.encode()
    assert read(data) == text
    assert read(bytes.fromhex("aced00057a00000002") + b"xy") == b"xy"


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("6f", "unexpected type code 0x6f"),
        ("78", "unexpected type code 0x78"),
        ("71007e0000", "reference to object 0 of 0"),
        ("757400", "where a class descriptor belongs"),
        ("7370", "an object without a class"),
        ("7a7fffffff", "2147483647 bytes needed where"),
        ("7c7fffffffffffffff", "a long Java string: 9223372036854775807 bytes needed"),
        ("7374000178", "where a class descriptor belongs"),
        ("757200025b490000000000000000020000787000ffffff", "impossible number of array elements"),
        ("7372000141000000000000000006", "both serializable and externalizable"),
        ("737200014100000000000000000200007871007e0000", "its own superclasses"),
    ],
)
def test_damaged_streams(tail: str, message: str) -> None:
    with pytest.raises(CorruptSnapshot, match=message) as caught:
        read(bytes.fromhex("aced0005" + tail))
    assert caught.value.where.file == "f" and caught.value.where.offset is not None


def test_data_that_is_not_an_object_stream_is_refused() -> None:
    with pytest.raises(CorruptSnapshot, match="starts with ACED0005, not 00000000"):
        read(bytes(8))


def nested_arrays(depth: int) -> bytes:
    """Return nested Object[] of one element each."""
    described = bytes.fromhex("72") + b"\0\x02[L" + bytes(8) + bytes.fromhex("0200007870")
    again = bytes.fromhex("7571007e000000000001")
    return bytes.fromhex("aced000575") + described + b"\0\0\0\1" + again * depth + b"\x70"


def test_too_deep_nesting_is_refused() -> None:
    assert to_plain(read(nested_arrays(3))) == [[[[None]]]]
    with pytest.raises(UnsupportedSnapshot, match="levels deep"):
        read(nested_arrays(100_000))


@pytest.mark.parametrize("most", [10_000, pytest.param(java_plain.MAX_NODES, marks=pytest.mark.exhaustive)])
def test_exponentially_repeated_references_are_refused_by_to_plain(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_plain, "MAX_NODES", most)
    level: Any = JavaArray("[L", [])
    for _ in range(40):
        level = JavaArray("[L", [level, level])
    with pytest.raises(UnsupportedSnapshot, match="too much to show"):
        to_plain(level)


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_every_truncation_is_refused(name: str) -> None:
    data = STREAMS[name]
    for length in range(len(data)):
        with pytest.raises(SnapshotError):
            read(data[:length])


@pytest.mark.parametrize("rounds", sweep(20_000), ids=str)
def test_mutations_raise_only_snapshot_errors(rounds: range) -> None:
    rng = random.Random(7 + rounds.start)
    streams = sorted(STREAMS.values())
    refused = 0
    for _ in rounds:
        data = bytearray(rng.choice(streams))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x70, 0x71, 0x7E, 0xFF, rng.randrange(256)))
        try:
            to_plain(read(bytes(data)))
        except SnapshotError:
            refused += 1
    assert refused > len(rounds) // 4
