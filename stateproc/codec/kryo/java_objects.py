"""Objects that Kryo leaves to Java serialization: throwables above all."""

from __future__ import annotations

from typing import Any

from stateproc.wire import Cursor
from stateproc.wire.java_plain import to_plain
from stateproc.wire.java_stream import read_java_object
from stateproc.wire.java_values import JavaObject

_THROWABLE = "java.lang.Throwable"
_MAX_CAUSES = 32


def java_object(cursor: Cursor) -> Any:
    """The object stream at the cursor as plain Python; a Throwable as its class, message and causes."""
    value = read_java_object(cursor)
    if isinstance(value, JavaObject) and _THROWABLE in value.by_class:
        return _throwable(value, _MAX_CAUSES)
    return to_plain(value)


def _throwable(value: JavaObject, causes: int) -> dict[str, Any]:
    fields = value.by_class[_THROWABLE]
    plain = {"class": value.class_name, "message": to_plain(fields.get("detailMessage"))}
    cause = fields.get("cause")
    # A Throwable without a cause is its own.
    if causes and isinstance(cause, JavaObject) and cause is not value and _THROWABLE in cause.by_class:
        plain["cause"] = _throwable(cause, causes - 1)
    return plain
