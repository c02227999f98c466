"""States of Python functions by the types that users give; no pickle is loaded."""

from __future__ import annotations

import pickle
import struct
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import InvalidOption, SnapshotError, UnsupportedSnapshot
from stateproc.serializers import LayoutContext
from stateproc.serializers.pyflink import PythonElement, parse_python_type
from stateproc.types import BYTES
from tests.helpers.byte_builders.serializers import i32, i64
from tests.helpers.cases import case_snapshots

SNAPSHOT = next(item for item in case_snapshots() if item.case == "pyflink")
KEYS = [f"k{number}" for number in range(4)]


def rows(uid: str, state: str, **options: Any) -> dict[str, dict[str, Any]]:
    read = SNAPSHOT.open(**options).operator(uid).state(state)
    return {row["key"]["f0"]: row for row in read.to_arrow().to_pylist()}


def test_states_have_their_names_with_prefix_and_without() -> None:
    operator = SNAPSHOT.open().operator("py-op")
    assert operator.state("count").name == operator.state("python-state-count").name == "python-state-count"
    with pytest.raises(SnapshotError, match="no state 'counts'"):
        operator.state("counts")


def test_without_a_type_values_are_the_byte_arrays_that_are_stored() -> None:
    assert rows("py-op", "count")["k0"]["value"] == [i64(12)]


def test_types_for_several_states() -> None:
    types = {"count": "LONG", "python-state-items": "LIST<STRING>"}
    opened = SNAPSHOT.open(value_type=types).operator("py-op")
    assert {row["value"] for row in opened.state("count").to_arrow().to_pylist()} == {12, 15, 18, 21}
    assert sorted(opened.state("items").to_arrow().to_pylist()[0]["value"]) == ["e1", "e5", "e9"]
    assert isinstance(opened.state("dbl").to_arrow().to_pylist()[0]["value"][0], bytes)


def test_pickles_are_bytes() -> None:
    found = rows("py-op", "pickled", value_type="PICKLED")
    for number, key in enumerate(KEYS):
        assert pickle.loads(found[key]["value"]) == {"k": key, "i": 8 + number, "l": [1, 2]}


def test_times_of_last_access_stand_beside_values() -> None:
    found = rows("py-op", "ttlv", value_type="LONG")
    assert {key: row["value"] for key, row in found.items()} == {"k0": 13, "k1": 14, "k2": 15, "k3": 16}
    assert all(row["last_access"].year == 2026 for row in found.values())


def test_elements_of_lists_are_rows_if_flattened() -> None:
    state = SNAPSHOT.open(value_type="LIST<STRING>").operator("py-op").state("items")
    found = state.to_arrow(flatten=True).to_pylist()
    assert state.schema(flatten=True).names == ["key_group", "key", "list_index", "list_element"]
    mine = [(row["list_index"], row["list_element"]) for row in found if row["key"]["f0"] == "k0"]
    assert mine == [(0, "e0"), (1, "e4"), (2, "e8")]


def test_timers_of_a_python_function() -> None:
    found = SNAPSHOT.open().operator("py-op").timers("event").to_arrow().to_pylist()
    mine = [row["timestamp"] for row in found if row["key"]["f0"] == "k1"]
    assert mine == [4102444800001, 4102444800005, 4102444800009]


def test_windows_that_merge() -> None:
    found = rows("py-session", "python-state-merging-window-set")
    assert found["k0"]["value"] == [({"start": 0, "end": 108000}, {"start": 0, "end": 100000})]
    assert rows("py-session", "window-contents")["k0"]["namespace"] == {"start": 0, "end": 108000}


