"""Columns of POJO subclasses: inherited fields share the columns of the declaring class."""

from __future__ import annotations

import datetime as dt
import struct

import pytest

from stateproc.errors import CorruptSnapshot
from stateproc.flink_versions import release
from stateproc.serializers import read_snapshot
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.java.structs import EnumOf
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from stateproc.serializers.pojo.serializer import Pojo, Subclass
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
