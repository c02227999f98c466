"""Convert Arrow dates and times, or ISO-8601 text, to fields of java.time classes; the inverse of codec.temporal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import as_type, null_rows, number_dtype, numbers_of
from stateproc.codec.byte_arrays import Unencodable
from stateproc.codec.temporal import days_of

Nulls = npt.NDArray[np.bool_]
_DATE = r"([+-]?\d{4,10})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"
_DATE_TEXT = re.compile(_DATE)
_TIME_TEXT = re.compile(_TIME)
_STAMP_TEXT = re.compile(f"{_DATE}[T ]{_TIME}(Z|[+]00:00)?")
_DAY_SECONDS = 86_400
_MAX_YEAR = 10**9  # of an Instant
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def by_distinct(array: pa.Array, turn: Callable[[Any], Any], type_: pa.DataType) -> pa.Array:
    """``turn`` applied to every distinct value. It raises ValueError for a value that it cannot turn; nulls stay.

    Raises Unencodable.
    """
    coded = array.dictionary_encode()
    turned = []
    for index, value in enumerate(coded.dictionary.to_pylist()):
        try:
            turned.append(turn(value))
        except (ValueError, ArithmeticError) as error:
            row = int(np.argmax((numbers_of(coded.indices) == index) & ~null_rows(coded)))
            raise Unencodable(str(error), row) from error
    return pa.array(turned, type_).take(coded.indices)


def dates(array: pa.Array) -> tuple[Longs, Nulls]:
    """(days since the epoch, nulls) of date32 or ISO dates."""
    return _longs(by_distinct(array, _days, pa.int64())) if _is_text(array) else _longs(as_type(array, pa.date32()))


def day_times(array: pa.Array) -> tuple[Longs, Nulls]:
    """(nanoseconds of the day, nulls) of times or ISO times."""
    if _is_text(array):
        return _longs(by_distinct(array, _nanos, pa.int64()))
    return _longs(as_type(array, pa.time64("ns")))


def instants(array: pa.Array) -> tuple[Longs, Longs, Nulls]:
    """(seconds since the epoch, nanoseconds of the second, nulls) of timestamps or ISO texts."""
    if _is_text(array):
        parts = by_distinct(array, _instant, pa.struct([("seconds", pa.int64()), ("nanos", pa.int64())]))
        null = null_rows(parts)
        seconds, nanos = (np.where(null, 0, numbers_of(parts.field(i))) for i in range(2))
        return seconds, nanos, null
    if not pa.types.is_timestamp(array.type):
        array = as_type(array, pa.timestamp("us"))
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    values, null = _longs(array)
    rest: Longs = values % units * (10**9 // units)
    return values // units, rest, null


def in_units(seconds: Longs, nanos: Longs, null: Nulls, units: int) -> Longs:
    """Whole ``units`` per second since the epoch. Raises Unencodable for finer values and for overflow."""
    step = 10**9 // units
    refuse(~null & (nanos % step != 0), f"a time finer than 1/{units} second, which is all the type holds")
    limit = (2**63 - 1) // units - 1
    refuse(~null & (np.abs(seconds) > limit), "a timestamp that is too far away")
    whole: Longs = np.where(null, 0, seconds) * units + np.where(null, 0, nanos) // step
    return whole


def refuse(bad: Nulls, message: str) -> None:
    """Raises Unencodable for the first row that is ``bad``."""
    if bad.any():
        raise Unencodable(message, int(np.argmax(bad)))


def integers(values: npt.NDArray[Any], null: Nulls, type_: pa.DataType) -> pa.Array:
    """An integer array, null where ``null``."""
    return pa.array(values.astype(number_dtype(type_)), type_, mask=null if null.any() else None)


def _is_text(array: pa.Array) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def _longs(array: pa.Array) -> tuple[Longs, Nulls]:
    null = null_rows(array)
    wide = pa.int32() if array.type.bit_width == 32 else pa.int64()
    values = numbers_of(array.view(wide)).astype(np.int64)
    return (np.where(null, 0, values) if null.any() else values), null


def _matched(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no {what} in ISO-8601 form")
    return found


def _days(text: str) -> int:
    return _day_number(*_matched(_DATE_TEXT, text, "date").groups())


def _day_number(*parts: str) -> int:
    year, month, day = (int(part) for part in parts)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    last = 28 if month == 2 and not leap else _MONTH_DAYS[month - 1] if 1 <= month <= 12 else 0
    if not 1 <= day <= last or abs(year) > _MAX_YEAR:
        raise ValueError(f"{'-'.join(parts)} is no date")
    return int(days_of(*(np.array([part], dtype=np.int64) for part in (year, month, day)))[0])


def _nanos(text: str) -> int:
    return _nano_of_day(*_matched(_TIME_TEXT, text, "time").groups())


def _nano_of_day(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    seconds = int(second or 0)
    if int(hour) > 23 or int(minute) > 59 or seconds > 59:
        raise ValueError(f"{hour}:{minute}:{seconds:02d} is no time of day")
    return (int(hour) * 3600 + int(minute) * 60 + seconds) * 10**9 + int((fraction or "").ljust(9, "0"))


def _instant(text: str) -> dict[str, int]:
    parts = _matched(_STAMP_TEXT, text, "timestamp (in UTC)").groups()
    nanos = _nano_of_day(*parts[3:7])
    return {"seconds": _day_number(*parts[:3]) * _DAY_SECONDS + nanos // 10**9, "nanos": nanos % 10**9}
