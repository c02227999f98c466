"""Bytes of serializer snapshots and Java objects, put together by hand for tests."""

from __future__ import annotations

import struct
from typing import Any

from stateproc.serializers import families  # noqa: F401
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.core.registry import read_versioned
from stateproc.wire import Cursor

BASE = "org.apache.flink.api.common.typeutils.base."
TYPES = "org.apache.flink.table.types.logical."
TYPEUTILS = "org.apache.flink.table.runtime.typeutils."


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def i32(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def i64(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}q", *numbers)


def versioned(class_name: str, version: int, payload: bytes = b"") -> bytes:
    return utf(class_name) + i32(version) + payload


def scalar(name: str) -> bytes:
    return versioned(f"{BASE}{name}Serializer${name}SerializerSnapshot", 3)


def nested(*parts: bytes) -> bytes:
    return i32(1333245, 1, len(parts)) + b"".join(parts)


def composite(class_name: str, outer_version: int, *parts: bytes, outer: bytes = b"") -> bytes:
    return versioned(class_name, 3, i32(911108, outer_version) + outer + nested(*parts))


def read(snapshot: bytes) -> Serializer:
    """The serializer of ``snapshot``, all of which must be read."""
    cursor = Cursor(snapshot)
    serializer = read_versioned(cursor)
    cursor.finish("the snapshot")
    return serializer


class JavaEnumOf(str):
    """The constant of a LogicalTypeRoot, to be written as an enum."""


def java(class_name: str, fields: dict[str, Any]) -> bytes:
    """A Java object stream of one object; values: int, bool, str, JavaEnumOf, a list, (class name, fields)."""
    return b"\xac\xed\x00\x05" + _object(class_name, fields)


def _object(class_name: str, fields: dict[str, Any]) -> bytes:
    described = b"\x72" + utf(class_name) + i64(1) + b"\x02" + struct.pack(">H", len(fields))
    for name, value in fields.items():
        code = "Z" if isinstance(value, bool) else "I" if isinstance(value, int) else "L"
        described += code.encode() + utf(name) + (b"" if code != "L" else b"\x74" + utf("Ljava/lang/Object;"))
    return b"\x73" + described + b"\x78\x70" + b"".join(_value(value) for value in fields.values())


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, int):
        return i32(value)
    if isinstance(value, JavaEnumOf):
        descriptor = b"\x72" + utf(TYPES + "LogicalTypeRoot") + i64(0) + b"\x12\0\0\x78\x70"
        return b"\x7e" + descriptor + b"\x74" + utf(value)
    if isinstance(value, str):
        return b"\x74" + utf(value)
    if isinstance(value, list):
        array = b"\x75\x72" + utf("[Ljava.lang.Object;") + i64(1) + b"\x02\0\0\x78\x70"
        return array + i32(len(value)) + b"".join(map(_value, value))
    return _object(*value)


def sql_type(class_name: str, root: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return TYPES + class_name, {"isNullable": True, "typeRoot": JavaEnumOf(root)} | fields


INT, STRING = sql_type("IntType", "INTEGER"), sql_type("VarCharType", "VARCHAR", length=2**31 - 1)


def row_data(*types: tuple[str, dict[str, Any]], names: tuple[str, ...] | None = None) -> bytes:
    """A RowDataSerializerSnapshot, of version 4 if there are names."""
    payload = i32(len(types)) + b"".join(java(*type_) for type_ in types)
    payload += nested(*(scalar("Int") for _ in types))
    if names is not None:
        payload += b"\x01" + b"".join(utf(name) for name in names)
    return versioned(TYPEUTILS + "RowDataSerializer$RowDataSerializerSnapshot", 3 if names is None else 4, payload)


def slots(kind: int, nulls: int, *words: int, tail: bytes = b"") -> bytes:
    """A serialized BinaryRow of up to 56 fields; ``nulls`` has bit i set for a null in field i."""
    row = struct.pack("<Q", kind | nulls << 8) + b"".join(struct.pack("<Q", word) for word in words) + tail
    return i32(len(row)) + row
