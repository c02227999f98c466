"""Bring dates and times, as Arrow's types or ISO text, into text whose order is that of time."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption
from stateproc.filters.sql_value import SqlValue
from stateproc.row_formats.json_values import json_values

_YEAR_BIAS = 20_000_000_000
"""Added to years, so that all, negative ones too, have eleven digits."""

_CLOCK = r"(?P<minutes>\d\d:\d\d)(?P<seconds>:\d\d)?(?P<fraction>\.\d{1,9})?"
_DAY = r"(?P<year>[+-]?\d{4,10})-(?P<day>\d\d-\d\d)"
_TIME_LITERAL = re.compile(_CLOCK)
_DATE_LITERAL = re.compile(rf"{_DAY}(?:[T ]{_CLOCK})?Z?")
_ISO = r"^\+?(?P<year>-?\d{4,10})-(?P<rest>[^Z]*)$"


def ordered_text(operand: SqlValue, like: SqlValue) -> Any:
    """Return text that is ordered as the dates or times are.

    Args:
        operand: Dates, timestamps or times, as Arrow's types or as ISO text; or a text literal.
        like: What the operand is compared with; its type decides how a text literal is read.

    Raises:
        InvalidOption: The literal is not written as ``like`` needs it.
    """
    if operand.kind == "text":
        if not operand.is_scalar or operand.values.as_py() is None:
            raise InvalidOption(
                f"{like.type} cannot be compared with {operand.shown}", advice="compare it with a literal in quotes"
            )
        return pa.scalar(_literal(operand.values.as_py(), like.type))
    values = operand.values
    if operand.is_scalar:
        values = pa.array([values.as_py()], values.type)
    texts = values if pa.types.is_string(values.type) else pa.array(json_values(values), pa.string())
    if operand.kind == "date":
        texts = _with_biased_years(pc.utf8_rtrim(texts, "Z"))
        if pa.types.is_date(operand.type):
            texts = pc.binary_join_element_wise(texts, "T00:00:00", "")
    return texts[0] if operand.is_scalar else texts


def _with_biased_years(texts: pa.Array) -> pa.Array:
    four_digits = pc.all(pc.match_substring_regex(texts, r"^\d{4}-")).as_py()
    if four_digits is not False:
        return pc.binary_join_element_wise(str(_YEAR_BIAS)[:-4], texts, "")
    parts = pc.extract_regex(texts, _ISO)
    years = pc.add(pc.cast(pc.struct_field(parts, "year"), pa.int64()), _YEAR_BIAS)
    return pc.binary_join_element_wise(pc.cast(years, pa.string()), pc.struct_field(parts, "rest"), "-")


def _literal(text: str, type_: pa.DataType) -> str:
    is_time = pa.types.is_time(type_)
    match = (_TIME_LITERAL if is_time else _DATE_LITERAL).fullmatch(text.strip())
    if match is None:
        like = "12:30:00" if is_time else "2024-02-29" if pa.types.is_date(type_) else "2024-02-29T12:30:00.5Z (in UTC)"
        raise InvalidOption(f"'{text}' is not a {type_}", advice=f"write it like {like}")
    found = match.groupdict()
    clock = f"{found['minutes'] or '00:00'}{found['seconds'] or ':00'}{_fraction(found['fraction'])}"
    return clock if is_time else f"{int(found['year']) + _YEAR_BIAS}-{found['day']}T{clock}"


def _fraction(text: str | None) -> str:
    """Return a fraction of a second as java.time prints it: in groups of three digits, without a group of zeros."""
    digits = (text or "").lstrip(".").rstrip("0")
    return "." + digits.ljust(-(-len(digits) // 3) * 3, "0") if digits else ""
