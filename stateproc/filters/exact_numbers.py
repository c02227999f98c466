"""Compare and calculate integers and decimals exactly, numbers of which one is a float in its type."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption
from stateproc.filters.float_numbers import KERNELS, common_float, compare_floats, float_arithmetic, is_float
from stateproc.filters.sql_value import EXACT, SqlValue

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _whole_quotient(dividend: Any, divisor: Any) -> Any:
    """Divide int64s, truncating towards zero; null where the divisor is 0. Raises ArrowInvalid on overflow."""
    return pc.divide_checked(dividend, pc.if_else(pc.equal(divisor, 0), pa.scalar(None, pa.int64()), divisor))


def _remainder(dividend: Any, divisor: Any) -> Any:
    """Return what a whole quotient leaves, with the sign of the dividend."""
    return pc.subtract(dividend, pc.multiply(_whole_quotient(dividend, divisor), divisor))


_INTEGER_KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "%": _remainder,
    "DIV": _whole_quotient,
}
_EXACT_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
    "DIV": operator.floordiv,  # of Decimals it truncates towards zero, as SQL does
}
_CONTEXT = Context(prec=100, traps=[])
"""Digits of exact results; comparisons with NaN are false instead of errors."""


def is_integer(operand: SqlValue) -> bool:
    return bool(pa.types.is_integer(operand.type))


def compare_numbers(sign: str, left: SqlValue, right: SqlValue) -> Any:
    """Compare numbers, or a number and text: as floats if one is a float, else exactly.

    Of two operands that are not both scalars, ``left`` is an array. Raises InvalidOption for text without a number.
    """
    floats = common_float(left, right)
    if floats is not None:
        return compare_floats(sign, as_float(left, floats), as_float(right, floats))
    if pa.types.is_decimal(left.values.type) and right.type == EXACT and _is_given(right):
        return _compare_decimals(sign, left, right)
    if is_integer(left) and not left.is_scalar:
        if _is_given(right):
            return _compare_integers(sign, left.values, exact_scalar(right))
        if is_integer(right):
            try:
                return KERNELS[sign](left.values, right.values)
            except pa.ArrowInvalid:
                pass  # an unsigned integer that no int64 holds: compared exactly below
    return _rows_to_arrow(*_by_row(_COMPARE[sign], left, right), pa.bool_())


def as_one_float(*operands: SqlValue) -> list[SqlValue]:
    """Return numbers as doubles if one is a double, as floats if one is a float; other operands as they are."""
    floats = common_float(*operands)
    if floats is None:
        return list(operands)
    return [SqlValue(as_float(item, floats), floats) if item.kind == "number" else item for item in operands]


def _is_given(operand: SqlValue) -> bool:
    """Return whether the operand is a scalar that is not null."""
    return operand.is_scalar and bool(operand.values.is_valid)


def _compare_integers(sign: str, values: pa.Array, literal: Decimal) -> Any:
    """Compare integers with any number q: x < q and x <= q mean x <= floor(q); x > q and x >= q mean x > floor(q)."""
    type_ = pa.uint64() if values.type == pa.uint64() else pa.int64()
    low, high = (0, 2**64 - 1) if type_ == pa.uint64() else (-(2**63), 2**63 - 1)
    if not low <= literal <= high:
        return _constant(values, sign == "!=" or (sign != "=" and (literal > 0) == (sign in ("<", "<="))))
    floor = int(literal.to_integral_value(rounding=ROUND_FLOOR))
    if floor != literal:
        if sign in ("=", "!="):
            return _constant(values, sign == "!=")
        sign = "<=" if sign in ("<", "<=") else ">"
    return KERNELS[sign](pc.cast(values, type_), pa.scalar(floor, type_))


def _compare_decimals(sign: str, left: SqlValue, right: SqlValue) -> Any:
    """Compare decimals with a literal: by a kernel where 76 digits are enough for both."""
    try:
        return KERNELS[sign](left.values, pa.scalar(exact_scalar(right)))
    except pa.ArrowException:
        return _rows_to_arrow(*_by_row(_COMPARE[sign], left, right), pa.bool_())


def _constant(values: pa.Array, answer: bool) -> Any:
    """Return ``answer`` for every value, null for null."""
    return pc.if_else(values.is_valid(), answer, pa.scalar(None, pa.bool_()))


def arithmetic(sign: str, left: SqlValue, right: SqlValue) -> SqlValue:
    """Calculate: in floats or doubles if an operand is one, else exactly; a quotient of whole numbers is a double.

    A remainder or whole quotient of a division by zero is null, of floats NaN.
    """
    floats = common_float(left, right) or (pa.float64() if sign == "/" else None)
    if floats is not None:
        return SqlValue(float_arithmetic(sign, as_float(left, floats), as_float(right, floats)), floats)
    a, b = _int64(left), _int64(right)
    if a is not None and b is not None:
        try:
            return SqlValue(_INTEGER_KERNELS[sign](a, b), pa.int64())
        except pa.ArrowInvalid:
            pass  # overflow: calculated exactly below
    calculate = _EXACT_OPERATORS[sign]
    if sign not in ("%", "DIV"):
        rows, single = _by_row(calculate, left, right)
        return exact_operand(rows, single)
    if sign == "DIV":
        for operand in (left, right):
            if _has_fraction(operand):
                raise InvalidOption("// needs whole numbers", advice="FLOOR(a / b) divides other numbers")
    return exact_operand(*_by_row(lambda x, y: calculate(x, y) if y else None, left, right))


def _has_fraction(operand: SqlValue) -> bool:
    """Return whether a number has digits after the point by its type or as it is written."""
    if operand.type == EXACT:
        return operand.is_scalar and "." in str(operand.values.as_py())
    return bool(pa.types.is_decimal(operand.type)) and operand.type.scale > 0


def negated(operand: SqlValue) -> SqlValue:
    """Return the number with the other sign."""
    if is_float(operand):
        return SqlValue(pc.negate(operand.values), operand.type)
    return arithmetic("-", SqlValue(pa.scalar("0"), EXACT), operand)


def exact_operand(rows: list[Any], single: bool) -> SqlValue:
    """Return exact numbers as an operand; a result that is not finite is null."""
    texts = [_digits(row) if row is not None and row.is_finite() else None for row in rows]
    return SqlValue(_rows_to_arrow(texts, single, pa.string()), EXACT)


def _digits(row: Decimal) -> str:
    return str(row if row else row.copy_abs())


def _int64(operand: SqlValue) -> Any:
    """Return an integer operand, or an integer literal, as int64; None for others."""
    if is_integer(operand):
        try:
            return pc.cast(operand.values, pa.int64())
        except pa.ArrowInvalid:
            return None  # an unsigned integer that no int64 holds
    if operand.type == EXACT and operand.is_scalar and operand.values.as_py() is not None:
        literal = exact_scalar(operand)
        if abs(literal) < 2**63 and literal == literal.to_integral_value() and literal.as_tuple().exponent == 0:
            return pa.scalar(int(literal), pa.int64())
    return None


def as_float(operand: SqlValue, type_: pa.DataType) -> Any:
    """Return the values as floats or doubles, rounded to the nearest."""
    check_number(operand)
    if operand.kind == "null" and operand.is_scalar:
        return pa.scalar(None, type_)
    if operand.is_scalar and not is_float(operand) and operand.kind in ("number", "text"):
        value = exact_scalar(operand) if operand.values.is_valid else None
        return pa.scalar(None if value is None else float(value), type_)
    if is_integer(operand) or is_float(operand):
        return pc.cast(operand.values, type_, safe=False)
    rows = [None if row is None else float(row) for row in exact_rows(operand, len(operand.values))]
    return pa.array(rows, type_)


def as_double(operand: SqlValue) -> Any:
    """Return the values as doubles, rounded to the nearest."""
    return as_float(operand, pa.float64())


def as_exact(operand: SqlValue) -> SqlValue:
    """Return the values as exact numbers."""
    return operand if operand.type == EXACT else map_exact(lambda row: row, operand)


def map_exact(function: Callable[[Decimal], Decimal], operand: SqlValue) -> SqlValue:
    """Apply a function to the exact values."""
    rows = exact_rows(operand, 1 if operand.is_scalar else len(operand.values))
    decimals = [None if row is None else Decimal(row) for row in rows]
    with localcontext(_CONTEXT):
        results = [None if row is None else function(row) for row in decimals]
    return exact_operand(results, operand.is_scalar)


def check_number(operand: SqlValue) -> None:
    """Raise InvalidOption for what is neither a number nor text."""
    if operand.kind not in ("number", "text", "null"):
        raise InvalidOption(f"{operand.shown} is not a number")


def exact_scalar(operand: SqlValue) -> Decimal:
    """Return the value of a scalar that is not null."""
    return Decimal(exact_rows(operand, 1)[0])


def small_integer(operand: SqlValue) -> int:
    """Return a literal as int. Raises InvalidOption if it is not a whole number that 32 bits hold."""
    number = exact_scalar(operand) if _is_literal(operand) else None
    if number is None or not number.is_finite() or abs(number) >= 2**31 or number != number.to_integral_value():
        raise InvalidOption(f"{operand.shown} is not a whole number", advice="a literal is needed here")
    return int(number)


def _is_literal(operand: SqlValue) -> bool:
    return operand.kind == "number" and _is_given(operand)


def exact_rows(operand: SqlValue, count: int) -> list[Any]:
    """Return ``count`` rows as int, float or Decimal. Raises InvalidOption for values that are not numbers."""
    check_number(operand)
    rows = [operand.values.as_py()] * count if operand.is_scalar else operand.values.to_pylist()
    if not (pa.types.is_string(operand.values.type) or pa.types.is_large_string(operand.values.type)):
        return rows
    try:
        return [None if row is None else Decimal(row) for row in rows]
    except InvalidOperation:
        raise InvalidOption(
            "text that is not a number cannot be used as a number",
            advice="text goes in 'single quotes'; TRY_CAST(… AS DOUBLE) is null for such text",
        ) from None


def _by_row(function: Callable[[Any, Any], Any], left: SqlValue, right: SqlValue) -> tuple[list[Any], bool]:
    """Apply a function to the rows, null where either is null; and whether both operands are scalars."""
    single = left.is_scalar and right.is_scalar
    count = next((len(operand.values) for operand in (left, right) if not operand.is_scalar), 1)
    a, b = ([None if row is None else Decimal(row) for row in exact_rows(item, count)] for item in (left, right))
    with localcontext(_CONTEXT):
        return [None if x is None or y is None else function(x, y) for x, y in zip(a, b, strict=True)], single


def _rows_to_arrow(rows: list[Any], single: bool, type_: pa.DataType) -> Any:
    return pa.scalar(rows[0], type_) if single else pa.array(rows, type_)
