"""Hash codes equal slow reference implementations of Java's definitions on random input."""

from __future__ import annotations

import datetime as dt
import random
import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from stateproc.errors import InvalidOption
from stateproc.keygroups.binary_rows import binary_rows
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.keygroups.scalars import string_data_hashes

INT, LONG, STRING, BYTE = (KeyHash(kind) for kind in ("int", "long", "string", "byte"))
RANDOM = random.Random(20240229)


def i32(value: int) -> int:
    return struct.unpack(">i", struct.pack(">I", value & 0xFFFFFFFF))[0]


def u32(value: int) -> int:
    return value & 0xFFFFFFFF


def long_hash(value: int) -> int:
    unsigned = value & (1 << 64) - 1
    return i32(unsigned ^ unsigned >> 32)


def string_hash(text: str) -> int:
    h = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        h = u32(31 * h + unit)
    return i32(h)


def murmur_int(code: int) -> int:
    code = u32(code * 0xCC9E2D51)
    code = u32(code << 15 | code >> 17)
    code = u32(code * 0x1B873593)
    code = u32(code << 13 | code >> 19)
    code = u32(code * 5 + 0xE6546B64) ^ 4
    code ^= code >> 16
    code = u32(code * 0x85EBCA6B)
    code ^= code >> 13
    code = u32(code * 0xC2B2AE35)
    code ^= code >> 16
    return 0 if i32(code) == -(1 << 31) else abs(i32(code))


def murmur_bytes(data: bytes) -> int:
    whole = len(data) // 4 * 4
    words = [
        *struct.unpack(f"<{whole // 4}I", data[:whole]),
        *struct.unpack(f"{len(data) - whole}b", data[whole:]),
    ]
    h = 42
    for k in words:
        k = u32(k * 0xCC9E2D51)
        k = u32(u32(k << 15 | k >> 17) * 0x1B873593)
        h ^= k
        h = u32(u32(h << 13 | h >> 19) * 5 + 0xE6546B64)
    h ^= len(data)
    h = u32((h ^ h >> 16) * 0x85EBCA6B)
    h = u32((h ^ h >> 13) * 0xC2B2AE35)
    return i32(h ^ h >> 16)


def polynomial(elements: list[int]) -> int:
    h = 1
    for element in elements:
        h = 31 * h + element
    return i32(h)


def random_text() -> str:
    alphabet = "aé漢😀\0z𐍈\uffff"
    return "".join(RANDOM.choice(alphabet) for _ in range(RANDOM.randrange(12)))


LONGS = [
    0,
    1,
    -1,
    1 << 62,
    -(1 << 63),
    (1 << 63) - 1,
    *[RANDOM.randrange(-(1 << 63), 1 << 63) for _ in range(300)],
]
INTS = [0, 1, -1, -(1 << 31), (1 << 31) - 1, *[RANDOM.randrange(-(1 << 31), 1 << 31) for _ in range(300)]]
TEXTS = ["", "a", "😀", *[random_text() for _ in range(300)]]


def check(values: list[Any], arrow: pa.DataType, kind: KeyHash, expected: list[int]) -> None:
    array = pa.array(values, arrow)
    assert hash_codes(array, kind).tolist() == expected
    # The hash does not depend on the offset of a slice or the chunks of a chunked array.
    assert hash_codes(array[3:], kind).tolist() == expected[3:]
    assert hash_codes(pa.chunked_array([array[:2], array[2:]]), kind).tolist() == expected


def test_key_groups() -> None:
    expected = [murmur_int(u32(code)) % 1000 for code in INTS]
    assert key_group_of_hash(np.array(INTS, np.int32), 1000).tolist() == expected
    assert [key_group_of_hash(code, 1000) for code in INTS] == expected


def test_long_hash() -> None:
    check(LONGS, pa.int64(), LONG, [long_hash(v) for v in LONGS])


