"""SQL serializers with handwritten bytes: slots, nulls, wide values, nesting, names and damage."""

from __future__ import annotations

import datetime as dt
import pickle
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec.machine import ValueDecoder
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.serializers.core.base import LayoutContext
from tests.helpers.byte_builders.serializers import (
    INT,
    STRING,
    TYPEUTILS,
    composite,
    i32,
    i64,
    java,
    nested,
    read,
    row_data,
    scalar,
    slots,
    sql_type,
    versioned,
)  # fmt: skip

ABC_INLINE = 0x83 << 56 | int.from_bytes(b"abc", "little")
DECIMAL_9_2 = sql_type("DecimalType", "DECIMAL", precision=9, scale=2)
DECIMAL_20_3 = sql_type("DecimalType", "DECIMAL", precision=20, scale=3)
TIMESTAMP_3 = sql_type("TimestampType", "TIMESTAMP_WITHOUT_TIME_ZONE", precision=3)
TIMESTAMP_9 = sql_type("TimestampType", "TIMESTAMP_WITHOUT_TIME_ZONE", precision=9)
LTZ_9 = sql_type("LocalZonedTimestampType", "TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=9)


# TIMESTAMP(9)[]: 1970-01-01T00:00:00.000007, null
WIDE_TIMES = struct.pack("<iIQQ", 2, 2, 24 << 32 | 7_000, 0) + bytes(8)


def array_of(element: tuple) -> tuple:
    return sql_type("ArrayType", "ARRAY", elementType=element)


def pointer(offset: int, length: int) -> int:
    return offset << 32 | length


def int_array(*values: int | None) -> bytes:
    nulls = sum(1 << i for i, value in enumerate(values) if value is None)
    body = struct.pack("<iI", len(values), nulls) + b"".join(struct.pack("<i", v or 0) for v in values)
    return body + bytes(-len(body) % 8)


def test_a_row_with_nulls_has_names_from_version_4_on() -> None:
    data = slots(0, 0b10, 7, 0)
    assert read(row_data(INT, STRING)).decode(data) == {"f0": 7, "f1": None}
    assert read(row_data(INT, STRING, names=("id", "name"))).decode(data) == {"id": 7, "name": None}


def test_type_names_are_sql_types() -> None:
    serializer = read(row_data(INT, STRING, DECIMAL_20_3, array_of(LTZ_9)))
    assert serializer.type_name == "ROW<f0 INT, f1 STRING, f2 DECIMAL(20, 3), f3 ARRAY<TIMESTAMP_LTZ(9)>>"
    assert serializer.length == -1


def test_the_row_kind_is_read_on_request() -> None:
    serializer = read(row_data(INT))
    assert serializer.decode(slots(3, 0, 1)) == {"f0": 1, "row_kind": "-D"}
    assert serializer.decode(slots(3, 0, 1), row_kind=False) == {"f0": 1}
    assert serializer.decode(slots(0, 0, 1)) == {"f0": 1}
    with pytest.raises(CorruptSnapshot):
        serializer.decode(slots(4, 0, 1))


def test_strings_are_stored_inline_or_after_the_slots() -> None:
    serializer = read(row_data(STRING, STRING))
    data = slots(0, 0, ABC_INLINE, pointer(24, 9), tail="12345é78".encode() + bytes(7))
    assert serializer.decode(data) == {"f0": "abc", "f1": "12345é78"}


def test_a_string_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(CorruptSnapshot):
        read(row_data(STRING)).decode(slots(0, 0, 0x81 << 56 | 0xFF))


@pytest.mark.parametrize(("type_", "unscaled", "expected"), [
    (DECIMAL_9_2, -1, Decimal("-0.01")),
    (DECIMAL_9_2, 999_999_999, Decimal("9999999.99")),
])  # fmt: skip
def test_compact_decimals(type_: tuple, unscaled: int, expected: Decimal) -> None:
    assert read(row_data(type_)).decode(slots(0, 0, unscaled & 2**64 - 1)) == {"f0": expected}


def test_a_decimal_with_too_many_digits_is_refused() -> None:
    with pytest.raises(CorruptSnapshot, match="more than 9 digits"):
        read(row_data(DECIMAL_9_2)).decode(slots(0, 0, 1_000_000_000))


def test_wide_decimals_are_big_endian_and_reserve_space_when_null() -> None:
    raw = (-12345).to_bytes(2, "big", signed=True)
    serializer = read(row_data(DECIMAL_20_3, INT))
    assert serializer.decode(slots(0, 0, pointer(24, 2), 5, tail=raw + bytes(14))) == {
        "f0": Decimal("-12.345"),
        "f1": 5,
    }
    assert serializer.decode(slots(0, 1, pointer(24, 0), 5, tail=bytes(16))) == {"f0": None, "f1": 5}


def test_timestamps_compact_and_wide() -> None:
    serializer = read(row_data(TIMESTAMP_3, TIMESTAMP_9, LTZ_9))
    data = slots(0, 0, 2**64 - 1, pointer(32, 999_999), pointer(40, 0), tail=struct.pack("<qq", -1, 1_000))
    assert serializer.decode(data, temporal="exact") == {
        "f0": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
        "f1": "1969-12-31T23:59:59.999999999",
        "f2": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc),
    }
    micros = serializer.decode(data, temporal="micros")
    assert micros["f1"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    arrow = serializer.layout(LayoutContext()).arrow_type
    assert [field.type for field in arrow] == [
        pa.timestamp("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    ]  # fmt: skip


def test_nanoseconds_of_a_millisecond_or_more_are_refused() -> None:
    with pytest.raises(CorruptSnapshot):
        read(row_data(TIMESTAMP_9)).decode(slots(0, 0, pointer(16, 1_000_000), tail=bytes(8)))


def test_dates_times_and_intervals() -> None:
    serializer = read(
        row_data(
            sql_type("DateType", "DATE"),
            sql_type("TimeType", "TIME_WITHOUT_TIME_ZONE", precision=0),
            sql_type("YearMonthIntervalType", "INTERVAL_YEAR_MONTH"),
            sql_type("DayTimeIntervalType", "INTERVAL_DAY_TIME"),
        )
    )
    data = slots(0, 0, 0xFFFFFFFF, 86_399_999, 14, 2**64 - 5)
    assert serializer.decode(data) == {
        "f0": dt.date(1969, 12, 31), "f1": dt.time(23, 59, 59, 999_000), "f2": 14, "f3": -5,
    }  # fmt: skip
    with pytest.raises(CorruptSnapshot):
        serializer.decode(slots(0, 0, 0, 86_400_000, 0, 0))


def test_arrays_in_rows() -> None:
    array = int_array(1, None, -1)
    data = slots(0, 0, pointer(16, len(array)), tail=array)
    assert read(row_data(array_of(INT))).decode(data) == {"f0": [1, None, -1]}
    empty = int_array()
    assert read(row_data(array_of(INT))).decode(slots(0, 0, pointer(16, 8), tail=empty)) == {"f0": []}


def test_arrays_of_rows_of_arrays() -> None:
    inner_row = struct.pack("<QQ", 0, pointer(16, 16)) + int_array(5, 6)
    array = struct.pack("<iIQ", 2, 0b10, pointer(24, len(inner_row))) + bytes(8) + inner_row
    nested_row = sql_type("RowType", "ROW", fields=None)
    del nested_row[1]["fields"]
    # A RowType without fields is a row without columns, so that the slot's bytes are not read.
    data = slots(0, 0, pointer(16, len(array)), tail=array)
    assert read(row_data(array_of(nested_row))).decode(data) == {"f0": [{}, None]}


def test_maps_and_multisets_in_rows() -> None:
    keys, values = int_array(1, 2), int_array(10, None)
    body = struct.pack("<i", len(keys)) + keys + values
    map_type = sql_type("MapType", "MAP", keyType=INT, valueType=INT)
    data = slots(0, 0, pointer(16, len(body)), tail=body)
    assert read(row_data(map_type)).decode(data) == {"f0": [(1, 10), (2, None)]}
    multiset = sql_type("MultisetType", "MULTISET", elementType=INT)
    assert read(row_data(multiset)).decode(data) == {"f0": [(1, 10), (2, None)]}


@pytest.mark.parametrize(("keys", "values"), [
    (int_array(1, None), int_array(1, 2)),
    (int_array(1, 2), int_array(1)),
])  # fmt: skip
def test_maps_with_null_keys_or_uneven_arrays_are_refused(keys: bytes, values: bytes) -> None:
    body = struct.pack("<i", len(keys)) + keys + values
    map_type = sql_type("MapType", "MAP", keyType=INT, valueType=INT)
    with pytest.raises(SnapshotError):
        read(row_data(map_type)).decode(slots(0, 0, pointer(16, len(body)), tail=body))


@pytest.mark.parametrize("count", [-1, 3, 2**31 - 1])
def test_an_impossible_number_of_elements_is_refused(count: int) -> None:
    array = struct.pack("<iI", count, 0) + bytes(8)
    with pytest.raises(CorruptSnapshot):
        read(row_data(array_of(INT))).decode(slots(0, 0, pointer(16, len(array)), tail=array))


@pytest.mark.parametrize("slot", [pointer(17, 8), pointer(2**30, 8), pointer(16, 9), pointer(0, 2**31)])
def test_a_slot_with_an_offset_outside_its_row_is_refused(slot: int) -> None:
    with pytest.raises(CorruptSnapshot, match=r"outside|bytes"):
        read(row_data(STRING)).decode(slots(0, 0, slot, tail=bytes(8)))


def test_every_truncation_of_a_row_is_refused() -> None:
    serializer = read(row_data(INT, STRING))
    data = slots(0, 0, 1, pointer(24, 8), tail=b"12345678")
    assert serializer.decode(data) == {"f0": 1, "f1": "12345678"}
    for end in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            serializer.decode(data[:end])


def test_every_truncation_of_a_row_snapshot_is_refused() -> None:
    snapshot = row_data(INT, STRING, names=("id", "name"))
    for end in range(len(snapshot)):
        with pytest.raises(CorruptSnapshot):
            read(snapshot[:end])


def test_rows_with_duplicate_names_keep_all_fields() -> None:
    serializer = read(row_data(INT, INT, names=("a", "a")))
    assert serializer.decode(slots(0, 0, 1, 2)) == {"a": 1, "a_2": 2}


def test_an_unknown_row_version_is_unsupported() -> None:
    with pytest.raises(UnsupportedSnapshot, match="version 5"):
        read(versioned(TYPEUTILS + "RowDataSerializer$RowDataSerializerSnapshot", 5, i32(0) + nested()))


def test_a_java_object_that_is_not_a_sql_type_is_refused() -> None:
    snapshot = row_data(("com.acme.MyType", {"size": 3}))
    with pytest.raises(UnsupportedSnapshot, match=r"com\.acme\.MyType"):
        read(snapshot)


def test_a_sql_type_without_a_binary_form_is_named() -> None:
    serializer = read(row_data(sql_type("SymbolType", "SYMBOL")))
    with pytest.raises(UnsupportedSnapshot, match="SYMBOL"):
        serializer.decode(slots(0, 0, 0))


def test_a_too_deeply_nested_sql_type_is_refused() -> None:
    type_ = INT
    for _ in range(100):
        type_ = array_of(type_)
    with pytest.raises(SnapshotError):
        read(row_data(type_))


@pytest.mark.parametrize(("precision", "data", "length", "expected"), [
    (3, i64(-1), 8, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
    (4, i64(5) + i32(600_000), 12, dt.datetime(1970, 1, 1, 0, 0, 0, 5_600)),
])  # fmt: skip
def test_timestamps_outside_rows(precision: int, data: bytes, length: int, expected: dt.datetime) -> None:
    serializer = read(
        versioned(TYPEUTILS + "TimestampDataSerializer$TimestampDataSerializerSnapshot", 1, i32(precision))
    )
    assert (serializer.length, serializer.decode(data)) == (length, expected)


@pytest.mark.parametrize("precision", [-1, 10])
def test_a_timestamp_with_an_impossible_precision_is_refused(precision: int) -> None:
    with pytest.raises(CorruptSnapshot):
        read(versioned(TYPEUTILS + "TimestampDataSerializer$TimestampDataSerializerSnapshot", 1, i32(precision)))


@pytest.mark.parametrize(("precision", "scale", "data", "expected"), [
    (18, 2, i64(-125), Decimal("-1.25")),
    (38, 0, i32(1) + b"\x83", Decimal(-125)),
])  # fmt: skip
def test_decimals_outside_rows(precision: int, scale: int, data: bytes, expected: Decimal) -> None:
    name = TYPEUTILS + "DecimalDataSerializer$DecimalSerializerSnapshot"
    assert read(versioned(name, 3, i32(precision, scale))).decode(data) == expected


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1)])
def test_a_decimal_with_an_impossible_precision_is_refused(precision: int, scale: int) -> None:
    name = TYPEUTILS + "DecimalDataSerializer$DecimalSerializerSnapshot"
    with pytest.raises(CorruptSnapshot):
        read(versioned(name, 3, i32(precision, scale)))


def test_a_raw_value_is_decoded_by_its_own_serializer() -> None:
    snapshot = composite(TYPEUTILS + "RawValueDataSerializer$RawValueDataSerializerSnapshot", 0, scalar("Long"))
    serializer = read(snapshot)
    assert serializer.decode(i32(8) + i64(-7)) == -7
    with pytest.raises(CorruptSnapshot):
        serializer.decode(i32(9) + i64(-7) + b"\0")


def test_an_external_date_is_decoded_from_its_int() -> None:
    date = sql_type("DateType", "DATE")
    data_type = java("org.apache.flink.table.types.AtomicDataType", {"logicalType": date})
    name = TYPEUTILS + "ExternalSerializer$ExternalSerializerSnapshot"
    serializer = read(composite(name, 1, scalar("Int"), outer=data_type + b"\x00"))
    assert serializer.decode(i32(1)) == dt.date(1970, 1, 2)
    assert (serializer.length, serializer.type_name) == (4, "DATE")


@pytest.mark.parametrize(("outer_version", "outer", "data", "expected"), [
    (3, b"\x01", i32(3) + b"\x40" + i32(1, 2), [1, None, 2]),
    (3, b"\x00", i32(2) + i32(1, 2), [1, 2]),
    (2, b"", i32(1) + b"\x80", [None]),
    (1, b"", i32(1) + i32(9), [9]),
])  # fmt: skip
def test_linked_lists_with_and_without_null_masks(
    outer_version: int, outer: bytes, data: bytes, expected: list[int | None]
) -> None:
    name = TYPEUTILS + "LinkedListSerializer$LinkedListSerializerSnapshot"
    assert read(composite(name, outer_version, scalar("Int"), outer=outer)).decode(data) == expected


def test_views_are_decoded_to_their_lists_and_maps() -> None:
    view = "org.apache.flink.table.dataview."
    of_list = composite("org.apache.flink.api.common.typeutils.base.ListSerializerSnapshot", 1, scalar("Int"))
    assert read(composite(view + "ListViewSerializerSnapshot", 1, of_list)).decode(i32(1, 7)) == [7]
    of_map = composite(view + "NullAwareMapSerializerSnapshot", 1, scalar("Int"), scalar("Int"))
    decoded = read(composite(view + "MapViewSerializerSnapshot", 1, of_map)).decode(i32(1) + b"\x01\x00" + i32(5))
    assert decoded == [{"key": None, "value": 5}]


def test_sorted_longs_are_stored_with_inverted_sign_bit() -> None:
    name = "org.apache.flink.table.runtime.operators.sink.SortedLongSerializer$SortedLongSerializerSnapshot"
    assert read(versioned(name, 3)).decode(bytes.fromhex("7fffffffffffffff")) == -1


def test_layouts_can_be_pickled() -> None:
    types = (INT, STRING, DECIMAL_20_3, LTZ_9, array_of(TIMESTAMP_9), sql_type("VariantType", "VARIANT"))
    layout = read(row_data(*types)).layout(LayoutContext())
    there = pickle.loads(pickle.dumps(layout))
    raw = np.frombuffer(slots(0, 0b101111, 1, 0, 0, 0, pointer(56, 32), 0, tail=WIDE_TIMES), np.uint8)
    arrays = [
        ValueDecoder(each).decode(raw, np.zeros(1, np.int64), np.array([len(raw)], np.int64))
        for each in (layout, there)
    ]
    assert arrays[0].equals(arrays[1])
    assert arrays[1][0].as_py()["f4"] == [dt.datetime(1970, 1, 1, 0, 0, 0, 7), None]


def test_rows_of_an_unknown_type_are_read_as_bytes() -> None:
    serializer = read(versioned(TYPEUTILS + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot", 3, i32(1)))
    assert serializer.decode(slots(0, 0, 5)) == bytes(8) + struct.pack("<Q", 5)
