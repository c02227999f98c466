"""Convert values to other types: CAST, and TRY_CAST, which is null for values that cannot be converted."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException, localcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from stateproc.errors import InvalidOption
from stateproc.filters.blobs import blob_text, parse_blob
from stateproc.filters.exact_numbers import as_float, check_number, exact_operand, exact_rows, is_integer
from stateproc.filters.float_numbers import is_float
from stateproc.filters.moments import convert_moment, parse_moment, sql_texts
from stateproc.filters.sql_value import EXACT, SqlValue
from stateproc.row_formats.json_values import json_values

_DEFAULT_DECIMAL = (18, 3)
"""What DECIMAL means without parameters. CAST to it has as many digits before the point as a value needs."""

_MOST_DIGITS = 1000
"""Numbers with more digits before the point are refused."""
_CONTEXT = Context(prec=2 * _MOST_DIGITS)

_INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INT": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "INT128": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINT": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
}
_FLOATS = {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}
_MOMENTS = {
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}
_TEXTS = ("TEXT", "VARCHAR")
_SHOWN = "VARCHAR, DOUBLE, FLOAT, DECIMAL(p, s), TINYINT to HUGEINT, BLOB, DATE, TIME, TIMESTAMP, TIMESTAMPTZ"


def cast(operand: SqlValue, to: exp.DataType, *, lenient: bool = False) -> SqlValue:
    """Convert to a type.

    Args:
        operand: The values.
        to: The type, as sqlglot parsed it.
        lenient: Values that cannot be converted are null instead of errors.

    Raises:
        InvalidOption: The type is not supported, or a value cannot be converted.
    """
    name, parameters = to.this.name, [int(item.name) for item in to.expressions if item.name.isdigit()]
    if len(parameters) != len(to.expressions) or (parameters and name != "DECIMAL"):
        raise _unsupported(to)
    convert = _conversion(name, parameters, lenient)
    if convert is None:
        raise _unsupported(to)
    return operand if operand.kind == "null" else convert(operand)


def _unsupported(to: exp.DataType) -> InvalidOption:
    return InvalidOption(f"CAST to {to.sql('duckdb').upper()} is not supported", advice=f"there are: {_SHOWN}")


def _conversion(name: str, parameters: list[int], lenient: bool) -> Callable[[SqlValue], SqlValue] | None:
    if name in _TEXTS:
        return as_text
    if name in _FLOATS:
        return lambda operand: _as_float(operand, _FLOATS[name], lenient)
    if name in _INTEGERS:
        low, high = _INTEGERS[name]
        return lambda operand: _as_integer(operand, low, high, lenient)
    if name == "DECIMAL" and len(parameters) <= 2:
        return lambda operand: _as_decimal(operand, parameters, lenient)
    if name in _MOMENTS:
        return lambda operand: _as_moment(operand, _MOMENTS[name], lenient)
    return _as_blob if name in ("VARBINARY", "BLOB") else None


def as_text(operand: SqlValue) -> SqlValue:
    """Return the values as text, as DuckDB prints them. Raises InvalidOption for lists, maps and structs."""
    if operand.kind == "text":
        return operand
    values = pa.repeat(operand.values, 1) if operand.is_scalar else operand.values
    texts: Any
    if operand.kind in ("date", "time"):
        texts = sql_texts(operand)
    elif operand.kind == "boolean":
        texts = pc.cast(values, pa.string())
    elif is_float(operand):
        # json_values has the double with the digits of a float; "-nan" does not exist in SQL.
        numbers = [None if row is None else float(row) for row in json_values(values)]
        texts = pa.array([None if number is None else repr(number) for number in numbers], pa.string())
    elif operand.type == EXACT:
        texts = pa.array([None if row is None else _plain(Decimal(row)) for row in values.to_pylist()], pa.string())
    elif operand.kind == "number":
        texts = pa.array([None if row is None else str(row) for row in json_values(values)], pa.string())
    elif operand.kind == "bytes":
        texts = pa.array([None if row is None else blob_text(row) for row in values.to_pylist()], pa.string())
    else:
        raise InvalidOption(f"{operand.shown} has no text")
    return SqlValue(texts[0] if operand.is_scalar else texts, pa.string())


def _plain(number: Decimal) -> str:
    """Return the digits without an exponent, unless these are very many."""
    return format(number, "f") if abs(number.adjusted()) < 100 else str(number)


def _as_float(operand: SqlValue, type_: pa.DataType, lenient: bool) -> SqlValue:
    if operand.kind != "text" or not lenient:
        return SqlValue(as_float(operand, type_), type_)
    return _by_row(lambda row: float(Decimal(row)), operand, lambda rows: pa.array(rows, type_), type_)


def _by_row(
    convert: Callable[[Any], Any], operand: SqlValue, to_arrow: Callable[[list[Any]], pa.Array], type_: pa.DataType
) -> SqlValue:
    """Convert row by row to null where ``convert`` raises."""

    def attempt(row: Any) -> Any:
        try:
            return None if row is None else convert(row)
        except (DecimalException, InvalidOption):
            return None

    values = pa.repeat(operand.values, 1) if operand.is_scalar else operand.values
    array = to_arrow([attempt(row) for row in values.to_pylist()])
    return SqlValue(array[0] if operand.is_scalar else array, type_)


def _as_integer(operand: SqlValue, low: int, high: int, lenient: bool) -> SqlValue:
    if operand.kind == "boolean":
        return SqlValue(pc.cast(operand.values, pa.int64()), pa.int64())
    if is_integer(operand) and not operand.is_scalar:
        bounds = pc.min_max(operand.values).as_py()
        if bounds["min"] is None or (bounds["min"] >= low and bounds["max"] <= high):
            return operand

    def whole(row: Any) -> Decimal:
        if isinstance(row, float):
            # Of floats halves are rounded to even numbers, of decimals away from zero.
            number = Decimal(round(row)) if math.isfinite(row) else Decimal(row)
        else:
            number = Decimal(row).to_integral_value(ROUND_HALF_UP)
        if not number.is_finite() or not low <= number <= high:
            raise _out_of_range(row, f"{low} to {high}")
        return number

    return _exact(operand, whole, lenient)


def _as_decimal(operand: SqlValue, parameters: list[int], lenient: bool) -> SqlValue:
    precision, scale = (*parameters, 0)[:2] if parameters else _DEFAULT_DECIMAL
    if not 1 <= max(precision, scale) == precision <= 38:
        raise InvalidOption(f"DECIMAL({precision}, {scale}) does not exist", advice="DECIMAL(p, s): s <= p <= 38")
    unit = Decimal(1).scaleb(-scale)
    digits = _MOST_DIGITS if (precision, scale) == _DEFAULT_DECIMAL and not lenient else precision - scale

    def rounded(row: Any) -> Decimal:
        number = Decimal(repr(row)) if isinstance(row, float) else Decimal(row)
        if number.is_finite() and number.adjusted() < _MOST_DIGITS:
            with localcontext(_CONTEXT):
                number = (number / unit).to_integral_value(ROUND_HALF_UP) * unit
            if abs(number) < Decimal(10) ** digits:
                return number
        raise _out_of_range(row, f"DECIMAL({precision}, {scale})")

    return _exact(operand, rounded, lenient)


def _exact(operand: SqlValue, convert: Callable[[Any], Decimal], lenient: bool) -> SqlValue:
    """Return exact numbers; what ``convert`` refuses is null if ``lenient``."""
    check_number(operand)
    if lenient:
        kept = _by_row(convert, operand, _decimal_texts, EXACT)
        return SqlValue(kept.values, EXACT)
    rows = exact_rows(operand, 1 if operand.is_scalar else len(operand.values))
    return exact_operand([None if row is None else convert(row) for row in rows], operand.is_scalar)


def _decimal_texts(rows: list[Any]) -> pa.Array:
    return pa.array([None if row is None else str(row) for row in rows], pa.string())


def _out_of_range(row: Any, range_: str) -> InvalidOption:
    return InvalidOption(f"{row} is out of the range of {range_}", advice="TRY_CAST is null for such values")


def _as_moment(operand: SqlValue, type_: pa.DataType, lenient: bool) -> SqlValue:
    if operand.kind in ("date", "time"):
        return convert_moment(operand, type_)
    if operand.kind != "text":
        raise InvalidOption(f"{operand.shown} is neither a date or time nor text")
    if lenient:
        return _by_row(lambda row: parse_moment(row, type_), operand, lambda rows: pa.array(rows, pa.string()), type_)
    rows = [operand.values.as_py()] if operand.is_scalar else operand.values.to_pylist()
    texts = [None if row is None else parse_moment(row, type_) for row in rows]
    return SqlValue(pa.scalar(texts[0], pa.string()) if operand.is_scalar else pa.array(texts, pa.string()), type_)


def _as_blob(operand: SqlValue) -> SqlValue:
    if operand.kind == "bytes":
        return operand
    if operand.kind != "text" or not operand.is_scalar:
        raise InvalidOption(f"{operand.shown} is not a text literal", advice=r"write bytes like '\x00\xFFabc'")
    return SqlValue(pa.scalar(parse_blob(operand.values.as_py()), pa.binary()), pa.binary())
