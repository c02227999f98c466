"""Which serializer Kryo used for a class: registered ones, default serializers of supertypes, Kryo's own choice.

The bytes come from Flink's KryoSerializer 1.20.5 (Kryo 2.24) and 2.3.0 (Kryo 5.6) with kryo-serializers 0.45.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stateproc.codec.kryo.library_serializers import SERIALIZER_BODIES
from stateproc.codec.kryo.own_serializers import choose_serializer
from stateproc.codec.kryo.reader import read_kryo
from stateproc.codec.kryo.registered_serializers import REGISTERED_TYPES
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.values import KryoObject, json_text
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.serializers import KryoObjectInput, register_kryo
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.wire import Cursor

PROTOBUF = "com.twitter.chill.protobuf.ProtobufSerializer"
THRIFT = "com.twitter.chill.thrift.TBaseSerializer"
KAFFEE = "de.javakaffee.kryoserializers."
MESSAGE = "com.google.protobuf.Message"
OWN = ("com.acme.Wire", "com.acme.WireSerializer")


def chosen(name: str, *defaults: tuple[str, str], version: int = 2, classes: Any = None) -> tuple[list[str], bool]:
    """The serializers that may have written a class, and whether Kryo's own choice may."""
    choice = choose_serializer(name, version, {}, defaults, parse_classes(classes))
    return [own.name for own in choice.own], choice.kryo


def read(data: str, version: int = 2, classes: Any = None, **setting: Any) -> Any:
    """Decode one whole value."""
    return read_kryo(Cursor(bytes.fromhex(data)), KryoSetting(version, classes=parse_classes(classes), **setting), True)


def shown(data: str, version: int = 2, **setting: Any) -> str:
    """Decode one whole value to JSON text."""
    return json_text(read(data, version, **setting))


@pytest.mark.parametrize(
    ("name", "default", "expected"),
    [
        ("com.acme.Item", OWN[0], None),
        ("com.acme.Item", "java.util.Date", None),
        ("com.acme.Item", "java.lang.String", False),
        ("com.acme.Item", "org.joda.time.DateTime", False),
        ("com.acme.Item", "org.apache.avro.Schema", False),
        ("com.acme.Item", "java.util.Collections$UnmodifiableList", False),
        ("com.acme.Item", "com.acme.Item", True),
        ("com.acme.Item", "java.lang.Object", True),
        ("java.util.ArrayList", OWN[0], False),
        ("java.util.ArrayList", "java.util.List", True),
        ("java.util.ArrayList", "java.util.Set", False),
        ("java.util.ArrayList", "java.util.SequencedCollection", None),
        ("java.math.BigInteger", "java.io.Serializable", True),
        ("java.lang.String", "java.io.Serializable", False),
        ("java.util.UUID", "java.lang.Object", False),
        ("int", "java.lang.Object", False),
        ("[B", "java.lang.Object", True),
        ("[B", "com.acme.Wire", False),
        ("[Lcom.acme.Item;", "[Lcom.acme.Wire;", None),
        ("com.google.protobuf.Timestamp", MESSAGE, True),
        ("com.google.protobuf.Timestamp", OWN[0], False),
        ("org.apache.avro.Schema$RecordSchema", "org.apache.avro.Schema", True),
        ("org.apache.avro.generic.GenericData$Record", "org.apache.avro.Schema", False),
        ("scala.collection.immutable.$colon$colon", OWN[0], False),
    ],
)
def test_a_default_serializer_is_for_subtypes(name: str, default: str, expected: bool | None) -> None:
    own, kryo = chosen(name, (default, "com.acme.S"))
    assert (own, kryo) == {True: (["com.acme.S"], False), False: ([], True), None: (["com.acme.S"], True)}[expected]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("com.acme.Item", (["com.acme.WireSerializer"], True)),
        ("com.acme.Item extends com.acme.Base", (["com.acme.WireSerializer"], True)),
        ("com.acme.Item implements nothing", ([], True)),
        ("com.acme.Item implements Serializable, java.util.Comparator<T, com.acme.Item>", ([], True)),
        ("com.acme.Item implements com.acme.Wire", (["com.acme.WireSerializer"], False)),
        ("com.acme.Item extends com.acme.Wire implements nothing", (["com.acme.WireSerializer"], False)),
        ("final com.acme.Item<A, B> extends com.acme.Wire<A>", (["com.acme.WireSerializer"], False)),
    ],
)
def test_a_description_says_what_a_class_extends_and_implements(heading: str, expected: Any) -> None:
    assert chosen("com.acme.Item", OWN, classes={heading: {"a": "int"}}) == expected


