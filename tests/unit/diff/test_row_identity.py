"""Encoded rows are equal exactly if the rows are: of random values of nested types, and the special ones."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from stateproc.diff.row_identity import encoded, identity

TYPE = pa.struct(
    [
        ("text", pa.string()),
        ("data", pa.binary()),
        ("number", pa.int32()),
        ("real", pa.float64()),
        ("flag", pa.bool_()),
        ("list", pa.list_(pa.string())),
        ("map", pa.map_(pa.string(), pa.list_(pa.int8()))),
    ]
)
TEXTS = st.none() | st.text("a\0b", max_size=3)
VALUES = st.none() | st.fixed_dictionaries(
    {
        "text": TEXTS,
        "data": st.none() | st.binary(max_size=2),
        "number": st.none() | st.integers(-1, 1),
        "real": st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan]),
        "flag": st.none() | st.booleans(),
        "list": st.none() | st.lists(TEXTS, max_size=2),
        "map": st.none()
        | st.dictionaries(st.text("ab", max_size=2), st.none() | st.lists(st.integers(0, 1), max_size=2), max_size=3),
    }
)


def rows(array: pa.Array) -> list[bytes]:
    found = encoded(array)
    data = found.data.tobytes()
    return [data[start:stop] for start, stop in zip(found.offsets[:-1], found.offsets[1:], strict=True)]


def plain(value: Any) -> Any:
    """The value with floats as bits and maps without an order."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, dict):
        return frozenset((key, plain(item)) for key, item in value.items())
    return tuple(map(plain, value)) if isinstance(value, list) else value


@settings(max_examples=150, deadline=None)
@given(st.lists(VALUES, max_size=8), st.integers(0, 3))
def test_rows_are_equal_if_their_bytes_are(values: list[Any], skipped: int) -> None:
    entries = [value if value is None else {**value, "map": _pairs(value["map"])} for value in values]
    array = pa.array(entries, TYPE).slice(skipped)
    found, wanted = rows(array), [plain(value) for value in values[skipped:]]
    for one, two in zip(found, wanted, strict=True):
        for other, expected in zip(found, wanted, strict=True):
            assert (one == other) == (two == expected)


def _pairs(value: dict[str, Any] | None) -> list[tuple[str, Any]] | None:
    return None if value is None else list(value.items())


def test_the_order_of_maps_does_not_count_and_that_of_lists_does() -> None:
    maps = pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", 2), ("b", 1)]], pa.map_(pa.string(), pa.int8()))
    assert rows(maps)[0] == rows(maps)[1] != rows(maps)[2]
    lists = pa.array([["a", "b"], ["b", "a"], ["ab"], ["a", "b", None]])
    assert len(set(rows(lists))) == 4


def test_other_types() -> None:
    for array in (
        pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("0.00")], pa.decimal128(5, 2)),
        pa.array([datetime.date(2024, 2, 29), None, datetime.date(1970, 1, 1)]),
        pa.array([1, None, 0], pa.timestamp("us", "UTC")),
        pa.array([b"ab", None, b"\0\0"], pa.binary(2)),
        pa.array([[1, 2], None, [0, 0]], pa.list_(pa.int8(), 2)),
        pa.array(["x", None, ""]).dictionary_encode(),
        pa.array([["x"], None, []], pa.large_list(pa.large_string())),
        pa.array([{}, None, {}], pa.struct([])),
    ):
        found = rows(pa.concat_arrays([array, array.slice(1)]))
        assert found[3:] == found[1:3]
        assert len(set(found)) >= 2
    assert set(rows(pa.nulls(2))) == {b"\0"}


def test_columns_do_not_run_into_each_other() -> None:
    one = identity([pa.array(["a", "ab"]), pa.array(["bc", "c"])], 2)
    assert one.data[: one.offsets[1]].tobytes() != one.data[one.offsets[1] : one.offsets[2]].tobytes()
    assert identity([], 3).lengths.tolist() == [0, 0, 0]
