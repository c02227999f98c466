"""Equivalence of Kryo programs of the VM and the walker over Kryo object graphs."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import stateproc
from stateproc.codec.errors import BadValue
from stateproc.codec.layouts import Counted, Layout
from stateproc.codec.machine import DecodeFailure, ValueDecoder
from stateproc.errors import SnapshotError
from stateproc.serializers import read_snapshot
from stateproc.serializers.core.base import LayoutContext
from stateproc.serializers.java.field_types import parse_type
from stateproc.serializers.kryo.leaf_bodies import PARTS
from stateproc.serializers.kryo.programs import KryoValue
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.wire import Cursor
from tests.helpers.paths import FIXTURES, VECTORS
from tests.helpers.sweeps import sweep

VALUES: dict[tuple[str, int], list[str]] = {
    ("java.time.LocalDate", 2): ["001d0002d01f", "001f000c09", "00010001e41e"],
    ("java.time.LocalDate", 5): ["e80f021d", "fbffffff0f0102", "b20f0101"],
    ("java.time.LocalTime", 2): ["173bfea7d6b9073b", "01020803", "00000000"],
    ("java.time.LocalTime", 5): ["fe", "01fd", "0102fc", "173b3bff93ebdc03"],
    ("java.time.LocalDateTime", 2): ["01001d0002d01f01173bfea7d6b9073b"],
    ("java.time.LocalDateTime", 5): ["e80f021d0102fc", "b20f0101ff"],
    ("java.time.Instant", 2): ["aab4de7580c49fd50c", "0a01", "0000"],
    ("java.time.Instant", 5): ["80e2cfaa06959aef3a", "ffffffffffffffffff05", "0000"],
    ("java.util.Date", 2): ["fb80babbc82e", "fbffffffffffffffff", "00"],
    ("java.util.Date", 5): ["fb80babbc82e", "fbffffffffffffffff", "00"],
    ("java.util.UUID", 2): ["0201", "92d6d9d19582a0a5abfd82f1e3bab6f9deab"],
    ("java.util.UUID", 5): ["0100000000000000ffffffffffffffff", "89351bad0840a55541dfc129260d21aa"],
}


def decode(layout: Layout, values: list[bytes]) -> pa.Array:
    data = np.frombuffer(b"".join(values) + bytes(8), dtype=np.uint8)
    ends = np.cumsum([len(value) for value in values]).astype(np.int64)
    starts = ends - np.array([len(value) for value in values], dtype=np.int64)
    return ValueDecoder(layout).decode(data, starts, ends)


def no_walker(cursor: Cursor) -> Any:
    raise AssertionError("the walker was called")


def by_itself(layout: KryoValue) -> KryoValue:
    """Return the layout without the fallback to the walker."""
    return replace(layout, read=no_walker)


def program(class_name: str, kryo: int, declared: str | None = None, **options: Any) -> KryoValue:
    type_ = None if declared is None else parse_type(declared)
    context = LayoutContext(kryo=kryo, tail=True, **options)
    layout = Kryo(class_name, (class_name,), declared=type_).layout(context)
    assert isinstance(layout, KryoValue)
    return layout


def name(class_name: str) -> bytes:
    return b"\x01\x00" + class_name[:-1].encode() + bytes([ord(class_name[-1]) | 0x80])


def plain(array: pa.Array) -> list[Any]:
    """Return values as Python objects, and dates as days, because Python's years are limited."""
    return list((array.cast(pa.int32()) if pa.types.is_date32(array.type) else array).to_pylist())


def walked(layout: KryoValue, data: bytes) -> Any:
    return plain(pa.array([layout.read(Cursor(data))], layout.arrow_type))[0]


# --- single classes -----------------------------------------------------------------------------------------
def test_every_leaf_is_tested() -> None:
    assert set(VALUES) == set(PARTS)


