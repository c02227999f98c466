"""Avro's generic values in Kryo: records, enums, fixed, strings and arrays, shown by the schema that each contains.

* A schema, as flink-avro's AvroSchemaSerializer writes it: its JSON, a string.
* GenericData$Record, EnumSymbol, Fixed: the fields of the class: schema and values (Object[]), schema and symbol, bytes
  and schema. Utf8: bytes, hash (since Avro 1.10), length, string. java.nio.HeapByteBuffer: address, bigEndian,
  capacity, hb, isReadOnly, limit, mark, nativeByteOrder, offset, position, segment (since Java 16).
* flink-avro 2.x (AvroGenericRecordSerializer, AvroGenericDataArraySerializer): the schema's JSON, varint length, the
  value in Avro's binary encoding.

The values of a record are those of Avro's generic API. They are shown as values of AvroSerializer are: dates and times
of logical types as ISO-8601, decimals as numbers, a union of several types as an object with the branch as its key;
maps are objects. A value of a branch that is not known (int or long) is shown without.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stateproc.codec.avro_schema import AvroSchema, parse_schema
from stateproc.codec.kryo.avro_values import AvroBinary, OtherType, ShownValues
from stateproc.codec.kryo.types import STRING, FieldType
from stateproc.codec.kryo.values import KryoObject, Text
from stateproc.codec.kryo.walker import Body, Walker
from stateproc.errors import SnapshotError

_PACKAGE = "org.apache.avro."
_GENERIC = f"{_PACKAGE}generic."
_BYTES = FieldType("[]", (FieldType("byte"),))


class SchemaText(str):
    """A schema's JSON text."""


# --- the objects of Avro's generic API ----------------------------------------------------------------------
def _schema(w: Walker, type_: FieldType) -> SchemaText:
    at = w.data.cursor.pos
    text = w.data.string()
    if text is None:
        w.data.cursor.corrupt("an Avro schema without its text", at=at)
    _parsed(w, text, at)
    return SchemaText(text)


def _parsed(w: Walker, text: str, at: int) -> AvroSchema:
    try:
        return _parse(text)
    except SnapshotError as error:
        place = w.data.cursor.where(at)
        raise error.at(file=place.file, offset=place.offset) from error


@lru_cache(maxsize=256)
def _parse(text: str) -> AvroSchema:
    return parse_schema(text)


def _schema_of(w: Walker) -> AvroSchema:
    """The field ``schema``, an object by class."""
    at = w.data.cursor.pos
    text = w.by_class()
    if not isinstance(text, SchemaText):
        w.data.cursor.corrupt("an Avro value without its schema", at=at)
    return _parse(text)


def _schema_by_fields(w: Walker, type_: FieldType) -> Any:
    return w.data.cursor.unsupported(
        f"a Kryo value holds an Avro schema ({type_.name}) by the fields of its class, which the job wrote without "
        "flink-avro's serializer of schemas",
        advice="flink-avro on the job's class path writes schemas as text, with which values can be read",
    )


def _record(w: Walker, type_: FieldType) -> KryoObject:
    schema = _schema_of(w)
    at = w.data.cursor.pos
    values = w.by_class()
    root = schema.root
    if root.kind != "record" or not isinstance(values, list) or len(values) != len(root.names):
        w.data.cursor.corrupt("an Avro record whose values are not those of its schema", at=at)
    parts = zip(root.names, root.children, values, strict=True)
    try:
        return KryoObject(root.name, {name: ShownValues(schema).of(child, value) for name, child, value in parts})
    except OtherType as error:
        w.data.cursor.corrupt(f"an Avro record whose values are not those of its schema: {error}", at=at)


def _enum_symbol(w: Walker, type_: FieldType) -> Text | None:
    w.by_class()
    symbol = w.known(FieldType(STRING))
    return None if symbol is None else Text(symbol)


def _fixed(w: Walker, type_: FieldType) -> Any:
    data = w.known(_BYTES)
    w.by_class()
    return data


