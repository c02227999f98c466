"""Protobuf messages in Kryo values by a descriptor set: columns, Java names, what the bytes lack, what does not fit."""

from __future__ import annotations

import builtins
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, struct_pb2, timestamp_pb2

import stateproc
from stateproc.codec.kryo.protobuf import descriptor_sets
from stateproc.codec.kryo.protobuf.descriptor_sets import DescriptorSet, outer_class
from stateproc.codec.layouts.base import Unwritable
from stateproc.errors import CorruptSnapshot, InvalidOption, MissingPackage, SnapshotError, UnsupportedSnapshot
from stateproc.serializers import LayoutContext
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.wire import Cursor
from tests.helpers.paths import FIXTURES

CHILL = "com.twitter.chill.protobuf.ProtobufSerializer"
KAFFEE = "de.javakaffee.kryoserializers.protobuf.ProtobufSerializer"
MESSAGE = "com.google.protobuf.Message"
DEMO = str(FIXTURES / "1.20/demo/snapshot")
Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = "double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 sfixed32 sfixed64 sint32 sint64"
TYPES: dict[str, Any] = {name: getattr(Field, f"TYPE_{name.upper()}") for name in _SCALARS.split(" ")}


def file_of(name: str, syntax: str = "proto3", package: str = "acme", **options: Any) -> Any:
    """An empty file whose messages are classes of the package com.acme."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax=syntax)
    file.options.java_package = options.pop("java_package", "com.acme")
    file.options.java_multiple_files = options.pop("multiple", True)
    for option, value in options.items():
        setattr(file.options, option, value)
    return file


def add(message: Any, name: str, type_: str, number: int = 0, **more: Any) -> Any:
    """Add a field: of a scalar type, or of a message or an enum by its full name."""
    field = message.field.add(name=name, number=number or len(message.field) + 1, label=Field.LABEL_OPTIONAL)
    if type_ in TYPES:
        field.type = TYPES[type_]
    else:
        field.type, field.type_name = more.pop("kind", Field.TYPE_MESSAGE), f".{type_}"
    for option, value in more.items():
        setattr(field, option, value)
    return field


def add_map(message: Any, name: str, key: str, value: str) -> None:
    entry = message.nested_type.add(name=f"{name.title()}Entry")
    entry.options.map_entry = True
    add(entry, "key", key)
    add(entry, "value", value)
    add(message, name, f"acme.{message.name}.{entry.name}", label=Field.LABEL_REPEATED)


def set_of(*files: Any) -> DescriptorSet:
    return DescriptorSet(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())


def class_of(proto: DescriptorSet, full_name: str) -> Any:
    """The message's Python class, by google.protobuf."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(proto.data).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))


def well_known(*modules: Any) -> list[Any]:
    return [descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb) for module in modules]


def varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def kryo_value(class_name: str, data: bytes, more: int = 0) -> bytes:
    """What Kryo.writeClassAndObject writes for a message of a class without an id."""
    name = b"\x01\x00" + class_name[:-1].encode() + bytes([ord(class_name[-1]) | 0x80])
    return name + b"\x01" + varint(len(data) + more) + data


def kryo(class_name: str, serializer: str = CHILL, default: bool = False) -> Kryo:
    """A type whose values a Protobuf serializer writes: registered for the class, or default of all messages."""
    if default:
        return Kryo(class_name, ("java.lang.Object",), defaults=((MESSAGE, serializer),))
    return Kryo(class_name, ("java.lang.Object",), ((class_name, serializer),))


def context(proto: DescriptorSet | None, **more: Any) -> LayoutContext:
    return LayoutContext(proto=proto, tail=True, **more)


def read(class_name: str, data: bytes, proto: DescriptorSet | None, type_: Kryo | None = None, **more: Any) -> Any:
    return (type_ or kryo(class_name)).decode(kryo_value(class_name, data), proto=proto, **more)


def column(class_name: str, proto: DescriptorSet | None) -> pa.DataType:
    return kryo(class_name).layout(context(proto)).arrow_type