@pytest.mark.parametrize("temporal", ["micros", "exact"])
@pytest.mark.parametrize(("class_name", "kryo"), VALUES)
def test_leaves_by_id_and_by_name(class_name: str, kryo: int, temporal: str) -> None:
    layout = program(class_name, kryo, temporal=temporal)
    number = b"\x54" if class_name == "java.util.UUID" else b"\x57"
    bodies = [b"\x01" + bytes.fromhex(body) for body in VALUES[class_name, kryo]]
    values = [head + body for body in bodies for head in (number, name(class_name))] + [b"\x00"]
    expected = [walked(layout, value) for value in values]
    assert None not in expected[:-1] and expected[-1] is None
    assert len(set(expected)) == len(bodies) + 1
    assert plain(decode(by_itself(layout), values)) == expected


def test_layouts_compare_and_pickle() -> None:
    layout = program("java.util.List", 5)
    assert layout == program("java.util.List", 5) != program("java.util.List", 2)
    assert pickle.loads(pickle.dumps(layout)) == layout


def test_lists_with_values_that_need_the_walker() -> None:
    inner = Kryo("java.util.List", ("java.util.List",)).layout(LayoutContext(kryo=2))
    fast = name("java.util.ArrayList") + b"\x01\x01\x03\x01\x82x"
    # A float of 17 digits, for which the program falls back to the walker.
    slow = name("java.util.ArrayList") + b"\x01\x01\x0a" + bytes.fromhex("3fd3333333333334")
    values = [b"\x00\x00\x00\x04" + fast + b"\x00" + slow + fast, bytes(4), b"\x00\x00\x00\x01" + slow]
    texts = ['["x"]', None, "[0.30000000000000004]", '["x"]']
    assert decode(Counted(inner), values).to_pylist() == [texts, [], texts[2:3]]


# --- JSON -----------------------------------------------------------------------------------------------------
ARRAY_LIST, HASH_MAP = name("java.util.ArrayList"), name("java.util.HashMap")
JSON_VALUES: list[tuple[int, bytes, str | None]] = [
    (2, b"\x00", None),
    (5, ARRAY_LIST + b"\x01\x01", "[]"),
    (5, ARRAY_LIST + b"\x01\x00", None),
    (5, ARRAY_LIST + b"\x01\x83\x00", "[null,null]"),
    (5, ARRAY_LIST + b"\x01\x83\x03\x01\x01\x82a\x00", '["a",null]'),
    (5, ARRAY_LIST + b"\x01\x83\x02\x01\x01\x05\x00", "[-3,null]"),
    (2, ARRAY_LIST + b"\x01\x02\x03\x01ta\xe7\x03\x03", '["tag","tag"]'),
    (2, ARRAY_LIST + b"\x01\x02" + b"\x01\x00\x01\x00" + b"\x00", "[[],null]"),
    (2, HASH_MAP + b"\x01\x00", "{}"),
    (2, HASH_MAP + b"\x01\x02\x03\x01\x82k\x02\x02\x03\x01\x82l\x00", '{"k":1,"l":null}'),
    (2, HASH_MAP + b"\x01\x01\x02\x02\x03\x01\x82v", '[{"key":1,"value":"v"}]'),
    (5, HASH_MAP + b"\x01\x03\x00\x05\x01\x02\x02\x05\x00", '[{"key":null,"value":true},{"key":1,"value":false}]'),
    (2, HASH_MAP + b"\x01\x02\x03\x01\x82k\x02\x02\x02\x02\x00", '[{"key":"k","value":1},{"key":1,"value":null}]'),
    (2, HASH_MAP + b"\x01\x01\x07\x00x\x06\xff", '{"x":-1}'),
    (2, name("java.util.TreeMap") + b"\x01\x00\x01\x03\x01\x82k\x08\xff\xfe", '{"k":-2}'),
    (5, name("java.util.TreeMap") + b"\x01\x02\x00\x03\x01\x82k\x08\xfe\xff", '{"k":-2}'),
    (2, b"\x03\x01\x88" + b'"\\\n\t\x01\x7f/', r'"\"\\\n\t\u0001' + '\x7f/"'),
    (2, b"\x03\x01\x83\xed\xa0\xbd\xed\xb8\x80"[:3] + b"\xed\xa0\xbd\xed\xb8\x80", '"\U0001f600"'),
    (2, b"\x03\x01\x82\xed\xa0\xbd", '"�"'),
    (2, b"\x07\xd8\x00", '"�"'),
    (5, b"\x07\x22\x00", r'"\""'),
    (2, b"\x09\xff\xff\xff\xff\xff\xff\xff\xff\xff", str(-(2**63))),
    (2, b"\x0a\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"),
    (5, b"\x04\x00\x00\x00\x80", "-0.0"),
    (2, name("java.math.BigInteger") + b"\x01\x02\x80", '"-128"'),
]


