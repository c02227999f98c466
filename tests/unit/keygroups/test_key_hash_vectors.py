"""Hash codes and key groups equal those that Flink computed (tests/vectors/flink-<release>.json)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.operator_ids import operator_id
from stateproc.keygroups.ranges import default_max_parallelism, key_group_of_hash, key_group_range
from tests.helpers.paths import VECTORS

_FILES = [json.loads(path.read_text("utf-8")) for path in sorted(VECTORS.glob("flink-[0-9]*.json"))]
# The files of other releases contain differences only; changes of Row.hashCode are tested separately below.
RELEASES = [release for release in _FILES if "same_as" not in release]
HASHES: list[dict[str, Any]] = [vector for release in RELEASES for vector in release.get("hashes", [])]

EPOCH_MILLIS = KeyHash("epoch_millis")
SECONDS_AND_NANOS = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])


def plain(arrow: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    return lambda values: pa.array(values, arrow)


def floats(arrow: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    return lambda values: pa.array([float(v) for v in values], arrow)


def millis(text: Any) -> int:
    if isinstance(text, dict):
        return int(text["millis"])
    return int(np.datetime64(text.rstrip("Z")[:23], "ms").astype(np.int64))


def instant(text: str) -> dict[str, int]:
    whole, _, fraction = text.rstrip("Z").partition(".")
    seconds = int(np.datetime64(whole, "s").astype(np.int64))
    return {"seconds": seconds, "nanos": int(fraction.ljust(9, "0") or 0)}


def days(text: str) -> int:
    return int(np.datetime64(text, "D").astype(np.int64))


def nano_of_day(text: str) -> int:
    hour, minute, second = ([*text.split(":"), "0"])[:3]
    whole, _, fraction = second.partition(".")
    return (int(hour) * 3600 + int(minute) * 60 + int(whole)) * 10**9 + int(fraction.ljust(9, "0") or 0)


def dates(values: list[str]) -> pa.Array:
    return pa.array([days(v) for v in values], pa.int32()).view(pa.date32())


def date_times(values: list[str]) -> list[pa.Array]:
    """Return one array for each value, because the year -5 does not fit into nanoseconds."""
    arrays = []
    for value in values:
        day, _, time = value.partition("T")
        nanos = days(day) * 86_400 * 10**9 + nano_of_day(time)
        unit, ticks = ("ns", nanos) if abs(nanos) < 1 << 63 else ("us", nanos // 1000)
        arrays.append(pa.array([ticks], pa.int64()).view(pa.timestamp(unit)))
    return arrays


SCALARS: dict[str, tuple[str, Callable[[list[Any]], Any]]] = {
    "Boolean": ("boolean", plain(pa.bool_())),
    "Byte": ("byte", plain(pa.int8())),
    "Short": ("short", plain(pa.int16())),
    "Integer": ("int", plain(pa.int32())),
    "Long": ("long", plain(pa.int64())),
    "Float": ("float", floats(pa.float32())),
    "Double": ("double", floats(pa.float64())),
    "BigInteger": ("big_integer", plain(pa.string())),
    "BigDecimal": ("big_decimal", plain(pa.string())),
    "java.util.Date": ("epoch_millis", lambda values: pa.array(map(millis, values), pa.timestamp("ms"))),
    "java.sql.Date": ("epoch_millis", lambda values: pa.array(map(millis, values), pa.int64())),
    "java.sql.Time": ("epoch_millis", lambda values: pa.array(map(millis, values), pa.int64())),
    "java.sql.Timestamp": ("epoch_millis", lambda values: pa.array(map(millis, values), pa.timestamp("ms"))),
    "Instant": ("instant", lambda values: pa.array(map(instant, values), SECONDS_AND_NANOS)),
    "LocalDate": ("local_date", dates),
    "LocalTime": ("local_time", lambda values: pa.array(map(nano_of_day, values), pa.time64("ns"))),
    "LongValue": ("long_value", plain(pa.int64())),
    "IntValue": ("int_value", plain(pa.int32())),
    "ShortValue": ("short_value", plain(pa.int16())),
    "ByteValue": ("byte_value", plain(pa.int8())),
    "BooleanValue": ("boolean_value", plain(pa.bool_())),
    "FloatValue": ("float_value", floats(pa.float32())),
    "DoubleValue": ("double_value", floats(pa.float64())),
}
TEXTS = {
    "String": "string",
    "StringValue": "string_value",
    "Character": "char",
    "CharValue": "char_value",
}


def vectors_of(kind: str) -> list[dict[str, Any]]:
    found = [vector for vector in HASHES if vector["type"] == kind]
    # Arrow's dates and microseconds have a smaller range than Java's.
    return [v for v in found if "999999999-" not in str(v["value"])]


@pytest.mark.parametrize("java", SCALARS)
def test_scalar_hash_codes_equal_flinks(java: str) -> None:
    kind, to_arrow = SCALARS[java]
    vectors = vectors_of(java)
    assert vectors
    codes = hash_codes(to_arrow([v["value"] for v in vectors]), KeyHash(kind))
    assert codes.tolist() == [v["hash"] for v in vectors]


@pytest.mark.parametrize("java", TEXTS)
def test_string_hash_codes_equal_flinks(java: str) -> None:
    vectors = vectors_of(java)
    assert vectors
    # Lone surrogates are encoded as three bytes, as in the strings decoded from state.
    encoded = [v["value"].encode("utf-8", "surrogatepass") for v in vectors]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    array = pa.Array.from_buffers(pa.string(), len(encoded), buffers)
    assert hash_codes(array, KeyHash(TEXTS[java])).tolist() == [v["hash"] for v in vectors]


def test_local_date_time_hash_codes_equal_flinks() -> None:
    vectors = vectors_of("LocalDateTime")
    assert vectors
    arrays = date_times([v["value"] for v in vectors])
    codes = [int(hash_codes(array, KeyHash("local_date_time"))[0]) for array in arrays]
    assert codes == [v["hash"] for v in vectors]


INT, LONG, STRING, DOUBLE = (KeyHash(kind) for kind in ("int", "long", "string", "double"))
INT_LIST = pa.list_(pa.int32())
MAP = pa.map_(pa.string(), pa.int32())


def struct(*types: pa.DataType) -> pa.DataType:
    return pa.struct([(f"f{i}", kind) for i, kind in enumerate(types)])


def row(*children: KeyHash) -> KeyHash:
    return KeyHash("row", children)


def tuple_of(*children: KeyHash) -> KeyHash:
    return KeyHash("tuple", children)


# (type and value in the vectors, value for Arrow, Arrow type, KeyHash). Mixed lists have no Arrow type.
COMPOSITES: list[tuple[str, Any, Any, pa.DataType, KeyHash]] = [
    ("Tuple", {}, {}, struct(), tuple_of()),
    ("Tuple", {"f0": 7}, {"f0": 7}, struct(pa.int32()), tuple_of(INT)),
    ("Tuple", {"f0": None}, {"f0": None}, struct(pa.int32()), tuple_of(INT)),
    *[
        ("Tuple", value, value, struct(pa.string(), pa.int32()), tuple_of(STRING, INT))
        for value in ({"f0": "x", "f1": 3}, {"f0": None, "f1": 3}, {"f0": "x", "f1": None})
    ],
    (
        "Tuple",
        {"f0": 1, "f1": 2, "f2": -1.5},
        {"f0": 1, "f1": 2, "f2": -1.5},
        struct(pa.int64(), pa.int32(), pa.float64()),
        tuple_of(LONG, INT, DOUBLE),
    ),
    ("Row", {}, {}, struct(), row()),
    ("Row", {"f0": "a", "f1": 1}, {"f0": "a", "f1": 1}, struct(pa.string(), pa.int32()), row(STRING, INT)),
    ("Row", {"f0": None}, {"f0": None}, struct(pa.string()), row(STRING)),
    (
        "Row",
        {"f0": {"f0": {"f0": "deep"}}},
        {"f0": {"f0": {"f0": "deep"}}},
        struct(struct(struct(pa.string()))),
        row(row(row(STRING))),
    ),
    (
        "Row of collections",
        {"f0": "Af8="},
        {"f0": b"\x01\xff"},
        struct(pa.binary()),
        row(KeyHash("array", (KeyHash("byte"),))),
    ),
    (
        "Row of collections",
        {"f0": ""},
        {"f0": b""},
        struct(pa.binary()),
        row(KeyHash("array", (KeyHash("byte"),))),
    ),
    (
        "Row of collections",
        {"f0": [1, -1]},
        {"f0": [1, -1]},
        struct(INT_LIST),
        row(KeyHash("array", (INT,))),
    ),
    (
        "Row of collections",
        {"f0": [1 << 40]},
        {"f0": [1 << 40]},
        struct(pa.list_(pa.int64())),
        row(KeyHash("array", (LONG,))),
    ),
    (
        "Row of collections",
        {"f0": [1.5]},
        {"f0": [1.5]},
        struct(pa.list_(pa.float64())),
        row(KeyHash("array", (DOUBLE,))),
    ),
    (
        "Row of collections",
        {"f0": ["a", None]},
        {"f0": ["a", None]},
        struct(pa.list_(pa.string())),
        row(KeyHash("object_array", (STRING,))),
    ),
    *[
        (
            "Row of collections",
            {"f0": entries},
            {"f0": entries},
            struct(MAP),
            row(KeyHash("map", (STRING, INT))),
        )
        for entries in (
            [{"key": "k", "value": 1}],
            [{"key": "a", "value": 1}, {"key": "b", "value": 2}],
        )
    ],
    *[
        (
            "Row kinds",
            {"f0": 7, "kind": kind},
            {"kind": kind, "f0": 7},
            pa.struct([("kind", pa.string()), ("f0", pa.int32())]),
            KeyHash("row_with_kind", (INT,)),
        )
        for kind in ("-U", "+U", "-D")
    ],
]


@pytest.mark.parametrize(
    ("java", "value", "plain_value", "arrow", "kind"),
    COMPOSITES,
    ids=[f"{java}-{json.dumps(value)}" for java, value, *_ in COMPOSITES],
)
def test_composite_hash_codes_equal_flinks(
    java: str, value: Any, plain_value: Any, arrow: pa.DataType, kind: KeyHash
) -> None:
    expected = [v["hash"] for v in vectors_of(java) if v["value"] == value]
    assert len(expected) >= len(RELEASES)
    codes = hash_codes(pa.array([plain_value], arrow), kind).tolist()
    assert codes * len(expected) == expected


# Computed by each release for: Row("a", 1), Row(Row(1), "z"), Row(List(1, 2)), Row(Map("k", 1)),
# Row(int[]{1, -1}), Row(String[]{"a", null}). Row.hashCode changed with 1.12 and again with 1.13.
ROWS_BY_RELEASE = {
    ("1.8.3", "legacy_row"): [3969, 2075, 1025, 137, 1022, 3999],
    ("1.11.6", "legacy_row"): [3969, 2075, 1025, 137, 1022, 3999],
    ("1.12.7", "row_1_12"): [4000, 1145, 1986, 171, 1022, 4929],
    ("1.13.6", "row"): [4961, 4028, 2017, 202, 1053, 4960],
}


@pytest.mark.parametrize(("release", "kind"), ROWS_BY_RELEASE)
def test_row_hash_codes_of_each_release(release: str, kind: str) -> None:
    rows: list[tuple[dict[str, Any], pa.DataType, tuple[KeyHash, ...]]] = [
        ({"f0": "a", "f1": 1}, struct(pa.string(), pa.int32()), (STRING, INT)),
        (
            {"f0": {"f0": 1}, "f1": "z"},
            struct(struct(pa.int32()), pa.string()),
            (KeyHash(kind, (INT,)), STRING),
        ),
        ({"f0": [1, 2]}, struct(INT_LIST), (KeyHash("list", (INT,)),)),
        ({"f0": [("k", 1)]}, struct(MAP), (KeyHash("map", (STRING, INT)),)),
        ({"f0": [1, -1]}, struct(INT_LIST), (KeyHash("array", (INT,)),)),
        ({"f0": ["a", None]}, struct(pa.list_(pa.string())), (KeyHash("object_array", (STRING,)),)),
    ]
    codes = [int(hash_codes(pa.array([v], arrow), KeyHash(kind, fields))[0]) for v, arrow, fields in rows]
    assert codes == ROWS_BY_RELEASE[release, kind]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("legacy_row_with_kind", 131), ("row_1_12_with_kind", 131), ("row_with_kind", 162)],
)
def test_hash_code_of_a_deleted_row_of_each_release(kind: str, expected: int) -> None:
    arrow = pa.struct([("kind", pa.string()), ("f0", pa.int32())])
    codes = hash_codes(pa.array([{"kind": "-D", "f0": 7}], arrow), KeyHash(kind, (INT,)))
    assert codes.tolist() == [expected]


def test_key_groups() -> None:
    assert HASHES
    for max_parallelism in (128, 1000, 32768):
        codes = np.array([v["hash"] for v in HASHES], np.int32)
        expected = [v["key_groups"][str(max_parallelism)] for v in HASHES]
        assert key_group_of_hash(codes, max_parallelism).tolist() == expected


def test_operator_ids() -> None:
    expected = {v["uid"]: v["id"] for release in RELEASES for v in release["operator_ids"]}
    assert {uid: operator_id(uid) for uid in expected} == expected


def test_ranges_and_default_max_parallelism() -> None:
    for release in RELEASES:
        for v in release["key_group_ranges"]:
            groups = key_group_range(v["max_parallelism"], v["parallelism"], v["subtask"])
            # Flink's empty range ends before it starts.
            assert (groups.start, groups.stop - 1) == (v["first"], v["last"])
        for v in release["default_max_parallelism"]:
            assert default_max_parallelism(v["parallelism"]) == v["max_parallelism"]