@pytest.fixture(scope="module")
def orders() -> DescriptorSet:
    """Messages with fields of all types."""
    file = file_of("orders.proto")
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("NEW", "PAID")):
        state.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    add(item, "sku", "string")
    order = file.message_type.add(name="Order")
    for type_ in TYPES:
        add(order, f"a_{type_}", type_)
    add(order, "state", "acme.State", kind=Field.TYPE_ENUM)
    add(order, "states", "acme.State", kind=Field.TYPE_ENUM, label=Field.LABEL_REPEATED)
    add(order, "first", "acme.Item")
    add(order, "items", "acme.Item", label=Field.LABEL_REPEATED)
    add(order, "numbers", "uint64", label=Field.LABEL_REPEATED)
    order.oneof_decl.add(name="choice")
    add(order, "left", "int32", oneof_index=0)
    add(order, "right", "string", oneof_index=0)
    order.oneof_decl.add(name="_note")
    add(order, "note", "string", oneof_index=1, proto3_optional=True)
    add_map(order, "prices", "int32", "acme.Item")
    add_map(order, "labels", "string", "string")
    return set_of(file)


def test_columns(orders: DescriptorSet) -> None:
    found = {field.name: field.type for field in column("com.acme.Order", orders)}
    numbers = {"int32": pa.int32(), "int64": pa.int64(), "uint32": pa.uint32(), "uint64": pa.uint64()}
    item = pa.struct([("sku", pa.string())])
    assert found == {
        **{f"a_{name}": type_ for name, type_ in numbers.items()},
        "a_double": pa.float64(),
        "a_float": pa.float32(),
        "a_fixed64": pa.uint64(),
        "a_fixed32": pa.uint32(),
        "a_sfixed32": pa.int32(),
        "a_sfixed64": pa.int64(),
        "a_sint32": pa.int32(),
        "a_sint64": pa.int64(),
        "a_bool": pa.bool_(),
        "a_string": pa.string(),
        "a_bytes": pa.binary(),
        "state": pa.string(),
        "states": pa.list_(pa.string()),
        "first": item,
        "items": pa.list_(item),
        "numbers": pa.list_(pa.uint64()),
        "left": pa.int32(),
        "right": pa.string(),
        "note": pa.string(),
        "prices": pa.map_(pa.int32(), item),
        "labels": pa.map_(pa.string(), pa.string()),
    }


def test_an_empty_message_has_defaults_and_nulls_where_fields_have_presence(orders: DescriptorSet) -> None:
    assert read("com.acme.Order", b"", orders) == {
        **{f"a_{name}": 0 for name in TYPES},
        "a_bool": False,
        "a_string": "",
        "a_bytes": b"",
        "state": "NEW",
        **{name: [] for name in ("states", "items", "numbers", "prices", "labels")},
        **dict.fromkeys(("first", "left", "right", "note")),
    }


def test_values_at_their_limits(orders: DescriptorSet) -> None:
    order = class_of(orders, "acme.Order")(
        a_double=-0.0, a_float=float("inf"), a_int64=-(2**63), a_uint64=2**64 - 1, a_int32=-(2**31),
        a_fixed64=2**64 - 1, a_fixed32=2**32 - 1, a_bool=True, a_string="é\0𝄞", a_bytes=b"\0\xff", a_uint32=2**32 - 1,
        a_sfixed32=-(2**31), a_sfixed64=-(2**63), a_sint32=2**31 - 1, a_sint64=-(2**63),
        state=7, states=[1, 0, -3], first={}, items=[{"sku": "a"}, {}], numbers=[0, 2**64 - 1], left=0, note="",
        prices={2: {"sku": "b"}, -1: {}}, labels={"b": "", "a": "x"},
    )  # fmt: skip
    value = read("com.acme.Order", order.SerializeToString(), orders)
    assert struct.pack(">d", value.pop("a_double")) == struct.pack(">d", -0.0)
    assert value == {
        "a_float": float("inf"), "a_int64": -(2**63), "a_uint64": 2**64 - 1, "a_int32": -(2**31),
        "a_fixed64": 2**64 - 1, "a_fixed32": 2**32 - 1, "a_bool": True, "a_string": "é\0𝄞", "a_bytes": b"\0\xff",
        "a_uint32": 2**32 - 1, "a_sfixed32": -(2**31), "a_sfixed64": -(2**63), "a_sint32": 2**31 - 1,
        "a_sint64": -(2**63), "state": "7", "states": ["PAID", "NEW", "-3"], "first": {"sku": ""},
        "items": [{"sku": "a"}, {"sku": ""}], "numbers": [0, 2**64 - 1], "left": 0, "right": None, "note": "",
        "prices": [(-1, {"sku": ""}), (2, {"sku": "b"})], "labels": [("a", "x"), ("b", "")],
    }  # fmt: skip