@pytest.mark.parametrize(
    ("state", "type_"),
    [
        ("count", "INT"), ("count", "STRING"), ("count", "LIST<ROW<a INT>>"), ("name", "LONG"), ("items", "STRING"),
        ("items", "LIST<LONG>"), ("byName", "MAP<LONG, LONG>"), ("row", "TUPLE<INT, STRING, DOUBLE>"),
        ("byName", "LONG"),
    ],
)  # fmt: skip
def test_a_type_that_does_not_fit_is_an_error_and_no_damage(state: str, type_: str) -> None:
    with pytest.raises(UnsupportedSnapshot) as caught:
        rows("py-op", state, value_type=type_)
    assert "damaged" not in f"{caught.value}"
    assert "value_type" in (caught.value.advice or "")


@pytest.mark.parametrize(
    "text", ["", "LONGER", "ROW<", "ROW<a INT", "MAP<LONG>", "LIST<LONG> x", "<LONG>", "LIST<>", "{"]
)
def test_texts_that_are_no_type_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="value_type"):
        SNAPSHOT.open(value_type=text)


def test_types_are_not_nested_without_end() -> None:
    with pytest.raises(InvalidOption):
        parse_python_type("LIST<" * 1000 + "LONG" + ">" * 1000)


def text(value: str) -> bytes:
    return i32(len(value.encode())) + value.encode()


@pytest.mark.parametrize(
    ("type_", "data", "value"),
    [
        ("LONG", i64(-(2**63)), -(2**63)), ("SHORT", b"\x80\0", -(2**15)),
        ("BYTE", b"\xff", -1), ("BOOLEAN", b"\1", True),
        ("FLOAT", struct.pack(">f", 0.5), 0.5), ("DOUBLE", struct.pack(">d", -0.0), -0.0),
        ("STRING", text("𝄞\0é"), "𝄞\0é"),
        ("STRING", text(""), ""), ("BIG_DEC", text("1.50"), "1.50"), ("BYTES", text("ab"), b"ab"),
        ("ROW(a INT, b ROW_NAMED(c STRING))", b"\0" + i32(1) + b"\x20", {"a": 1, "b": {"c": None}}),
        ("ROW<INT, LONG>", b"\x20" + i64(2), {"f0": None, "f1": 2}),
        ("TUPLE<LONG, STRING>", i64(1) + text("x"), {"f0": 1, "f1": "x"}),
        ("PRIMITIVE_ARRAY<INT>", i32(2, 5, 6), [5, 6]), ("PRIMITIVE_ARRAY<BYTE>", text("ab"), b"ab"),
        ("BASIC_ARRAY<STRING>", i32(2) + b"\1" + text("a") + b"\0", ["a", None]),
        ("MAP<STRING, LONG>", i32(2) + text("a") + b"\0" + i64(1) + text("b") + b"\1", [("a", 1), ("b", None)]),
        ("INSTANT", i64(1) + i32(500), "1970-01-01T00:00:01.000000500Z"), ("SQL_DATE", i32(1), date(1970, 1, 2)),
        ("SQL_TIMESTAMP", i64(1500), datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        ("TIME_WINDOW", i64(1, 2), {"start": 1, "end": 2}),
    ],
)  # fmt: skip
def test_values_as_the_coders_of_pyflink_write_them(type_: str, data: bytes, value: Any) -> None:
    element = PythonElement(parse_python_type(type_), BYTES)
    assert element.decode(i32(len(data)) + data, row_kind=False) == value
    for broken in (i32(len(data) + 1) + data + b"\0", i32(len(data) - 1) + data[:-1]):
        with pytest.raises(SnapshotError):
            element.decode(broken)


def test_a_byte_array_of_a_list_has_any_number_of_elements() -> None:
    element = PythonElement(parse_python_type("STRING"), BYTES, many=True)
    assert element.layout(LayoutContext()).arrow_type == pa.list_(pa.string())
    for items in ([], ["a"], ["a", "", "ccc"]):
        data = b"".join(map(text, items))
        assert element.decode(i32(len(data)) + data) == items
    with pytest.raises(UnsupportedSnapshot, match="not those of the type STRING"):
        element.decode(i32(6) + text("a") + b"\0")
