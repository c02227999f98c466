"""Snapshots and values of flink-scala-api in the layouts of its releases: ≤ 1.1.4, 1.1.5 to 1.2.x and 2.x.

The bytes are put together after the sources of its tags v1.18.1_1.1.4, v1.20.0_1.2.4 and v2.2.4.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot, SnapshotError
from stateproc.flink_versions import Release
from stateproc.serializers import Serializer
from stateproc.serializers.core.base import CaseClassArity, LayoutContext, Undecodable
from stateproc.serializers.core.opaque import Opaque
from stateproc.wire import Output
from tests.helpers.byte_builders.serializers import composite, i32, i64, nested, read, scalar, utf, versioned

PACKAGE = "org.apache.flinkx.api.serializer."
LONG, INT, STRING = scalar("Long"), scalar("Int"), scalar("String")
NULL = i32(-(2**31))
FLINK = {1: Release(1, 20), 2: Release(2, 2)}


def case_class(name: str, *fields: bytes, release: int = 1) -> bytes:
    outer = utf(f"com.acme.{name}") + (b"\1" if release == 2 else b"")
    return composite(f"{PACKAGE}ScalaCaseClassSerializerSnapshot", 3 if release == 2 else 2, *fields, outer=outer)


def case_object(name: str) -> bytes:
    class_name = f"{PACKAGE}ScalaCaseObjectSerializer$ScalaCaseObjectSerializerSnapshot"
    return versioned(class_name, 1, utf(f"com.acme.{name}$"))


def unversioned(snapshot: bytes) -> bytes:
    """A nested snapshot as 1.x writes it: without the version after the class name."""
    end = 2 + int.from_bytes(snapshot[:2], "big")
    return snapshot[:end] + snapshot[end + 4 :]


def part(snapshot: bytes, release: int) -> bytes:
    return snapshot if release == 2 else unversioned(snapshot)


def collection(kind: str, element: bytes, release: int = 1) -> bytes:
    payload = utf(f"{PACKAGE}{kind}Serializer") + utf("java.lang.Object") + part(element, release)
    return versioned(f"{PACKAGE}CollectionSerializerSnapshot", release, payload)


def map_of(key: bytes, value: bytes, release: int = 1) -> bytes:
    return versioned(
        f"{PACKAGE}MapSerializer$MapSerializerSnapshot", release, part(key, release) + part(value, release)
    )


def coproduct(version: int, **members: bytes) -> bytes:
    name = f"{PACKAGE}CoproductSerializer$CoproductSerializerSnapshot"
    classes = [f"com.acme.{member.replace('_', '$')}" for member in members]
    if version == 3:
        outer = i32(len(classes)) + b"".join(fstr(item) for item in classes)
        return composite(name, 3, *members.values(), outer=outer)
    parts = [member if version == 2 else unversioned(member) for member in members.values()]
    return versioned(name, version, i32(len(classes)) + b"".join(map(utf, classes)) + b"".join(parts))


def fstr(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def written(serializer: Serializer, release: Release) -> bytes:
    out = Output()
    serializer.write_snapshot(out, release)
    return bytes(out)


def check(snapshot: bytes, data: bytes, value: Any, *, release: int = 1, **options: Any) -> None:
    """Read the value; write value and snapshot as they were."""
    serializer = read(snapshot)
    assert serializer.decode(data, **options) == value
    assert written(serializer, FLINK[release]) == snapshot
    layout = serializer.layout(LayoutContext(temporal="exact", **options))
    encoded = layout.encode(pa.array([value], layout.arrow_type))
    assert bytes(encoded.data) == data


POINT = {1: case_class("Point", INT, LONG), 2: case_class("Point", INT, LONG, release=2)}


def test_a_case_class_of_each_layout() -> None:
    fields = i32(7) + i64(-1)
    check(POINT[1], fields, {"_1": 7, "_2": -1}, case_class_arity=CaseClassArity.ABSENT)
    check(POINT[1], i32(2) + fields, {"_1": 7, "_2": -1})
    check(POINT[2], i32(2) + fields, {"_1": 7, "_2": -1}, release=2)


def test_a_null_case_class_of_2_is_padded_where_its_fields_have_a_fixed_length() -> None:
    check(POINT[2], NULL + bytes(12), None, release=2)
    check(case_class("Named", STRING, LONG, release=2), NULL, None, release=2)


def test_a_description_names_the_fields() -> None:
    classes = {"com.acme.Point": {"x": "int", "y": "long"}}
    check(POINT[1], i32(2, 7) + i64(9), {"x": 7, "y": 9}, classes=classes)


def test_another_number_of_fields_is_damage() -> None:
    for count in (1, 3, -1, 0x02000000):
        with pytest.raises(CorruptSnapshot):
            read(POINT[1]).decode(i32(count, 7) + i64(9))
    with pytest.raises(CorruptSnapshot):
        read(POINT[1]).decode(NULL + bytes(12))  # 1.x has no null


def test_a_case_class_without_fields_has_no_number_in_1_and_one_in_2() -> None:
    assert read(case_class("Empty")).decode(b"") == {}
    assert read(case_class("Empty", release=2)).decode(i32(0)) == {}


def test_values_that_fit_both_layouts_are_refused() -> None:
    with pytest.raises(Undecodable, match="fit both layouts") as caught:
        read(POINT[1]).layout(LayoutContext(case_class_arity=CaseClassArity.UNCLEAR))
    assert "case_class_arity='present'" in (caught.value.advice or "")
    read(POINT[2]).layout(LayoutContext(case_class_arity=CaseClassArity.UNCLEAR))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_sealed_trait_is_its_class_and_the_fields_of_all_classes(version: int) -> None:
    release = 2 if version == 3 else 1
    snapshot = coproduct(
        version,
        Cancelled_=case_object("Cancelled"),
        Closed=case_class("Closed", STRING, INT, release=release),
        Opened=case_class("Opened", LONG, release=release),
    )
    classes = {"com.acme.Closed": {"reason": "String", "code": "int"}, "com.acme.Opened": {"at": "long"}}
    none = {"reason": None, "code": None, "at": None}
    values = {
        b"\0": {"type": "Cancelled"},
        b"\1" + i32(2) + fstr("r") + i32(5): {"type": "Closed", "reason": "r", "code": 5},
        b"\2" + i32(1) + i64(8): {"type": "Opened", "at": 8},
    }
    for data, value in values.items():
        check(snapshot, data, {"type": None} | none | value, release=release, classes=classes)
    if version == 3:
        check(snapshot, b"\x80", None, release=2, classes=classes)
    else:
        with pytest.raises(CorruptSnapshot):
            read(snapshot).decode(b"\x80")
    with pytest.raises(CorruptSnapshot):
        read(snapshot).decode(b"\3")


def test_fields_of_one_name_and_other_types_get_the_class_name_and_so_does_a_field_called_type() -> None:
    snapshot = coproduct(2, A=case_class("A", STRING, INT), B=case_class("B", LONG, INT))
    classes = {"com.acme.A": {"id": "String", "type": "int"}, "com.acme.B": {"id": "long", "n": "int"}}
    value = read(snapshot).decode(b"\1" + i32(2) + i64(4) + i32(5), classes=classes)
    assert value == {"type": "B", "id": None, "A_type": None, "B_id": 4, "n": 5}


def test_classes_of_one_simple_name_have_their_packages() -> None:
    snapshot = coproduct(2, X_Done=case_object("X$Done"), Y_Done=case_object("Y$Done"))
    assert read(snapshot).decode(b"\1") == {"type": "com.acme.Y$Done"}


def test_collections_and_maps_of_each_release() -> None:
    for release in (1, 2):
        for kind in ("List", "ListCC", "Seq", "Vector", "Set", "Array"):
            check(collection(kind, LONG, release), i32(2) + i64(1, 2), [1, 2], release=release)
            check(collection(kind, LONG, release), i32(0), [], release=release)
        check(map_of(STRING, INT, release), i32(1) + fstr("k") + i32(3), [("k", 3)], release=release)
        deep = collection("List", map_of(STRING, collection("Set", POINT[release], release), release), release)
        data = i32(1, 1) + fstr("k") + i32(1, 2, 7) + i64(9)
        check(deep, data, [[("k", [{"_1": 7, "_2": 9}])]], release=release)


def test_mutable_collections_may_be_null() -> None:
    for kind in ("MutableBuffer", "MutableSet", "MutableQueue", "MutableArrayDeque"):
        check(collection(kind, INT, 2), NULL, None, release=2)
        check(collection(kind, INT, 2), i32(1, 5), [5], release=2)
    snapshot = versioned(f"{PACKAGE}MutableMapSerializerSnapshot", 1, STRING + INT)
    check(snapshot, NULL, None, release=2)
    check(snapshot, i32(1) + fstr("k") + i32(3), [("k", 3)], release=2)


def test_sorted_collections_are_read_with_their_ordering() -> None:
    ordering = versioned(f"{PACKAGE}DefaultIntOrderingSerializerSnapshot", 3)
    reverse = versioned(f"{PACKAGE}ReverseOrderingSerializerSnapshot", 1, ordering)
    payload = utf(f"{PACKAGE}SortedSetSerializer") + utf("java.lang.Integer") + INT + reverse
    snapshot = versioned(f"{PACKAGE}SortedCollectionSerializerSnapshot", 2, payload)
    assert read(snapshot).decode(i32(2, 9, 4)) == [9, 4]
    assert read(snapshot).decode(NULL) is None
    assert written(read(snapshot), FLINK[2]) == snapshot
    for name in ("SortedMap", "MutableSortedMap"):
        snapshot = versioned(f"{PACKAGE}{name}SerializerSnapshot", 1, INT + STRING + ordering)
        assert read(snapshot).decode(i32(1, 4) + fstr("v")) == [(4, "v")]
        assert written(read(snapshot), FLINK[2]) == snapshot


def test_option_and_either() -> None:
    option = composite(f"{PACKAGE}ScalaOptionSerializerSnapshot", 2, STRING)
    check(option, b"\1" + fstr("a"), "a")
    check(option, b"\0", None)
    either = composite(f"{PACKAGE}ScalaEitherSerializerSnapshot", 1, STRING, LONG)
    check(either, b"\1" + fstr("a"), {"left": "a", "right": None})
    check(either, b"\0" + i64(3), {"left": None, "right": 3})


def test_mapped_values_are_those_that_the_mapper_makes() -> None:
    name = f"{PACKAGE}MappedSerializer$MappedSerializerSnapshot"
    base = "org.apache.flink.api.common.typeutils.base."
    check(versioned(name, 1, utf("com.acme.EmailMapper") + utf(base + "StringSerializer")), fstr("a@b"), "a@b")
    uuid = utf("org.apache.flinkx.api.mapper.UuidMapper") + utf(base + "array.BytePrimitiveArraySerializer")
    check(versioned(name, 1, uuid), i32(2) + b"ab", b"ab")
    check(versioned(name, 2, utf("com.acme.EmailMapper") + STRING), fstr("a@b"), "a@b", release=2)


def test_a_mapped_value_of_a_serializer_with_parameters_says_what_the_snapshot_lacks() -> None:
    payload = utf("com.acme.M") + utf(f"{PACKAGE}ListSerializer")
    serializer = read(versioned(f"{PACKAGE}MappedSerializer$MappedSerializerSnapshot", 1, payload))
    with pytest.raises(SnapshotError, match="none of its parameters"):
        serializer.layout(LayoutContext())
    assert isinstance(serializer.inner, Opaque)  # type: ignore[attr-defined]
    assert written(serializer, FLINK[1]).endswith(payload)


def test_durations_and_zones() -> None:
    def simple(name: str) -> bytes:
        return versioned(f"{PACKAGE}{name}SerializerSnapshot", 3)

    check(simple("FiniteDuration"), i64(5) + i32(3), {"length": 5, "unit": "SECONDS"})
    nothing = {"length": None, "unit": None}
    check(simple("Duration"), b"\0" + i64(5) + i32(6), {"type": "FiniteDuration", "length": 5, "unit": "DAYS"})
    check(simple("Duration"), b"\3", {"type": "MinusInf"} | nothing)
    check(simple("Duration"), b"\xff", None)
    check(simple("ZoneId"), fstr("Europe/Paris"), "Europe/Paris")
    check(simple("ZoneOffset"), i32(-3600), -3600)
    check(simple("ZoneOffset"), NULL, None)
    local = struct.pack(">iBBBBBI", 2024, 2, 29, 1, 2, 3, 500)
    check(simple("OffsetDateTime"), local + i32(60), {"local": "2024-02-29T01:02:03.000000500", "offset": 60})
    check(simple("ZonedDateTime"), local + fstr("UTC"), {"local": "2024-02-29T01:02:03.000000500", "zone": "UTC"})
    assert read(versioned(f"{PACKAGE}UnitSerializer$UnitSerializerSnapshot", 3)).decode(b"") is None


def test_counts_of_snapshots_are_checked() -> None:
    name = f"{PACKAGE}CoproductSerializer$CoproductSerializerSnapshot"
    for payload in (i32(-1), i32(2**31 - 1), i32(0), i32(1) + utf("com.acme.A")):
        with pytest.raises(CorruptSnapshot):
            read(versioned(name, 1, payload))
    with pytest.raises(CorruptSnapshot):
        read(versioned(name, 3, i32(911108, 3, 2) + fstr("A") + fstr("B") + nested(LONG)))