def test_arrow_and_json_rows(orders: DescriptorSet) -> None:
    item = class_of(orders, "acme.Item")(sku="a").SerializeToString()
    layout = kryo("com.acme.Item").layout(context(orders))
    array = pa.array([layout.read(Cursor(kryo_value("com.acme.Item", item))), None], layout.arrow_type)
    assert array.to_pylist() == [{"sku": "a"}, None]


@pytest.mark.parametrize("version", [2, 5])
def test_other_serializers_and_null(orders: DescriptorSet, version: int) -> None:
    item = class_of(orders, "acme.Item")(sku="a").SerializeToString()
    nullable = kryo("com.acme.Item", KAFFEE)
    assert nullable.decode(kryo_value("com.acme.Item", item, 1), kryo=version, proto=orders) == {"sku": "a"}
    assert nullable.decode(kryo_value("com.acme.Item", b"", 0), kryo=version, proto=orders) is None
    assert nullable.decode(b"\x00", kryo=version, proto=orders) is None
    by_default = kryo("com.acme.Item", default=True)
    assert by_default.decode(kryo_value("com.acme.Item", item), kryo=version, proto=orders) == {"sku": "a"}


def test_without_tail_a_message_ends_with_its_length(orders: DescriptorSet) -> None:
    item = class_of(orders, "acme.Item")(sku="a").SerializeToString()
    for type_ in (kryo("com.acme.Item"), kryo("com.acme.Item", default=True)):
        layout = type_.layout(LayoutContext(proto=orders))
        cursor = Cursor(kryo_value("com.acme.Item", item) + b"next")
        assert layout.read(cursor) == {"sku": "a"}
        assert cursor.remaining == 4


def test_a_class_that_the_set_lacks_is_an_error(orders: DescriptorSet) -> None:
    named = DescriptorSet(orders.data, "the descriptor set /a/orders.desc")
    with pytest.raises(UnsupportedSnapshot) as caught:
        column("com.acme.Other", named)
    assert caught.value.message == "the Protobuf message 'com.acme.Other' is not in the descriptor set /a/orders.desc"
    assert "without the option proto the message's bytes are returned" in (caught.value.advice or "")
    uncertain = kryo("com.acme.Other", default=True)
    with pytest.raises(UnsupportedSnapshot, match=r"'com.acme.Other' is not in the descriptor set /a/orders.desc"):
        uncertain.layout(context(named)).read(Cursor(kryo_value("com.acme.Other", b"\x08\x01")))
    assert read("com.acme.Other", b"\x08\x01", None) == b"\x08\x01"
    assert read("com.acme.Order", b"\x08\x01", None) == b"\x08\x01"


