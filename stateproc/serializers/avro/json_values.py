"""Decode Avro values of recursive schemas to JSON text, one by one in Python.

Decimals are strings, bytes and fixed base64, dates and times ISO-8601, maps lists of {"key", "value"}, as
everywhere in stateproc's JSON; a value of a union of several types is an object with the branch as its key.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stateproc.codec import temporal as t
from stateproc.codec.avro_schema import AvroSchema, AvroType
from stateproc.codec.decimals import decimal_text, unscaled
from stateproc.wire import Cursor

MAX_DEPTH = 256
MAX_VALUES = 1_000_000


def read_as_json(cursor: Cursor, schema: AvroSchema, type_: AvroType, modes: t.Fidelity) -> str:
    """Decode one value of ``type_`` to JSON text. Raises CorruptSnapshot.

    ``modes`` are part of what makes two layouts equal; texts always have all digits.
    """
    return json.dumps(_AvroJsonReader(cursor, schema).read(type_))


def plain_json(text: str) -> Any:
    """Return the Python value of the JSON text."""
    return json.loads(text)


@dataclass
class _AvroJsonReader:
    cursor: Cursor
    schema: AvroSchema
    depth: int = 0
    values: int = 0

    def read(self, type_: AvroType) -> Any:
        self.values += 1
        self.depth += 1
        if self.depth > MAX_DEPTH or self.values > MAX_VALUES:
            self.cursor.unsupported(
                f"an Avro value of over {MAX_VALUES} parts or {MAX_DEPTH} levels",
                advice="too much to show as one value; if it should be small, the file is damaged",
            )
        actual = self.schema.resolve(type_)
        read = _LOGICAL.get((actual.kind, actual.logical)) or _READERS[actual.kind]
        value = read(self, actual)
        self.depth -= 1
        return value

    def floating(self, code: str, size: int) -> float | str:
        number = float(struct.unpack(code, self.cursor.take(size, "a number"))[0])
        if math.isfinite(number):
            return number
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"

    def boolean(self, type_: AvroType) -> bool:
        mark = self.cursor.u8()
        if mark > 1:
            self.cursor.corrupt(f"a boolean of {mark}")
        return mark == 1

    def string(self, type_: AvroType) -> str:
        at = self.cursor.pos
        try:
            return self.cursor.bytes32().decode("utf-8")
        except UnicodeDecodeError:
            self.cursor.corrupt("not UTF-8", at=at)

    def raw(self, type_: AvroType) -> bytes:
        if type_.kind == "fixed":
            return bytes(self.cursor.take(type_.size, "a fixed"))
        return self.cursor.bytes32()

    def blob(self, type_: AvroType) -> str:
        return base64.b64encode(self.raw(type_)).decode("ascii")

    def enum(self, type_: AvroType) -> str:
        return type_.names[self.index(len(type_.names), "constant")]

    def index(self, n: int, what: str) -> int:
        at = self.cursor.pos
        index = self.cursor.i32()
        if not 0 <= index < n:
            self.cursor.corrupt(f"{what} {index} of {n}", at=at)
        return index

    def record(self, type_: AvroType) -> dict[str, Any]:
        fields = zip(type_.names, type_.children, strict=True)
        return {name: self.read(child) for name, child in fields}

    def union(self, type_: AvroType) -> Any:
        branch = self.schema.resolve(type_.children[self.index(len(type_.children), "branch")])
        value = self.read(branch)
        others = [child for child in type_.children if self.schema.resolve(child).kind != "null"]
        return value if len(others) < 2 or branch.kind == "null" else {branch.short_name: value}

    def array(self, type_: AvroType) -> list[Any]:
        return [self.read(type_.children[0]) for _ in self.items()]

    def map(self, type_: AvroType) -> list[Any]:
        return [{"key": self.string(type_), "value": self.read(type_.children[0])} for _ in self.items()]

    def items(self) -> Any:
        """One step per item of all blocks; the values' own limit bounds items of no bytes."""
        while count := self.cursor.varint():
            if count > MAX_VALUES:
                self.cursor.corrupt(f"a block of {count} items")
            yield from range(count)

    def seconds(self, units: int, suffix: str) -> str:
        seconds, part = divmod(self.cursor.i64(), units)
        return t.iso_instant(seconds, part * (10**9 // units)) + suffix

    def time(self, value: int, units: int) -> str:
        if not 0 <= value < t.DAY_SECONDS * units:
            self.cursor.corrupt("a time of day is outside of the day")
        return t.iso_time(value * (10**9 // units))

    def decimal(self, type_: AvroType) -> str:
        return decimal_text(unscaled(self.raw(type_)), type_.scale)

    def fixed_uuid(self, type_: AvroType) -> str:
        return str(uuid.UUID(bytes=self.raw(type_))) if type_.size == 16 else self.blob(type_)


_Read = Callable[[_AvroJsonReader, AvroType], Any]
_READERS: dict[str, _Read] = {
    "null": lambda reader, type_: None,
    "boolean": _AvroJsonReader.boolean,
    "int": lambda reader, type_: reader.cursor.i32(),
    "long": lambda reader, type_: reader.cursor.i64(),
    "float": lambda reader, type_: reader.floating(">f", 4),
    "double": lambda reader, type_: reader.floating(">d", 8),
    "string": _AvroJsonReader.string,
    "bytes": _AvroJsonReader.blob,
    "fixed": _AvroJsonReader.blob,
    "enum": _AvroJsonReader.enum,
    "record": _AvroJsonReader.record,
    "union": _AvroJsonReader.union,
    "array": _AvroJsonReader.array,
    "map": _AvroJsonReader.map,
}
_LOGICAL: dict[tuple[str, str], _Read] = {
    ("int", "date"): lambda reader, type_: t.iso_date(reader.cursor.i32()),
    ("int", "time-millis"): lambda reader, type_: reader.time(reader.cursor.i32(), 10**3),
    ("long", "time-micros"): lambda reader, type_: reader.time(reader.cursor.i64(), 10**6),
    ("long", "timestamp-millis"): lambda reader, type_: reader.seconds(10**3, "Z"),
    ("long", "timestamp-micros"): lambda reader, type_: reader.seconds(10**6, "Z"),
    ("long", "timestamp-nanos"): lambda reader, type_: reader.seconds(10**9, "Z"),
    ("long", "local-timestamp-millis"): lambda reader, type_: reader.seconds(10**3, ""),
    ("long", "local-timestamp-micros"): lambda reader, type_: reader.seconds(10**6, ""),
    ("long", "local-timestamp-nanos"): lambda reader, type_: reader.seconds(10**9, ""),
    ("bytes", "decimal"): _AvroJsonReader.decimal,
    ("fixed", "decimal"): _AvroJsonReader.decimal,
    ("fixed", "uuid"): _AvroJsonReader.fixed_uuid,
}
