"""Values of Avro's generic API by their schema, as Kryo holds them or in Avro's binary encoding.

They are shown as values of AvroSerializer are: dates and times of logical types as ISO-8601, decimals as numbers, a
union of several types as an object with the branch as its key; maps are objects.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from stateproc.codec.avro_schema import AvroSchema, AvroType
from stateproc.codec.decimals import decimal_text, unscaled
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.values import KryoMap, KryoNumber, KryoObject, Moment, Text
from stateproc.codec.temporal import DAY_SECONDS, iso_instant, iso_time
from stateproc.errors import UnsupportedSnapshot
from stateproc.wire import Cursor

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


def _date(type_: AvroType, value: Any) -> Moment:
    return Moment("date", value)


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


def _uuid(type_: AvroType, value: Any) -> Any:
    return Text(str(uuid.UUID(bytes=value))) if len(value) == 16 else None


_LOGICAL: dict[tuple[str, str], Callable[[AvroType, Any], Any]] = {
    ("int", "date"): _date,
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
    ("fixed", "uuid"): _uuid,
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