@pytest.mark.parametrize(
    ("declared", "data", "reason"),
    [
        ("string", b"\x08\x05", "the field a is a varint, and declared as bytes with their length"),
        ("int32", b"\x0a\x01x", "the field a is bytes with their length, and declared as a varint"),
        ("int64", b"\x0d\x00\x00\x00\x00", "the field a is 4 bytes, and declared as a varint"),
        ("fixed32", b"\x09" + bytes(8), "the field a is 8 bytes, and declared as 4 bytes"),
        ("double", b"\x0b\x0c", "the field a is a group, and declared as 8 bytes"),
        ("int32", b"\x08" + varint(1 << 31), "the number 2147483648 of the field a is too large"),
        ("int32", b"\x08" + varint((1 << 64) - (1 << 31) - 1), "of the field a is too large"),
        ("uint32", b"\x08" + varint(1 << 32), "the number 4294967296 of the field a is too large"),
        ("sint32", b"\x08" + varint(1 << 32), "of the field a is too large"),
        ("bool", b"\x08\x02", "the number 2 of the field a is too large"),
    ],
)
@pytest.mark.parametrize("place", ["field", "message", "list", "map", "group"])
def test_a_set_of_other_types_is_an_error(place: str, declared: str, data: bytes, reason: str) -> None:
    """Protobuf itself takes such a field for an unknown one, or cuts the number."""
    file = file_of("wrong.proto", "proto2")
    add(file.message_type.add(name="Inner"), "a", declared)
    outer = file.message_type.add(name="Outer")
    add(outer, "message", "acme.Inner")
    add(outer, "list", "acme.Inner", label=Field.LABEL_REPEATED)
    add_map(outer, "map", "string", "acme.Inner")
    add(outer.nested_type.add(name="Group"), "a", declared)
    add(outer, "group", "acme.Outer.Group", kind=Field.TYPE_GROUP)
    proto = set_of(file)
    sized = varint(len(data)) + data
    given = {
        "message": b"\x0a" + sized,
        "list": b"\x12\x00\x12" + sized,
        "map": b"\x1a" + varint(len(sized) + 1) + b"\x12" + sized,
        "group": b"\x23" + data + b"\x24",
    }.get(place, data)
    name = "com.acme.Inner" if place == "field" else "com.acme.Outer"
    with pytest.raises(SnapshotError, match=f"do not fit the Protobuf message '{name}' of .*{reason}") as caught:
        read(name, given, proto)
    if place != "group" and b"\x0b" not in data:
        assert "damaged" not in f"{caught.value.message} {caught.value.advice}"


def test_values_of_maps_of_another_type_are_an_error() -> None:
    file = file_of("wrong.proto")
    add_map(file.message_type.add(name="Outer"), "map", "string", "int32")
    with pytest.raises(UnsupportedSnapshot, match="the field value is bytes with their length"):
        read("com.acme.Outer", b"\x0a\x06\x0a\x01k\x12\x01v", set_of(file))


def test_numbers_are_packed_or_not_whatever_is_declared() -> None:
    file = file_of("numbers.proto", "proto2")
    numbers = file.message_type.add(name="Numbers")
    add(numbers, "a", "sint32", label=Field.LABEL_REPEATED)
    add(numbers, "b", "fixed32", label=Field.LABEL_REPEATED).options.packed = True
    add(numbers, "c", "int32", label=Field.LABEL_REPEATED).options.packed = True
    proto = set_of(file)
    data = b"\x08\x01\x0a\x02\x02\x03\x15\x01\x00\x00\x00\x12\x04\x02\x00\x00\x00\x18\x07\x1a\x0a" + varint(
        (1 << 64) - 1
    )
    assert read("com.acme.Numbers", data, proto) == {"a": [-1, 1, -2], "b": [1, 2], "c": [7, -1]}
    with pytest.raises(UnsupportedSnapshot, match="the number 4294967296 of the field c is too large"):
        read("com.acme.Numbers", b"\x1a\x05" + varint(1 << 32), proto)


def test_unknown_fields_and_numbers_without_a_constant_in_closed_enums_are_left_out() -> None:
    file = file_of("closed.proto", "proto2")
    file.enum_type.add(name="State").value.add(name="NEW", number=1)
    message = file.message_type.add(name="Closed")
    add(message, "one", "acme.State", kind=Field.TYPE_ENUM)
    add(message, "many", "acme.State", kind=Field.TYPE_ENUM, label=Field.LABEL_REPEATED)
    unknown = b"\x18\x01\x21" + bytes(8) + b"\x2a\x01x\x33\x08\x01\x34\x3d" + bytes(4)
    data = b"\x08\x07\x10\x01\x10\x09" + unknown
    assert read("com.acme.Closed", data, set_of(file)) == {"one": None, "many": ["NEW"]}
    assert read("com.acme.Closed", b"\x08\x01" + unknown, set_of(file)) == {"one": "NEW", "many": []}


