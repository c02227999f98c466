"""Convert Java's dates and times from their fields to Arrow, vectorised.

The mode 'micros' gives Arrow's own types with Spark's precision (nanoseconds below a microsecond are cut off,
downwards); 'whole' gives the same types and refuses values with such digits; 'exact' gives ISO-8601 strings with all
digits and any year.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import null_rows, numbers_of, values_array, with_nulls
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
