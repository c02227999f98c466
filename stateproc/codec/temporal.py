"""Convert Java's dates and times from their fields to Arrow, vectorised.

The mode 'micros' gives Arrow's own types with Spark's precision (nanoseconds below a microsecond are cut off,
downwards); 'whole' gives the same types and refuses values with such digits; 'exact' gives ISO-8601 strings with all
digits and any year.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import (
    Unencodable,
    as_type,
    null_rows,
    number_dtype,
    numbers_of,
    values_array,
    with_nulls,
)
from stateproc.codec.errors import BadValue, Unrepresentable

DAY_SECONDS = 86_400
DAY_NANOS = DAY_SECONDS * 10**9
MILLI_NANOS = 10**6
MAX_YEAR = 999_999_999  # of java.time.LocalDate, before and after Christ
I64_MIN = -(2**63)


EXACT = "read with temporal='exact': dates and times come as ISO-8601 text then"
_LOSSLESS = "read with temporal='lossless' or 'exact': such times come as ISO-8601 text then"


class OutsideArrowRange(Unrepresentable):
    """Internal: a date or time that is sound and too far away for Arrow's and Spark's types."""


class FinerThanMicros(Unrepresentable):
    """Internal: a time with digits below a microsecond, which Arrow's and Spark's types would lose."""


@dataclass(frozen=True)
class Fidelity:
    """How exactly values become columns.

    Attributes:
        coarse: The mode of dates and times whose types have no digits below a microsecond.
        fine: The mode of those whose types can have them.
        strict: Whether text that no column holds is an error: half of a surrogate pair.
    """

    coarse: str
    fine: str
    strict: bool = False

    @classmethod
    def of(cls, temporal: str, strict: bool) -> Fidelity:
        """Return what the option ``temporal`` means; ``strict``: what a column cannot hold is an error."""
        if temporal == "exact":
            return cls("exact", "exact", strict)
        whole = "whole" if strict or temporal == "lossless" else "micros"
        return cls(whole, "exact" if temporal == "lossless" else whole, strict)


class OutOfRange(BadValue):
    """Internal: a date or time whose parts make none; the message says which."""


def ints(array: pa.Array) -> Longs:
    """An integer array's values (0 where null) as int64."""
    return numbers_of(array).astype(np.int64)


def nulls(array: pa.Array) -> npt.NDArray[np.bool_]:
    if array.null_count == 0:
        return np.zeros(len(array), dtype=np.bool_)
    return null_rows(array)


def days_of(year: Longs, month: Longs, day: Longs) -> Longs:
    """Days since 1970-01-01 of proleptic Gregorian dates."""
    y = year - (month <= 2)
    era = np.floor_divide(y, 400)
    year_of_era = y - era * 400
    day_of_year = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return np.asarray(era * 146_097 + day_of_era - 719_468, dtype=np.int64)


def civil_of(days: Longs) -> tuple[Longs, Longs, Longs]:
    """(year, month, day) of days since 1970-01-01."""
    z = days + 719_468
    era = np.floor_divide(z, 146_097)
    doe = z - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = np.where(mp < 10, mp + 3, mp - 9)
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def check_date(year: Longs, month: Longs, day: Longs, null: npt.NDArray[np.bool_]) -> None:
    """Refuse parts that make no date."""
    lengths = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= lengths[np.clip(month, 0, 12)])
    good &= np.abs(year) <= MAX_YEAR
    if not (good | null).all():
        raise OutOfRange("a date's year, month and day make no date")


def date_array(days: Longs, null: npt.NDArray[np.bool_], mode: str) -> pa.Array:
    """Days since the epoch as date32 ('micros') or ISO strings ('exact')."""
    if mode == "exact":
        return strings(null, len(days), lambda i: iso_date(int(days[i])))
    days = np.where(null, 0, days)
    if len(days) and (days.min() < -(2**31) or days.max() >= 2**31):
        raise OutsideArrowRange("a date does not fit Arrow's 32-bit days", EXACT)
    return with_nulls(values_array(days.astype(np.int32)).cast(pa.date32()), null)


def time_array(nanos: Longs, null: npt.NDArray[np.bool_], mode: str) -> pa.Array:
    """Nanoseconds of the day as time64[us] or ISO strings."""
    bad = ((nanos < 0) | (nanos >= DAY_NANOS)) & ~null
    if bad.any():
        raise OutOfRange("a time of day is outside of the day")
    if mode == "exact":
        return strings(null, len(nanos), lambda i: iso_time(int(nanos[i])))
    micros = _micros(np.where(null, 0, nanos), mode)
    return with_nulls(values_array(micros).cast(pa.time64("us")), null)


def instant_array(seconds: Longs, nanos: Longs, null: npt.NDArray[np.bool_], mode: str, zone: str | None) -> pa.Array:
    """Epoch seconds and nanoseconds of the second as timestamp[us, ``zone``] or ISO strings (with Z for a zone)."""
    if ((nanos < 0) | (nanos > 999_999_999))[~null].any():
        raise OutOfRange("nanoseconds outside of the second")
    if mode == "exact":
        suffix = "Z" if zone else ""
        return strings(null, len(seconds), lambda i: iso_instant(int(seconds[i]), int(nanos[i])) + suffix)
    seconds = np.where(null, 0, seconds)
    if len(seconds) and (seconds.min() < -9_223_372_036_854 or seconds.max() > 9_223_372_036_853):
        raise OutsideArrowRange("a timestamp does not fit 64-bit microseconds", EXACT)
    micros = seconds * 1_000_000 + _micros(np.where(null, 0, nanos), mode)
    return with_nulls(values_array(micros).cast(pa.timestamp("us", zone)), null)


def _micros(nanos: Longs, mode: str) -> Longs:
    if mode == "whole":
        refuse_finer(nanos % 1000)
    return nanos // 1000


def refuse_finer(nanos: int | Longs) -> None:
    """Raise FinerThanMicros for nanoseconds that are no whole microseconds."""
    if np.any(np.asarray(nanos) % 1000):
        raise FinerThanMicros("a time with digits below a microsecond, which the column's type cannot hold", _LOSSLESS)


def strings(null: npt.NDArray[np.bool_], n: int, text: Any) -> pa.Array:
    return pa.array([None if null[i] else text(i) for i in range(n)], type=pa.string())


def iso_date(days: int) -> str:
    """A date as java.time.LocalDate prints it: four digits of year at least, a sign outside of 0000–9999."""
    year, month, day = (int(part[0]) for part in civil_of(np.array([days], dtype=np.int64)))
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def iso_time(nanos: int) -> str:
    """A time of day as java.time.LocalTime prints it, always with seconds."""
    seconds, fraction = divmod(nanos, 10**9)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if fraction:
        digits = f"{fraction:09d}"
        text += "." + (digits[:3] if digits.endswith("000000") else digits[:6] if digits.endswith("000") else digits)
    return text


def iso_instant(seconds: int, nanos: int) -> str:
    days, second = divmod(seconds, DAY_SECONDS)
    return f"{iso_date(days)}T{iso_time(second * 10**9 + nanos)}"


# Convert Arrow dates and times, or ISO-8601 text, to fields of java.time classes; the inverse of codec.temporal.

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
