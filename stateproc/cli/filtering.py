"""A condition of ``--where`` on a batch: which rows it keeps, with SQL's logic for missing values."""

from __future__ import annotations

import base64
import binascii
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.cli.jsonable import jsonable
from stateproc.cli.where import (
    And,
    Column,
    Condition,
    In,
    IsNull,
    IsTrue,
    Literal,
    Not,
    Or,
    columns_of,
)
from stateproc.errors import InvalidOption

_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip


@dataclass(frozen=True)
class RowFilter:
    """A condition over the columns of ``schema``.

    ``temporal``: the schema in which dates and times are Arrow's types; what ``schema`` has as ISO text is
    still compared as times. Making one raises InvalidOption for columns and literals that do not fit.
    """

    condition: Condition
    schema: pa.Schema
    temporal: pa.Schema

    def __post_init__(self) -> None:
        for column in columns_of(self.condition):
            type_at(self.schema, column)
        empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self.schema], schema=self.schema)
        self.mask(empty)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which the condition is true."""
        return batch.filter(self.mask(batch))

    def mask(self, batch: pa.RecordBatch) -> Any:
        """True, false or null per row."""
        return self._mask(batch, self.condition)

    def _mask(self, batch: pa.RecordBatch, condition: Condition) -> Any:
        if isinstance(condition, And | Or):
            combine = pc.and_kleene if isinstance(condition, And) else pc.or_kleene
            found = self._mask(batch, condition.parts[0])
            for part in condition.parts[1:]:
                found = combine(found, self._mask(batch, part))
            return found
        if isinstance(condition, Not):
            return pc.invert(self._mask(batch, condition.inner))
        values = values_at(batch, condition.column)
        if isinstance(condition, IsNull):
            return pc.is_null(values)
        if isinstance(condition, IsTrue):
            if not pa.types.is_boolean(values.type):
                raise InvalidOption(
                    f"--where: column {condition.column} is no boolean but {values.type}",
                    advice=f"compare it with something, as in {condition.column} = …",
                )
            return values
        if isinstance(condition, In):
            found = self._compare(values, condition.column, "=", condition.literals[0])
            for literal in condition.literals[1:]:
                found = pc.or_kleene(found, self._compare(values, condition.column, "=", literal))
            return found
        return self._compare(values, condition.column, condition.sign, condition.literal)

    def _compare(self, values: pa.Array, column: Column, sign: str, literal: Literal) -> Any:
        kind, temporal = values.type, type_at(self.temporal, column)
        if pa.types.is_temporal(temporal) and (pa.types.is_string(kind) or pa.types.is_temporal(kind)):
            texts = values if pa.types.is_string(kind) else pa.array(jsonable(values), pa.string())
            return _compare_iso(texts, sign, literal, column, temporal)
        for matches, accepts, compare in _KINDS:
            if matches(kind):
                if not isinstance(literal, accepts):
                    raise _misfit(column, kind, literal)
                return compare(values, sign, literal, column)
        raise InvalidOption(
            f"--where: column {column} is {kind}, which has no order",
            advice="compare a field, as in value.name = 'tea'; lists, maps: --flatten, then list_element",
        )


def type_at(schema: pa.Schema, column: Column) -> pa.DataType:
    """The type of a column or of a field in it. Raises InvalidOption, saying which there are."""
    names, kind = list(schema.names), None
    for index, name in enumerate(column.path):
        if name not in names:
            outer = f"field {name!r} in {'.'.join(column.path[:index])}" if index else f"column {name!r}"
            raise InvalidOption(f"--where: no {outer}", advice=f"there are: {', '.join(names)}" if names else None)
        kind = schema.field(name).type if kind is None else kind.field(name).type
        names = [field.name for field in kind] if pa.types.is_struct(kind) else []
    return kind


def values_at(batch: pa.RecordBatch, column: Column) -> pa.Array:
    """The values of a column or of a field in it; null where a struct around them is."""
    values = batch.column(column.path[0])
    return pc.struct_field(values, list(column.path[1:])) if column.path[1:] else values


def _misfit(column: Column, kind: pa.DataType, literal: Literal) -> InvalidOption:
    shown = f"'{literal}'" if isinstance(literal, str) else literal
    advice = "text goes in 'single quotes', numbers and TRUE or FALSE without"
    return InvalidOption(f"--where: column {column} is {kind}, {shown} is not", advice=advice)


def _compare_integers(values: pa.Array, sign: str, literal: Any, column: Column) -> Any:
    """An integer x and a fraction q: x < q, x <= q mean x <= floor(q); x > q, x >= q mean x > floor(q)."""
    whole = literal == literal.to_integral_value()
    floor = int(literal.to_integral_value(rounding=ROUND_FLOOR))
    if not whole:
        if sign in ("=", "!="):
            return _constant(values, sign == "!=")
        sign = "<=" if sign in ("<", "<=") else ">"
    if not -(2**63) <= floor < 2**63:
        below = floor > 0  # every value is, or none
        return _constant(values, sign == "!=" or (sign != "=" and below == (sign in ("<", "<="))))
    return _FUNCTIONS[sign](pc.cast(values, pa.int64()), pa.scalar(floor, pa.int64()))


def _constant(values: pa.Array, answer: bool) -> Any:
    """``answer`` for every value, null for null."""
    return pc.if_else(values.is_valid(), answer, pa.scalar(None, pa.bool_()))


def _compare_floats(values: pa.Array, sign: str, literal: Any, column: Column) -> Any:
    # The literal becomes a float as the column's values are: 0.1 finds what is shown as 0.1.
    return _FUNCTIONS[sign](values, pc.cast(pa.scalar(float(literal), pa.float64()), values.type, safe=False))


def _compare_booleans(values: pa.Array, sign: str, literal: Any, column: Column) -> Any:
    return _FUNCTIONS[sign](values, pa.scalar(literal))


def _compare_text(values: pa.Array, sign: str, literal: Any, column: Column) -> Any:
    if isinstance(literal, Decimal):
        return _compare_numbers(values, sign, literal, column)
    return _FUNCTIONS[sign](values, pa.scalar(literal, values.type))


def _compare_numbers(values: pa.Array, sign: str, literal: Any, column: Column) -> Any:
    """Numbers of any size (decimals, or BigInteger and BigDecimal, which are text) with a number."""
    compare = _NUMBERS[sign]
    try:
        found = [None if item is None else compare(Decimal(item), literal) for item in values.to_pylist()]
    except InvalidOperation:
        raise InvalidOption(
            f"--where: column {column} holds text, {literal} is a number",
            advice=f"text goes in single quotes: {column} {sign} '{literal}'",
        ) from None
    return pa.array(found, pa.bool_())


_NUMBERS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def _compare_bytes(values: pa.Array, sign: str, literal: Any, column: Column) -> Any:
    try:
        wanted = base64.b64decode(literal, validate=True)
    except binascii.Error:
        raise InvalidOption(f"--where: column {column} is bytes", advice="write them as base64 text") from None
    return _FUNCTIONS[sign](values, pa.scalar(wanted, values.type))


def _compare_iso(values: pa.Array, sign: str, literal: Literal, column: Column, kind: pa.DataType) -> Any:
    """Dates and times as ISO text: dates by year, then by the rest, whose order as text is that of time."""
    if not isinstance(literal, str):
        raise InvalidOption(
            f"--where: column {column} holds dates or times, {literal} is a number",
            advice="write it as text: '2024-02-29' or '2024-02-29T12:30:00.5Z' (instants in UTC)",
        )
    year, rest = _moment(literal, column, kind)
    parts = pc.extract_regex(values, _TIME if year is None else _ISO)
    texts = pc.struct_field(parts, "rest")
    if year is None:
        return _FUNCTIONS[sign](texts, pa.scalar(rest))
    years = pc.cast(pc.struct_field(parts, "year"), pa.int64())
    same = pc.equal(years, year)
    if sign in ("=", "!="):
        equal = pc.and_kleene(same, pc.equal(texts, rest))
        return equal if sign == "=" else pc.invert(equal)
    return pc.if_else(same, _FUNCTIONS[sign](texts, rest), _FUNCTIONS[sign](years, year))


def _moment(literal: str, column: Column, kind: pa.DataType) -> tuple[int | None, str]:
    """A literal's year (None: a time of day) and the rest, written as columns of ``kind`` have it."""
    pattern, like = _LITERAL_MOMENT, "2024-02-29T12:30:00.5Z (in UTC)"
    if pa.types.is_time(kind):
        pattern, like = _LITERAL_TIME, "12:30:00"
    elif pa.types.is_date(kind):
        pattern, like = _LITERAL_DATE, "2024-02-29"
    match = pattern.fullmatch(literal.strip())
    if match is None:
        raise InvalidOption(f"--where: '{literal}' is not what column {column} holds", advice=f"write it like {like}")
    found = match.groupdict()
    clock = f"{found.get('minutes') or '00:00'}{found.get('seconds') or ':00'}{_fraction(found.get('fraction'))}"
    if pa.types.is_time(kind):
        return None, clock
    return int(found["year"]), found["day"] if pa.types.is_date(kind) else f"{found['day']}T{clock}"


