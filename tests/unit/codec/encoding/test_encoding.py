"""Encoding of extreme values, nulls and composite keys, and refusals (Flink's bytes: test_vectors, test_fixtures)."""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import RowBytes, Unencodable
from stateproc.codec.encoding.keys import composite_keys
from stateproc.codec.encoding.list_encoding import delimited
from stateproc.codec.layouts import (
    AlwaysNull,
    AvroBlocks,
    BinaryRow,
    Blob,
    Boolean,
    Choice,
    ChoiceOption,
    Counted,
    Delimited,
    FlinkString,
    JavaUtf,
    Layout,
    MapLayout,
    Marked,
    MaskedList,
    MaskedRow,
    Number,
    Numbers,
    Sized,
    StructLayout,
    VariableSlot,
    VarNumber,
)
from stateproc.codec.layouts.base import Unwritable
from stateproc.codec.machine import ValueDecoder
from stateproc.serializers import read_snapshot
from stateproc.serializers.core.base import LayoutContext
from stateproc.serializers.java.big_numbers import Big
from stateproc.serializers.java.scalars import SCALARS, Scalar
from stateproc.serializers.java.structs import EnumOf
from stateproc.serializers.java.temporal import TEMPORAL, temporal_layout
from stateproc.serializers.pojo.serializer import Pojo, Subclass
from stateproc.serializers.table.layouts import date_layout, decimal_layout, time_layout, timestamp_layout
from stateproc.wire import Output
from tests.helpers.paths import VECTORS

I32, I64, F32, F64 = Number(pa.int32()), Number(pa.int64()), Number(pa.float32()), Number(pa.float64())
TEXT = FlinkString()
S = {row[0]: Scalar(*row) for row in SCALARS}
MICROS, EXACT = LayoutContext(), LayoutContext(temporal="exact")


def encoded(layout: Layout, array: pa.Array) -> list[bytes]:
    return layout.encode(array).to_arrow().to_pylist()


def one(layout: Layout, value: Any, type_: pa.DataType | None = None) -> str:
    (data,) = encoded(layout, pa.array([value], type_ or layout.arrow_type))
    return data.hex()


def decoded(layout: Layout, encoded_rows: RowBytes) -> pa.Array:
    data = np.append(encoded_rows.data, np.zeros(8, dtype=np.uint8))
    return ValueDecoder(layout).decode(data, encoded_rows.offsets[:-1].copy(), encoded_rows.offsets[1:].copy())


def row_bytes(*rows: bytes) -> RowBytes:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return RowBytes(np.frombuffer(b"".join(rows), dtype=np.uint8), offsets)


# --- numbers and strings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "value", "data"),
    [
        (Number(pa.int8()), -128, "80"),
        (I32, 2**31 - 1, "7fffffff"),
        (I64, -(2**63), "8000000000000000"),
        (Number(pa.int32(), big_endian=False), 1, "01000000"),
        (F64, -0.0, "8000000000000000"),
        (F32, float("inf"), "7f800000"),
        (Boolean(), True, "01"),
        (VarNumber(pa.int32(), ops.VARINT_U32), -1, "ffffffff0f"),
        (VarNumber(pa.int32(), ops.VARINT_Z32), -65, "8101"),
        (AlwaysNull(1, 42), None, "2a"),
        (TEXT, "", "01"),
        (TEXT, None, "00"),
        (TEXT, "a\0b", "0461" + "0062"),
        (TEXT, "é", "02e901"),
        (TEXT, "𝄞", "03b4b0039eba03"),
        (FlinkString(bias=0), "ab", "026162"),
        (JavaUtf(), "\0é€𝄞", "000d" + "c080" + "c3a9" + "e282ac" + "eda0b4edb49e"),
        (Blob(ops.LENGTH_U16), b"ab", "00026162"),
        (Blob(ops.LENGTH_REST), b"ab", "6162"),
        (Marked(I32, pad=4), None, "0100000000"),
        (Marked(I32, pad=-1), None, "01"),
        (Marked(TEXT, null_byte=0), "", "0101"),
        (Marked(TEXT), None, "01"),
    ],
)
def test_values_are_encoded(layout: Layout, value: Any, data: str) -> None:
    assert one(layout, value) == data


