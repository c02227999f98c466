"""Readers of dates and times. Kryo 2 writes the fields of java.time classes, Kryo 5 has its own formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stateproc.codec.kryo.primitives import signed
from stateproc.codec.kryo.types import STRING, FieldType
from stateproc.codec.kryo.values import Moment, Text, local_stamp, time_of_day
from stateproc.codec.kryo.walker import Body, Walker
from stateproc.codec.temporal import days_of

_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SECOND = 10**9
# Instant.MIN and Instant.MAX
FIRST_SECOND, LAST_SECOND = -31_557_014_167_219_200, 31_556_889_864_403_199


def _date(w: Walker, year: int, month: int, day: int) -> Moment:
    if not 1 <= month <= 12 or not 1 <= day <= _MONTH_DAYS[month - 1] or abs(year) > 999_999_999:
        w.data.cursor.corrupt(f"year {year}, month {month}, day {day} make no date")
    parts = (np.array([part], dtype=np.int64) for part in (year, month, day))
    return Moment("date", int(days_of(*parts)[0]))


def _time(w: Walker, hour: int, minute: int, second: int, nano: int) -> Moment:
    found = time_of_day(hour, minute, second, nano)
    if found is None:
        w.data.cursor.corrupt(f"hour {hour}, minute {minute}, second {second}, nano {nano} make no time of day")
    return found


def _local_date(w: Walker, type_: FieldType) -> Moment:
    if w.version >= 5:
        year, month, day = signed(w.data.varint(), 32), w.data.cursor.i8(), w.data.cursor.i8()
    else:
        day, month, year = w.data.fixed("short"), w.data.fixed("short"), w.data.zigzag()
    return _date(w, year, month, day)


def _local_time(w: Walker, type_: FieldType) -> Moment:
    cursor = w.data.cursor
    if w.version < 5:
        hour, minute, nano, second = cursor.i8(), cursor.i8(), w.data.zigzag(), cursor.i8()
        return _time(w, hour, minute, second, nano)
    parts: list[int] = []
    for _ in range(3):
        part = cursor.i8()
        parts.append(part if part >= 0 else ~part)
        if part < 0:
            break
    else:
        parts.append(w.data.varint())
    return _time(w, *(parts + [0] * (4 - len(parts))))


def _field(w: Walker, name: str) -> Any:
    """A field of a final java.time class, which must not be null."""
    at = w.data.cursor.pos
    value = w.known(FieldType(f"java.time.{name}"))
    if value is None:
        w.data.cursor.corrupt(f"a null {name} inside a time", at=at)
    return value


def _part(w: Walker, name: str, read: Callable[[Walker, FieldType], Any]) -> Any:
    """A part of a compound time: a field in Kryo 2, its bare body in Kryo 5."""
    return read(w, FieldType(f"java.time.{name}")) if w.version >= 5 else _field(w, name)


def _local_date_time(w: Walker, type_: FieldType) -> Moment:
    date = _part(w, "LocalDate", _local_date)
    return local_stamp(date, _part(w, "LocalTime", _local_time))


def _instant(w: Walker, type_: FieldType) -> Moment:
    if w.version >= 5:
        seconds, nanos = w.data.varlong(), w.data.varint()
    else:
        nanos, seconds = w.data.zigzag(), w.data.zigzag_long()
    return _checked(w, seconds, nanos)


def _checked(w: Walker, seconds: int, nanos: int) -> Moment:
    if not 0 <= nanos < _SECOND or not FIRST_SECOND <= seconds <= LAST_SECOND:
        w.data.cursor.corrupt(f"{seconds} seconds and {nanos} nanoseconds make no instant")
    return Moment("instant", seconds, nanos)


def _millis(w: Walker, type_: FieldType) -> Moment:
    """java.util.Date, java.sql.Date and Time: varlong milliseconds."""
    seconds, millis = divmod(w.data.varlong(), 1000)
    return Moment("instant", seconds, millis * 1_000_000)


def _sql_timestamp(w: Walker, type_: FieldType) -> Moment:
    """Milliseconds (Kryo 5: of the whole second), varint nanoseconds of the second."""
    seconds = w.data.varlong() // 1000
    return _checked(w, seconds, w.data.varint())


def _duration(w: Walker, type_: FieldType) -> Text:
    if w.version >= 5:
        seconds, nanos = w.data.fixed("long"), w.data.varint()
    else:
        nanos, seconds = w.data.zigzag(), w.data.zigzag_long()
    if not 0 <= nanos < _SECOND:
        w.data.cursor.corrupt(f"a Duration of {nanos} nanoseconds")
    return Text(duration_text(seconds, nanos))


def duration_text(seconds: int, nanos: int) -> str:
    """java.time.Duration.toString."""
    total = seconds * _SECOND + nanos
    if total == 0:
        return "PT0S"
    sign = "-" if total < 0 else ""
    whole, fraction = divmod(abs(total), _SECOND)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    text = f"{sign}{hours}H" * (hours > 0) + f"{sign}{minutes}M" * (minutes > 0)
    if rest or fraction:
        text += f"{sign}{rest}" + (f".{fraction:09d}".rstrip("0") if fraction else "") + "S"
    return "PT" + text


def offset_text(seconds: int) -> str:
    """java.time.ZoneOffset.getId."""
    if seconds == 0:
        return "Z"
    whole = abs(seconds)
    text = f"{'-' if seconds < 0 else '+'}{whole // 3600:02d}:{whole // 60 % 60:02d}"
    return text + (f":{whole % 60:02d}" if whole % 60 else "")


def _zone_offset(w: Walker, type_: FieldType) -> Text:
    """Kryo 2: seconds; Kryo 5: quarters of an hour, or 127 and the seconds."""
    if w.version < 5:
        return Text(offset_text(w.data.zigzag()))
    quarters = w.data.cursor.i8()
    return Text(offset_text(w.data.fixed("int") if quarters == 127 else quarters * 900))


def _zone_region(w: Walker, type_: FieldType) -> Text:
    name = w.data.string() if w.version >= 5 else w.known(FieldType(STRING))
    return Text(name or "")


def _zoned(w: Walker, type_: FieldType) -> Text:
    """Kryo 2: local time, offset, zone; Kryo 5: local time, zone (the offset follows from both)."""
    local = _part(w, "LocalDateTime", _local_date_time)
    if w.version >= 5:
        offset, zone = "", w.data.string() or ""
    else:
        offset, zone = str(_field(w, "ZoneOffset")), str(w.by_class())
    if zone[:1] in ("Z", "+", "-"):
        return Text(f"{local}{zone}")
    return Text(f"{local}{offset}[{zone}]")


def _offset_date_time(w: Walker, type_: FieldType) -> Text:
    local = _part(w, "LocalDateTime", _local_date_time)
    return Text(f"{local}{_part(w, 'ZoneOffset', _zone_offset)}")


def _offset_time(w: Walker, type_: FieldType) -> Text:
    if w.version >= 5:
        time = _local_time(w, type_)
        return Text(f"{time}{_zone_offset(w, type_)}")
    offset = _field(w, "ZoneOffset")
    return Text(f"{_field(w, 'LocalTime')}{offset}")


def _year_number(w: Walker) -> int:
    return signed(w.data.varint(), 32) if w.version >= 5 else w.data.zigzag()


def _year_month(w: Walker, type_: FieldType) -> Text:
    if w.version >= 5:
        year, month = _year_number(w), w.data.cursor.i8()
    else:
        month, year = w.data.zigzag(), w.data.zigzag()
    return Text(str(_date(w, year, month, 1))[:-3])


def _month_day(w: Walker, type_: FieldType) -> Text:
    if w.version >= 5:
        month, day = w.data.cursor.i8(), w.data.cursor.i8()
    else:
        day, month = w.data.zigzag(), w.data.zigzag()
    _date(w, 2000, month, day)
    return Text(f"--{month:02d}-{day:02d}")


def _period(w: Walker, type_: FieldType) -> Text:
    parts = [signed(w.data.varint(), 32) if w.version >= 5 else w.data.zigzag() for _ in range(3)]
    years, months, days = parts if w.version >= 5 else parts[::-1]
    text = "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n)
    return Text(f"P{text}" if text else "P0D")


TIME_BODIES: dict[str, Body] = {
    "java.util.Date": _millis,
    "java.sql.Date": _millis,
    "java.sql.Time": _millis,
    "java.sql.Timestamp": _sql_timestamp,
    "java.time.Duration": _duration,
    "java.time.Instant": _instant,
    "java.time.LocalDate": _local_date,
    "java.time.LocalDateTime": _local_date_time,
    "java.time.LocalTime": _local_time,
    "java.time.MonthDay": _month_day,
    "java.time.OffsetDateTime": _offset_date_time,
    "java.time.OffsetTime": _offset_time,
    "java.time.Period": _period,
    "java.time.Year": lambda w, type_: Text(str(_year_number(w))),
    "java.time.YearMonth": _year_month,
    "java.time.ZoneOffset": _zone_offset,
    "java.time.ZoneRegion": _zone_region,
    "java.time.ZonedDateTime": _zoned,
}