def test_two_messages_of_one_class() -> None:
    files = file_of("a.proto", package="a"), file_of("b.proto", package="b")
    for file in files:
        file.message_type.add(name="Order")
    with pytest.raises(InvalidOption, match=r"b.Order and a.Order in it are the same class com.acme.Order"):
        _ = set_of(*files).messages


def test_values_of_an_interface_are_json_text(orders: DescriptorSet) -> None:
    item = class_of(orders, "acme.Item")(sku="a").SerializeToString()
    for name in (MESSAGE, "com.google.protobuf.GeneratedMessageV3", "java.lang.Object"):
        type_ = kryo(name, default=True)
        assert type_.layout(context(orders)).arrow_type == pa.string()
        assert type_.decode(kryo_value("com.acme.Item", item), proto=orders) == {"sku": "a"}
    with pytest.raises(UnsupportedSnapshot, match=r"'com.google.protobuf.Timestamp' is not in the descriptor set"):
        kryo(MESSAGE, default=True).decode(kryo_value("com.google.protobuf.Timestamp", b"\x08\x01"), proto=orders)
    assert kryo(MESSAGE, default=True).layout(context(None)).arrow_type == pa.binary()


def test_fields_of_described_classes(orders: DescriptorSet) -> None:
    """Message classes are final, so that FieldSerializer writes them without their class."""
    item = class_of(orders, "acme.Item")(sku="a").SerializeToString()
    type_ = Kryo("com.acme.Cart", ("java.lang.Object",), (("com.acme.Item", CHILL),))
    classes = {"final com.acme.Cart": {"item": "com.acme.Item", "n": "int"}}
    name = "com.acme.Cart"
    head = b"\x01\x00" + name[:-1].encode() + bytes([ord(name[-1]) | 0x80]) + b"\x01"
    value = type_.decode(head + b"\x01" + varint(len(item)) + item + b"\x02", kryo=2, proto=orders, classes=classes)
    assert value == {"item": {"sku": "a"}, "n": 1}
    with pytest.raises(CorruptSnapshot, match=r"do not fit the Protobuf message 'com.acme.Item'"):
        type_.decode(head + b"\x01\x01\x0a\x02", kryo=2, proto=orders, classes=classes)


def test_recursive_messages_are_json_text_inside_of_themselves() -> None:
    proto = set_of(*well_known(struct_pb2))
    name = "com.google.protobuf.Struct"
    inner = pa.struct(
        [
            ("null_value", pa.string()),
            ("number_value", pa.float64()),
            ("string_value", pa.string()),
            ("bool_value", pa.bool_()),
            ("struct_value", pa.string()),
            ("list_value", pa.struct([("values", pa.list_(pa.string()))])),
        ]
    )
    assert column(name, proto) == pa.struct([("fields", pa.map_(pa.string(), inner))])
    value = struct_pb2.Struct()
    value.update({"a": {"b": [None, {"c": 1.5}]}, "l": [True, "x"], "n": None})
    found = dict(read(name, value.SerializeToString(), proto)["fields"])
    listed = {"values": [{"null_value": "NULL_VALUE"}, {"struct_value": {"fields": {"c": {"number_value": 1.5}}}}]}
    assert found["a"]["struct_value"] == {"fields": {"b": {"list_value": listed}}}
    assert found["l"]["list_value"] == {"values": [{"bool_value": True}, {"string_value": "x"}]}
    assert found["n"] == dict.fromkeys(inner.names) | {"null_value": "NULL_VALUE"}


