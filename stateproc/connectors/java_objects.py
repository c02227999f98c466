"""Java object streams within the values of connectors: kept as bytes, and shown."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import pyarrow as pa

from stateproc.connectors.structures import UTF, Structure, checked, converted, is_text
from stateproc.errors import SnapshotError
from stateproc.wire.cursor import Cursor
from stateproc.wire.java_plain import to_plain
from stateproc.wire.java_stream import JavaArray, JavaObject, read_java_object

HEADER = b"\xac\xed\x00\x05"
_HEX = re.compile("aced0005([0-9a-f]{2})*")


def java_stream(of: Structure) -> Structure:
    """Refuse bytes that are no Java object stream."""
    return checked(of, lambda value: value.startswith(HEADER), "a Java object stream")


HEX_STREAM = converted(
    checked(UTF, lambda value: _HEX.fullmatch(value) is not None, "a Java object stream in hex digits"),
    pa.binary(),
    bytes.fromhex,
    bytes.hex,
)
"""A Java object stream as lower-case hex digits in a text."""


def java_object(data: bytes) -> Any:
    """Return the object of a stream (see `read_java_object`); None if it cannot be read."""
    cursor = Cursor(data)
    try:
        value = read_java_object(cursor)
        cursor.finish("the object")
    except SnapshotError:
        return None
    return value


def java_plain(data: bytes) -> Any:
    """Return the object of a stream as plain values (see `to_plain`); None if it cannot be read."""
    try:
        return to_plain(java_object(data))
    except SnapshotError:
        return None


@lru_cache(maxsize=1 << 16)
def java_texts(data: bytes) -> list[str | None] | None:
    """Return the elements of an Object[] as text; None if the stream contains null or something else."""
    plain = java_plain(data)
    if not isinstance(plain, list):
        return None
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in plain]
    return texts if all(value is None or is_text(value) for value in texts) else None


def class_name(data: bytes) -> str | None:
    """Return the class of the object of a stream, None if it is null or cannot be read."""
    value = java_object(data)
    return value.class_name if isinstance(value, JavaObject | JavaArray) and is_text(value.class_name) else None
