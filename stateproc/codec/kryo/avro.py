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

import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from stateproc.codec.avro_schema import AvroSchema, AvroType, parse_schema
from stateproc.codec.decimals import decimal_text, unscaled
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.types import STRING, FieldType
from stateproc.codec.kryo.values import KryoMap, KryoNumber, KryoObject, Moment, Text
from stateproc.codec.kryo.walker import Body, Walker
from stateproc.codec.temporal import DAY_SECONDS, iso_instant, iso_time
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.wire import Cursor

# Values of Avro's generic API by their schema, as Kryo holds them or in Avro's binary encoding.
#
# They are shown as values of AvroSerializer are: dates and times of logical types as ISO-8601, decimals as numbers, a
# union of several types as an object with the branch as its key; maps are objects.

_MAX_DEPTH = 64
_MAX_NULLS = 1 << 16
"""How many items of no bytes an array in Avro's encoding may have."""


class OtherType(Exception):
    """Internal: a value that is not of the type that its schema declares."""


class ShownValues:
    """Shows values of Avro's generic API by their schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    def of(self, type_: AvroType, value: Any, depth: int = 0) -> Any:
        if value is None or depth > _MAX_DEPTH:
            return value
        actual = self.schema.resolve(type_)
        if actual.kind == "union":
            return self._branch(actual, value, depth)
        if actual.kind == "array" and isinstance(value, list):
            return [self.of(actual.children[0], item, depth + 1) for item in value]
        if actual.kind == "map" and isinstance(value, KryoMap):
            return KryoMap([(str(key), self.of(actual.children[0], item, depth + 1)) for key, item in value.pairs])
        if not isinstance(value, _JAVA_VALUES[actual.kind]):
            raise OtherType(f"a {type(value).__name__} where Avro's {actual.kind} is declared")
        return logical_value(actual, value)

    def _branch(self, union: AvroType, value: Any, depth: int) -> Any:
        branches = [self.schema.resolve(child) for child in union.children]
        others = [branch for branch in branches if branch.kind != "null"]
        if len(others) == 1:
            return self.of(others[0], value, depth + 1)
        fitting = [branch for branch in others if _fits(branch, value)]
        if len(fitting) > 1 and isinstance(value, Text | str):
            fitting = [branch for branch in fitting if branch.kind == "string"]
        if not fitting and not isinstance(value, _CONVERTED):
            raise OtherType(f"a {type(value).__name__} in a union of {', '.join(branch.kind for branch in others)}")
        if len(fitting) != 1:
            return value
        return {fitting[0].short_name: self.of(fitting[0], value, depth + 1)}


def _fits(branch: AvroType, value: Any) -> bool:
    if isinstance(value, KryoObject):
        return branch.kind == "record" and branch.name == value.class_name
    if branch.kind == "enum":
        return isinstance(value, Text | str) and str(value) in branch.names
    if isinstance(value, bool) or branch.kind == "boolean":
        return isinstance(value, bool) and branch.kind == "boolean"
    if branch.kind == "fixed":
        return isinstance(value, bytes) and len(value) == branch.size
    return isinstance(value, _PLAIN.get(branch.kind, ()))


_PLAIN: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "string": (str, Text),
    "bytes": (bytes,),
    "array": (list,),
    "map": (KryoMap,),
}
_CONVERTED = (Moment, KryoNumber, Text)
_NUMBER = (int, float, *_CONVERTED)
_JAVA_VALUES: dict[str, tuple[type, ...]] = {
    "null": (),
    "boolean": (bool,),
    **dict.fromkeys(("int", "long", "float", "double"), _NUMBER),
    **dict.fromkeys(("string", "enum"), (str, *_CONVERTED)),
    **dict.fromkeys(("bytes", "fixed"), (bytes, *_CONVERTED)),
    "array": (list,),
    "map": (KryoMap,),
    "record": (KryoObject, dict),
}
"""Kind of a type → what its values are here, those that Avro's conversions of logical types have made too."""


def logical_value(type_: AvroType, value: Any) -> Any:
    """Show a value of a logical type; values that Avro's conversions have made already are as they are."""
    show = _LOGICAL.get((type_.kind, type_.logical))
    expected = int if type_.kind in ("int", "long") else bytes
    if show is None or isinstance(value, bool) or not isinstance(value, expected):
        return value
    shown = show(type_, value)
    return value if shown is None else shown


