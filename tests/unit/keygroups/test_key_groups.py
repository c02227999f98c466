"""Key groups, operator ids and hash codes equal those that Flink computed (tests/vectors)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.errors import InvalidOption
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_hash import KeyHash, composite, is_reproducible
from stateproc.keygroups.operator_ids import operator_id
from stateproc.keygroups.ranges import (
    default_max_parallelism,
    key_group_of_hash,
    key_group_range,
    prefix_width,
    subtask_of_key_group,
)
from stateproc.keygroups.scalars import binary_row_hash
from tests.helpers.paths import VECTORS

FILES = {path.name: json.loads(path.read_text()) for path in sorted(VECTORS.glob("shared-flink-[0-9]*.json"))}
INT, LONG, STRING = KeyHash("int"), KeyHash("long"), KeyHash("string")


def vectors(part: str) -> list[Any]:
    return [
        pytest.param(vector, id=f"{file}-{i}")
        for file, content in FILES.items()
        for i, vector in enumerate(content.get(part, []))
    ]


@pytest.mark.parametrize("vector", [v for v in vectors("hashes") if "keyGroupOf128" in v.values[0]])
def test_key_groups_equal_flinks(vector: dict[str, Any]) -> None:
    assert key_group_of_hash(vector["hashCode"], 128) == vector["keyGroupOf128"]


@pytest.mark.parametrize("vector", vectors("max_parallelism"))
def test_default_max_parallelism_equals_flinks(vector: list[int]) -> None:
    assert default_max_parallelism(vector[0]) == vector[1]


# Published values of the hash, both halves as little-endian bytes; for Flink's ids see test_key_hash_vectors.py.
PUBLISHED_IDS = [
    ("", "00" * 16),
    ("The quick brown fox jumps over the lazy dog", "6c1b07bc7bbc4be347939ac4a93c437a"),
]


@pytest.mark.parametrize(("uid", "expected"), PUBLISHED_IDS)
def test_operator_id_is_murmur3_x64_128(uid: str, expected: str) -> None:
    assert operator_id(uid) == expected


def row(**types: pa.DataType) -> pa.DataType:
    return pa.struct(list(types.items()))


INTS = pa.list_(pa.int32())
SCALAR_TYPES = {
    "Long": (pa.int64(), LONG, int),
    "Integer": (pa.int32(), INT, int),
    "Short": (pa.int16(), KeyHash("short"), int),
    "Byte": (pa.int8(), KeyHash("byte"), int),
    "Character": (pa.string(), KeyHash("char"), str),
    "String": (pa.string(), STRING, str),
    "Boolean": (pa.bool_(), KeyHash("boolean"), lambda text: text == "true"),
    "Double": (pa.float64(), KeyHash("double"), float),
    "Float": (pa.float32(), KeyHash("float"), float),
    "BigInteger": (pa.string(), KeyHash("big_integer"), str),
    "BigDecimal": (pa.string(), KeyHash("big_decimal"), str),
    "LocalDate": (pa.date32(), KeyHash("local_date"), lambda text: np.datetime64(text, "D").item()),
    "Instant": (pa.timestamp("ns"), KeyHash("instant"), lambda text: np.datetime64(text.rstrip("Z"), "ns")),
    "Timestamp": (
        pa.timestamp("ns"),
        KeyHash("epoch_millis"),
        lambda text: np.datetime64(text.replace("_", "T"), "ns"),
    ),
}


@pytest.mark.parametrize("vector", [v for v in vectors("hashes") if v.values[0]["type"] in SCALAR_TYPES])
def test_scalar_hash_codes_equal_flinks(vector: dict[str, Any]) -> None:
    arrow, kind, parse = SCALAR_TYPES[vector["type"]]
    array = pa.array(
        np.array([parse(vector["printed"])])
        if kind.kind in ("instant", "epoch_millis")
        else [parse(vector["printed"])],
        arrow,
    )
    assert hash_codes(array, kind).tolist() == [vector["hashCode"]]


@pytest.mark.parametrize("vector", [v for v in vectors("hashes") if v.values[0]["type"] == "BinaryRow"])
def test_binary_row_hashes_equal_flinks(vector: dict[str, Any]) -> None:
    assert binary_row_hash([bytes.fromhex(vector["printed"])]).tolist() == [vector["hashCode"]]


# Values whose printed form does not determine their type; the hash codes are from shared-flink-1.20.5.json.
COMPOSITES = [
    ({"a": "a", "b": 1}, row(a=pa.string(), b=pa.int32()), KeyHash("row", (STRING, INT)), 4961),
    (
        {"a": [1, 2], "b": None},
        row(a=INTS, b=pa.int32()),
        KeyHash("row", (KeyHash("array", (INT,)), INT)),
        32736,
    ),
    ({"k": "-D", "a": 7}, row(k=pa.string(), a=pa.int32()), KeyHash("row_with_kind", (INT,)), 162),
    ({"k": 3, "a": 7}, row(k=pa.int8(), a=pa.int32()), KeyHash("row_with_kind", (INT,)), 162),
    (
        {"a": {"a": 1}, "b": "z"},
        row(a=row(a=pa.int32()), b=pa.string()),
        KeyHash("row", (KeyHash("row", (INT,)), STRING)),
        4028,
    ),
    ({"a": [1, 2]}, row(a=INTS), KeyHash("row", (KeyHash("list", (INT,)),)), 2017),
    ({"f0": "x", "f1": 3}, row(f0=pa.string(), f1=pa.int32()), KeyHash("tuple", (STRING, INT)), 3723),
]


@pytest.mark.parametrize(("value", "arrow", "kind", "expected"), COMPOSITES)
def test_composite_hash_codes_equal_flinks(value: Any, arrow: pa.DataType, kind: KeyHash, expected: int) -> None:
    assert hash_codes(pa.array([value], arrow), kind).tolist() == [expected]


def test_the_hash_of_a_sql_keys_binary_row_equals_flinks() -> None:
    """The row is the BinaryRow of 14 fields in the vectors: 1, 'ab' and twelve nulls."""
    arrow = pa.struct([("f0", pa.int32()), ("f1", pa.string())] + [(f"n{i}", pa.string()) for i in range(12)])
    kind = KeyHash("rowdata", (INT, STRING, *[STRING] * 12))
    assert hash_codes(pa.array([{"f0": 1, "f1": "ab"}], arrow), kind).tolist() == [506912217]


@pytest.mark.parametrize(("max_parallelism", "parallelism"), [(128, 1), (128, 3), (128, 128), (32768, 777), (7, 5)])
def test_key_group_ranges_cover_all_key_groups_and_match_the_assigned_subtask(
    max_parallelism: int, parallelism: int
) -> None:
    owners = [
        (group, subtask)
        for subtask in range(parallelism)
        for group in key_group_range(max_parallelism, parallelism, subtask)
    ]
    assert [group for group, _ in owners] == list(range(max_parallelism))
    assert all(subtask_of_key_group(max_parallelism, parallelism, group) == owner for group, owner in owners)


def test_key_group_ranges_of_three_subtasks() -> None:
    assert [key_group_range(128, 3, i) for i in range(3)] == [range(43), range(43, 86), range(86, 128)]


def test_prefix_is_two_bytes_from_129_key_groups_on() -> None:
    assert [prefix_width(n) for n in (1, 128, 129, 32768)] == [1, 1, 2, 2]


@pytest.mark.parametrize("bad", [0, -1, 32769])
def test_impossible_max_parallelism_is_refused(bad: int) -> None:
    with pytest.raises(InvalidOption, match=str(bad)):
        key_group_of_hash(1, bad)


def test_parallelism_over_max_parallelism_and_unknown_subtasks_are_refused() -> None:
    with pytest.raises(InvalidOption, match="129"):
        key_group_range(128, 129, 0)
    with pytest.raises(InvalidOption, match="subtask 2"):
        key_group_range(128, 2, 2)
    with pytest.raises(InvalidOption, match="key group 128"):
        subtask_of_key_group(128, 2, 128)
    with pytest.raises(InvalidOption, match="parallelism 0"):
        default_max_parallelism(0)


def test_keys_without_a_known_hash_have_no_key_groups() -> None:
    assert composite("tuple", [INT, None]) is None
    assert composite("tuple", [INT, LONG]) == KeyHash("tuple", (INT, LONG))
    assert not is_reproducible(None)


def test_arrays_have_a_stable_hash_only_inside_a_row() -> None:
    array = KeyHash("array", (KeyHash("byte"),))
    assert not is_reproducible(array)
    assert not is_reproducible(KeyHash("tuple", (array,)))
    assert is_reproducible(KeyHash("row", (array,)))
    assert is_reproducible(KeyHash("row", (KeyHash("list", (array,)),)))
    assert not is_reproducible(KeyHash("row", (KeyHash("tuple", (array,)),)))
