"""The functions of conditions, by sqlglot's node or by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from stateproc.errors import InvalidOption
from stateproc.filters.comparison import compare
from stateproc.filters.elements import contains, size
from stateproc.filters.exact_numbers import as_double, as_exact, exact_scalar, is_float, map_exact
from stateproc.filters.iso_order import ordered_text
from stateproc.filters.sql_value import SqlValue, boolean
from stateproc.row_formats.json_values import json_values


@dataclass(frozen=True)
class SqlFunction:
    """A function: the arguments of its node in order, and what computes it from their values."""

    arguments: tuple[str, ...]
    call: Callable[..., SqlValue]


def _text(operand: SqlValue) -> Any:
    if operand.kind == "null":
        return pa.scalar(None, pa.string())
    if operand.kind != "text":
        raise InvalidOption(f"{operand.shown} is not text", advice="CAST(… AS VARCHAR) makes text of it")
    return operand.values


def _text_literal(operand: SqlValue) -> str:
    if not operand.is_scalar or operand.kind != "text":
        raise InvalidOption("the pattern must be a text literal", advice="write it in 'single quotes'")
    return str(operand.values)


def _of_text(kernel: Callable[[Any], Any]) -> SqlFunction:
    return SqlFunction(("this",), lambda text: SqlValue(kernel(_text(text)), pa.string()))


def _matching(kernel: Callable[..., Any]) -> SqlFunction:
    return SqlFunction(
        ("this", "expression"), lambda text, pattern: boolean(kernel(_text(text), _text_literal(pattern)))
    )


def _regex(text: Any, pattern: str) -> Any:
    try:
        return pc.match_substring_regex(text, pattern)
    except pa.ArrowInvalid as error:
        raise InvalidOption(f"{pattern!r} is not a regular expression: {error}", advice="RE2 syntax") from None


def like(text: SqlValue, pattern: SqlValue, *, escape: str | None, ignore_case: bool) -> Any:
    """Match SQL's patterns: ``%`` any text, ``_`` one character, after ``escape`` (a backslash) themselves."""
    wanted = _text_literal(pattern)
    if escape is not None:
        if len(escape) != 1:
            raise InvalidOption("ESCAPE needs one character")
        # pyarrow knows the backslash as escape only.
        wanted = wanted.replace(escape * 2, "\0").replace("\\", "\\\\").replace(escape, "\\").replace("\0", escape)
    return pc.match_like(_text(text), wanted, ignore_case=ignore_case)


def _substring(text: SqlValue, start: SqlValue, length: SqlValue | None = None) -> SqlValue:
    """Return characters from ``start``, counted from 1 or, if negative, from the end; at most ``length`` of them."""
    position = _small_integer(start)
    first = position - 1 if position > 0 else position
    stop = None if length is None else first + max(_small_integer(length), 0)
    if stop is not None and first < 0 <= stop:
        stop = None
    return SqlValue(pc.utf8_slice_codeunits(_text(text), first, stop), pa.string())


def _small_integer(operand: SqlValue) -> int:
    number = exact_scalar(operand) if operand.is_scalar and operand.kind == "number" else None
    if number is None or number != number.to_integral_value() or abs(number) >= 2**31:
        raise InvalidOption(f"{operand.shown} is not a whole number", advice="a literal is needed here")
    return int(number)


def _length(text: SqlValue) -> SqlValue:
    return SqlValue(pc.cast(pc.utf8_length(_text(text)), pa.int64()), pa.int64())


def _concat(*operands: SqlValue) -> SqlValue:
    return SqlValue(pc.binary_join_element_wise(*map(_text, operands), ""), pa.string())


def _rounding(mode: str) -> Callable[..., SqlValue]:
    def rounded(number: SqlValue, *digits: SqlValue) -> SqlValue:
        places = _small_integer(digits[0]) if digits else 0
        if is_float(number):
            kernel = {ROUND_FLOOR: pc.floor, ROUND_CEILING: pc.ceil}.get(mode)
            values = kernel(number.values) if kernel else pc.round(number.values, places, "half_towards_infinity")
            return SqlValue(values, number.type)
        return map_exact(lambda row: row.scaleb(places).to_integral_value(mode).scaleb(-places), number)

    return rounded


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
    """Return values of one type: doubles if one is, else exact numbers. Raises InvalidOption if there is none."""
    typed = [operand for operand in operands if operand.kind != "null"]
    if not typed:
        return [operand.values for operand in operands], pa.null()
    if {operand.kind for operand in typed} == {"number"} and len({operand.type for operand in typed}) > 1:
        is_double = any(map(is_float, typed))
        typed = [SqlValue(as_double(item), pa.float64()) if is_double else as_exact(item) for item in typed]
    first = typed[0]
    if any(operand.type != first.type for operand in typed):
        raise InvalidOption(f"values of different types: {', '.join(operand.shown for operand in typed)}")
    remaining, null = iter(typed), pa.scalar(None, first.values.type)
    return [null if operand.kind == "null" else next(remaining).values for operand in operands], first.type


