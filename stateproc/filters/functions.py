"""The functions of conditions, by sqlglot's node or by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from stateproc.errors import InvalidOption
from stateproc.filters import text_functions as text
from stateproc.filters.comparison import compare
from stateproc.filters.elements import contains, size
from stateproc.filters.exact_numbers import as_double, as_exact, as_float, is_integer, map_exact, small_integer
from stateproc.filters.float_numbers import common_float, is_float, round_floats
from stateproc.filters.moments import YEAR_BIAS, iso_texts, ordered_text
from stateproc.filters.sql_value import SqlValue


@dataclass(frozen=True)
class SqlFunction:
    """A function: the arguments of its node in order, and what computes it from their values."""

    arguments: tuple[str, ...]
    call: Callable[..., SqlValue]


def _rounded(number: SqlValue, *digits: SqlValue) -> SqlValue:
    places = small_integer(digits[0]) if digits else 0
    if is_float(number):
        return SqlValue(round_floats(number.values, places), number.type)
    if abs(places) > 100:
        raise InvalidOption(f"{places} is not a number of digits", advice="ROUND knows at most 100")
    return map_exact(lambda row: row.scaleb(places).to_integral_value(ROUND_HALF_UP).scaleb(-places), number)


def _whole(kernel: Callable[[Any], Any], mode: str) -> Callable[[SqlValue], SqlValue]:
    """Return FLOOR or CEIL: of whole numbers a double, as DuckDB has it."""

    def whole(number: SqlValue) -> SqlValue:
        if is_float(number):
            return SqlValue(kernel(number.values), number.type)
        if is_integer(number):
            return SqlValue(as_double(number), pa.float64())
        return map_exact(lambda row: row.to_integral_value(mode), number)

    return whole


def _absolute(number: SqlValue) -> SqlValue:
    if is_float(number):
        return SqlValue(pc.abs(number.values), number.type)
    return map_exact(abs, number)


def choose(conditions: list[Any], values: list[SqlValue], default: SqlValue) -> SqlValue:
    """Return the value of the first condition that is true, else the default."""
    (*branches, result), type_ = _common(*values, default)
    for mask, value in zip(reversed(conditions), reversed(branches), strict=True):
        result = pc.if_else(pc.fill_null(mask, False), value, result)
    return SqlValue(result, type_)


def _coalesce(*operands: SqlValue) -> SqlValue:
    values, type_ = _common(*operands)
    return SqlValue(pc.coalesce(*values), type_)


def _nullif(value: SqlValue, other: SqlValue) -> SqlValue:
    return choose([compare("=", value, other)], [SqlValue(pa.scalar(None), pa.null())], value)


def _common(*operands: SqlValue) -> tuple[list[Any], pa.DataType]:
    """Return values of one type: floats or doubles if one is, else exact numbers. Raises InvalidOption."""
    typed = [operand for operand in operands if operand.kind != "null"]
    if not typed:
        return [operand.values for operand in operands], pa.null()
    if {operand.kind for operand in typed} == {"number"} and len({operand.type for operand in typed}) > 1:
        floats = common_float(*typed)
        typed = [as_exact(item) if floats is None else SqlValue(as_float(item, floats), floats) for item in typed]
    first = typed[0]
    if any(operand.type != first.type for operand in typed):
        raise InvalidOption(f"values of different types: {', '.join(operand.shown for operand in typed)}")
    if any(operand.values.type != first.values.type for operand in typed):
        typed = [_iso(operand) for operand in typed]  # of dates and times, some as ISO text
    remaining, null = iter(typed), pa.scalar(None, typed[0].values.type)
    return [null if operand.kind == "null" else next(remaining).values for operand in operands], first.type


def _iso(operand: SqlValue) -> SqlValue:
    texts = iso_texts(operand)
    return SqlValue(texts[0] if operand.is_scalar else texts, operand.type)


@dataclass(frozen=True)
class _DatePart:
    """A part of a date or time: where its digits are in ``ordered_text``, those of a time begin later."""

    start: int
    stop: int
    bias: int = 0

    def __call__(self, operand: SqlValue) -> SqlValue:
        offset = _CLOCK_START if operand.kind == "time" else 0
        if operand.kind not in ("date", "time") or self.start < offset:
            raise InvalidOption(f"{operand.shown} has no such part", advice="it needs a date, timestamp or time")
        digits = pc.utf8_slice_codeunits(ordered_text(operand, operand), self.start - offset, self.stop - offset)
        return SqlValue(pc.subtract(pc.cast(digits, pa.int64()), self.bias), pa.int64())


_CLOCK_START = 18
_DATE_PARTS = {
    "year": _DatePart(0, 11, YEAR_BIAS),
    "month": _DatePart(12, 14),
    "day": _DatePart(15, 17),
    "hour": _DatePart(18, 20),
    "minute": _DatePart(21, 23),
    "second": _DatePart(24, 26),
}


def date_part(name: str, operand: SqlValue) -> SqlValue:
    """Return a part of a date or time. Raises InvalidOption for other parts and types."""
    part = _DATE_PARTS.get(name.lower())
    if part is None:
        raise InvalidOption(f"{name} is not a part of a date", advice=f"there are: {', '.join(_DATE_PARTS)}")
    return part(operand)


def _date_part(name: SqlValue, operand: SqlValue) -> SqlValue:
    return date_part(str(name.values) if name.is_scalar else name.shown, operand)


_TEXT_AND_PATTERN = ("this", "expression")
FUNCTIONS: dict[type[exp.Expr], SqlFunction] = {
    exp.Lower: SqlFunction(("this",), text.of_text(pc.utf8_lower)),
    exp.Upper: SqlFunction(("this",), text.of_text(pc.utf8_upper)),
    exp.Trim: SqlFunction(("this",), text.trim),
    exp.Length: SqlFunction(("this",), text.length),
    exp.Substring: SqlFunction(("this", "start", "length"), text.substring),
    exp.Concat: SqlFunction(("expressions",), text.concat),
    exp.DPipe: SqlFunction(_TEXT_AND_PATTERN, text.joined),
    exp.StartsWith: SqlFunction(_TEXT_AND_PATTERN, text.matching(pc.starts_with)),
    exp.EndsWith: SqlFunction(_TEXT_AND_PATTERN, text.matching(pc.ends_with)),
    exp.Contains: SqlFunction(_TEXT_AND_PATTERN, text.contains_text_or_element),
    exp.RegexpLike: SqlFunction(_TEXT_AND_PATTERN, text.matching(text.matches_regex)),
    exp.RegexpFullMatch: SqlFunction(_TEXT_AND_PATTERN, text.matching(text.matches_whole_regex)),
    exp.FromBase64: SqlFunction(("this",), text.from_base64),
    exp.Abs: SqlFunction(("this",), _absolute),
    exp.Floor: SqlFunction(("this",), _whole(pc.floor, "ROUND_FLOOR")),
    exp.Ceil: SqlFunction(("this",), _whole(pc.ceil, "ROUND_CEILING")),
    exp.Round: SqlFunction(("this", "decimals"), _rounded),
    exp.Coalesce: SqlFunction(("this", "expressions"), _coalesce),
    exp.Nullif: SqlFunction(_TEXT_AND_PATTERN, _nullif),
    exp.ArraySize: SqlFunction(("this",), size),
    exp.ArrayContains: SqlFunction(_TEXT_AND_PATTERN, contains),
    exp.MapContainsKey: SqlFunction(("this", "key"), contains),
    exp.Year: SqlFunction(("this",), _DATE_PARTS["year"]),
    exp.Month: SqlFunction(("this",), _DATE_PARTS["month"]),
    exp.Day: SqlFunction(("this",), _DATE_PARTS["day"]),
    exp.Hour: SqlFunction(("this",), _DATE_PARTS["hour"]),
    exp.Minute: SqlFunction(("this",), _DATE_PARTS["minute"]),
    exp.Second: SqlFunction(("this",), _DATE_PARTS["second"]),
}

NAMED_FUNCTIONS: dict[str, Callable[..., SqlValue]] = {
    "SIZE": size,
    "CARDINALITY": size,
    "MAP_CONTAINS": contains,
    "PREFIX": text.matching(pc.starts_with),
    "SUFFIX": text.matching(pc.ends_with),
    "DATE_PART": _date_part,
}
