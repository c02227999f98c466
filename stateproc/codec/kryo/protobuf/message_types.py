"""Types of Protobuf messages, and their bytes as Python values.

Fields are there or not: one with presence (a message, a member of a oneof, ``optional``, proto2's fields) is left out
where the bytes lack it; others have their default. Extensions and unknown fields are left out.

Protobuf itself takes a field of another wire type for an unknown one and cuts numbers to the width of their field, so
that messages of other types would have defaults and other numbers. `check_fields` finds both in the bytes.

A field is a varint (number << 3 | wire type) and a value. Wire types: 0 varint, 1 eight bytes, 2 varint length and
bytes, 3 the fields of a group up to 4 of the same number, 5 four bytes. Numbers that are repeated may be packed: wire
type 2 around their values. Negative numbers of int32 and of enums have ten bytes, as if they were int64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from stateproc.codec.kryo.values import KryoMap
from stateproc.errors import CorruptSnapshot
from stateproc.wire import Cursor

VARINT, EIGHT_BYTES, SIZED, GROUP, END_GROUP, FOUR_BYTES = range(6)
MAX_DEPTH = 100
_LAST_FIELD = (1 << 29) - 1


def read_tag(cursor: Cursor) -> tuple[int, int]:
    """Return number and wire type of the next field. Raises CorruptSnapshot."""
    at = cursor.pos
    number, wire_type = divmod(read_varint(cursor), 8)
    if not 1 <= number <= _LAST_FIELD:
        cursor.corrupt(f"a Protobuf field of number {number}", at=at)
    if wire_type > FOUR_BYTES:
        cursor.corrupt(f"a Protobuf field of wire type {wire_type}", at=at)
    return number, wire_type


def read_varint(cursor: Cursor) -> int:
    """Return a varint of at most 64 bits. Raises CorruptSnapshot."""
    value = 0
    for index in range(10):
        byte = cursor.u8()
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & (2**64 - 1)
    cursor.corrupt("a varint of over 10 bytes")


def skip_field(cursor: Cursor, number: int, wire_type: int, depth: int = 0) -> None:
    """Pass over the value of a field. Raises CorruptSnapshot."""
    if wire_type == VARINT:
        read_varint(cursor)
    elif wire_type in (EIGHT_BYTES, FOUR_BYTES):
        cursor.take(8 if wire_type == EIGHT_BYTES else 4, "a number")
    elif wire_type == SIZED:
        cursor.take(read_varint(cursor), "a Protobuf field")
    elif wire_type == GROUP and depth < MAX_DEPTH:
        while True:
            inner, kind = read_tag(cursor)
            if kind == END_GROUP:
                break
            skip_field(cursor, inner, kind, depth + 1)
        if inner != number:
            cursor.corrupt(f"the end of group {inner} within group {number}")
    else:
        cursor.corrupt("the end of a group that has not begun" if depth < MAX_DEPTH else "groups nested too deep")


_DOUBLE, _FLOAT, _INT64, _UINT64, _INT32, _FIXED64, _FIXED32, _BOOL, _STRING, _GROUP = range(1, 11)
_MESSAGE, _BYTES, _UINT32, _ENUM, _SFIXED32, _SFIXED64, _SINT32, _SINT64 = range(11, 19)
_WIRE_TYPES = {
    **dict.fromkeys((_INT64, _UINT64, _INT32, _BOOL, _UINT32, _ENUM, _SINT32, _SINT64), VARINT),
    **dict.fromkeys((_DOUBLE, _FIXED64, _SFIXED64), EIGHT_BYTES),
    **dict.fromkeys((_FLOAT, _FIXED32, _SFIXED32), FOUR_BYTES),
    **dict.fromkeys((_STRING, _MESSAGE, _BYTES), SIZED),
    _GROUP: GROUP,
}
"""FieldDescriptorProto.Type → wire type."""
_FORMS = {
    VARINT: "a varint",
    EIGHT_BYTES: "8 bytes",
    SIZED: "bytes with their length",
    GROUP: "a group",
    FOUR_BYTES: "4 bytes",
}
_SIGNED_32 = (_INT32, _ENUM)
_UNSIGNED = {_UINT32: 32, _SINT32: 32, _BOOL: 1}
_KINDS = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "uint64",
    7: "uint32",
    8: "bool",
    9: "string",
    10: "message",
    11: "message",
    12: "bytes",
    13: "uint32",
    14: "enum",
    15: "int32",
    16: "int64",
    17: "int32",
    18: "int64",
}
"""FieldDescriptorProto.Type → kind: fixed and zig-zag numbers are numbers, groups are messages."""


class BadMessage(Exception):
    """Bytes that are no message of their type; the message says why."""


@dataclass(frozen=True)
class WireField:
    """A field as the bytes have it: its name, its FieldDescriptorProto.Type, the type of messages in it."""

    name: str
    type: int
    repeated: bool
    message: MessageType | None


@dataclass(frozen=True, eq=False)
class MessageField:
    """A field.

    Attributes:
        name: As the .proto file has it.
        kind: A value of _KINDS; of a map "map".
        repeated: Whether the field is a list.
        message: The type of messages; of a map that of its entries, whose fields are ``key`` and ``value``.
    """

    name: str
    kind: str
    repeated: bool
    message: MessageType | None
    number: int
    convert: Callable[[Any], Any]
    default: Callable[[], Any] | None
    """Makes the value of a field that the bytes lack; None if it has presence."""


class MessageTypes:
    """The types of a pool of descriptors, by full name."""

    def __init__(self) -> None:
        self._made: dict[str, MessageType] = {}

    def of(self, descriptor: Any) -> MessageType:
        """Return the type of a descriptor."""
        name = descriptor.full_name
        if name not in self._made:
            self._made[name] = MessageType(self, descriptor)
        return self._made[name]


class MessageType:
    """A type of messages: ``full_name`` and ``fields``, as the .proto file declares them."""

    def __init__(self, types: MessageTypes, descriptor: Any) -> None:
        self.full_name: str = descriptor.full_name
        self._types = types
        self._descriptor = descriptor

    @cached_property
    def fields(self) -> tuple[MessageField, ...]:
        """The fields in the order of the .proto file."""
        # What descriptors say of a field themselves depends on the release of the package protobuf.
        written = self._types_module.DescriptorProto()
        self._descriptor.CopyToProto(written)
        repeated = self._types_module.FieldDescriptorProto.LABEL_REPEATED
        labels = {field.number: field.label == repeated for field in written.field}
        return tuple(self._field(field, labels[field.number]) for field in self._descriptor.fields)

    @cached_property
    def is_map_entry(self) -> bool:
        """Whether the messages are entries of a map."""
        return bool(self._descriptor.GetOptions().map_entry)

    @cached_property
    def _types_module(self) -> Any:
        from google.protobuf import descriptor_pb2

        return descriptor_pb2

    @cached_property
    def _class(self) -> Any:
        from google.protobuf import message_factory

        return message_factory.GetMessageClass(self._descriptor)

    def read(self, data: bytes) -> dict[str, Any]:
        """Return the fields of a message in bytes. Raises BadMessage."""
        from google.protobuf.message import DecodeError

        try:
            message = self._class.FromString(data)
        except (DecodeError, ValueError) as error:
            raise BadMessage(str(error)) from error
        if not message.IsInitialized():
            missing = message.FindInitializationErrors()
            raise BadMessage(f"it lacks the required field {', '.join(missing[:3])}")
        check_fields(data, self)
        return self._values(message)

    @cached_property
    def wire_fields(self) -> dict[int, WireField]:
        """The fields by number, as the bytes have them."""
        types = {field.number: field.type for field in self._descriptor.fields}
        return {
            field.number: WireField(field.name, types[field.number], field.repeated, field.message)
            for field in self.fields
        }

    def _values(self, message: Any) -> dict[str, Any]:
        given = {field.number: value for field, value in message.ListFields() if not field.is_extension}
        values = {}
        for field in self.fields:
            if field.number in given:
                values[field.name] = field.convert(given[field.number])
            elif field.default is not None:
                values[field.name] = field.default()
        return values

    def _field(self, field: Any, repeated: bool) -> MessageField:
        kind = _KINDS[field.type]
        message = self._types.of(field.message_type) if kind == "message" else None
        if message is not None and message.is_map_entry:
            return MessageField(field.name, "map", False, message, field.number, _map_reader(message), KryoMap)
        one = _reader(kind, field, message)
        if repeated:
            many = partial(_list, one=one)
            return MessageField(field.name, kind, True, message, field.number, many, list)
        make = None if field.has_presence else partial(one, field.default_value)
        return MessageField(field.name, kind, False, message, field.number, one, make)


def _reader(kind: str, field: Any, message: MessageType | None) -> Callable[[Any], Any]:
    """Return what converts one value of a field."""
    if message is not None:
        return message._values
    if kind == "string":
        return _text
    if kind == "enum":
        names: dict[int, str] = {}
        for value in field.enum_type.values:
            names.setdefault(value.number, value.name)
        return lambda number: names.get(number, str(number))
    return _same


def _map_reader(entry: MessageType) -> Callable[[Any], KryoMap]:
    key, value = (next(field for field in entry.fields if field.name == name) for name in ("key", "value"))

    def read(found: Any) -> KryoMap:
        # By key: the package returns entries in no order of theirs.
        return KryoMap([(key.convert(name), value.convert(found[name])) for name in sorted(found)])

    return read


def _list(values: Iterable[Any], one: Callable[[Any], Any]) -> list[Any]:
    return [one(value) for value in values]


def _text(value: Any) -> str:
    """Proto2 allows bytes that are no UTF-8, which the package returns as they are; Java shows them so, too."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _same(value: Any) -> Any:
    return value


