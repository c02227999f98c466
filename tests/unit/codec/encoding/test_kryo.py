"""Kryo values are encoded to Flink's bytes if their type determines their class, and refused otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.base import Unwritable
from stateproc.codec.machine import ValueDecoder
from stateproc.serializers import read_snapshot
from stateproc.serializers.core.base import LayoutContext
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.java.field_types import parse_type
from stateproc.serializers.kryo.serializer import Kryo
from tests.helpers.paths import VECTORS

_LIST, _MAP = "java.util.ArrayList", "java.util.HashMap"
_POINT, _PRIMITIVES = "stateproc.vectors.KryoClasses$Point", "stateproc.vectors.KryoClasses$Primitives"
# (vector, type of its values, predicate that selects the cases of that type by JSON value, number of these cases)
TYPED: list[tuple[str, str, Any, int]] = [
    ("Kryo String", "java.lang.String", lambda v: v is not None and v.isprintable(), 20),
    ("Kryo Integer", "java.lang.Integer", lambda v: True, 26),
    ("Kryo Long", "java.lang.Long", lambda v: True, 22),
    ("Kryo Float", "java.lang.Float", lambda v: True, 21),
    ("Kryo Double", "java.lang.Double", lambda v: True, 21),
    ("Kryo BigInteger", "java.math.BigInteger", lambda v: True, 35),
    ("Kryo BigDecimal", "java.math.BigDecimal", lambda v: True, 7),
    ("Kryo other scalars", "java.lang.Boolean", lambda v: isinstance(v, bool), 2),
    ("Kryo other scalars", "java.lang.Character", lambda v: isinstance(v, str), 2),
    ("Kryo LocalDate", "java.time.LocalDate", lambda v: True, 4),
    ("Kryo LocalTime", "java.time.LocalTime", lambda v: True, 7),
    ("Kryo LocalDateTime", "java.time.LocalDateTime", lambda v: True, 2),
    ("Kryo Instant", "java.time.Instant", lambda v: True, 3),
    ("Kryo UUID", "java.util.UUID", lambda v: True, 3),
    ("Kryo dates", "java.util.Date", lambda v: isinstance(v, str) and len(v) < 25, 2),
    ("Kryo ArrayList", f"{_LIST}<String>", lambda v: all(item in (None, "a", "b", "é") for item in v), 4),
    ("Kryo ArrayList", f"{_LIST}<Integer>", lambda v: all(item is None or type(item) is int for item in v), 4),
    ("Kryo Map", f"{_MAP}<String, Integer>", lambda v: v == [], 1),
    ("Kryo class Point", _POINT, lambda v: True, 3),
    ("Kryo typed Point", _POINT, lambda v: True, 2),
    ("Kryo class primitives", _PRIMITIVES, lambda v: True, 1),
]  # fmt: skip


def _layout(entry: dict[str, Any], release: str, type_name: str) -> Layout:
    type_ = parse_type(type_name)
    serializer = read_snapshot(bytes.fromhex(entry["snapshot"]))
    assert isinstance(serializer, Kryo)
    classes = parse_classes(entry.get("classes", {}))
    ctx = LayoutContext(kryo=5 if release[0] == "2" else 2, classes=classes, temporal="exact", tail=True)
    return replace(serializer, class_name=type_.name, declared=type_).layout(ctx)


@pytest.mark.parametrize("release", ["1.20.3", "2.3.0"])
@pytest.mark.parametrize(
    ("name", "type_name", "fits", "least"), TYPED, ids=lambda item: "" if callable(item) else str(item)[:40]
)
def test_values_are_encoded_to_the_bytes_that_flink_wrote(
    name: str, type_name: str, fits: Any, least: int, release: str
) -> None:
    entries = json.loads((VECTORS / f"flink-{release}.json").read_text())["serializers"]
    entry = next(item for item in entries if item["name"] == name)
    layout = _layout(entry, release, type_name)
    arrays, expected = [], []
    for case in entry["cases"]:
        if not fits(case["value"]):
            continue
        data = bytes.fromhex(case["data"])
        raw = np.frombuffer(data + bytes(8), dtype=np.uint8)
        arrays.append(ValueDecoder(layout).decode(raw, np.zeros(1, np.int64), np.array([len(data)], np.int64)))
        expected.append(data)
    assert len(expected) >= least
    batch = pa.concat_arrays([*arrays, pa.nulls(1, layout.arrow_type)])
    assert layout.encode(batch).to_arrow().to_pylist() == [*expected, b"\0"]
    assert layout.encode(batch.slice(1)).to_arrow().to_pylist() == [*expected[1:], b"\0"]


def _of(type_name: str, kryo: int, registrations: tuple[str, ...] = (), **classes: Any) -> Layout:
    type_ = parse_type(type_name)
    ctx = LayoutContext(kryo=kryo, classes=parse_classes(classes), tail=True)
    return Kryo(type_.name, registrations, declared=type_).layout(ctx)


@pytest.mark.parametrize("kryo", [2, 5])
@pytest.mark.parametrize(
    ("type_name", "values"),
    [
        ("java.util.List<String>", [[], ["a", "b" * 100], [None], ["", None, "é𝄞"], [None, None]]),
        ("java.util.List<Long>", [[], [1, -(2**63), 2**63 - 1], [None, 7], [None]]),
        ("java.util.List<Double>", [[1.5, -0.0, None]]),
        ("java.util.Set<java.util.UUID>", [["55a54008-ad1b-3589-aa21-0d2629c1df41"]]),
        ("java.util.Map<String, Integer>", [[], [("a", 1), ("b", None)]]),
        ("java.util.Map<Integer, java.util.UUID>", [[(1, "55a54008-ad1b-3589-aa21-0d2629c1df41"), (2, None)]]),
    ],
)
def test_encoded_collections_decode_to_the_same_values(type_name: str, values: list[Any], kryo: int) -> None:
    layout = _of(type_name, kryo)
    array = pa.array([*values, None], layout.arrow_type)
    encoded = layout.encode(array)
    data = np.append(encoded.data, np.zeros(8, dtype=np.uint8))
    again = ValueDecoder(layout).decode(data, encoded.offsets[:-1].copy(), encoded.offsets[1:].copy())
    assert again.equals(array)


@pytest.mark.parametrize("kryo", [2, 5])
def test_an_enum_and_a_registered_class_are_encoded(kryo: int) -> None:
    enum = _of("x.Color", kryo, ("x.Color",), **{"x.Color": ["RED", "GREEN"]})
    mark = "" if kryo == 5 else "01"
    assert [row.hex() for row in enum.encode(pa.array(["GREEN", None])).to_arrow().to_pylist()] == [f"57{mark}02", "00"]
    with pytest.raises(Unencodable, match="'BLUE' is no constant") as failure:
        enum.encode(pa.array([None, "RED", "BLUE"]))
    assert failure.value.row == 2


@pytest.mark.parametrize("kryo", [2, 5])
@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("java.util.List<java.time.LocalDate>", [None]),
        ("java.util.List<java.util.List<String>>", [["a"]]),
        ("java.util.TreeMap<String, Long>", [("a", 1)]),
        ("java.net.URI", "x:y"),
        ("java.lang.Object", "1"),
    ],
)
def test_types_that_do_not_determine_the_class_are_read_only(type_name: str, value: Any, kryo: int) -> None:
    layout = _of(type_name, kryo)
    with pytest.raises(Unwritable, match="read only"):
        layout.encode(pa.array([value], layout.arrow_type))