def cast(operand: SqlValue, type_: str) -> SqlValue:
    """Convert to a type of ``CASTS``; text of dates and times stays text, which compares as they do."""
    if type_ not in CASTS:
        raise InvalidOption(f"CAST to {type_} is not supported", advice=f"there are: {', '.join(CASTS)}")
    if operand.kind == "null":
        return operand
    return CASTS[type_](operand)


def _as_text(operand: SqlValue) -> SqlValue:
    if operand.is_scalar or pa.types.is_string(operand.values.type):
        return SqlValue(pa.scalar(str(operand.values)) if operand.is_scalar else operand.values, pa.string())
    rows = json_values(operand.values)
    if any(isinstance(row, dict | list) for row in rows):
        raise InvalidOption(f"{operand.shown} has no text")
    texts = [None if row is None else str(row).lower() if isinstance(row, bool) else str(row) for row in rows]
    return SqlValue(pa.array(texts, pa.string()), pa.string())


def _as_integer(operand: SqlValue) -> SqlValue:
    return map_exact(lambda row: row.to_integral_value(ROUND_DOWN), operand)


def _as_moment(operand: SqlValue) -> SqlValue:
    if operand.kind in ("date", "time") or (operand.kind == "text" and operand.is_scalar):
        return operand
    raise InvalidOption(f"{operand.shown} is neither a date or time nor a text literal")


CASTS: dict[str, Callable[[SqlValue], SqlValue]] = {
    **dict.fromkeys(("VARCHAR", "TEXT"), _as_text),
    **dict.fromkeys(("DOUBLE", "FLOAT"), lambda operand: SqlValue(as_double(operand), pa.float64())),
    "DECIMAL": as_exact,
    **dict.fromkeys(("BIGINT", "INT"), _as_integer),
    **dict.fromkeys(("DATE", "TIME", "TIMESTAMP"), _as_moment),
}


def _date_part(start: int, stop: int, *, bias: int = 0, kind: str = "date") -> Callable[[SqlValue], SqlValue]:
    def part(operand: SqlValue) -> SqlValue:
        if operand.kind != kind:
            raise InvalidOption(f"{operand.shown} is not a date or timestamp")
        digits = pc.utf8_slice_codeunits(ordered_text(operand, operand), start, stop)
        return SqlValue(pc.subtract(pc.cast(digits, pa.int64()), bias), pa.int64())

    return part


FUNCTIONS: dict[type[exp.Expr], SqlFunction] = {
    exp.Lower: _of_text(pc.utf8_lower),
    exp.Upper: _of_text(pc.utf8_upper),
    exp.Trim: _of_text(pc.utf8_trim_whitespace),
    exp.Length: SqlFunction(
        ("this",), lambda text: SqlValue(pc.cast(pc.utf8_length(_text(text)), pa.int64()), pa.int64())
    ),
    exp.Substring: SqlFunction(("this", "start", "length"), _substring),
    exp.Concat: SqlFunction(("expressions",), _concat),
    exp.DPipe: SqlFunction(("this", "expression"), _concat),
    exp.StartsWith: _matching(pc.starts_with),
    exp.EndsWith: _matching(pc.ends_with),
    exp.Contains: _matching(pc.match_substring),
    exp.RegexpLike: _matching(_regex),
    exp.Abs: SqlFunction(("this",), _absolute),
    exp.Floor: SqlFunction(("this",), _rounding(ROUND_FLOOR)),
    exp.Ceil: SqlFunction(("this",), _rounding(ROUND_CEILING)),
    exp.Round: SqlFunction(("this", "decimals"), _rounding(ROUND_HALF_UP)),
    exp.Coalesce: SqlFunction(("this", "expressions"), _coalesce),
    exp.Nullif: SqlFunction(("this", "expression"), _nullif),
    exp.ArraySize: SqlFunction(("this",), size),
    exp.ArrayContains: SqlFunction(("this", "expression"), contains),
    exp.MapContainsKey: SqlFunction(("this", "key"), contains),
    exp.Year: SqlFunction(("this",), _date_part(0, 11, bias=20_000_000_000)),
    exp.Month: SqlFunction(("this",), _date_part(12, 14)),
    exp.Day: SqlFunction(("this",), _date_part(15, 17)),
    exp.Hour: SqlFunction(("this",), _date_part(18, 20)),
}

NAMED_FUNCTIONS: dict[str, Callable[..., SqlValue]] = {"SIZE": size, "CARDINALITY": size}