@pytest.mark.parametrize(("kryo", "data", "text"), JSON_VALUES)
def test_values_as_json(kryo: int, data: bytes, text: str | None) -> None:
    layout = program("java.lang.Object", kryo)
    assert walked(layout, data) == text
    assert decode(layout, [data, data]).to_pylist() == [text, text]


def test_json_is_written_without_the_walker() -> None:
    # The value with a key of another class after a string needs the walker.
    own = [case for case in JSON_VALUES if "\x02\x02\x02\x02" not in case[1].decode("latin-1")]
    for kryo in (2, 5):
        mine = [(data, text) for version, data, text in own if version == kryo]
        decoded = decode(by_itself(program("java.lang.Object", kryo)), [data for data, _ in mine])
        assert decoded.to_pylist() == [text for _, text in mine]


def test_floats_have_pythons_repr() -> None:
    rng = random.Random(3)
    numbers = [
        rng.choice([1, -1]) * round(rng.random() * 10 ** rng.randint(-3, 15), rng.randint(0, 9)) for _ in range(3000)
    ]
    numbers += [0.1, 1e15, 1e16, 1e-4, 9.99e-5, 123456789012345.6, 5e-324, 1.7976931348623157e308, 0.1 + 0.2]
    doubles = [b"\x0a" + np.float64(x).byteswap().tobytes() for x in numbers]
    floats = [b"\x04" + np.float32(x).byteswap().tobytes() for x in numbers[:3000]]
    layout = program("java.lang.Object", 2)
    assert decode(layout, doubles).to_pylist() == [json.dumps(float(x)) for x in numbers]
    assert decode(layout, floats).to_pylist() == [json.dumps(float(np.float32(x))) for x in numbers[:3000]]


def test_nesting_and_long_strings() -> None:
    deep = ARRAY_LIST + b"\x01\x01" + b"\x01\x00\x01\x01" * 50 + b"\x02\x02"
    layout = program("java.lang.Object", 2)
    assert decode(by_itself(layout), [deep]).to_pylist() == ["[" * 51 + "1" + "]" * 51]
    with pytest.raises((DecodeFailure, SnapshotError)):
        decode(layout, [ARRAY_LIST + b"\x01\x01" + b"\x01\x00\x01\x01" * 70 + b"\x02\x02"])
    length = 50_001
    head = bytes([0xC0 | length & 0x3F, 0x80 | length >> 6 & 0x7F, length >> 13])
    long = b"\x03\x01" + head + "é".encode() * (length - 1)
    assert decode(by_itself(layout), [long]).to_pylist() == [f'"{"é" * 50_000}"'] == [walked(layout, long)]


# --- typed collections and described classes ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kryo", "body", "value"),
    [
        (2, b"\x01\x02\x03\x01ta\xe7\x03\x03", ["tag", "tag"]),
        (2, b"\x01\x03\x03\x01\x82a\x00\x03\x01\x81", ["a", None, ""]),
        (5, b"\x01\x01", []),
        (5, b"\x01\x00", None),
        (5, b"\x01\x84\x03\x00\x01\x82a\x01\x81\x02", ["a", "", "a"]),
        (5, b"\x01\x83\x03\x01\x00\x01\x82b", [None, "b"]),
        (5, b"\x01\x03\x00\x03\x01\x82b", [None, "b"]),
    ],
)
def test_lists_of_strings(kryo: int, body: bytes, value: Any) -> None:
    layout = program("java.util.List", kryo, "list<String>")
    assert layout.arrow_type == pa.list_(pa.string())
    data = ARRAY_LIST + body
    if b"\x01\x82a\x01\x81\x02" not in body:
        assert walked(layout, data) == value
        assert decode(by_itself(layout), [data, b"\x00", data]).to_pylist() == [value, None, value]