def test_supertypes_of_described_superclasses_count() -> None:
    classes = {"com.acme.Item extends com.acme.Base": {"a": "int"}, "com.acme.Base implements com.acme.Wire": {}}
    assert chosen("com.acme.Item", OWN, classes=classes) == (["com.acme.WireSerializer"], False)


@pytest.mark.parametrize(
    "wire", [{"final com.acme.Wire": {}}, {"com.acme.Wire": ["A"]}, {"com.acme.Wire": {"other": "int"}}]
)
def test_a_described_class_that_is_no_supertype(wire: Any) -> None:
    """A final class or an enum has no subclasses; a subclass has all fields of its superclass."""
    assert chosen("com.acme.Item", OWN, classes={"com.acme.Item": {"a": "int"}} | wire) == ([], True)


def test_the_order_of_default_serializers() -> None:
    """Kryo 2 takes the first that fits, Kryo 5 the most specific."""
    item = {"com.acme.Item implements com.acme.Wire, com.acme.Other": {"a": "int"}}
    both = (OWN, ("com.acme.Other", "com.acme.S"))
    assert chosen("com.acme.Item", *both, classes=item) == (["com.acme.WireSerializer"], False)
    assert chosen("com.acme.Item", *both, classes=item, version=5) == (["com.acme.WireSerializer", "com.acme.S"], False)
    exact = (OWN, ("com.acme.Item", "com.acme.S"))
    assert chosen("com.acme.Item", *exact) == (["com.acme.WireSerializer", "com.acme.S"], False)
    assert chosen("com.acme.Item", *exact, version=5) == (["com.acme.S"], False)
    assert chosen("com.acme.Item", *reversed(exact)) == (["com.acme.S"], False)


@pytest.mark.parametrize("name", ["java.lang.IllegalStateException", "com.acme.BadOrderException"])
def test_throwables_are_java_objects(name: str) -> None:
    assert chosen(name, ("java.io.Serializable", "com.acme.S")) == ([], True)
    assert chosen(name, ("java.io.Serializable", "com.acme.S"), version=5) == ([], True)


def item(body: str) -> str:
    """A value of class com.acme.Item: the class by name, a mark, the body."""
    return "0100" + b"com.acme.Ite".hex() + format(ord("m") | 0x80, "02x") + "01" + body


def test_fields_are_not_read_where_another_serializer_is_possible() -> None:
    """The fields fit, in alphabetical order; WireSerializer writes them in another order."""
    classes = {"com.acme.Item": {"quantity": "int", "price": "int"}}
    assert read(item("08e807"), classes=classes).fields == {"quantity": 500, "price": 4}
    with pytest.raises(UnsupportedSnapshot, match=r"WireSerializer.*if it extends or implements com\.acme\.Wire") as no:
        read(item("08e807"), classes=classes, defaults=(OWN,))
    assert "register_kryo('com.acme.WireSerializer'" in str(no.value.advice)
    assert "describe it" not in str(no.value.advice)
    classes = {"com.acme.Item implements nothing": {"quantity": "int", "price": "int"}}
    assert read(item("08e807"), classes=classes, defaults=(OWN,)).fields == {"quantity": 500, "price": 4}


def test_bytes_distinguish_fields_and_messages() -> None:
    defaults = ((MESSAGE, PROTOBUF),)
    fields = {"com.acme.Item": {"quantity": "int", "price": "int"}}
    assert read(item("0800"), classes={"com.acme.Item": {"a": "int", "b": "String"}}, defaults=defaults).fields == {
        "a": 4,
        "b": None,
    }
    assert read(item("020805"), defaults=defaults) == b"\x08\x05"
    assert isinstance(read(item("1006"), classes=fields, defaults=defaults), KryoObject)
    with pytest.raises(UnsupportedSnapshot, match="whose fields no snapshot contains"):
        read(item("1006"), defaults=defaults)


def test_bytes_that_fit_both_are_refused() -> None:
    """An empty message, or a field of 0."""
    defaults = ((MESSAGE, PROTOBUF),)
    with pytest.raises(UnsupportedSnapshot, match="its bytes fit two serializers") as error:
        read(item("00"), classes={"com.acme.Item": {"a": "int"}}, defaults=defaults)
    assert '"com.acme.Item implements nothing"' in str(error.value.advice)
    assert read(item("00"), classes={"com.acme.Item implements nothing": {"a": "int"}}, defaults=defaults).fields == {
        "a": 0
    }
    assert read(item("00"), classes={f"com.acme.Item implements {MESSAGE}": {}}, defaults=defaults) == b""