def test_long_value_and_double_value_add_their_constants() -> None:
    check(LONGS, pa.int64(), KeyHash("long_value"), [i32(43 + long_hash(v)) for v in LONGS])
    doubles = [0.0, -0.0, 1.5, float("-inf")]
    bits = [struct.unpack(">q", struct.pack(">d", v))[0] for v in doubles]
    check(doubles, pa.float64(), KeyHash("double_value"), [i32(31 + long_hash(b)) for b in bits])


def test_boolean_and_boolean_value() -> None:
    check([True, False, None, True], pa.bool_(), KeyHash("boolean"), [1231, 1237, 0, 1231])
    check([True, False, None, True], pa.bool_(), KeyHash("boolean_value"), [1, 0, 0, 1])


def test_every_nan_has_the_hash_of_the_canonical_nan() -> None:
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000 - (1 << 64)], np.int64).view(np.float64)
    assert hash_codes(pa.array(odd), KeyHash("double")).tolist() == [0x7FF80000] * 2
    odd32 = np.array([0x7FC00001], np.int32).view(np.float32)
    assert hash_codes(pa.array(odd32), KeyHash("float")).tolist() == [0x7FC00000]


@pytest.mark.parametrize("arrow", [pa.string(), pa.large_string()])
def test_string(arrow: pa.DataType) -> None:
    check([*TEXTS, None], arrow, STRING, [*map(string_hash, TEXTS), 0])


def test_hashing_a_string_with_a_truncated_character_reads_no_byte_after_it() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xf0\xe2")])
    assert hash_codes(array, STRING).tolist() == [0xF0, 0xE2]


def test_string_data_and_binary_rows_hash_their_bytes() -> None:
    expected = [murmur_bytes(text.encode("utf-8")) for text in TEXTS]
    assert string_data_hashes(pa.array(TEXTS)).tolist() == expected


JAVA_UUIDS = {
    "00000000-0000-0000-0000-000000000000": 0,
    "ffffffff-ffff-ffff-ffff-ffffffffffff": 0,
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6": -343263960,
    "80000000-0000-0000-0000-000000000001": -2147483647,
    "00000000-0000-0001-ffff-ffffffffffff": 1,
}
"""Text → what Java's UUID.hashCode returned."""


def test_uuid() -> None:
    texts = pa.array([*JAVA_UUIDS, None])
    assert hash_codes(texts, KeyHash("uuid")).tolist() == [*JAVA_UUIDS.values(), 0]
    for bad in (pa.array(["no uuid"]), pa.array([1])):
        with pytest.raises(InvalidOption, match="UUID"):
            hash_codes(bad, KeyHash("uuid"))
    one = next(reversed(JAVA_UUIDS))
    rows = pa.StructArray.from_arrays([pa.array([one, None])], ["f0"])
    as_bytes = pa.StructArray.from_arrays([pa.array([UUID(one).bytes, None])], ["f0"])
    assert binary_rows(rows, KeyHash("rowdata", (KeyHash("uuid"),))).equals(
        binary_rows(as_bytes, KeyHash("rowdata", (KeyHash("binary"),)))
    )


def test_big_integer() -> None:
    values = [0, 1, -1, 1 << 32, -(1 << 63), *[RANDOM.randrange(-(1 << 200), 1 << 200) for _ in range(50)]]

    def expected(value: int) -> int:
        h, magnitude = 0, abs(value)
        for word in struct.unpack(">8I", magnitude.to_bytes(32, "big")):
            h = 31 * h + word
        return i32(h if value >= 0 else -h)

    check([str(v) for v in values], pa.string(), KeyHash("big_integer"), [expected(v) for v in values])


def test_the_hash_of_a_big_decimal_includes_its_scale() -> None:
    # java.math.BigDecimal: 31 * hash of the unscaled value + scale
    cases = {
        "1.5": 31 * 15 + 1,
        "1.50": 31 * 150 + 2,
        "-1.5": -31 * 15 + 1,
        "1E+3": 31 - 3,
        "0": 0,
        "0.00": 2,
    }
    check(list(cases), pa.string(), KeyHash("big_decimal"), list(cases.values()))