def _utf8(w: Walker, type_: FieldType) -> Text:
    """The text; the hash is 0 until it is asked for."""
    at = w.data.cursor.pos
    data = w.known(_BYTES) or b""
    has_hash = w.guesses.choose(f"fields of {type_.name}", 2) == 0
    hashed = w.data.zigzag() if has_hash else 0
    length = w.data.zigzag()
    text = w.known(FieldType(STRING))
    if not 0 <= length <= len(data) or (hashed and hashed not in _hashes(data[:length])):
        w.data.cursor.corrupt(f"no text of {length} bytes", at=at)
    try:
        decoded = data[:length].decode("utf-8")
    except UnicodeDecodeError:
        w.data.cursor.corrupt("an Avro text that is not UTF-8", at=at)
    return Text(decoded if text is None else text)


def _hashes(data: bytes) -> tuple[int, int]:
    """Utf8.hashCode of Avro's releases: it begins with 0 or 1."""
    found = []
    for value in (0, 1):
        for byte in data:
            value = (value * 31 + byte - (byte >> 7 << 8)) & 0xFFFFFFFF
        found.append(value - (value >> 31 << 32))
    return found[0], found[1]


def _byte_buffer(w: Walker, type_: FieldType) -> bytes:
    """The bytes between position and limit."""
    at = w.data.cursor.pos
    w.data.zigzag_long()  # address
    w.data.boolean()  # bigEndian
    capacity = w.data.zigzag()
    data = w.known(_BYTES) or b""
    w.data.boolean()  # isReadOnly
    limit = w.data.zigzag()
    w.data.zigzag()  # mark
    w.data.boolean()  # nativeByteOrder
    offset, position = w.data.zigzag(), w.data.zigzag()
    if w.guesses.choose(f"fields of {type_.name}", 2) == 0 and w.by_class() is not None:
        w.data.cursor.corrupt("a buffer of the heap that has a memory segment", at=at)
    if not (offset >= 0 and 0 <= position <= limit <= capacity <= len(data) - offset):
        w.data.cursor.corrupt("a buffer outside of its array", at=at)
    return bytes(data[offset + position : offset + limit])


# --- Avro's binary encoding ---------------------------------------------------------------------------------
def _encoded(w: Walker, type_: FieldType) -> Any:
    at = w.data.cursor.pos
    text = w.data.string()
    if text is None:
        w.data.cursor.corrupt("an Avro value without its schema", at=at)
    schema = _parsed(w, text, at)
    part = w.data.cursor.part(w.data.count(w.data.varint(), "bytes of an Avro value"))
    value = AvroBinary(part, schema).read(schema.root, 0)
    part.finish("an Avro value")
    return value


_FLINK = "org.apache.flink.formats.avro.utils.AvroKryoSerializerUtils$"
_SCHEMAS = ("Array", "Boolean", "Bytes", "Double", "Enum", "Fixed", "Float", "Int", "Long", "Map", "Null")
AVRO_BODIES: dict[str, Body] = {
    f"{_GENERIC}GenericData$Record": _record,
    f"{_GENERIC}GenericData$EnumSymbol": _enum_symbol,
    f"{_GENERIC}GenericData$Fixed": _fixed,
    f"{_PACKAGE}util.Utf8": _utf8,
    "java.nio.HeapByteBuffer": _byte_buffer,
    "java.nio.HeapByteBufferR": _byte_buffer,
    **{f"{_PACKAGE}Schema${kind}Schema": _schema_by_fields for kind in (*_SCHEMAS, "Record", "String", "Union")},
}
"""Classes of Avro → readers of their objects."""
AVRO_SERIALIZERS: dict[str, Body] = {
    f"{_FLINK}AvroSchemaSerializer": _schema,
    f"{_FLINK}AvroGenericRecordSerializer": _encoded,
    f"{_FLINK}AvroGenericDataArraySerializer": _encoded,
}
"""flink-avro's serializers → readers of what they write."""
AVRO_SCHEMA = f"{_PACKAGE}Schema"
AVRO_TYPES = frozenset(
    [f"{_GENERIC}{name}" for name in ("GenericRecord", "GenericContainer", "IndexedRecord", "GenericData$Record")]
    + [f"{_GENERIC}{name}" for name in ("GenericArray", "GenericFixed", "GenericEnumSymbol")]
    + [f"{_GENERIC}GenericData${name}" for name in ("Array", "EnumSymbol", "Fixed")]
)
"""Types whose values contain a schema."""