def check_fields(data: bytes, type_: MessageType) -> None:
    """Raise BadMessage where a field of another wire type, or a number that is too wide, has the number of a field.

    Fields of unknown numbers may have any form.
    """
    try:
        _check_message(Cursor(data), type_, 0, None)
    except CorruptSnapshot as error:
        raise BadMessage(error.message) from error


def _check_message(cursor: Cursor, type_: MessageType, depth: int, group: int | None) -> None:
    """Check the fields up to the end, or up to the end of a group."""
    if depth > MAX_DEPTH:
        raise BadMessage("messages are nested too deep")
    fields = type_.wire_fields
    while group is not None or cursor.remaining:
        number, wire_type = read_tag(cursor)
        if wire_type == END_GROUP and group is not None:
            if number != group:
                raise BadMessage(f"the end of group {number} within group {group}")
            return
        field = fields.get(number)
        if field is None:
            skip_field(cursor, number, wire_type)
        else:
            _check_field(cursor, field, number, wire_type, depth)


def _check_field(cursor: Cursor, field: WireField, number: int, wire_type: int, depth: int) -> None:
    expected = _WIRE_TYPES[field.type]
    packed = wire_type == SIZED and field.repeated and expected in (VARINT, EIGHT_BYTES, FOUR_BYTES)
    if wire_type != expected and not packed:
        form = _FORMS.get(wire_type, "the end of a group")
        raise BadMessage(f"the field {field.name} is {form}, and declared as {_FORMS[expected]}")
    if field.message is not None:
        if expected == GROUP:
            _check_message(cursor, field.message, depth + 1, number)
        else:
            inner = cursor.take(read_varint(cursor), "a Protobuf field")
            _check_message(Cursor(bytes(inner)), field.message, depth + 1, None)
    elif expected != VARINT:
        skip_field(cursor, number, wire_type)
    elif packed:
        values = Cursor(bytes(cursor.take(read_varint(cursor), "a Protobuf field")))
        while values.remaining:
            _check_width(read_varint(values), field)
    else:
        _check_width(read_varint(cursor), field)


def _check_width(value: int, field: WireField) -> None:
    if field.type in _SIGNED_32:
        fits = value < 1 << 31 or value >= (1 << 64) - (1 << 31)
    else:
        fits = value >> _UNSIGNED.get(field.type, 64) == 0
    if not fits:
        raise BadMessage(f"the number {value} of the field {field.name} is too large")