def _time(units: int) -> Callable[[AvroType, Any], Any]:
    def show(type_: AvroType, value: Any) -> Any:
        return Text(iso_time(value * (10**9 // units))) if 0 <= value < DAY_SECONDS * units else None

    return show


def _stamp(units: int, zone: str) -> Callable[[AvroType, Any], Any]:
    def show(type_: AvroType, value: Any) -> Any:
        seconds, part = divmod(value, units)
        return Text(iso_instant(seconds, part * (10**9 // units)) + zone)

    return show


def _decimal(type_: AvroType, value: Any) -> Any:
    return KryoNumber(decimal_text(unscaled(value), type_.scale)) if value else None


_LOGICAL: dict[tuple[str, str], Callable[[AvroType, Any], Any]] = {
    ("int", "date"): lambda type_, value: Moment("date", value),
    ("int", "time-millis"): _time(10**3),
    ("long", "time-micros"): _time(10**6),
    ("long", "timestamp-millis"): _stamp(10**3, "Z"),
    ("long", "timestamp-micros"): _stamp(10**6, "Z"),
    ("long", "timestamp-nanos"): _stamp(10**9, "Z"),
    ("long", "local-timestamp-millis"): _stamp(10**3, ""),
    ("long", "local-timestamp-micros"): _stamp(10**6, ""),
    ("long", "local-timestamp-nanos"): _stamp(10**9, ""),
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("fixed", "uuid"): lambda type_, value: Text(str(uuid.UUID(bytes=value))) if len(value) == 16 else None,
}


class AvroBinary:
    """Reads Avro's binary encoding: zigzag varints, little-endian floats, blocks of items."""

    def __init__(self, cursor: Cursor, schema: AvroSchema) -> None:
        self.cursor = cursor
        self.schema = schema
        self.data = KryoInput(cursor, 5)
        self.nulls = 0

    def read(self, type_: AvroType, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise UnsupportedSnapshot(
                f"an Avro value nested over {_MAX_DEPTH} levels deep",
                where=self.cursor.where(),
                advice="it is too deep to show as one value; read other states",
            )
        actual = self.schema.resolve(type_)
        return logical_value(actual, self._value(actual, depth + 1))

    def _value(self, type_: AvroType, depth: int) -> Any:
        kind = type_.kind
        if kind == "null":
            return None
        if kind == "boolean":
            return self.data.boolean()
        if kind in ("int", "long"):
            return self._long()
        if kind in ("float", "double"):
            return self.data.fixed(kind)
        if kind == "fixed":
            return bytes(self.cursor.take(type_.size, "a fixed"))
        if kind in ("bytes", "string"):
            return self._bytes(kind == "string")
        if kind == "enum":
            return type_.names[self._index(len(type_.names))]
        if kind == "union":
            return self._union(type_, depth)
        if kind == "array":
            return [self._item(type_.children[0], depth) for _ in self._items()]
        if kind == "map":
            return KryoMap([(self._bytes(True), self._item(type_.children[0], depth)) for _ in self._items()])
        parts = zip(type_.names, type_.children, strict=True)
        return KryoObject(type_.name, {name: self.read(child, depth) for name, child in parts})

    def _long(self) -> int:
        """A zigzag varint of up to ten bytes."""
        value = 0
        for index in range(10):
            byte = self.cursor.u8()
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        self.cursor.corrupt("a varint of over 10 bytes")

    def _bytes(self, text: bool) -> Any:
        at = self.cursor.pos
        data = bytes(self.cursor.take(self._long(), "bytes"))
        try:
            return data.decode("utf-8") if text else data
        except UnicodeDecodeError:
            self.cursor.corrupt("not UTF-8", at=at)

    def _index(self, n: int) -> int:
        at = self.cursor.pos
        index = self._long()
        if not 0 <= index < n:
            self.cursor.corrupt(f"choice {index} of {n}", at=at)
        return index

    def _union(self, type_: AvroType, depth: int) -> Any:
        branch = self.schema.resolve(type_.children[self._index(len(type_.children))])
        value = self.read(branch, depth)
        others = [child for child in type_.children if self.schema.resolve(child).kind != "null"]
        return value if len(others) < 2 or branch.kind == "null" else {branch.short_name: value}

    def _item(self, type_: AvroType, depth: int) -> Any:
        at = self.cursor.pos
        value = self.read(type_, depth)
        self.nulls += self.cursor.pos == at
        if self.nulls > _MAX_NULLS:
            self.cursor.corrupt("too many items of no bytes", at=at)
        return value

    def _items(self) -> Any:
        """One step per item of all blocks: the number of items (negative: then the block's size), 0 at the end."""
        while count := self._long():
            if count < 0:
                self._long()
            yield from range(abs(count))


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