def test_a_message_that_is_described_by_fields() -> None:
    defaults = ((MESSAGE, PROTOBUF),)
    with pytest.raises(UnsupportedSnapshot, match="has the form that ") as error:
        read(item("020805"), classes={"com.acme.Item": {"a": "int"}}, defaults=defaults)
    assert f'{{"com.acme.Item implements {MESSAGE}": {{}}}}' in str(error.value.advice)


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize(
    ("serializer", "bodies", "expected"),
    [
        (PROTOBUF, "0608 80e2cfaa06", '"CIDiz6oG"'),
        (PROTOBUF, "00", '""'),
        (f"{KAFFEE}protobuf.ProtobufSerializer", "030805", '"CAU="'),
        (f"{KAFFEE}protobuf.ProtobufSerializer", "01", '""'),
        (THRIFT, "0d 0b00010000000178 03000207 00", '"CwABAAAAAXgDAAIHAA=="'),
        (f"{KAFFEE}CollectionsSingletonListSerializer", "03018261", '["a"]'),
        (f"{KAFFEE}CollectionsSingletonMapSerializer", "030182610202", '{"a":1}'),
        (f"{KAFFEE}CollectionsEmptyListSerializer", "", "[]"),
        (f"{KAFFEE}CollectionsEmptyMapSerializer", "", "{}"),
        (f"{KAFFEE}ArraysAsListSerializer", "0303 03018261 03018262 00", '["a","b",null]'),
        (f"{KAFFEE}ArraysAsListSerializer", "0202 0202 0204", "[1,2]"),
        (f"{KAFFEE}guava.ImmutableListSerializer", "02 03018261 0202", '["a",1]'),
        (f"{KAFFEE}guava.ImmutableSetSerializer", "00", "[]"),
        (
            f"{KAFFEE}guava.ArrayListMultimapSerializer",
            "03 03018261 0202 0303 0204 03018262 0206",
            '{"a":[1,2],"b":[3]}',
        ),
        (f"{KAFFEE}DateSerializer", "cb89ec8ff723", '"2009-02-13T23:31:30.123Z"'),
        (f"{KAFFEE}URISerializer", "687474703a2f2f612fe2", '"http://a/b"'),
        (f"{KAFFEE}BitSetSerializer", "03010001", "[0,2]"),
        (f"{KAFFEE}RegexSerializer", "61ab02", '"a+"'),
        (f"{KAFFEE}jodatime.JodaDateTimeSerializer", "cb89ec8ff723 81 5554c3", '"2009-02-13T23:31:30.123Z"'),
        (
            f"{KAFFEE}jodatime.JodaDateTimeSerializer",
            "b5f693f088dcffffff 81 4575726f70652f4265726c69ee",
            '"1930-11-18T00:28:29.877Z[Europe/Berlin]"',
        ),
        (f"{KAFFEE}jodatime.JodaLocalDateSerializer", "dda533 81", '"2020-02-29"'),
        (f"{KAFFEE}jodatime.JodaLocalDateTimeSerializer", "fcf5b8cea3c110 81", '"2020-02-29T01:02:03.004"'),
        (f"{KAFFEE}jodatime.JodaLocalTimeSerializer", "fc9de301 80", '"01:02:03.004"'),
    ],
)
def test_serializers_of_libraries(version: int, serializer: str, bodies: str, expected: str) -> None:
    setting = {"registrations": ("com.acme.Item",), "serializers": {"com.acme.Item": serializer}}
    assert shown("5701" + bodies.replace(" ", ""), version, **setting) == expected


