"""Dates, timestamps and times: read from text, converted to each other, and brought into text that orders as they do.

Their values are Arrow's types or ISO text as java.time prints it, which has all digits and years of any size.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption
from stateproc.filters.sql_value import SqlValue
from stateproc.row_formats.json_values import json_values

YEAR_BIAS = 20_000_000_000
"""Added to years, so that all, negative ones too, have eleven digits."""

MICRO_DIGITS, NANO_DIGITS = 6, 9
_CLOCK = r"(?P<hour>\d\d?):(?P<minute>\d\d?)(?::(?P<second>\d\d?)(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE = r"\s*(?:Z|UTC|(?P<sign>[+-])(?P<zone_hours>\d\d)(?::?(?P<zone_minutes>\d\d))?)?"
_TIME = re.compile(rf"{_CLOCK}Z?", re.ASCII)
_DATE = re.compile(rf"(?P<year>[+-]?\d{{4,10}})-(?P<month>\d\d?)-(?P<day>\d\d?)(?:[T ]\s*{_CLOCK}{_ZONE}|Z)?", re.ASCII)
_ISO = r"^\+?(?P<year>-?\d{4,10})-(?P<rest>[^Z]*)$"
_YEARS_OF_A_CYCLE = 400
"""After this many years dates have the same days of the week and of months."""


def parse_moment(text: str, type_: pa.DataType, digits: int = NANO_DIGITS) -> str:
    """Return the date, timestamp or time in a text in ISO-8601.

    Args:
        text: Such as ``2024-02-29``, ``2024-02-29 12:30``, ``2024-02-29T12:30:00.5+01:00`` or ``12:30:00``.
        type_: What it is read as. A date has no time of day; an offset counts for instants only.
        digits: The digits of fractions of seconds that are kept.

    Raises:
        InvalidOption: It is not written like that, or there is no such day or time.
    """
    is_time = pa.types.is_time(type_)
    match = (_TIME if is_time else _DATE).fullmatch(text.strip())
    result = None if match is None else _from_parts(match.groupdict(), type_, digits)
    if result is None:
        like = "12:30:00" if is_time else "2024-02-29" if pa.types.is_date(type_) else "2024-02-29T12:30:00.5Z (in UTC)"
        raise InvalidOption(f"'{text}' is not a {type_}", advice=f"write it like {like}")
    return result


def _from_parts(found: dict[str, str | None], type_: pa.DataType, digits: int) -> str | None:
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = _fraction((found["fraction"] or "")[:digits])
    if pa.types.is_time(type_):
        return f"{hour:02}:{minute:02}:{second:02}{fraction}"
    year, month, day = (int(found[name] or 0) for name in ("year", "month", "day"))
    representative = 2000 + year % _YEARS_OF_A_CYCLE
    if not 1 <= month <= 12 or not 1 <= day <= monthrange(representative, month)[1]:
        return None
    if pa.types.is_date(type_):
        return f"{_year(year)}-{month:02}-{day:02}"
    moment = datetime(representative, month, day, hour, minute, second)
    is_instant = type_.tz is not None
    if is_instant and found["sign"]:
        offset = timedelta(hours=int(found["zone_hours"] or 0), minutes=int(found["zone_minutes"] or 0))
        moment += offset if found["sign"] == "-" else -offset
        year += moment.year - representative
    return f"{_year(year)}-{moment:%m-%dT%H:%M:%S}{fraction}{'Z' if is_instant else ''}"


def _year(year: int) -> str:
    return f"{year:+}" if year > 9999 else f"{year:05}" if year < 0 else f"{year:04}"


def _fraction(digits: str) -> str:
    """Return a fraction of a second as java.time prints it: in groups of three digits, without a group of zeros."""
    digits = digits.rstrip("0")
    return "." + digits.ljust(-(-len(digits) // 3) * 3, "0") if digits else ""


def iso_texts(operand: SqlValue) -> pa.Array:
    """Return ISO text of dates, timestamps or times; of a scalar one row."""
    values = pa.repeat(operand.values, 1) if operand.is_scalar else operand.values
    return values if pa.types.is_string(values.type) else pa.array(json_values(values), pa.string())


def ordered_text(operand: SqlValue, like: SqlValue) -> Any:
    """Return text that is ordered as the dates or times are.

    Args:
        operand: Dates, timestamps or times; or a text literal.
        like: What the operand is compared with; its type decides how a text literal is read.

    Raises:
        InvalidOption: The literal is not written as ``like`` needs it.
    """
    type_ = operand.type
    if operand.kind == "text":
        if not operand.is_scalar or operand.values.as_py() is None:
            raise InvalidOption(
                f"{like.type} cannot be compared with {operand.shown}", advice="compare it with a literal in quotes"
            )
        # Rows of Arrow's types have no more digits than these.
        digits = NANO_DIGITS if pa.types.is_string(like.values.type) else MICRO_DIGITS
        type_ = like.type
        texts = pa.repeat(parse_moment(operand.values.as_py(), type_, digits), 1)
    else:
        texts = iso_texts(operand)
    if not pa.types.is_time(type_):
        texts = _with_biased_years(pc.utf8_rtrim(texts, "Z"))
        if pa.types.is_date(type_):
            texts = pc.binary_join_element_wise(texts, "T00:00:00", "")
    return texts[0] if operand.is_scalar else texts


def _with_biased_years(texts: pa.Array) -> pa.Array:
    four_digits = pc.all(pc.match_substring_regex(texts, r"^\d{4}-")).as_py()
    if four_digits is not False:
        return pc.binary_join_element_wise(str(YEAR_BIAS)[:-4], texts, "")
    parts = pc.extract_regex(texts, _ISO)
    years = pc.add(pc.cast(pc.struct_field(parts, "year"), pa.int64()), YEAR_BIAS)
    return pc.binary_join_element_wise(pc.cast(years, pa.string()), pc.struct_field(parts, "rest"), "-")


def convert_moment(operand: SqlValue, type_: pa.DataType) -> SqlValue:
    """Convert a date or timestamp to another of these types, or a timestamp to a time. Instants are shown in UTC."""
    texts = pc.utf8_rtrim(iso_texts(operand), "Z")
    if operand.kind == "time" or pa.types.is_time(type_):
        if operand.kind != "time" and not pa.types.is_timestamp(operand.type):
            raise InvalidOption(f"{operand.shown} has no time of day")
        if operand.kind == "time" and not pa.types.is_time(type_):
            raise InvalidOption(f"{operand.shown} is not a date or timestamp")
        texts = pc.replace_substring_regex(texts, "^.*T", "")
    elif pa.types.is_date(type_):
        texts = pc.replace_substring_regex(texts, "T.*$", "")
    else:
        if pa.types.is_date(operand.type):
            texts = pc.binary_join_element_wise(texts, "T00:00:00", "")
        if type_.tz is not None:
            texts = pc.binary_join_element_wise(texts, "Z", "")
    return SqlValue(texts[0] if operand.is_scalar else texts, type_)


def sql_texts(operand: SqlValue) -> pa.Array:
    """Return dates, timestamps and times as SQL prints them: ``2024-02-29 12:30:00.5+00``; of a scalar one row."""
    texts = pc.replace_substring_regex(iso_texts(operand), r"^\+", "")
    texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+(Z?)$", r"\1\2")
    return pc.replace_substring(pc.replace_substring(texts, "T", " "), "Z", "+00")
