"""Accumulators of type RAW with handwritten bytes: lists with and without a mask of nulls, by their serializer."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import CorruptSnapshot
from stateproc.serializers.core.base import LayoutContext, Serializer
from tests.helpers.byte_builders.serializers import (
    BASE,
    INT,
    STRING,
    TYPEUTILS,
    i32,
    i64,
    read,
    row_data,
    slots,
    sql_type,
    utf,
)

Java = tuple[str, dict[str, Any]]
INTS: Java = (BASE + "IntSerializer", {})
STRINGS: Java = (TYPEUTILS + "StringDataSerializer", {})
DATE = sql_type("DateType", "DATE")
KRYO: Java = ("org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer", {})


def linked_list(element: Java, *, mask: bool = True) -> Java:
    return TYPEUTILS + "LinkedListSerializer", {"hasNullMask": mask, "elementSerializer": element}


def external(type_: Java, internal: Java) -> Java:
    data_type = ("org.apache.flink.table.types.AtomicDataType", {"logicalType": type_})
    fields = {"isInternalInput": True, "dataType": data_type, "internalSerializer": internal}
    return TYPEUTILS + "ExternalSerializer", fields


def raw(serializer: Java | None) -> Java:
    known = {} if serializer is None else {"serializer": serializer}
    return sql_type("RawType", "RAW", clazz="java.util.LinkedList", **known)


def row_of(serializer: Java | None) -> Serializer:
    return read(row_data(raw(serializer)))


def row(data: bytes) -> bytes:
    """A row of one field, whose value is in its variable part."""
    return slots(0, 0, 16 << 32 | len(data), tail=data + bytes(-len(data) % 8))


def rewritten(serializer: Serializer, value: bytes) -> bytes:
    layout = serializer.layout(LayoutContext(temporal="exact"))
    start, length = np.zeros(1, np.int64), np.array([len(value)], np.int64)
    decoded = ValueDecoder(layout).decode(np.frombuffer(value, np.uint8), start, length)
    (binary,) = layout.encode(decoded).to_arrow().to_pylist()
    return bytes(binary)


@pytest.mark.parametrize(
    ("mask", "data", "expected"),
    [
        (True, i32(0), []),
        (True, i32(1) + b"\x80", [None]),
        (True, i32(3) + b"\x40" + i32(1, 2), [1, None, 2]),
        (True, i32(8) + b"\xff", [None] * 8),
        (True, i32(9) + b"\xff\x00" + i32(7), [None] * 8 + [7]),
        (True, i32(9) + b"\x00\x80" + i32(*range(8)), [*range(8), None]),
        (False, i32(0), []),
        (False, i32(2, -(2**31), 2**31 - 1), [-(2**31), 2**31 - 1]),
    ],
)
def test_lists_of_ints(mask: bool, data: bytes, expected: list[int | None]) -> None:
    serializer = row_of(linked_list(INTS, mask=mask))
    assert serializer.decode(row(data)) == {"f0": expected}
    assert rewritten(serializer, row(data)) == row(data)


def test_a_list_that_is_null() -> None:
    serializer = row_of(linked_list(INTS))
    assert serializer.decode(slots(0, 1, 0)) == {"f0": None}
    assert rewritten(serializer, slots(0, 1, 0)) == slots(0, 1, 0)


def test_a_list_without_a_mask_takes_no_null() -> None:
    layout = row_of(linked_list(INTS, mask=False)).layout(LayoutContext())
    with pytest.raises(Unencodable, match="a null"):
        layout.encode(pa.array([{"f0": [1, None]}], layout.arrow_type))


def raw_value(serializer: Java) -> Java:
    return TYPEUTILS + "RawValueDataSerializer", {"serializer": serializer}


@pytest.mark.parametrize(
    ("element", "data", "expected"),
    [
        (STRINGS, i32(2) + b"ab" + i32(0), ["ab", ""]),
        (external(DATE, INTS), i32(1, -1), [dt.date(1970, 1, 2), dt.date(1969, 12, 31)]),
        (external(STRING, STRINGS), i32(1) + b"a" + i32(1) + b"b", ["a", "b"]),
        (
            (TYPEUTILS + "DecimalDataSerializer", {"precision": 9, "scale": 2}),
            i64(-105, 7),
            [Decimal("-1.05"), Decimal("0.07")],
        ),
        (
            (TYPEUTILS + "DecimalDataSerializer", {"precision": 20, "scale": 0}),
            i32(1) + b"\x05" + i32(1) + b"\xff",
            [Decimal(5), Decimal(-1)],
        ),
        (
            (TYPEUTILS + "TimestampDataSerializer", {"precision": 3}),
            i64(0, 1),
            [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 1000)],
        ),
        (
            (TYPEUTILS + "RowDataSerializer", {"types": [INT]}),
            slots(0, 0, 5) + slots(0, 1, 0),
            [{"f0": 5}, {"f0": None}],
        ),
        (
            (TYPEUTILS + "ArrayDataSerializer", {"eleType": INT}),
            (i32(8) + bytes(8)) * 2,
            [[], []],
        ),
        (linked_list(INTS), i32(1) + b"\x80" + i32(0), [[None], []]),
        (raw_value((BASE + "LongSerializer", {})), i32(8) + i64(1) + i32(8) + i64(2), [1, 2]),
        (raw_value(KRYO), i32(2) + b"ab" + i32(0), [b"ab", b""]),
    ],
)
def test_lists_of_two_elements(element: Java, data: bytes, expected: list[Any]) -> None:
    serializer = row_of(linked_list(element))
    value = row(i32(2) + b"\x00" + data)
    assert serializer.decode(value) == {"f0": expected}
    assert rewritten(serializer, value) == value


@pytest.mark.parametrize(
    "serializer",
    [
        None,
        KRYO,
        linked_list(KRYO),
        (TYPEUTILS + "LinkedListSerializer", {"elementSerializer": INTS}),
        (TYPEUTILS + "LinkedListSerializer", {"hasNullMask": True}),
        linked_list((TYPEUTILS + "DecimalDataSerializer", {"precision": 99, "scale": 2})),
        linked_list((TYPEUTILS + "RowDataSerializer", {})),
        linked_list((TYPEUTILS + "ArrayDataSerializer", {"eleType": ("x.OwnType", {})})),
        linked_list(external(sql_type("SymbolType", "SYMBOL"), KRYO)),
        ("x.LinkedListSerializer", {"hasNullMask": True, "elementSerializer": INTS}),
    ],
)
def test_values_of_unknown_serializers_are_bytes(serializer: Java | None) -> None:
    of_bytes = row_of(serializer)
    data = i32(1) + b"\x00" + i32(5)
    assert of_bytes.decode(row(data)) == {"f0": data}
    assert rewritten(of_bytes, row(data)) == row(data)
    assert of_bytes.type_name == "ROW<f0 RAW(java.util.LinkedList)>"


def test_a_raw_type_in_a_list_of_rows_is_known_by_its_class_only() -> None:
    in_row = (TYPEUTILS + "RowDataSerializer", {"types": [raw(INTS), raw(linked_list(INTS))]})
    inner = slots(0, 0, 32 - 8 << 32 | 4, 32 << 32 | 5, tail=i32(7) + bytes(4) + i32(1) + b"\x80" + bytes(3))
    serializer = row_of(linked_list(in_row))
    value = row(i32(1) + b"\x00" + inner)
    assert serializer.decode(value) == {"f0": [{"f0": 7, "f1": i32(1) + b"\x80"}]}


def test_a_serializer_that_contains_itself_is_unknown() -> None:
    snapshot = row_data(raw(linked_list(("x.Replaced", {}))))
    # The element's serializer becomes a reference to the list's: the handles before it are the classes and objects.
    element = b"\x73\x72" + utf("x.Replaced") + i64(1) + b"\x02\0\0\x78\x70"
    assert snapshot.count(element) == 1
    for handle in range(20):
        cyclic = snapshot.replace(element, b"\x71" + i32(0x7E0000 + handle))
        try:
            serializer = read(cyclic)
        except CorruptSnapshot:
            continue
        assert serializer.decode(row(i32(0))) == {"f0": i32(0)}


@pytest.mark.parametrize(
    "data",
    [
        i32(-1),
        i32(2**31 - 1),
        i32(2) + b"\x00" + i32(1),
        i32(1) + b"\x00" + i32(1) + b"\x00",
        i32(0) + b"\x00",
        i32(1),
        b"\x00",
        b"",
    ],
)
def test_damaged_lists_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        row_of(linked_list(INTS)).decode(row(data))


def test_types_with_other_serializers_are_not_equal() -> None:
    assert row_of(linked_list(INTS)) == row_of(linked_list(INTS))
    assert row_of(linked_list(INTS)) != row_of(linked_list(STRINGS))
    assert row_of(linked_list(INTS)) != row_of(linked_list(INTS, mask=False))