def test_messages_that_contain_each_other() -> None:
    file = file_of("tree.proto")
    for name, other in (("Tree", "Branch"), ("Branch", "Tree")):
        message = file.message_type.add(name=name)
        add(message, "id", "int64")
        add(message, "child", f"acme.{other}")
    proto = set_of(file)
    tree = class_of(proto, "acme.Tree")(id=1)
    tree.child.child.child.id = 4
    value = read("com.acme.Tree", tree.SerializeToString(), proto)
    assert value == {"id": 1, "child": {"id": 0, "child": {"id": 0, "child": {"id": 4}}}}
    assert read("com.acme.Tree", b"", proto) == {"id": 0, "child": None}


def test_messages_nested_too_deep_are_refused() -> None:
    proto = set_of(*well_known(struct_pb2))
    data = b""
    for _ in range(100):
        data = b"\x32" + varint(len(data)) + data  # ListValue as list_value of a Value
        data = b"\x0a" + varint(len(data)) + data
    with pytest.raises(UnsupportedSnapshot, match="do not fit the Protobuf message"):
        read("com.google.protobuf.ListValue", data, proto)


def test_proto2_groups_extensions_required_fields_and_text_that_is_no_utf_8() -> None:
    file = file_of("old.proto", "proto2")
    old = file.message_type.add(name="Old")
    add(old, "id", "int32", label=Field.LABEL_REQUIRED)
    add(old, "text", "string", default_value="none")
    group = old.nested_type.add(name="Part")
    add(group, "n", "int32")
    add(old, "part", "acme.Old.Part", kind=Field.TYPE_GROUP)
    old.extension_range.add(start=100, end=200)
    extension = file.extension.add(name="extra", number=100, label=Field.LABEL_OPTIONAL, extendee=".acme.Old")
    extension.type = Field.TYPE_INT32
    proto = set_of(file)
    assert read("com.acme.Old", b"\x08\x05\x1b\x08\x07\x1c\xa0\x06\x01", proto) == {
        "id": 5,
        "text": None,
        "part": {"n": 7},
    }
    assert read("com.acme.Old", b"\x08\x05\x12\x02a\xff", proto)["text"] == "a\ufffd"
    with pytest.raises(UnsupportedSnapshot, match="lacks the required field id"):
        read("com.acme.Old", b"", proto)
    assert "com.acme.Old$Part" in proto.messages


@pytest.mark.parametrize("data", [b"\x0a\x05a", b"\xff", b"\x0a\x01\xff", b"\x0b"])
def test_bytes_that_do_not_fit(orders: DescriptorSet, data: bytes) -> None:
    with pytest.raises(SnapshotError, match=r"the bytes do not fit the Protobuf message 'com.acme.Item'") as caught:
        read("com.acme.Item", data, orders)
    assert "without the option proto the message's bytes are returned" in (caught.value.advice or "")
    assert read("com.acme.Item", data, None) == data


def test_writing_is_refused(orders: DescriptorSet) -> None:
    layout = kryo("com.acme.Item").layout(context(orders))
    with pytest.raises(Unwritable, match="read only"):
        layout.encode(pa.array([{"sku": "a"}], layout.arrow_type))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b/order_events.proto", "OrderEvents"),
        ("order-2events.v1.proto", "Order2EventsV1"),
        ("ORDER.protodevel", "ORDER"),
        ("order", "OrderOuterClass"),
        ("in_ner.proto", "InNerOuterClass"),
        ("my_state.proto", "MyStateOuterClass"),
        ("calls.proto", "CallsOuterClass"),
        ("orders.proto", "Orders"),
    ],
)
def test_names_of_outer_classes(path: str, expected: str) -> None:
    file = file_of(path)
    order = file.message_type.add(name="Order")
    order.nested_type.add(name="InNer").enum_type.add(name="MyState")
    file.service.add(name="Calls")
    assert outer_class(file) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"multiple": True}, ["com.acme.Order", "com.acme.Order$Line"]),
        ({"multiple": False}, ["com.acme.Shop$Order", "com.acme.Shop$Order$Line"]),
        (
            {"multiple": False, "java_outer_classname": "Protos"},
            ["com.acme.Protos$Order", "com.acme.Protos$Order$Line"],
        ),
        ({"multiple": True, "java_package": ""}, ["Order", "Order$Line"]),
    ],
)
def test_java_classes(options: dict[str, Any], expected: list[str]) -> None:
    file = file_of("shop.proto", **options)
    file.message_type.add(name="Order").nested_type.add(name="Line")
    assert sorted(set_of(file).messages) == expected


