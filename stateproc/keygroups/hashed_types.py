"""Map a serializer to the Java hash of its values and to the Arrow type that is hashed."""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from stateproc.codec.errors import BadValue
from stateproc.codec.temporal import DAY_SECONDS, check_date, dates, day_times, days_of, instants
from stateproc.keygroups.key_hash import KeyHash
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.big_numbers import Big
from stateproc.serializers.java.collections import ListOf, PlainArray
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import NullableOf, RowOf, TupleOf
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from stateproc.serializers.java.uuids import Uuid
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.table.layouts import unique
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData

# Dates and times of single keys, as Python objects or ISO text, in the numbers that hashes are made of.

_DAY = r"(?P<year>[+-]?\d{4,10})-(?P<month>\d\d)-(?P<day>\d\d)"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
_DATE, _TIME = re.compile(_DAY), re.compile(_CLOCK)
_MOMENT_TEXT = re.compile(rf"{_DAY}(?:[T ]{_CLOCK})?(?:Z|\+00:00)?")
_UNIX = dt.datetime(1970, 1, 1)


def days(value: Any) -> int:
    """Days since 1970-01-01 of a date or of text like 2024-02-29. Raises ValueError."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return (value - _UNIX.date()).days
    return _days(_matched(_DATE, value))


def nanos_of_day(value: Any) -> int:
    """Nanoseconds since midnight of a time or of text like 12:30:00.5. Raises ValueError."""
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**9 + value.microsecond * 1000
    return _nanos(_matched(_TIME, value))


def seconds_and_nanos(value: Any) -> tuple[int, int]:
    """Seconds since 1970 and nanoseconds of the second, of a datetime or of text like 2024-02-29T12:30:00.5Z. What has
    no zone is in UTC, or local where the column is. Raises ValueError.
    """
    if isinstance(value, dt.datetime):
        plain = value.astimezone(dt.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        seconds, rest = divmod(plain - _UNIX, dt.timedelta(seconds=1))
        return seconds, rest.microseconds * 1000
    match = _matched(_MOMENT_TEXT, value)
    seconds, nanos = divmod(_nanos(match) if match["hour"] else 0, 10**9)
    return _days(match) * DAY_SECONDS + seconds, nanos


def _matched(pattern: re.Pattern[str], value: Any) -> re.Match[str]:
    match = pattern.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is no date or time of this kind")
    return match


def _days(match: re.Match[str]) -> int:
    year, month, day = (np.array([int(match[part])], np.int64) for part in ("year", "month", "day"))
    try:
        check_date(year, month, day, np.zeros(1, np.bool_))
    except BadValue as error:
        raise ValueError(str(error)) from error
    return int(days_of(year, month, day)[0])


def _nanos(match: re.Match[str]) -> int:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{match[0]} is no time of day")
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int((match["fraction"] or "0").ljust(9, "0"))


_JAVA_TUPLES = "org.apache.flink.api.java.tuple."
_MICRO_DIGITS = 6
_MOMENT = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])


class UnknownHash(Exception):
    """Internal: the hash of such a value cannot be reproduced."""


@dataclass(frozen=True)
class Hashed:
    """How values are hashed: ``convert`` converts a Python value of the column, or its text, to ``type``.

    Converters raise UnknownHash, ValueError, TypeError.
    """

    kind: KeyHash
    type: pa.DataType
    convert: Callable[[Any], Any]


def hashed(serializer: Serializer, ctx: LayoutContext, *, inside: bool = False) -> Hashed | None:
    """Return how Java hashes values of this serializer; None where the columns do not determine the hash.

    ``inside``: as a field or element of another value.
    """
    for kind, build in _BUILDERS.items():
        if isinstance(serializer, kind):
            if inside and kind is RowOf:
                return None  # its RowKind is not in the columns
            return build(serializer, ctx)
    return None


# --- serializers -----------------------------------------------------------------------------------------

_SCALARS = {
    name + suffix: name.lower() + suffix.replace("V", "_v")
    for name in ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double", "Char", "String")
    for suffix in ("", "Value")
}
_EPOCH_MILLIS = frozenset({"Date", "SqlDate", "SqlTime", "SqlTimestamp"})


def _scalar(serializer: Any, ctx: LayoutContext) -> Hashed | None:
    name = _SCALARS.get(serializer.name)
    if name is None:
        return None
    arrow = serializer.layout(ctx).arrow_type
    return Hashed(KeyHash(name), arrow, _converter(arrow))


def _converter(arrow: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_float32(arrow):
        return _nullable(_single)
    if pa.types.is_floating(arrow):
        return _nullable(_float)
    if pa.types.is_string(arrow):
        return _nullable(_text)
    return lambda value: value


def _temporal(serializer: Any, ctx: LayoutContext) -> Hashed | None:
    name, exact = serializer.kind.name, ctx.temporal == "exact"
    if name in _EPOCH_MILLIS:
        return Hashed(KeyHash("epoch_millis"), pa.int64(), _nullable(_millis))
    if name == "LocalDate":
        return Hashed(KeyHash("local_date"), pa.date32(), _nullable(days))
    if not exact:
        return None  # nanoseconds count, and the column does not show them
    if name == "LocalTime":
        return Hashed(KeyHash("local_time"), pa.time64("ns"), _nullable(nanos_of_day))
    kind = {"LocalDateTime": "local_date_time", "Instant": "instant"}.get(name)
    return None if kind is None else Hashed(KeyHash(kind), _MOMENT, _nullable(_moment))


_LEFT_TO_KRYO: dict[str, Serializer] = {
    "java.util.UUID": Uuid(),
    **{f"java.time.{kind.name}": Temporal(kind) for kind in TEMPORAL if not kind.type.startswith("java.")},
}
"""Classes of known hash that Flink's type extraction leaves to Kryo → the serializer whose column Kryo's is like."""


def _kryo(serializer: Any, ctx: LayoutContext) -> Hashed | None:
    alike = _LEFT_TO_KRYO.get(serializer.class_name)
    # Bytes where Kryo had a serializer of its own for the class, which nobody described.
    if alike is None or serializer.layout(ctx).arrow_type != alike.layout(ctx).arrow_type:
        return None
    return hashed(alike, ctx)


def _big(serializer: Any, ctx: LayoutContext) -> Hashed | None:
    name = "big_decimal" if serializer.scaled else "big_integer"
    return Hashed(KeyHash(name), serializer.layout(ctx).arrow_type, lambda value: value)


def _tuple(serializer: Any, ctx: LayoutContext) -> Hashed | None:
    return _fields("tuple", serializer, ctx) if serializer.class_name.startswith(_JAVA_TUPLES) else None


def _fields(kind: str, serializer: Any, ctx: LayoutContext) -> Hashed | None:
    names = [f"f{index}" for index in range(len(serializer.fields))]
    return _struct(kind, names, [hashed(field, ctx, inside=True) for field in serializer.fields])


def _array(serializer: Any, ctx: LayoutContext) -> Hashed | None:
    """A primitive array: has a hash of its own only inside a Row."""
    arrow = serializer.layout(ctx).arrow_type
    if pa.types.is_binary(arrow):
        return Hashed(KeyHash("array", (KeyHash("byte"),)), arrow, _nullable(_bytes))
    return None


def _list(serializer: Any, ctx: LayoutContext) -> Hashed | None:
    """Lists; an array's hash is its identity, a set's no matter of order."""
    if serializer.kind != "List":
        return None
    element = hashed(serializer.element, ctx, inside=True)
    if element is None:
        return None
    convert = element.convert
    return Hashed(
        KeyHash("list", (element.kind,)), pa.list_(element.type), _nullable(lambda value: [convert(it) for it in value])
    )


_BUILDERS: dict[type[Serializer], Callable[[Any, LayoutContext], Hashed | None]] = {
    Scalar: _scalar,
    Temporal: _temporal,
    Big: _big,
    NullableOf: lambda serializer, ctx: hashed(serializer.inner, ctx, inside=True),
    TupleOf: _tuple,
    RowOf: lambda serializer, ctx: _fields("row", serializer, ctx),
    PlainArray: _array,
    ListOf: _list,
    RowData: lambda serializer, ctx: _sql_row(serializer.names, serializer.types, ctx),
    Uuid: lambda serializer, ctx: Hashed(KeyHash("uuid"), pa.string(), _nullable(_uuid_text)),
    Kryo: _kryo,
}


# --- SQL types -------------------------------------------------------------------------------------------

_SQL: dict[str, tuple[str, pa.DataType, Callable[[Any], Any]]] = {
    "BOOLEAN": ("boolean", pa.bool_(), lambda value: value),
    "TINYINT": ("byte", pa.int8(), lambda value: value),
    "SMALLINT": ("short", pa.int16(), lambda value: value),
    "INTEGER": ("int", pa.int32(), lambda value: value),
    "INTERVAL_YEAR_MONTH": ("int", pa.int32(), lambda value: value),
    "BIGINT": ("long", pa.int64(), lambda value: value),
    "INTERVAL_DAY_TIME": ("long", pa.int64(), lambda value: value),
    "FLOAT": ("float", pa.float32(), lambda value: _number(value)),
    "DOUBLE": ("double", pa.float64(), lambda value: _number(value)),
    "DATE": ("date", pa.date32(), days),
    "TIME_WITHOUT_TIME_ZONE": ("time", pa.time64("ns"), nanos_of_day),
    "CHAR": ("string", pa.string(), lambda value: _text(value)),
    "VARCHAR": ("string", pa.string(), lambda value: _text(value)),
    "BINARY": ("binary", pa.binary(), lambda value: _bytes(value)),
    "VARBINARY": ("binary", pa.binary(), lambda value: _bytes(value)),
    "UUID": ("uuid", pa.string(), lambda value: _uuid_text(value)),
}
_TIMESTAMPS = frozenset({"TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"})
_ROWS = frozenset({"ROW", "STRUCTURED_TYPE"})


def _sql_row(names: tuple[str, ...], types: tuple[LogicalType, ...], ctx: LayoutContext) -> Hashed | None:
    return _struct("rowdata", unique(names), [_sql(type_, ctx) for type_ in types])


def _sql(type_: LogicalType, ctx: LayoutContext) -> Hashed | None:
    if type_.kind in _ROWS:
        return _sql_row(type_.names, type_.children, ctx)
    if type_.kind == "DISTINCT_TYPE":
        return _sql(type_.children[0], ctx)
    if type_.kind == "DECIMAL":
        kind = KeyHash("decimal", precision=type_.precision, scale=type_.scale)
        return Hashed(kind, pa.decimal128(type_.precision, type_.scale), _nullable(_decimal))
    if type_.kind in _TIMESTAMPS:
        if type_.precision > _MICRO_DIGITS and ctx.temporal != "exact":
            return None  # nanoseconds count, and the column does not show them
        return Hashed(KeyHash("timestamp", precision=type_.precision), _MOMENT, _nullable(_moment))
    if type_.kind not in _SQL:
        return None
    name, arrow, convert = _SQL[type_.kind]
    return Hashed(KeyHash(name), arrow, _nullable(convert))


# --- values ----------------------------------------------------------------------------------------------


def _struct(kind: str, names: Any, parts: list[Hashed | None]) -> Hashed | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    named = dict(zip(names, known, strict=True))

    def convert(value: Any) -> dict[str, Any]:
        values = dict(zip(named, value, strict=True)) if isinstance(value, (list, tuple)) else value
        if not isinstance(values, dict) or values.keys() != named.keys():
            raise UnknownHash
        return {name: part.convert(values[name]) for name, part in named.items()}

    arrow = pa.struct([(name, part.type) for name, part in named.items()])
    return Hashed(KeyHash(kind, tuple(part.kind for part in known)), arrow, _nullable(convert))


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _float(value: Any) -> float:
    """A float; NaN and infinities may be text, as JSON has them."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str)):
        raise UnknownHash
    return float(value)