@pytest.mark.parametrize("bad", ["", "NaN", "Infinity", "1e", "0x1", "1_000", "1E99999999999", "１"])
def test_text_that_is_not_a_decimal_number_is_refused(bad: str) -> None:
    with pytest.raises(InvalidOption):
        hash_codes(pa.array([bad]), KeyHash("big_decimal"))
    with pytest.raises(InvalidOption):
        hash_codes(pa.array([bad]), KeyHash("big_integer"))


def date_hash(day: dt.date) -> int:
    return i32((day.year & 0xFFFFF800) ^ ((day.year << 11) + (day.month << 6) + day.day))


DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]


def test_local_date() -> None:
    check(DAYS, pa.date32(), KeyHash("local_date"), [date_hash(day) for day in DAYS])


def test_local_time() -> None:
    nanos = [0, 1, 86399_999999999, 3600_000000000]
    check(nanos, pa.time64("ns"), KeyHash("local_time"), [long_hash(v) for v in nanos])
    millis = [0, 1, 86399_999, 3600_000]
    check(millis, pa.time32("ms"), KeyHash("local_time"), [long_hash(v * 10**6) for v in millis])


def test_local_date_time_and_instant_before_and_after_1970() -> None:
    micros = [0, -1, 1_582_934_400_000_001, -86_400_000_000]
    days = [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2020, 2, 29), dt.date(1969, 12, 31)]
    nano_of_day = [0, 86399_999999000, 1000, 0]
    expected = [date_hash(day) ^ long_hash(nano) for day, nano in zip(days, nano_of_day, strict=True)]
    check(micros, pa.timestamp("us"), KeyHash("local_date_time"), expected)
    instants = [i32(long_hash(v // 10**6) + 51 * (v % 10**6 * 1000)) for v in micros]
    check(micros, pa.timestamp("us"), KeyHash("instant"), instants)
    parts = [{"s": v // 10**6, "n": v % 10**6 * 1000} for v in micros]
    check(parts, pa.struct([("s", pa.int64()), ("n", pa.int32())]), KeyHash("instant"), instants)


def test_epoch_millis_are_rounded_down_and_date32_is_refused() -> None:
    check(
        [-1, 1999, -1001, 0],
        pa.timestamp("us"),
        KeyHash("epoch_millis"),
        [long_hash(v) for v in (-1, 1, -2, 0)],
    )
    check([-1, 5], pa.date64(), KeyHash("epoch_millis"), [0, 5])
    with pytest.raises(InvalidOption, match="date32"):
        hash_codes(pa.array([1], pa.date32()), KeyHash("epoch_millis"))


def test_time_window_hash_mixes_the_sum_of_its_bounds() -> None:
    def mixed(value: int) -> int:
        mask = (1 << 64) - 1
        x = value & mask
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
        return i32(x ^ x >> 31)

    windows = [{"start": a, "end": b} for a, b in zip(LONGS, reversed(LONGS), strict=True)]
    arrow = pa.struct([("start", pa.int64()), ("end", pa.int64())])
    check(windows, arrow, KeyHash("time_window"), [mixed(w["start"] + w["end"]) for w in windows])


def test_tuple_with_nulls() -> None:
    rows = [{"f0": a, "f1": b} for a, b in zip([*LONGS, None], [None, *reversed(LONGS)], strict=True)]
    expected = [
        i32(31 * (0 if r["f0"] is None else long_hash(r["f0"])) + (0 if r["f1"] is None else long_hash(r["f1"])))
        for r in rows
    ]
    arrow = pa.struct([("f0", pa.int64()), ("f1", pa.int64())])
    check(rows, arrow, KeyHash("tuple", (LONG, LONG)), expected)
    assert hash_codes(pa.array([{}], pa.struct([])), KeyHash("tuple")).tolist() == [0]


def test_list_and_map_outside_a_row() -> None:
    lists = [INTS[:n] for n in range(20)]
    check(lists, pa.list_(pa.int32()), KeyHash("list", (INT,)), [polynomial(v) for v in lists])
    fixed = [[1, 2], [3, 4], [5, 6], [7, 8]]
    check(fixed, pa.list_(pa.int32(), 2), KeyHash("list", (INT,)), [polynomial(v) for v in fixed])
    maps = [dict(zip(TEXTS[:n], INTS, strict=False)) for n in range(20)]
    expected = [i32(sum(u32(string_hash(k)) ^ u32(v) for k, v in m.items())) for m in maps]
    arrow = pa.map_(pa.string(), pa.int32())
    check([list(m.items()) for m in maps], arrow, KeyHash("map", (STRING, INT)), expected)


def test_row_hash_includes_elements_of_lists_maps_and_arrays() -> None:
    """Flink's RowUtils.deepHashCodeInternal adds 31 to a scalar's hash, starts a map at 1, and maps null to 0."""
    arrow = pa.struct(
        [
            ("l", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("b", pa.binary()),
            ("n", pa.int64()),
        ]
    )
    kind = KeyHash("row", (KeyHash("list", (INT,)), KeyHash("map", (STRING, INT)), KeyHash("array", (BYTE,)), LONG))
    rows = [
        {"l": [1, None], "m": [("a", 5), ("b", None)], "b": b"\x01\xff", "n": None},
        {"l": [], "m": [], "b": b"", "n": 7},
        {"l": None, "m": None, "b": None, "n": None},
        {"l": [-1], "m": [("😀", -5)], "b": b"\x80", "n": -1},
    ]

    def e(h: int) -> int:
        return 31 + h

    expected = [
        polynomial(
            [
                polynomial([e(1), 0]),
                1 + (e(97) ^ e(5)) + (e(98) ^ 0),
                e(polynomial([1, -1])),
                0,
            ]
        ),
        polynomial([1, 1, e(1), e(7)]),
        polynomial([0, 0, 0, 0]),
        polynomial([polynomial([e(-1)]), 1 + (e(string_hash("😀")) ^ e(-5)), e(polynomial([-128])), e(0)]),
    ]
    check(rows, arrow, kind, expected)


def test_legacy_row_hash_includes_elements_of_arrays_only() -> None:
    arrow = pa.struct([("l", pa.list_(pa.int32())), ("b", pa.binary()), ("s", pa.string())])
    kind = KeyHash("legacy_row", (KeyHash("list", (INT,)), KeyHash("array", (BYTE,)), STRING))
    rows = [{"l": [1, 2], "b": b"\x01", "s": "a"}, {"l": None, "b": None, "s": None}]
    expected = [polynomial([polynomial([1, 2]), polynomial([1]), 97]), polynomial([0, 0, 0])]
    assert hash_codes(pa.array(rows, arrow), kind).tolist() == expected


def test_binary_row_bytes() -> None:
    """BinaryRowData has null bits after the RowKind byte, 8-byte slots, and a variable-length part padded to 8."""
    arrow = pa.struct(
        [
            ("flag", pa.bool_()),
            ("short", pa.string()),
            ("long", pa.string()),
            ("none", pa.int32()),
            ("small", pa.decimal128(10, 2)),
            ("big", pa.decimal128(38, 2)),
            ("ms", pa.timestamp("ms")),
            ("ns", pa.timestamp("ns")),
            ("nested", pa.struct([("x", pa.int8())])),
        ]
    )
    kind = KeyHash(
        "rowdata",
        (
            KeyHash("boolean"),
            STRING,
            STRING,
            INT,
            KeyHash("decimal", precision=10, scale=2),
            KeyHash("decimal", precision=38, scale=2),
            KeyHash("timestamp", precision=3),
            KeyHash("timestamp", precision=9),
            KeyHash("rowdata", (BYTE,)),
        ),
    )
    value = {
        "flag": True,
        "short": "é",
        "long": "12345678x",
        "none": None,
        "small": "-1.50",
        "big": "655.36",
        "ms": -1,
        "ns": 1_000_001,
        "nested": {"x": -1},
    }
    value = {**value, "small": Decimal("-1.50"), "big": Decimal("655.36")}
    fixed = 8 + 9 * 8
    expected = (
        bytes([0, 0b1000, 0, 0, 0, 0, 0, 0])
        + struct.pack("<q", 1)
        + "é".encode() + bytes(5) + b"\x82"
        + struct.pack("<ii", 9, fixed)
        + bytes(8)
        + struct.pack("<q", -150)
        + struct.pack("<ii", 3, fixed + 16)
        + struct.pack("<q", -1)
        + struct.pack("<ii", 1, fixed + 32)
        + struct.pack("<ii", 16, fixed + 40)
        + b"12345678x" + bytes(7)
        + b"\x01\x00\x00" + bytes(13)
        + struct.pack("<q", 1)
        + bytes(8) + b"\xff" + bytes(7)
    )  # fmt: skip
    array = pa.array([value], arrow)
    assert binary_rows(array, kind).to_pylist() == [expected]
    assert hash_codes(array, kind).tolist() == [murmur_bytes(expected)]


@pytest.mark.parametrize("digits", ["9" * 38, "-" + "9" * 38, "1" + "0" * 36 + "1", "-128", "127", "128"])
def test_binary_row_keeps_all_digits_of_a_decimal(digits: str) -> None:
    kind = KeyHash("rowdata", (KeyHash("decimal", precision=38, scale=0),))
    array = pa.array([{"d": Decimal(digits)}], pa.struct([("d", pa.decimal128(38, 0))]))
    (row,) = binary_rows(array, kind).to_pylist()
    length, offset = struct.unpack("<ii", row[8:16])
    assert (offset, len(row)) == (16, 32)
    assert int.from_bytes(row[16 : 16 + length], "big", signed=True) == int(digits)
    # BigInteger.toByteArray is as short as the sign bit allows.
    assert length == 1 or not -(1 << 8 * length - 9) <= int(digits) < 1 << 8 * length - 9


def test_binary_row_of_57_fields_has_two_words_of_null_bits() -> None:
    arrow = pa.struct([(f"f{i}", pa.int32()) for i in range(57)])
    (row,) = binary_rows(pa.array([{"f0": 1}], arrow), KeyHash("rowdata", (INT,) * 57)).to_pylist()
    assert len(row) == 16 + 57 * 8
    assert row[:9] == b"\x00\xfe\xff\xff\xff\xff\xff\xff\x01"


def test_values_without_a_unique_binary_row_form_are_refused() -> None:
    wide = KeyHash("rowdata", (KeyHash("timestamp", precision=9),))
    with pytest.raises(InvalidOption, match="null TIMESTAMP"):
        binary_rows(pa.array([{"t": None}], pa.struct([("t", pa.timestamp("us"))])), wide)
    with pytest.raises(InvalidOption, match="list"):
        binary_rows(
            pa.array([{"l": [1]}], pa.struct([("l", pa.list_(pa.int32()))])),
            KeyHash("rowdata", (KeyHash("list", (INT,)),)),
        )


def test_columns_that_do_not_fit_the_key_are_refused() -> None:
    for array, kind in [
        (pa.array([1]), STRING),
        (pa.array(["a"]), KeyHash("tuple", (INT,))),
        (pa.array([{"a": 1}]), KeyHash("tuple", (INT, INT))),
        (pa.array([1]), KeyHash("list", (INT,))),
        (pa.array([1]), KeyHash("enum")),
        (pa.array(["a"]), LONG),
        (pa.array([1]), KeyHash("boolean")),
        (pa.array([1]), KeyHash("string_data")),
        (pa.array([{"a": "x"}]), KeyHash("rowdata", (KeyHash("decimal", precision=5),))),
        (pa.array([{"k": "?", "a": 1}]), KeyHash("row_with_kind", (LONG,))),
    ]:
        with pytest.raises(InvalidOption):
            hash_codes(array, kind)


def test_empty_columns() -> None:
    for arrow, kind in [
        (pa.string(), STRING),
        (pa.int64(), LONG),
        (pa.list_(pa.int32()), KeyHash("list", (INT,))),
    ]:
        assert hash_codes(pa.array([], arrow), kind).tolist() == []