def test_the_package_of_the_file_is_the_java_package_if_it_names_none() -> None:
    file = file_of("shop.proto", package="acme.v1")
    file.options.ClearField("java_package")
    file.message_type.add(name="Order")
    assert list(set_of(file).messages) == ["acme.v1.Order"]


def test_edition_2024_has_two_names() -> None:
    file = file_of("shop.proto", "editions")
    file.edition = descriptor_pb2.Edition.Value("EDITION_2024")
    file.message_type.add(name="Order")
    file.options.ClearField("java_multiple_files")
    try:
        found = sorted(set_of(file).messages)
    except InvalidOption:
        pytest.skip("this release of protobuf has no edition 2024")
    assert found == ["com.acme.Order", "com.acme.ShopProto$Order"]


def test_files_in_any_order_and_twice() -> None:
    first, second = file_of("a.proto"), file_of("b.proto")
    first.message_type.add(name="A")
    add(second.message_type.add(name="B"), "a", "acme.A")
    second.dependency.append("a.proto")
    assert sorted(set_of(second, first, second).messages) == ["com.acme.A", "com.acme.B"]


def test_sets_that_cannot_be_used() -> None:
    alone, other = file_of("b.proto"), file_of("b.proto")
    alone.dependency.append("a.proto")
    circle = file_of("a.proto")
    circle.dependency.append("b.proto")
    unknown = file_of("c.proto")
    add(unknown.message_type.add(name="C"), "a", "acme.Missing")
    for files, reason in (
        ((alone,), "b.proto imports a.proto, which is not in it"),
        ((alone, other), "two different files of the name b.proto"),
        ((alone, circle), "imports itself"),
        ((unknown,), "c.proto in it is not valid"),
        ((), "it has no .proto files"),
    ):
        with pytest.raises(InvalidOption, match=reason) as caught:
            _ = set_of(*files).messages
        assert "protoc --include_imports --descriptor_set_out=FILE" in (caught.value.advice or "")
    for data in (b"{}", b"\x0a\xff", unknown.SerializeToString()):
        with pytest.raises(InvalidOption, match=r"no descriptor set|no .proto files|not valid"):
            _ = DescriptorSet(data).messages


def test_the_option_is_a_path_or_bytes(tmp_path: Path) -> None:
    proto = set_of(*well_known(timestamp_pb2, any_pb2))
    path = tmp_path / "types.desc"
    path.write_bytes(proto.data)
    for given in (str(path), path, f"file://{path}", proto.data):
        assert stateproc.open(DEMO, proto=given).options.proto == proto
    for given, reason in (
        (str(tmp_path / "no.desc"), "is not there"),
        (str(tmp_path), "is a directory"),
        (b"", "it has no .proto files"),
    ):
        with pytest.raises(InvalidOption, match=reason):
            stateproc.open(DEMO, proto=given)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, orders: DescriptorSet) -> None:
    found = builtins.__import__

    def lacking(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("google"):
            raise ModuleNotFoundError(name, name=name)
        return found(name, *args, **more)

    descriptor_sets._messages.cache_clear()
    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(MissingPackage) as caught:
        stateproc.open(DEMO, proto=orders.data)
    assert caught.value.advice == "pip install 'stateproc[proto]'"
    stateproc.open(DEMO)


def test_text_of_interface_values_is_compact_json(orders: DescriptorSet) -> None:
    item = class_of(orders, "acme.Item")(sku="é").SerializeToString()
    layout = kryo(MESSAGE, default=True).layout(context(orders))
    assert json.loads(layout.read(Cursor(kryo_value("com.acme.Item", item)))) == {"sku": "é"}