@pytest.mark.parametrize(
    ("version", "data", "expected"),
    [
        (2, "58010001006a6176612e7574696c2e417272617944657175e5010103018261", '["a"]'),
        (2, "58010101006a6176612e7574696c2e41727261794c6973f40102030182610202", '["a",1]'),
        (2, "58010401006a6176612e7574696c2e547265655365f401000103018261", '["a"]'),
        (2, "58010501006a6176612e7574696c2e486173684d61f001010301826b0904", '{"k":2}'),
        (2, "58010601006a6176612e7574696c2e547265654d61f00100010301826b0904", '{"k":2}'),
        (5, "58010001006a6176612e7574696c2e417272617944657175e501820300018261", '["a"]'),
        (5, "58010101006a6176612e7574696c2e41727261794c6973f40103030182610202", '["a",1]'),
        (5, "58010501006a6176612e7574696c2e486173684d61f001020301826b0904", '{"k":2}'),
        (5, "58010601006a6176612e7574696c2e547265654d61f00102000301826b0904", '{"k":2}'),
    ],
)
@pytest.mark.parametrize("kind", ["Unmodifiable", "Synchronized"])
def test_wrapped_collections(version: int, data: str, expected: str, kind: str) -> None:
    setting = {
        "registrations": ("java.lang.Object", "java.util.Collections$X"),
        "serializers": {"java.util.Collections$X": f"{KAFFEE}{kind}CollectionsSerializer"},
    }
    assert shown(data, version, **setting) == expected


PROFILE = {
    "com.acme.Profile": {
        "name": "String",
        "age": "int",
        "tags": "list<String>",
        "boxed": "Long",
        "friend": "com.acme.Profile",
        "big": "String",
        "any": "Object",
    }
}
COMPATIBLE = {
    "registrations": ("java.lang.Object", "com.acme.Profile"),
    "serializers": {"com.acme.Profile": "com.esotericsoftware.kryo.serializers.CompatibleFieldSerializer"},
}
NAMES = "076167e5616ef96269e7626f7865e4667269656ee46e616de5746167f3"
ARRAY_LIST = "6a6176612e7574696c2e41727261794c6973f4"
FIRST_PROFILE = {
    2: f"5801{NAMES}010a00050301616eee000100000100000100000103001d0100{ARRAY_LIST}010201827801827900",
    5: f"5801{NAMES}020a0301616eee00000003030100{ARRAY_LIST}0103018278018279",
}
TWO_PROFILES = {
    2: f"0100{ARRAY_LIST}01035801{NAMES}010a00050301616eee000100000100000100000104000a0100010201827801827900"
    "5801010a000203040001000001000001000001040006010001020607005803",
    5: f"0100{ARRAY_LIST}0184580001{NAMES}020a0301616eee000000030401000103018278018279"
    "01020a0304000000030401000103060703",
}


@pytest.mark.parametrize("version", [2, 5])
def test_compatible_fields(version: int) -> None:
    ann = '{"name":"ann","age":5,"tags":["x","y"],"boxed":null,"friend":null,"big":null,"any":"ann"}'
    assert shown(FIRST_PROFILE[version], version, classes=PROFILE, **COMPATIBLE) == ann
    assert shown(TWO_PROFILES[version], version, classes=PROFILE, **COMPATIBLE) == f"[{ann},{ann},{ann}]"


def test_compatible_fields_that_are_not_described() -> None:
    """Kryo 2 writes each field in a frame, so that it can be passed; what comes later may refer to objects inside."""
    some = {"com.acme.Profile": {"age": "int"}}
    assert read(FIRST_PROFILE[2], classes=some, **COMPATIBLE).fields == {"age": 5}
    with pytest.raises(UnsupportedSnapshot, match="after fields that are not described"):
        read(TWO_PROFILES[2], classes=some, **COMPATIBLE)
    for version in (2, 5):
        with pytest.raises(UnsupportedSnapshot, match=r"the names of the fields \(age, any, big"):
            read(FIRST_PROFILE[version], version, classes=None, **COMPATIBLE)


@pytest.mark.parametrize(
    ("name", "default", "expected"),
    [
        ("RegularImmutableList", "ImmutableList", True),
        ("RegularImmutableList", "ImmutableMap", False),
        ("SingletonImmutableBiMap", "ImmutableMap", True),
        ("ImmutableListMultimap", "ImmutableMap", False),
        ("RegularImmutableSortedSet", "ImmutableSet", True),
        ("HashMultiset", "ImmutableSet", False),
    ],
)
def test_default_serializers_of_immutable_collections(name: str, default: str, expected: bool) -> None:
    guava = "com.google.common.collect."
    own, kryo = chosen(guava + name, (guava + default, "com.acme.S"))
    assert (own, kryo) == ((["com.acme.S"], False) if expected else ([], True))
    assert chosen("com.acme.Item", (guava + default, "com.acme.S")) == ([], True)


@pytest.fixture
def money() -> Iterator[str]:
    """A user's serializer, for which a function is registered."""
    name = "com.acme.MoneySerializer"

    def read_money(data: KryoObjectInput) -> dict[str, Any]:
        return {"cents": data.read_varlong(False), "currency": data.read_string()}

    register_kryo(name, read_money)
    yield name
    SERIALIZER_BODIES.pop(name)
    REGISTERED_TYPES.pop(name)