def test_described_pojo_fields_are_typed() -> None:
    fields = (
        ("items", Kryo("java.util.List", ("java.util.List",))),
        ("counts", Kryo("java.util.Map", ("java.util.Map",))),
        ("other", Kryo("java.util.List", ("java.util.List",))),
    )
    pojo = Pojo("shop.Basket", fields)
    classes = {"shop.Basket": {"items": "list<string>", "counts": "map<string, int>"}}
    untyped, typed = pojo.layout(LayoutContext()), pojo.layout(LayoutContext(classes=classes))
    assert {str(field.type) for field in untyped.arrow_type} == {"string"}
    assert typed.arrow_type == pa.struct(
        [("items", pa.list_(pa.string())), ("counts", pa.map_(pa.string(), pa.int32())), ("other", pa.string())]
    )
    items, counts = ARRAY_LIST + b"\x01\x01\x03\x01te\xe1", HASH_MAP + b"\x01\x01\x03\x01te\xe1\x02\x04"
    value = b"\x02\x00" + items + b"\x00" + counts + b"\x00" + items
    nulls = b"\x02\x01\x01\x01"
    assert decode(typed, [value, nulls, b"\x01"]).to_pylist() == [
        {"items": ["tea"], "counts": [("tea", 2)], "other": '["tea"]'},
        {"items": None, "counts": None, "other": None},
        None,
    ]
    assert decode(untyped, [value]).to_pylist() == [{"items": '["tea"]', "counts": '{"tea":2}', "other": '["tea"]'}]


def test_a_value_of_another_type_than_declared_is_refused() -> None:
    layout = program("java.util.List", 2, "list<int>")
    with pytest.raises((DecodeFailure, SnapshotError)):
        decode(layout, [ARRAY_LIST + b"\x01\x01\x03\x01te\xe1"])


# --- against the walker -------------------------------------------------------------------------------------------
def vectors() -> list[tuple[str, KryoValue, list[bytes]]]:
    found = []
    for release, kryo in (("1.20.3", 2), ("2.3.0", 5)):
        for entry in json.loads((VECTORS / f"flink-{release}.json").read_bytes())["serializers"]:
            if not entry["serializer"].endswith(".KryoSerializer"):
                continue
            serializer = read_snapshot(bytes.fromhex(entry["snapshot"]))
            assert isinstance(serializer, Kryo)
            data = [bytes.fromhex(case["data"]) for case in entry["cases"]]
            classes = (serializer.class_name, "java.lang.Object", BY_ITSELF.get(entry["name"], serializer.class_name))
            for class_name in dict.fromkeys(classes):
                own = replace(serializer, class_name=class_name)
                context = LayoutContext(kryo=kryo, tail=True, temporal="exact", classes=entry.get("classes", {}))
                layout = own.layout(context)
                if isinstance(layout, KryoValue):
                    found.append((entry["name"], layout, data))
    return found


def outcome(layout: KryoValue, data: bytes) -> Any:
    try:
        return walked(layout, data)
    except (SnapshotError, pa.ArrowInvalid, OverflowError):
        return "refused"


def test_values_that_flink_wrote_equal_those_of_the_walker() -> None:
    compared = 0
    for _, layout, data in vectors():
        good = [(value, expected) for value in data if (expected := outcome(layout, value)) != "refused"]
        if good:
            decoded = plain(decode(layout, [value for value, _ in good]))
            assert repr(decoded) == repr([expected for _, expected in good])
            compared += len(good)
    assert compared > 500


