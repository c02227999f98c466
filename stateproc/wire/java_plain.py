"""Java values as plain Python ones that json can write."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from stateproc.errors import UnsupportedSnapshot
from stateproc.wire.java_collections import java_list, java_map
from stateproc.wire.java_values import JavaArray, JavaClass, JavaEnum, JavaObject, JavaValue

MAX_NODES = 1_000_000
MAX_ECHO = 1 << 25
"""Characters that references may repeat."""
MAX_DEPTH = 128
_LONGEST_NUMBER = 1024

_BOXES = frozenset(
    f"java.lang.{name}" for name in ("Boolean", "Byte", "Character", "Double", "Float", "Integer", "Long", "Short")
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_plain(value: JavaValue) -> Any:
    """``value`` of None, bool, int, float, str, list and dict only.

    Boxed values, BigInteger, enums (their constant) and classes (their name) stand for themselves;
    BigDecimal, UUID and Date (ISO-8601, UTC) are strings, bytes base64. Collections are lists, maps lists of
    {"key", "value"}. Any other object is {"class": name, "fields": {…}}, with "written" for what its class
    wrote by itself. A reference back to an enclosing object is {"class": name, "cycle": true}. Raises
    UnsupportedSnapshot for graphs of over a million values or 128 levels, and where references repeat over 32 million
    characters or bytes.
    """
    return _Plain().of(value)


class _Plain:
    def __init__(self) -> None:
        self.nodes = 0
        self.path: list[int] = []
        self.seen: set[int] = set()
        self.echoed = 0

    def of(self, value: JavaValue) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or len(self.path) > MAX_DEPTH:
            raise UnsupportedSnapshot(
                f"a Java object graph of over {MAX_NODES} values or {MAX_DEPTH} levels",
                advice="too much to show as one value",
            )
        if isinstance(value, str | bytes):
            self.bound(value)
        if isinstance(value, bytes):
            return base64.b64encode(value).decode("ascii")
        if isinstance(value, JavaEnum):
            return value.constant
        if isinstance(value, JavaClass):
            return value.class_name
        if not isinstance(value, JavaObject | JavaArray):
            return value
        if id(value) in self.path:
            return {"class": value.class_name, "cycle": True}
        self.path.append(id(value))
        plain = self.composite(value)
        self.path.pop()
        return plain

    def bound(self, text: str | bytes) -> None:
        """Refuse text repeated too often: a stream holds it once."""
        if id(text) not in self.seen:
            self.seen.add(id(text))
            return
        self.echoed += len(text)
        if self.echoed > MAX_ECHO:
            raise UnsupportedSnapshot(
                f"references repeat over {MAX_ECHO} characters in a Java object graph",
                advice="too much to show as one value",
            )

    def composite(self, value: JavaObject | JavaArray) -> Any:
        if isinstance(value, JavaArray) and isinstance(value.values, bytes):
            return self.of(value.values)
        elements = java_list(value)
        if elements is not None:
            return [self.of(element) for element in elements]
        entries = java_map(value)
        if entries is not None:
            return [{"key": self.of(key), "value": self.of(entry)} for key, entry in entries]
        known = _known(value) if isinstance(value, JavaObject) else None
        return self.object(value) if isinstance(value, JavaObject) and known is None else known

    def object(self, value: JavaObject) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "class": value.class_name,
            "fields": {name: self.of(field) for name, field in value.fields.items()},
        }
        written = {name: contents for name, contents in value.annotations.items() if contents}
        if written:
            plain["written"] = {name: [self.of(entry) for entry in found] for name, found in written.items()}
        return plain


def _known(value: JavaObject) -> Any:
    """A number, date or the like; None if it is none, or does not have its class's fields."""
    if value.class_name in _BOXES:
        return value.fields.get("value")
    read = _KNOWN.get(value.class_name)
    return read(value) if read is not None else None


def _big_integer(value: JavaValue) -> int | None:
    if not isinstance(value, JavaObject):
        return None
    sign, magnitude = value.fields.get("signum"), value.fields.get("magnitude")
    if not isinstance(magnitude, JavaArray) or not isinstance(magnitude.values, bytes):
        return None
    if sign not in (-1, 0, 1) or len(magnitude.values) > _LONGEST_NUMBER:
        return None
    return int(sign) * int.from_bytes(magnitude.values, "big")


def _big_decimal(value: JavaObject) -> str | None:
    unscaled, scale = _big_integer(value.fields.get("intVal")), value.fields.get("scale")
    if unscaled is None or not isinstance(scale, int):
        return None
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return str(Decimal((int(unscaled < 0), digits, -scale)))


def _date(value: JavaObject) -> str | None:
    contents = value.annotations.get("java.util.Date", [])
    if len(contents) != 1 or not isinstance(contents[0], bytes) or len(contents[0]) != 8:
        return None
    millis = struct.unpack(">q", contents[0])[0]
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")
    except OverflowError:
        return None


def _uuid(value: JavaObject) -> str | None:
    high, low = value.fields.get("mostSigBits"), value.fields.get("leastSigBits")
    if not isinstance(high, int) or not isinstance(low, int):
        return None
    return str(UUID(bytes=struct.pack(">qq", high, low)))


_KNOWN: dict[str, Callable[[JavaObject], Any]] = {
    "java.math.BigInteger": _big_integer,
    "java.math.BigDecimal": _big_decimal,
    "java.util.Date": _date,
    "java.util.UUID": _uuid,
}
