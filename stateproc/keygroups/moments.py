"""Dates and times of single keys, as Python objects or ISO text, in the numbers that hashes are made of."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np

from stateproc.codec.errors import BadValue
from stateproc.codec.temporal import DAY_SECONDS, check_date, days_of

_DAY = r"(?P<year>[+-]?\d{4,10})-(?P<month>\d\d)-(?P<day>\d\d)"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
_DATE, _TIME = re.compile(_DAY), re.compile(_CLOCK)
_MOMENT = re.compile(rf"{_DAY}(?:[T ]{_CLOCK})?(?:Z|\+00:00)?")
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
    match = _matched(_MOMENT, value)
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