@pytest.mark.parametrize("version", [2, 5])
def test_a_registered_function_reads_an_object(money: str, version: int) -> None:
    setting: dict[str, Any] = {"registrations": ("com.acme.Money",), "serializers": {"com.acme.Money": money}}
    assert read("5701c8014555d2", version, **setting) == {"cents": 100, "currency": "EUR"}
    for end in range(2, 12, 2):
        with pytest.raises(SnapshotError):
            read("5701c8014555d2"[:end], version, **setting)
    with pytest.raises(SnapshotError, match="left over"):
        read("5701c8014555d200", version, **setting)


def test_a_registered_function_needs_a_class_that_is_surely_its_own(money: str) -> None:
    """A function checks nothing: bytes of other classes would fit it."""
    defaults = (("com.acme.Amount", money),)
    with pytest.raises(UnsupportedSnapshot, match=r"if it extends or implements com\.acme\.Amount") as error:
        read(item("c8014555d2"), defaults=defaults)
    assert '{"com.acme.Item implements com.acme.Amount": {}}' in str(error.value.advice)
    classes = {"com.acme.Item implements com.acme.Amount": {}}
    assert read(item("c8014555d2"), classes=classes, defaults=defaults) == {"cents": 100, "currency": "EUR"}


def test_all_that_a_function_can_read() -> None:
    parts = {
        2: "01 ff 0102 0041 00000001 0000000000000002 3f800000 3ff0000000000000 05 c801 09 c801 8261 0102 030182"
        "62 018263 00 ",
        5: "01 ff 0201 4100 01000000 0200000000000000 0000803f 000000000000f03f 05 c801 09 c801 8261 0102 030182"
        "62 018263 00 ",
    }

    def read_all(data: KryoObjectInput) -> list[Any]:
        return [
            data.read_boolean(),
            data.read_byte(),
            data.read_short(),
            data.read_char(),
            data.read_int(),
            data.read_long(),
            data.read_float(),
            data.read_double(),
            data.read_varint(True),
            data.read_varint(False),
            data.read_varlong(True),
            data.read_varlong(False),
            data.read_string(),
            data.read_bytes(2),
            data.read_class_and_object(),
            data.read_object("java.lang.String"),
            data.read_object_or_null("java.lang.String"),
            data.version,
            data.class_name,
        ]

    register_kryo("com.acme.All", read_all)
    try:
        for version, data in parts.items():
            setting: dict[str, Any] = {"registrations": ("com.acme.A",), "serializers": {"com.acme.A": "com.acme.All"}}
            assert read("5701" + data.replace(" ", ""), version, **setting) == [
                *(True, -1, 258, "A", 1, 2, 1.0, 1.0, 5, 100, 9, 100, "a", b"\x01\x02"),
                *("b", "c", None, version, "com.acme.A"),
            ]
    finally:
        SERIALIZER_BODIES.pop("com.acme.All")
        REGISTERED_TYPES.pop("com.acme.All")


def test_a_function_that_fails_is_named() -> None:
    register_kryo("com.acme.Bad", lambda data: {}["missing"])
    try:
        with pytest.raises(UnsupportedSnapshot, match=r"registered for com\.acme\.Bad failed: KeyError"):
            read("5701", registrations=("com.acme.A",), serializers={"com.acme.A": "com.acme.Bad"})
    finally:
        SERIALIZER_BODIES.pop("com.acme.Bad")
        REGISTERED_TYPES.pop("com.acme.Bad")


@pytest.mark.parametrize("version", [2, 5])
def test_every_truncation_of_own_serializers_is_refused(version: int) -> None:
    data = bytes.fromhex(TWO_PROFILES[version])
    for end in range(len(data)):
        with pytest.raises(SnapshotError):
            read(data[:end].hex(), version, classes=PROFILE, **COMPATIBLE)


def test_versions_of_fields() -> None:
    setting = {
        "registrations": ("java.lang.Object", "com.acme.Plain"),
        "serializers": {"com.acme.Plain": "com.esotericsoftware.kryo.serializers.VersionFieldSerializer"},
    }
    value = read("580101100e", 5, classes={"com.acme.Plain": {"b": "int", "a": "int"}}, **setting)
    assert value.fields == {"b": 7, "a": 8}
