"""Kryo: handwritten edge cases, columns of described classes, and damage."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stateproc.codec.kryo.reader import read_kryo
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.serializers import LayoutContext, Undecodable, read_snapshot
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.wire import Cursor
from tests.helpers.paths import VECTORS
from tests.helpers.sweeps import sweep

OBJECT = Kryo("java.lang.Object", ("java.lang.Object",))


def by_name(class_name: str) -> bytes:
    return b"\x01\x00" + class_name[:-1].encode() + bytes([ord(class_name[-1]) | 0x80])


def decode(serializer: Kryo, data: str, kryo: int = 5, **options: Any) -> Any:
    return serializer.decode(bytes.fromhex(data), kryo=kryo, **options)


@pytest.mark.parametrize(
    ("kryo", "data", "value"),
    [
        (2, "00", None),
        (2, "0202", 1),
        (2, "02ffffffff0f", -(2**31)),
        (5, "09ffffffffffffffffff", -(2**63)),
        (5, "09feffffffffffffffff", 2**63 - 1),
        (2, "08012c", 300),
        (5, "082c01", 300),
        (2, "0a3ff8000000000000", 1.5),
        (5, "0a000000000000f83f", 1.5),
        (5, "040000807f", "Infinity"),
        (2, "070078", "x"),
        (5, "030181", ""),
        (5, "030180", None),
    ],
)
def test_values_by_class_id(kryo: int, data: str, value: Any) -> None:
    assert decode(OBJECT, data, kryo) == value


def test_a_long_string_has_a_length_of_two_bytes() -> None:
    text = "é" * 100
    data = "0301" + "e501" + text.encode().hex()
    assert decode(OBJECT, data) == text


def test_column_types_of_jdk_classes() -> None:
    def type_of(class_name: str, temporal: str = "micros") -> pa.DataType:
        return Kryo(class_name).layout(LayoutContext(kryo=5, temporal=temporal)).arrow_type

    assert type_of("java.time.LocalDate") == pa.date32()
    assert type_of("java.time.LocalDate", "exact") == pa.string()
    assert type_of("java.time.LocalDateTime") == pa.timestamp("us")
    assert type_of("java.time.Instant") == pa.timestamp("us", "UTC")
    assert type_of("java.lang.Short") == pa.int16()
    assert type_of("[B") == pa.binary()
    assert type_of("[[J") == pa.list_(pa.list_(pa.int64()))
    assert type_of("[Ljava.lang.String;") == pa.list_(pa.string())
    assert type_of("java.util.HashMap") == pa.string()


def test_dates_and_times_as_micros() -> None:
    for class_name, data, value in (
        ("java.time.LocalDate", "5701e80f021d", dt.date(2024, 2, 29)),
        ("java.time.LocalTime", "57010102fc", dt.time(1, 2, 3)),
        ("java.time.LocalDateTime", "5701e80f021d01020304", dt.datetime(2024, 2, 29, 1, 2, 3)),
        ("java.time.Instant", "570105e807", dt.datetime(1970, 1, 1, 0, 0, 5, 1, dt.timezone.utc)),
    ):
        assert decode(Kryo(class_name, (class_name,)), data, temporal="micros") == value


ORDER = {
    "com.acme.Order": {
        "total": "BigDecimal", "id": "long", "tags": "list<String>", "counts": "map<String, Long>",
        "state": "com.acme.State", "due": "date", "raw": "byte[]", "parent": "com.acme.Order",
        "note": "Integer",
    },
    "com.acme.State": ["NEW", "PAID"],
}  # fmt: skip
ORDER_TYPE = pa.struct(
    [
        ("total", pa.string()), ("id", pa.int64()), ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())), ("state", pa.string()), ("due", pa.date32()),
        ("raw", pa.binary()), ("parent", pa.string()), ("note", pa.int32()),
    ]
)  # fmt: skip


def order_bytes() -> bytes:
    """Return a com.acme.Order as Kryo 5 writes it, with its fields sorted by name."""
    return b"".join(
        [
            b"\x57\x01",
            by_name("java.util.HashMap") + b"\x01\x02" + b"\x01\x82k" + b"\x01\x0a",  # counts
            b"\x01\xe8\x0f\x02\x1d",  # due
            b"\x0a",  # id 5
            b"\x01\x0e",  # note 7
            b"\x00",  # parent
            b"\x01\x03\x01\xff",  # raw
            b"\x01\x02",  # state PAID
            b"\x01\x01" + b"java.util.ArrayLis\xf4" + b"\x01\x83\x01\x82a\x00",  # tags
            b"\x01\x02" + b"java.math.BigDecima\xec" + b"\x01\x03\x00\x96\x04",  # total
        ]
    )


def test_a_described_class_is_a_struct() -> None:
    serializer = Kryo("com.acme.Order", ("com.acme.Order",))
    layout = serializer.layout(LayoutContext(kryo=5, classes=ORDER))
    assert layout.arrow_type == ORDER_TYPE
    assert serializer.decode(order_bytes(), kryo=5, classes=ORDER) == {
        "total": Decimal("1.50"), "id": 5, "tags": ["a", None], "counts": [("k", 5)], "state": "PAID",
        "due": dt.date(2024, 2, 29), "raw": b"\x01\xff", "parent": None, "note": 7,
    }  # fmt: skip


def test_layouts_can_be_pickled() -> None:
    layout = Kryo("com.acme.Order", ("com.acme.Order",)).layout(LayoutContext(kryo=5, classes=ORDER))
    assert pickle.loads(pickle.dumps(layout)).arrow_type == ORDER_TYPE


POINT = {"x": "int", "y": "int"}
LINE = {"a": "com.acme.Point", "b": "com.acme.Point"}


@pytest.mark.parametrize("heading", ["com.acme.Point", "final com.acme.Point"])
def test_a_final_class_is_detected_from_the_data(heading: str) -> None:
    classes = {heading: POINT, "com.acme.Line": LINE}
    line = Kryo("com.acme.Line", ("com.acme.Line",))
    same = decode(line, "570101020403", classes=classes)
    assert same == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 2}}


def test_values_of_an_open_class_are_stored_with_their_class() -> None:
    classes = {"open com.acme.Point": POINT, "com.acme.Line": LINE}
    line = Kryo("com.acme.Line", ("com.acme.Line", "com.acme.Point"))
    assert decode(line, "5701" + "58010204" + "00", classes=classes) == {"a": {"x": 1, "y": 2}, "b": None}
    with pytest.raises(SnapshotError):
        decode(line, "570101020403", classes=classes)


def test_subclasses_share_a_struct_with_their_class() -> None:
    classes = {"a.Base": {"n": "int"}, "a.Sub": {"n": "int", "s": "String"}}
    serializer = Kryo("a.Base", ("a.Base", "a.Sub"))
    assert decode(serializer, "57010a", classes=classes) == {"class": "a.Base", "n": 5, "s": None}
    assert decode(serializer, "58010a018278", classes=classes) == {"class": "a.Sub", "n": 5, "s": "x"}


def test_registered_ids_begin_after_those_of_flink() -> None:
    serializer = Kryo("java.util.ArrayList", ("java.util.ArrayList",))
    assert decode(serializer, "5701820200" + "0a") == [5]
    assert decode(serializer, "570101020a", kryo=2) == [5]
    with pytest.raises(CorruptSnapshot, match="Kryo class id 9, which Kryo 5 gives to no class"):
        decode(serializer, "0b01820200" + "0a")


def test_an_unknown_class_is_read_as_bytes_if_its_end_is_known() -> None:
    serializer = Kryo("com.acme.Secret", ("com.acme.Secret",))
    assert serializer.decode(b"\x57\x01abc") == b"\x57\x01abc"
    with pytest.raises(Undecodable, match=r"com\.acme\.Secret.*\n.*classes=\{\"com\.acme\.Secret\""):
        serializer.layout(LayoutContext(kryo=5))


def test_a_nested_unknown_class_is_reported_with_advice_to_describe_it() -> None:
    with pytest.raises(UnsupportedSnapshot, match=r"com\.acme\.Secret.*\n.*classes=\{\"com\.acme\.Secret\""):
        OBJECT.decode(by_name("com.acme.Secret") + b"\x01\x05", kryo=5)


def test_a_class_with_a_custom_serializer_is_refused() -> None:
    classes = {"a.B": {"n": "int"}}
    serializer = Kryo("java.lang.Object", ("a.B",), (("a.B", "a.BSerializer"),))
    with pytest.raises(UnsupportedSnapshot, match=r"serializer of its own \(a\.BSerializer\)"):
        decode(serializer, "57010a", classes=classes)
    assert isinstance(Kryo("a.B", ("a.B",), (("a.B", "a.BSerializer"),)).decode(b"\x57\x01\x0a"), bytes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("570182030007", "a reference to object 5"),
        ("5701ff7f02000a", "impossible number"),
        ("57017f00", "impossible number|more|need"),
        ("5701ffffffff07" + "00", "nulls"),
        ("5701820200" + "0a00", "left over"),
        ("5709", "a reference to object"),
        ("5700", "no null"),
        ("fe03", "class id"),
        ("0105", "class name"),
        ("0100" + "5b" * 40 + "c901", "class name"),
        ("010080", "class name"),
        ("03017841", "no end"),
        ("0301c5ff", "impossible number|need"),
        ("0509", "boolean"),
    ],
)
def test_damage_is_refused_with_its_cause(data: str, message: str) -> None:
    serializer = Kryo("java.util.ArrayList", ("java.util.ArrayList",))
    with pytest.raises(SnapshotError, match=message):
        decode(serializer, data)


def test_nesting_depth_is_limited() -> None:
    deep = b"\x57\x01\x82" * 300
    with pytest.raises(UnsupportedSnapshot, match="nested over"):
        OBJECT_LIST.decode(b"\x57\x01\x02" * 300 + deep, kryo=5)


OBJECT_LIST = Kryo("java.lang.Object", ("java.util.ArrayList",))


def test_exponentially_repeated_references_are_refused() -> None:
    """Each of 40 lists contains the next one twice: a short input with 2^40 elements."""
    level = b"\x57\x01\x03"
    data = level * 40 + b"\x03\x01\x81" + b"\x03\x2a"
    for index in range(39, 0, -1):
        data += b"\x57" + bytes([index + 2])
    with pytest.raises(UnsupportedSnapshot, match="references repeat too much"):
        OBJECT_LIST.decode(data, kryo=5)


def vectors() -> list[tuple[Kryo, KryoSetting, bytes]]:
    found = []
    for release, kryo in (("1.20.3", 2), ("2.3.0", 5)):
        for entry in json.loads((VECTORS / f"flink-{release}.json").read_bytes())["serializers"]:
            if not entry["serializer"].endswith(".KryoSerializer"):
                continue
            serializer = read_snapshot(bytes.fromhex(entry["snapshot"]))
            assert isinstance(serializer, Kryo)
            classes = parse_classes(entry.get("classes", {}))
            setting = KryoSetting(kryo, serializer.registrations, dict(serializer.serializers), classes)
            found += [(serializer, setting, bytes.fromhex(case["data"])) for case in entry["cases"][:6]]
    return found


@pytest.mark.parametrize("remainders", sweep(4), ids=str)
def test_every_truncation_is_refused(remainders: range) -> None:
    for _, setting, data in vectors():
        for length in (
            length for length in range(0, len(data), 1 if len(data) < 300 else 41) if length % 4 in remainders
        ):
            with pytest.raises(SnapshotError):
                read_kryo(Cursor(data[:length]), setting, True)


def test_random_damage_raises_only_typed_errors() -> None:
    rng = random.Random(20)
    known = vectors()
    decoded = 0
    for _ in range(5000):
        _, setting, data = rng.choice(known)
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 2, 3, 127, 128, 255, rng.randrange(256)])
        try:
            read_kryo(Cursor(bytes(damaged)), setting, True)
            decoded += 1
        except SnapshotError as error:
            assert error.message
    assert decoded < 2500


def test_an_invalid_date_is_refused() -> None:
    with pytest.raises(CorruptSnapshot, match="make no date"):
        decode(Kryo("java.time.LocalDate", ("java.time.LocalDate",)), "5701e80f021e")