def test_a_nan_is_canonical_in_dataoutput_and_keeps_its_bits_in_binary_rows() -> None:
    bits = np.array([0xFFF8000000000001, 0x7FF0000000000001, 0x3FF0000000000000], dtype=np.uint64)
    array = pa.array(bits.view(np.float64))
    assert [row.hex() for row in encoded(F64, array)] == ["7ff8000000000000", "7ff8000000000000", "3ff0000000000000"]
    little = encoded(Number(pa.float64(), big_endian=False), array)
    assert [struct.unpack("<Q", row)[0] for row in little] == bits.tolist()
    single = pa.array(np.array([0xFFC00001], dtype=np.uint32).view(np.float32))
    assert encoded(F32, single) == [bytes.fromhex("7fc00000")]


def test_strings_of_every_width_equal_a_reference_implementation() -> None:
    rng = random.Random(7)
    alphabet = ["a", "~", "\0", "\x7f", "\x80", "߿", "ࠀ", "㿿", "䀀", "퟿", "", "￿", "𐀀", "\U0010ffff"]
    texts = ["".join(rng.choices(alphabet, k=rng.choice([0, 1, 7, 8, 9, 20, 126, 127, 200]))) for _ in range(500)]
    for type_ in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        array = pa.array(["dropped", *texts], pa.string()).cast(type_).slice(1)
        expected, expected_utf = [], []
        for text in texts:
            out, utf = Output(), Output()
            out.fstr(text)
            utf.utf(text)
            expected.append(bytes(out))
            expected_utf.append(bytes(utf))
        assert encoded(TEXT, array) == expected
        assert encoded(JavaUtf(), array) == expected_utf


@pytest.mark.parametrize("raw", [b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"ab\xe2\x82"])
def test_text_that_is_not_utf8_is_refused(raw: bytes) -> None:
    good = b"fine"
    buffers = [None, pa.py_buffer(np.array([0, 4, 4 + len(raw)], np.int32)), pa.py_buffer(good + raw)]
    array = pa.Array.from_buffers(pa.string(), 2, buffers)
    for layout in (TEXT, JavaUtf()):
        with pytest.raises(Unencodable, match="UTF-8") as failure:
            layout.encode(array)
        assert failure.value.row == 1


@pytest.mark.slow
def test_long_values_are_encoded() -> None:
    text = "é" * (10 << 20)
    (data,) = encoded(TEXT, pa.array([text]))
    assert data == (len(text) + 1 & 0x7F | 0x80).to_bytes(1, "big") + data[1:4] + b"\xe9\x01" * len(text)
    assert decoded(TEXT, TEXT.encode(pa.array([text])))[0].as_py() == text
    with pytest.raises(Unencodable, match="65536 bytes, where writeUTF takes 65535"):
        JavaUtf().encode(pa.array(["a" * 65536]))
    assert len(encoded(JavaUtf(), pa.array(["a" * 65535]))[0]) == 65537


# --- null ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout",
    [
        I32,
        Boolean(),
        JavaUtf(),
        FlinkString(bias=0),
        Blob(ops.LENGTH_I32),
        StructLayout((("a", TEXT),)),
        Counted(I32),
        Numbers(pa.int32()),
        MapLayout.of(TEXT, I32),
        MaskedRow((("a", TEXT),)),
        MaskedList(TEXT),
        AvroBlocks(TEXT),
        Delimited(I32),
        Choice((ChoiceOption(1, "left", I32), ChoiceOption(0, "right", TEXT))),
        Sized(BinaryRow((("a", Number(pa.int32(), False)),))),
    ],
    ids=lambda layout: type(layout).__name__,
)
def test_a_null_without_bytes_is_refused_with_its_row(layout: Layout) -> None:
    assert encoded(layout, pa.array([], layout.arrow_type)) == []
    array = pa.concat_arrays([_filler(layout, 2), pa.nulls(1, layout.arrow_type)])
    with pytest.raises(Unencodable, match="a null") as failure:
        layout.encode(array)
    assert failure.value.row == 2