def _single(value: Any) -> float:
    """The nearest float of 32 bits, an infinity beyond their range."""
    with np.errstate(over="ignore"):
        return float(np.float32(_float(value)))


def _number(value: Any) -> float:
    """A float of a binary row, which holds its bits: NaN has many."""
    number = _float(value)
    if math.isnan(number):
        raise UnknownHash
    return number


def _text(value: Any) -> Any:
    if isinstance(value, str) and "\ufffd" in value:
        raise UnknownHash  # stands for itself, or for bytes that are no text
    return value


def _uuid_text(value: Any) -> str:
    return str(UUID(str(value)))


def _bytes(value: Any) -> bytes:
    """Bytes; as text they are base64, as JSON has them."""
    return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(memoryview(value))


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        raise UnknownHash
    return Decimal(value)


def _moment(value: Any) -> dict[str, int]:
    seconds, nanos = seconds_and_nanos(value)
    return {"seconds": seconds, "nanos": nanos}


def _millis(value: Any) -> int:
    seconds, nanos = seconds_and_nanos(value)
    return seconds * 1000 + nanos // 10**6


# Convert dates and times that are given as ISO-8601 text to what is hashed of them.


def hashed_values(keys: pa.Array, hash_: KeyHash) -> pa.Array:
    """The keys with ISO-8601 text as what is hashed of a date or time."""
    if pa.types.is_struct(keys.type) and len(hash_.children) == keys.type.num_fields:
        parts = [hashed_values(keys.field(index), part) for index, part in enumerate(hash_.children)]
        names = [field.name for field in keys.type]
        return pa.StructArray.from_arrays(parts, names, mask=keys.is_null())
    if not (pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)) or hash_.kind not in _MOMENTS:
        return keys
    return _MOMENTS[hash_.kind](keys)


def _date_column(keys: pa.Array) -> pa.Array:
    days, null = dates(keys)
    return pa.array(days.astype(np.int32), pa.date32(), mask=null)


def _day_times(keys: pa.Array) -> pa.Array:
    nanos, null = day_times(keys)
    return pa.array(nanos, pa.time64("ns"), mask=null)


def _millis_column(keys: pa.Array) -> pa.Array:
    seconds, nanos, null = instants(keys)
    return pa.array(seconds * 1000 + nanos // 10**6, pa.int64(), mask=null)


def _seconds_and_nanos(keys: pa.Array) -> pa.Array:
    seconds, nanos, null = instants(keys)
    parts = [pa.array(seconds, pa.int64()), pa.array(nanos, pa.int64())]
    return pa.StructArray.from_arrays(parts, ["seconds", "nanos"], mask=pa.array(null))


_MOMENTS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "local_date": _date_column,
    "local_time": _day_times,
    "epoch_millis": _millis_column,
    "instant": _seconds_and_nanos,
    "local_date_time": _seconds_and_nanos,
}
