"""Protobuf and Thrift messages in Kryo values: a length and the message's bytes.

* chill's ProtobufSerializer and TBaseSerializer: varint length, the message. JavaKaffee's ProtobufSerializer: varint
  length + 1, the message; 0 is null.
* Protobuf: fields of varint (number << 3 | wire type) and a value: 0 varint, 1 eight bytes, 2 varint length and
  bytes, 5 four bytes.
* Thrift (TBinaryProtocol) struct: fields of u8 type, i16 id and a value; u8 0 ends it.
"""

from __future__ import annotations

from stateproc.codec.kryo.types import FieldType
from stateproc.codec.kryo.walker import Body, Walker
from stateproc.errors import CorruptSnapshot
from stateproc.wire import Cursor

_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_LAST_FIELD = (1 << 29) - 1
_MAX_DEPTH = 64
_STRUCT, _MAP, _SET, _LIST, _STRING = 12, 13, 14, 15, 11
_THRIFT_SIZES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
"""Thrift's type → bytes of a value: bool, byte, double, i16, i32, i64."""


def _protobuf(w: Walker, type_: FieldType) -> bytes:
    """A message; where it is not certain that it is one, its form is checked."""
    data = _message(w, w.data.varint())
    if not w.certain:
        check_protobuf(Cursor(data))
    return data


def _nullable_protobuf(w: Walker, type_: FieldType) -> bytes | None:
    length = w.data.varint()
    if length == 0:
        return None
    data = _message(w, length - 1)
    if not w.certain:
        check_protobuf(Cursor(data))
    return data


def _thrift(w: Walker, type_: FieldType) -> bytes:
    data = _message(w, w.data.varint())
    if not w.certain:
        cursor = Cursor(data)
        _check_struct(cursor, 0)
        cursor.finish("a Thrift struct")
    return data


def _message(w: Walker, length: int) -> bytes:
    return w.data.bytes(w.data.count(length, "bytes of a message"))


def check_protobuf(cursor: Cursor) -> None:
    """Raise CorruptSnapshot unless the bytes are fields of a Protobuf message."""
    while cursor.remaining:
        at = cursor.pos
        number, wire_type = divmod(_varint64(cursor), 8)
        if not 1 <= number <= _LAST_FIELD:
            cursor.corrupt(f"a Protobuf field of number {number}", at=at)
        if wire_type == _VARINT:
            _varint64(cursor)
        elif wire_type in (_EIGHT_BYTES, _FOUR_BYTES):
            cursor.take(8 if wire_type == _EIGHT_BYTES else 4, "a number")
        elif wire_type == _SIZED:
            cursor.take(_varint64(cursor), "a Protobuf field")
        else:
            cursor.corrupt(f"a Protobuf field of wire type {wire_type}", at=at)


def _varint64(cursor: Cursor) -> int:
    value = 0
    for index in range(10):
        byte = cursor.u8()
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value
    cursor.corrupt("a varint of over 10 bytes")


def _check_struct(cursor: Cursor, depth: int) -> None:
    while (kind := cursor.u8()) != 0:
        cursor.i16()
        _check_thrift(cursor, kind, depth + 1)


def _check_thrift(cursor: Cursor, kind: int, depth: int) -> None:
    if depth > _MAX_DEPTH:
        cursor.corrupt("a Thrift struct nested too deep")
    if kind in _THRIFT_SIZES:
        cursor.take(_THRIFT_SIZES[kind], "a number")
    elif kind == _STRING:
        cursor.bytes32()
    elif kind == _STRUCT:
        _check_struct(cursor, depth)
    elif kind == _MAP:
        key, value = cursor.u8(), cursor.u8()
        for _ in range(cursor.count("Thrift entries", 2)):
            _check_thrift(cursor, key, depth + 1)
            _check_thrift(cursor, value, depth + 1)
    elif kind in (_SET, _LIST):
        item = cursor.u8()
        for _ in range(cursor.count("Thrift elements")):
            _check_thrift(cursor, item, depth + 1)
    else:
        cursor.corrupt(f"a Thrift value of type {kind}")


def is_protobuf(data: bytes) -> bool:
    """Whether the bytes are fields of a Protobuf message."""
    try:
        check_protobuf(Cursor(data))
    except CorruptSnapshot:
        return False
    return True


CHILL_PROTOBUF = "com.twitter.chill.protobuf.ProtobufSerializer"
PROTOBUF_SERIALIZERS: dict[str, Body] = {
    CHILL_PROTOBUF: _protobuf,
    "de.javakaffee.kryoserializers.protobuf.ProtobufSerializer": _nullable_protobuf,
}
MESSAGE_SERIALIZERS: dict[str, Body] = {
    **PROTOBUF_SERIALIZERS,
    "com.twitter.chill.thrift.TBaseSerializer": _thrift,
}
"""Serializers of messages → readers of their bytes."""