def _filler(layout: Layout, n: int) -> pa.Array:
    values: dict[type, Any] = {
        Boolean: True,
        JavaUtf: "",
        FlinkString: "",
        Blob: b"",
        StructLayout: {"a": ""},
        MaskedRow: {"a": ""},
        Number: 1,
        Sized: {"a": 1},
        Choice: {"left": 1, "right": None},
    }
    return pa.array([values.get(type(layout), [])] * n, layout.arrow_type)


def test_values_inside_a_null_are_not_encoded() -> None:
    # The null list has an item that would be refused, and the null struct has a null field.
    offsets = pa.py_buffer(np.array([0, 1, 3, 4], np.int32))
    mask = pa.py_buffer(bytes([0b101]))
    items = pa.array([1, None, None, 4], pa.int32())
    lists = pa.Array.from_buffers(pa.list_(pa.int32()), 3, [mask, offsets], children=[items])
    assert [row.hex() for row in encoded(Marked(Counted(I32)), lists)] == [
        "000000000100000001",
        "01",
        "000000000100000004",
    ]
    fields = pa.StructArray.from_arrays([pa.array([1, None], pa.int32())], names=["a"], mask=pa.array([False, True]))
    assert [row.hex() for row in encoded(Marked(StructLayout((("a", I32),))), fields)] == ["0000000001", "01"]


def test_an_error_names_the_field_and_the_outer_row() -> None:
    layout = StructLayout((("lists", Marked(Counted(StructLayout((("number", I32),))))),))
    good = {"lists": [{"number": 1}, {"number": 2}]}
    array = pa.array([good, {"lists": None}, {"lists": []}, {"lists": [{"number": 3}, {"number": None}]}, good])
    with pytest.raises(Unencodable, match="field 'lists': an item: field 'number': a null") as failure:
        layout.encode(array.slice(1))
    assert failure.value.row == 2


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "values", "message"),
    [
        (I32, pa.array([1, 2**31, 3]), "does not fit int32"),
        (AlwaysNull(1), pa.array([None, True]), "none but null"),
        (Blob(ops.LENGTH_FIXED, 2), pa.array([b"ab", b"abc"]), "3 bytes, where there must be 2"),
        (Blob(ops.LENGTH_U16), pa.array([b"", bytes(65536)]), "64 KiB"),
        (S["Char"].layout(MICROS), pa.array(["a", "ab"]), "'ab' is not one UTF-16 unit"),
        (S["Char"].layout(MICROS), pa.array(["a", "𝄞"]), "not one UTF-16 unit"),
        (EnumOf("E", ((0, "A"), (1, "B"))).layout(MICROS), pa.array(["A", "C"]), "'C' is no constant"),
        (Big(False).layout(MICROS), pa.array(["1", "x"]), "invalid literal"),
        (Big(True).layout(MICROS), pa.array(["1", "NaN"]), "no finite number"),
        (decimal_layout(3, 1, I64, TEXT), pa.array([Decimal("1.0"), Decimal("100.5")]), "does not fit"),
        (date_layout(I32, EXACT), pa.array(["2024-02-29", "2023-02-29"]), "is no date"),
        (time_layout(I32, EXACT), pa.array(["00:00:00", "00:00:00.000001"]), "finer than a millisecond"),
        (timestamp_layout(I64, False, None, EXACT), pa.array(["1970-01-01T00:00", "1970-01-01"]), "ISO-8601"),
        (temporal_layout(TEMPORAL[0], MICROS), pa.array([0, 1], pa.timestamp("us")), "finer than 1/1000 second"),
        (
            Choice((ChoiceOption(1, "a", I32), ChoiceOption(0, "b", I32))),
            pa.array([{"a": 1}, {"a": 1, "b": 2}]),
            "two options",
        ),
        (
            Choice((ChoiceOption(1, "a", I32), ChoiceOption(0, "b", I32))),
            pa.array([{"a": 1, "b": None}, {}]),
            "no option",
        ),
        (MaskedRow((), True, True), pa.array([{"row_kind": "+I"}, {"row_kind": "x"}]), "a row's kind is x"),
    ],
)
def test_values_without_an_encoding_are_refused(layout: Layout, values: pa.Array, message: str) -> None:
    with pytest.raises(Unencodable, match=message) as failure:
        layout.encode(values)
    assert failure.value.row == 1