def _fraction(text: str | None) -> str:
    """A fraction of a second in groups of three digits, none of them only zeros at the end."""
    digits = (text or "").lstrip(".").rstrip("0")
    return "." + digits.ljust(-(-len(digits) // 3) * 3, "0") if digits else ""


_CLOCK = r"(?P<minutes>\d\d:\d\d)(?P<seconds>:\d\d)?(?P<fraction>\.\d{1,9})?"
_LITERAL_TIME = re.compile(_CLOCK)
_DAY = r"(?P<year>[+-]?\d{4,10})-(?P<day>\d\d-\d\d)"
_LITERAL_DATE = re.compile(_DAY)
_LITERAL_MOMENT = re.compile(rf"{_DAY}(?:[T ]{_CLOCK})?Z?")
_ISO = r"^\+?(?P<year>-?\d{4,10})-(?P<rest>[^Z]*)Z?$"
_TIME = r"^(?P<rest>.*)$"

_KINDS: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...], Callable[..., Any]], ...] = (
    (pa.types.is_boolean, (bool,), _compare_booleans),
    (pa.types.is_integer, (Decimal,), _compare_integers),
    (pa.types.is_floating, (Decimal,), _compare_floats),
    (pa.types.is_decimal, (Decimal,), _compare_numbers),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), (str, Decimal), _compare_text),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), (str,), _compare_bytes),
)
