"""Protobuf and Thrift messages in Kryo values: a length and the message's bytes.

* chill's ProtobufSerializer and TBaseSerializer: varint length, the message. JavaKaffee's ProtobufSerializer: varint
  length + 1, the message; 0 is null.
* Protobuf: fields, see protobuf/message_types.py.
* Thrift (TBinaryProtocol) struct: fields of u8 type, i16 id and a value; u8 0 ends it.
"""

from __future__ import annotations

from stateproc.codec.kryo.protobuf.message_types import BadMessage, read_tag, skip_field
from stateproc.codec.kryo.types import FieldType
from stateproc.codec.kryo.values import KryoMessage
from stateproc.codec.kryo.walk_errors import OtherMessage, refuse_message, undeclared_message
from stateproc.codec.kryo.walker import Body, Walker
from stateproc.errors import CorruptSnapshot
from stateproc.wire import Cursor

_MAX_DEPTH = 64
_STRUCT, _MAP, _SET, _LIST, _STRING = 12, 13, 14, 15, 11
_THRIFT_SIZES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
"""Thrift's type → bytes of a value: bool, byte, double, i16, i32, i64."""


def _nullable_protobuf(w: Walker, type_: FieldType) -> bytes | KryoMessage | None:
    length = w.data.varint()
    return None if length == 0 else _of_class(w, type_.name, length - 1)


def _of_class(w: Walker, class_name: str, length: int) -> bytes | KryoMessage:
    """A message of a type of the descriptor set; without a set its bytes.

    Their form is checked where it is not certain that they are a message.
    """
    at = w.data.cursor.pos
    data = _message(w, length)
    known = w.setting.messages.get(class_name)
    if known is None:
        if not w.certain:
            check_protobuf(Cursor(data))
        if w.setting.messages:
            message, advice = undeclared_message(class_name, w.setting.message_set)
            raise OtherMessage(message, where=w.data.cursor.where(at), advice=advice)
        return data
    try:
        return KryoMessage(class_name, data, known.read(data))
    except BadMessage as error:
        where = w.data.cursor.where(at)
        raise refuse_message(class_name, w.setting.message_set, str(error), is_protobuf(data), where) from error


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
        skip_field(cursor, *read_tag(cursor))


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
    CHILL_PROTOBUF: lambda w, type_: _of_class(w, type_.name, w.data.varint()),
    "de.javakaffee.kryoserializers.protobuf.ProtobufSerializer": _nullable_protobuf,
}
MESSAGE_SERIALIZERS: dict[str, Body] = {
    **PROTOBUF_SERIALIZERS,
    "com.twitter.chill.thrift.TBaseSerializer": _thrift,
}
"""Serializers of messages → readers of their bytes."""