def test_read_only_layouts_are_distinguished_from_invalid_values() -> None:
    kryo = read_snapshot(_snapshot("Kryo Map")).layout(LayoutContext(tail=True))
    with pytest.raises(Unwritable):
        kryo.encode(pa.nulls(1, kryo.arrow_type))
    assert encoded(Marked(kryo), pa.nulls(2, kryo.arrow_type)) == [b"\1", b"\1"]


def _snapshot(name: str) -> bytes:
    entries = json.loads((VECTORS / "flink-1.20.3.json").read_text())["serializers"]
    return bytes.fromhex(next(entry["snapshot"] for entry in entries if entry["name"] == name))


# --- choices, POJOs ------------------------------------------------------------------------------------------


def test_a_choice_without_a_set_option_is_the_nullable_option() -> None:
    either = Choice((ChoiceOption(1, "left", AlwaysNull(1)), ChoiceOption(0, "right", I32)))
    array = pa.array([{"left": None, "right": 5}, {"left": None, "right": None}], either.arrow_type)
    assert [row.hex() for row in encoded(either, array)] == ["0000000005", "0100"]


def _animals() -> Layout:
    dog = Pojo("x.Dog", (("name", S["String"]), ("legs", S["Int"])))
    cat = Pojo("x.Cat", (("name", S["String"]), ("lives", S["Int"])))
    return Pojo("x.Animal", (("name", S["String"]),), (Subclass("x.Dog", dog, 3), Subclass("x.Cat", cat, None))).layout(
        MICROS
    )


def test_pojos_are_encoded_by_their_class() -> None:
    rows = [
        {"class": "x.Animal", "name": "a", "legs": None, "lives": None},
        {"class": "x.Dog", "name": "b", "legs": 4, "lives": None},
        {"class": "x.Cat", "name": None, "legs": None, "lives": 9},
        None,
        {"class": None, "name": "c", "legs": None, "lives": None},
    ]
    layout = _animals()
    assert [row.hex() for row in encoded(layout, pa.array(rows, layout.arrow_type))] == [
        "02" + "000261",
        "0803" + "02" + "000262" + "0000000004",
        "04" + "0005" + b"x.Cat".hex() + "02" + "01" + "0000000009",
        "01",
        "02" + "000263",
    ]


@pytest.mark.parametrize("row", [{"class": "x.Cow"}, {"class": "x.Dog", "lives": 9}])
def test_a_pojo_of_an_unknown_class_is_refused(row: dict[str, Any]) -> None:
    layout = _animals()
    with pytest.raises(Unencodable, match=f"'x.Animal', 'x.Dog', 'x.Cat'.*{row['class']}") as failure:
        layout.encode(pa.array([{"class": "x.Dog"}, row], layout.arrow_type))
    assert failure.value.row == 1


# --- dates and times in any unit -----------------------------------------------------------------------------


@pytest.mark.parametrize("ctx", [MICROS, EXACT], ids=["micros", "exact"])
def test_times_are_accepted_in_any_unit(ctx: LayoutContext) -> None:
    by_name = {kind.name: temporal_layout(kind, ctx) for kind in TEMPORAL}
    stamp = by_name["SqlTimestamp"]
    nanos = pa.array([-1], pa.timestamp("ns"))
    text = pa.array(["1969-12-31T23:59:59.999999999Z"])
    for array in (nanos, text, nanos.cast(pa.timestamp("ns", "UTC"))):
        assert [row.hex() for row in encoded(stamp, array)] == ["ffffffffffffffff3b9ac9ff"]
    for array in (pa.array([dt.date(2024, 2, 29)]), pa.array(["2024-02-29"])):
        assert [row.hex() for row in encoded(by_name["LocalDate"], array)] == ["000007e8021d"]
    for array in (pa.array([dt.time(23, 59, 59, 1)]), pa.array(["23:59:59.000001"])):
        assert [row.hex() for row in encoded(by_name["LocalTime"], array)] == ["173b3b000003e8"]
    nulls = {name: encoded(layout, pa.nulls(1, layout.arrow_type))[0].hex() for name, layout in by_name.items()}
    assert nulls["LocalDateTime"] == "80000000" + "8000" + "80" + "8000" + "80000000"
    assert nulls["Instant"] == "8000000000000000" + "80000000"
    assert nulls["Date"] == "8000000000000000"


