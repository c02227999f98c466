"""Columns of POJO subclasses: inherited fields share the columns of the declaring class."""

from __future__ import annotations

import datetime as dt
import struct

import pytest

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.flink_versions import release
from stateproc.serializers import read_snapshot
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.java.field_types import parse_type
from stateproc.serializers.java.structs import EnumOf
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from stateproc.serializers.pojo.serializer import Pojo, Subclass, pojo_field_serializer
from stateproc.types.text import parse
from stateproc.wire import Output

INSTANT = next(Temporal(kind) for kind in TEMPORAL if kind.name == "Instant")
COLOR = EnumOf("a.Color", ((0, "RED"), (1, "GREEN")))
PLACE = Pojo("a.Place", (("at", INSTANT), ("color", COLOR)))
BASE = (("at", INSTANT), ("color", COLOR), ("place", PLACE))
INT = parse("INT")
EVENT = Pojo("a.Event", BASE, (Subclass("a.Sale", Pojo("a.Sale", (*BASE, ("items", INT))), None),))

STAMP = struct.pack(">qi", 36, 5000)
FIELDS = b"\0" + STAMP + b"\0\0\0\0\x01" + b"\0" + b"\x02\0" + STAMP + b"\0\0\0\0\0"
EXACT = b"\x02" + FIELDS
SALE = b"\x04\0\x06a.Sale\x02" + FIELDS + b"\0" + struct.pack(">i", 7)
WHEN = dt.datetime(1970, 1, 1, 0, 0, 36, 5, dt.timezone.utc)


def read(serializer: Serializer) -> Serializer:
    out = Output()
    serializer.write_snapshot(out, release("1.20"))
    return read_snapshot(b"\0\0\0\x02" + bytes(out))


@pytest.mark.parametrize(("data", "label", "items"), [(EXACT, "a.Event", None), (SALE, "a.Sale", 7)])
def test_inherited_fields_share_one_column(data: bytes, label: str, items: int | None) -> None:
    serializer = read(EVENT)
    names = [field.name for field in serializer.arrow_type]
    assert names == ["class", "at", "color", "place", "items"]
    place = {"at": WHEN, "color": "RED"}
    assert serializer.decode(data) == {"class": label, "at": WHEN, "color": "GREEN", "place": place, "items": items}


def test_a_field_of_another_type_has_a_separate_column() -> None:
    other = Pojo("a.Sale", (("at", INT), *BASE[1:]))
    serializer = read(Pojo("a.Event", BASE, (Subclass("a.Sale", other, None),)))
    assert [field.name for field in serializer.arrow_type] == ["class", "at", "color", "place", "Sale_at"]


def test_fields_of_subclasses_with_the_same_simple_name_have_separate_columns() -> None:
    """The field has the same name and three types."""
    text, number = parse("STRING"), parse("LONG")
    classes = {"a.Sale": text, "b.Sale": number, "c.Sale": text}
    subclasses = tuple(Subclass(name, Pojo(name, (("at", field),)), None) for name, field in classes.items())
    serializer = read(Pojo("a.Event", (("at", INT),), subclasses))
    assert [field.name for field in serializer.arrow_type] == ["class", "at", "Sale_at", "b.Sale_at"]
    other = {"class": "b.Sale", "at": None, "Sale_at": None, "b.Sale_at": 7}
    assert serializer.decode(b"\x04\0\x06b.Sale\x02\0" + struct.pack(">q", 7)) == other
    text_of = {"class": "c.Sale", "at": None, "Sale_at": "x", "b.Sale_at": None}
    assert serializer.decode(b"\x04\0\x06c.Sale\x02\0\x02x") == text_of


def test_a_duplicate_field_is_refused() -> None:
    with pytest.raises(CorruptSnapshot, match="two entries for 'at'"):
        read(Pojo("a.Event", (("at", INT), ("at", parse("STRING")))))


def test_a_subclass_without_fields_of_its_own_is_described_by_what_it_extends() -> None:
    base = Pojo("a.Base", (("id", pojo_field_serializer(parse_type("int"), {})),))
    value = bytes.fromhex("04" + "0005") + b"a.Sub" + bytes.fromhex("02" + "00" + "00000007")
    with pytest.raises(UnsupportedSnapshot, match=r"if all are inherited, as 'a\.Sub extends a\.Base'"):
        base.decode(value)
    described = base.decode(value, classes={"a.Sub extends a.Base": {"id": "int"}})
    assert described == {"class": "a.Sub", "id": 7}
    # An unrelated class of the same fields is no subclass: the columns stay as they are.
    exact = bytes.fromhex("02" + "00" + "00000007")
    assert base.decode(exact, classes={"a.Other": {"id": "int"}}) == {"id": 7}
    assert base.decode(exact, classes={"final a.Base": {"id": "int"}, "a.More": {"id": "int", "n": "int"}}) == {"id": 7}


def test_a_generic_subclass_is_kryos() -> None:
    base = Pojo("a.Base", (("id", pojo_field_serializer(parse_type("int"), {})),))
    value = bytes.fromhex("04" + "0005") + b"a.Gen" + bytes.fromhex("57" + "01" + "0e" + "04")
    found = base.decode(value, kryo=5, classes={"generic a.Gen": {"id": "int", "n": "int"}})
    assert found["class"] == "a.Gen"
    assert found["Gen"] == {"id": 7, "n": 2}


def test_a_null_key_in_a_map_of_kryo_is_no_damage() -> None:
    kryo = pojo_field_serializer(parse_type("java.util.HashMap<String, Integer>"), {})
    with pytest.raises(UnsupportedSnapshot, match="a map has a null key"):
        kryo.decode(
            bytes.fromhex("0100") + b"java.util.HashMa\xf0" + bytes.fromhex("01" + "01" + "00" + "0202"), kryo=2
        )
