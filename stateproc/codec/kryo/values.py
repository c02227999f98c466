"""Values of Kryo graphs for which plain Python has no exact type, and their JSON text."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from stateproc.codec.errors import LoneSurrogate
from stateproc.codec.temporal import DAY_NANOS, iso_date, iso_instant, iso_time
from stateproc.errors import UnsupportedSnapshot
from stateproc.wire.java_plain import to_plain
from stateproc.wire.java_stream import JavaObject, JavaValue

MAX_NODES = 1_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """``kind``: 'date' (``seconds`` are days), 'time' (of day), 'local' (time stamp) or 'instant'."""

    kind: str
    seconds: int
    nanos: int = 0

    def __str__(self) -> str:
        if self.kind == "date":
            return iso_date(self.seconds)
        if self.kind == "time":
            return iso_time(self.seconds * 10**9 + self.nanos)
        return iso_instant(self.seconds, self.nanos) + ("Z" if self.kind == "instant" else "")

    @property
    def micros(self) -> int:
        """Microseconds (for dates: days)."""
        return self.seconds if self.kind == "date" else self.seconds * 1_000_000 + self.nanos // 1000


@dataclass(frozen=True, slots=True)
class Text:
    """Text of a class that has no better shape here: a URI, a Pattern, a Duration …"""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class KryoNumber:
    """A BigInteger or BigDecimal as Java prints it."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class NumberRange:
    """A Range of Scala: its first number, its bound, its step as text. ``numbers``: its elements, if they are int."""

    start: str
    bound: str
    step: str
    inclusive: bool
    numbers: range | None

    def __str__(self) -> str:
        by = "" if self.step == "1" else f" by {self.step}"
        return f"range {self.start} {'to' if self.inclusive else 'until'} {self.bound}{by}"


@dataclass(frozen=True, slots=True)
class Cycle:
    """A reference to an object that encloses it, so many levels up."""

    levels: int


@dataclass(eq=False, slots=True)
class KryoMap:
    """A map: keys need not be hashable."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class KryoObject:
    """An object of a described class."""

    class_name: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class KryoMessage:
    """A Protobuf message of a known type: its Java class, its bytes, and its fields by name."""

    class_name: str
    data: bytes
    fields: dict[str, Any]


def time_of_day(hour: int, minute: int, second: int, nano: int) -> Moment | None:
    """The time of day; None if the parts make none."""
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= nano < 10**9):
        return None
    return Moment("time", hour * 3600 + minute * 60 + second, nano)


def local_stamp(date: Moment, time: Moment) -> Moment:
    return Moment("local", date.seconds * (DAY_NANOS // 10**9) + time.seconds, time.nanos)


def whole_text(text: str, strict: bool = False) -> str:
    """``text`` as Arrow and JSON want it: a lone surrogate becomes U+FFFD, or with ``strict`` raises LoneSurrogate."""
    if text.isascii():
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if strict and whole != text:
        raise LoneSurrogate
    return whole


def json_text(value: Any) -> str:
    """``value`` as JSON. Raises UnsupportedSnapshot if it is too big.

    Bytes are base64; big numbers, dates, times, NaN and infinities strings; maps objects if all keys are
    strings, else lists of {"key", "value"}.
    """
    return json.dumps(_JsonValues().of(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class _JsonValues:
    """Convert values to JSON values and count them: shared objects are converted once for each reference."""

    def __init__(self) -> None:
        self.nodes = 0

    def of(self, value: Any) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise UnsupportedSnapshot(
                f"a Kryo object graph of over {MAX_NODES} values",
                advice="it is too much to show as one value",
            )
        if isinstance(value, str):
            return whole_text(value)
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if isinstance(value, bytes):
            return base64.b64encode(value).decode("ascii")
        if isinstance(value, list | tuple):
            return [self.of(item) for item in value]
        if isinstance(value, KryoObject | KryoMessage):
            return {name: self.of(item) for name, item in value.fields.items()}
        if isinstance(value, KryoMap):
            if all(isinstance(key, str) for key, _ in value.pairs):
                return {self.of(key): self.of(item) for key, item in value.pairs}
            return [{"key": self.of(key), "value": self.of(item)} for key, item in value.pairs]
        if isinstance(value, NumberRange):
            return [str(value)]
        if isinstance(value, Cycle):
            return {"cycle": value.levels}
        if isinstance(value, dict):
            return {name: self.of(item) for name, item in value.items()}
        return self.of(str(value))


# Objects that Kryo leaves to Java serialization: throwables above all.

_THROWABLE = "java.lang.Throwable"
_MAX_CAUSES = 32


def plain_java_object(value: JavaValue) -> Any:
    """The object as plain Python; a Throwable as its class, message and causes."""
    return _throwable(value, _MAX_CAUSES) if is_throwable(value) else to_plain(value)


def is_throwable(value: JavaValue) -> TypeGuard[JavaObject]:
    """Whether a Java object is a Throwable."""
    return isinstance(value, JavaObject) and _THROWABLE in value.by_class


def _throwable(value: JavaObject, causes: int) -> dict[str, Any]:
    fields = value.by_class[_THROWABLE]
    plain = {"class": value.class_name, "message": to_plain(fields.get("detailMessage"))}
    cause = fields.get("cause")
    # A Throwable without a cause is its own.
    if causes and cause is not value and is_throwable(cause):
        plain["cause"] = _throwable(cause, causes - 1)
    return plain