# --- binary rows ---------------------------------------------------------------------------------------------


def test_binary_rows_inline_seven_bytes_and_pad_eight() -> None:
    row = Sized(BinaryRow((("a", VariableSlot(Blob(ops.LENGTH_REST), inlined=True)),)))
    assert one(row, {"a": b"1234567"}) == "00000010" + "00" * 8 + b"1234567".hex() + "87"
    assert one(row, {"a": b"12345678"}) == "00000018" + "00" * 8 + "0800000010000000" + b"12345678".hex()
    assert one(row, {"a": b"123456789"}).endswith(b"123456789".hex() + "00" * 7)
    assert one(row, {"a": None}) == "00000010" + "0001000000000000" + "00" * 8


def test_projected_rows_reserve_space_for_null_decimals_and_timestamps() -> None:
    types = [pa.decimal128(38, 2), pa.int32()]
    wide = decimal_layout(38, 2, I64, VariableSlot(Blob(ops.LENGTH_REST), reserved=16))
    fields = (("a", wide), ("b", Number(pa.int32(), False)))
    array = pa.array([{"a": None, "b": 1}], pa.struct(list(zip("ab", types, strict=True))))
    plain = "0001000000000000" + "00" * 8 + "0100000000000000"
    assert encoded(BinaryRow(fields), array)[0].hex() == plain
    reserved = "0001000000000000" + "0000000018000000" + "0100000000000000" + "00" * 16
    assert encoded(BinaryRow(fields, reserve_nulls=True), array)[0].hex() == reserved


# --- keys and lists ------------------------------------------------------------------------------------------


def _composites() -> list[Any]:
    entries = json.loads((VECTORS / "flink-1.20.3.json").read_text())["composite_keys"]
    return [pytest.param(entry, id=f"{entry['name']}-{entry['max_parallelism']}") for entry in entries]


def _whole(value: Any) -> Any:
    return value["repeat"] * value["times"] if isinstance(value, dict) and "repeat" in value else value


@pytest.mark.parametrize("entry", _composites())
def test_composite_keys_equal_those_of_flinks_key_builder(entry: dict[str, Any]) -> None:
    key, namespace = (read_snapshot(bytes.fromhex(entry[f"{name}_serializer"])) for name in ("key", "namespace"))
    user = entry.get("user_key_serializer")

    def made(serializer: Any, value: Any) -> RowBytes:
        layout = serializer.layout(LayoutContext())
        return layout.encode(pa.array([_whole(value)] * 2, layout.arrow_type))

    keys = composite_keys(
        made(key, entry["key"]),
        made(namespace, entry["namespace"]),
        None if user is None else made(read_snapshot(bytes.fromhex(user)), entry["user_key"]),
        key.length < 0 and namespace.length < 0,
    )
    width = 1 if entry["max_parallelism"] <= 128 else 2
    data = entry["data"]
    if isinstance(data, dict):
        data = data["before"] + data["repeat"] * data["times"] + data["after"]
    assert keys.to_arrow().to_pylist() == [bytes.fromhex(data)[width:]] * 2


def test_a_composite_key_with_a_length_of_three_bytes() -> None:
    long = bytes(1 << 16)
    keys = composite_keys(
        row_bytes(long, b"", b"a"), row_bytes(b"n", b"", long[:256]), row_bytes(b"u", b"", b"v"), True
    )
    assert keys.to_arrow().to_pylist() == [
        long + b"\0\0\1" + b"n" + b"\1" + b"u",
        b"\0" + b"\0",
        b"a" + b"\1" + long[:256] + b"\0\1" + b"v",
    ]


def test_list_items_are_joined_by_commas() -> None:
    items = row_bytes(b"skipped", b"a", b"bc", b"", b"d")
    lists = delimited(items, np.array([1, 1, 3, 4, 5], dtype=np.int64))
    assert lists.to_arrow().to_pylist() == [b"", b"a,bc", b"", b"d"]
    assert one(Delimited(I32), [1, 2]) == "000000012c00000002"
    assert one(Counted(I32, ops.COUNT_VARINT), [1]) == "0100000001"
    assert one(AvroBlocks(Boolean()), [True] * 128) == "8001" + "01" * 128 + "00"
    assert one(AvroBlocks(Boolean()), []) == "00"