BY_ITSELF = {
    "Kryo String": "java.lang.String", "Kryo Integer": "java.lang.Integer", "Kryo Long": "java.lang.Long",
    "Kryo Float": "java.lang.Float", "Kryo Double": "java.lang.Double", "Kryo BigInteger": "java.math.BigInteger",
    "Kryo BigDecimal": "java.math.BigDecimal", "Kryo LocalDate": "java.time.LocalDate",
    "Kryo LocalTime": "java.time.LocalTime", "Kryo LocalDateTime": "java.time.LocalDateTime",
    "Kryo Instant": "java.time.Instant", "Kryo UUID": "java.util.UUID",
}  # fmt: skip


def test_listed_types_are_decoded_without_the_walker() -> None:
    seen = set()
    for name_, layout, data in vectors():
        if layout.column.kind != "json" and layout.type.name == BY_ITSELF.get(name_):
            good = [value for value in data if outcome(layout, value) != "refused"]
            assert len(decode(by_itself(layout), good)) == len(good) > 1
            seen.add(name_)
        elif name_ in ("Kryo typed primitives", "Kryo typed Point") and layout.column.kind == "struct":
            assert len(decode(by_itself(layout), data)) == len(data)
            seen.add(name_)
    assert seen == {*BY_ITSELF, "Kryo typed primitives", "Kryo typed Point"}


@pytest.mark.parametrize("remainders", sweep(4), ids=str)
def test_every_truncation_is_refused(remainders: range) -> None:
    for _, layout, data in vectors():
        value = data[-1]
        if len(value) < 120 and outcome(layout, value) != "refused":
            decoder = ValueDecoder(layout)
            for length in (length for length in range(len(value)) if length % 4 in remainders):
                with pytest.raises((DecodeFailure, SnapshotError, BadValue)):
                    run(decoder, value[:length])
            with pytest.raises((DecodeFailure, SnapshotError, BadValue)):
                run(decoder, value + b"\x00")


def run(decoder: ValueDecoder, data: bytes) -> pa.Array:
    padded = np.frombuffer(data + bytes(8), dtype=np.uint8)
    return decoder.decode(padded, np.array([0], np.int64), np.array([len(data)], np.int64))


@pytest.mark.parametrize("rounds", sweep(60), ids=str)
def test_random_damage_has_the_same_result_as_in_the_walker(rounds: range) -> None:
    """Both return the same value, or both refuse the data."""
    rng = random.Random(11 + rounds.start)
    kept = 0
    for _, layout, data in vectors():
        decoder = ValueDecoder(layout)
        for _ in rounds:
            damaged = bytearray(rng.choice(data))
            for _ in range(rng.randint(1, 2)):
                damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 2, 3, 127, 128, 129, rng.randrange(256)])
            expected = outcome(layout, bytes(damaged))
            try:
                found = plain(run(decoder, bytes(damaged)))[0]
            except (DecodeFailure, SnapshotError, BadValue, pa.ArrowInvalid, OverflowError):
                found = "refused"
            kept += found != "refused"
            if layout.column.kind == "json" and found != expected and "refused" not in (found, expected):
                # A map with a duplicate key: both entries are written, and the last one is valid.
                found, expected = json.loads(found), json.loads(expected)
            assert repr(found) == repr(expected), bytes(damaged).hex()
    assert kept > 5 * len(rounds)


def test_a_pojo_that_flink_wrote_has_the_types_of_its_description() -> None:
    classes = {"fixtures.Edges$Basket": {"items": "list<string>", "counts": "map<string, long>", "day": "date"}}
    snapshot = stateproc.open(str(FIXTURES / "1.20" / "edges-hashmap-canonical" / "snapshot"), classes=classes)
    state = snapshot.state("edges-generic", "basket")
    assert state.schema().field("value").type == pa.struct(
        [("counts", pa.map_(pa.string(), pa.int64())), ("day", pa.date32()), ("items", pa.list_(pa.string()))]
    )
    values = [value for batch in state.batches() for value in batch.column("value").to_pylist()]
    assert sorted(values, key=str) == [
        {"counts": None, "day": None, "items": None},
        {"counts": [("tea", 2)], "day": dt.date(2024, 2, 29), "items": ["tea", "紅", ""]},
    ]
