"""Exact comparison and arithmetic of integers, decimals and doubles."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption
from stateproc.filters.sql_value import EXACT, SqlValue

KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INTEGER_KERNELS = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_FLOAT_KERNELS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
_EXACT_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "DIV": operator.floordiv,  # of Decimals it truncates towards zero, as SQL does
}
_CONTEXT = Context(prec=100, traps=[])
"""Digits of exact results; comparisons with NaN are false instead of errors."""


def is_float(operand: SqlValue) -> bool:
    return bool(pa.types.is_floating(operand.type))


def is_integer(operand: SqlValue) -> bool:
    return bool(pa.types.is_integer(operand.type))


def compare_numbers(sign: str, left: SqlValue, right: SqlValue) -> Any:
    """Compare without rounding: by a kernel where the types allow it, else value by value.

    Of two operands that are not both scalars, ``left`` is an array. Raises InvalidOption for text without a number.
    """
    if right.is_scalar and right.values.as_py() is not None and not left.is_scalar:
        literal = exact_scalar(right)
        if is_integer(left):
            return _compare_integers(sign, left.values, literal)
        if is_float(left):
            # A literal means the float that prints as it: 0.1 finds what is shown as 0.1.
            nearest = left.values.type.to_pandas_dtype()(float(literal))
            if not np.isfinite(nearest) or Decimal(str(nearest)) == literal:
                return KERNELS[sign](left.values, pa.scalar(nearest, left.values.type))
    elif (is_integer(left) and is_integer(right)) or (is_float(left) and is_float(right)):
        return KERNELS[sign](left.values, right.values)
    return _rows_to_arrow(*_by_row(_COMPARE[sign], left, right), pa.bool_())


def _compare_integers(sign: str, values: pa.Array, literal: Decimal) -> Any:
    """Compare integers with any number q: x < q and x <= q mean x <= floor(q); x > q and x >= q mean x > floor(q)."""
    if abs(literal) >= 2**63:
        return _constant(values, sign == "!=" or (sign != "=" and (literal > 0) == (sign in ("<", "<="))))
    floor = int(literal.to_integral_value(rounding=ROUND_FLOOR))
    if floor != literal:
        if sign in ("=", "!="):
            return _constant(values, sign == "!=")
        sign = "<=" if sign in ("<", "<=") else ">"
    return KERNELS[sign](pc.cast(values, pa.int64()), pa.scalar(floor, pa.int64()))


def _constant(values: pa.Array, answer: bool) -> Any:
    """Return ``answer`` for every value, null for null."""
    return pc.if_else(values.is_valid(), answer, pa.scalar(None, pa.bool_()))


def arithmetic(sign: str, left: SqlValue, right: SqlValue) -> SqlValue:
    """Calculate: in doubles if an operand is float or double, else exactly. Division by zero gives null."""
    if is_float(left) or is_float(right):
        a, b = as_double(left), as_double(right)
        if sign in ("/", "%", "DIV"):
            b = pc.if_else(pc.equal(b, 0.0), pa.scalar(None, pa.float64()), b)
        if sign in _FLOAT_KERNELS:
            return SqlValue(_FLOAT_KERNELS[sign](a, b), pa.float64())
        quotient = pc.trunc(pc.divide(a, b))
        if sign == "DIV":
            return SqlValue(quotient, pa.float64())
        values = _by_row(math.fmod, SqlValue(a, pa.float64()), SqlValue(b, pa.float64()))
        return SqlValue(_rows_to_arrow(*values, pa.float64()), pa.float64())
    a, b = _int64(left), _int64(right)
    if sign in _INTEGER_KERNELS and a is not None and b is not None:
        try:
            return SqlValue(_INTEGER_KERNELS[sign](a, b), pa.int64())
        except pa.ArrowInvalid:
            pass  # overflow: calculated exactly below
    calculate = _EXACT_OPERATORS[sign]
    if sign in ("/", "%", "DIV"):
        rows, single = _by_row(lambda x, y: calculate(x, y) if y else None, left, right)
    else:
        rows, single = _by_row(calculate, left, right)
    return exact_operand(rows, single)


def exact_operand(rows: list[Any], single: bool) -> SqlValue:
    """Return exact numbers as an operand; a result that is not finite is null."""
    texts = [str(row) if row is not None and row.is_finite() else None for row in rows]
    return SqlValue(_rows_to_arrow(texts, single, pa.string()), EXACT)


def _int64(operand: SqlValue) -> Any:
    """Return an integer operand, or an integer literal, as int64; None for others."""
    if is_integer(operand):
        return pc.cast(operand.values, pa.int64())
    if operand.type == EXACT and operand.is_scalar and operand.values.as_py() is not None:
        literal = exact_scalar(operand)
        if abs(literal) < 2**63 and literal == literal.to_integral_value():
            return pa.scalar(int(literal), pa.int64())
    return None


def as_double(operand: SqlValue) -> Any:
    """Return the values as doubles, rounded to the nearest."""
    _check_number(operand)
    if operand.kind == "null" and operand.is_scalar:
        return pa.scalar(None, pa.float64())
    if operand.is_scalar and operand.kind in ("number", "text"):
        value = exact_scalar(operand) if operand.values.is_valid else None
        return pa.scalar(None if value is None else float(value), pa.float64())
    if is_integer(operand) or is_float(operand):
        return pc.cast(operand.values, pa.float64(), safe=False)
    rows = [None if row is None else float(row) for row in exact_rows(operand, len(operand.values))]
    return pa.array(rows, pa.float64())


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


def _check_number(operand: SqlValue) -> None:
    if operand.kind not in ("number", "text", "null"):
        raise InvalidOption(f"{operand.shown} is not a number")


def exact_scalar(operand: SqlValue) -> Decimal:
    """Return the value of a scalar that is not null."""
    return Decimal(exact_rows(operand, 1)[0])


def exact_rows(operand: SqlValue, count: int) -> list[Any]:
    """Return ``count`` rows as int, float or Decimal. Raises InvalidOption for values that are not numbers."""
    _check_number(operand)
    rows = [operand.values.as_py()] * count if operand.is_scalar else operand.values.to_pylist()
    if not (pa.types.is_string(operand.values.type) or pa.types.is_large_string(operand.values.type)):
        return rows
    try:
        return [None if row is None else Decimal(row) for row in rows]
    except InvalidOperation:
        raise InvalidOption(
            "text that is not a number cannot be compared with a number", advice="text goes in 'single quotes'"
        ) from None


def _by_row(function: Callable[[Any, Any], Any], left: SqlValue, right: SqlValue) -> tuple[list[Any], bool]:
    """Apply a function to the rows, null where either is null; and whether both operands are scalars."""
    single = left.is_scalar and right.is_scalar
    count = next((len(operand.values) for operand in (left, right) if not operand.is_scalar), 1)
    a, b = exact_rows(left, count), exact_rows(right, count)
    if not (is_float(left) or is_float(right)):
        a, b = ([None if row is None else Decimal(row) for row in rows] for rows in (a, b))
    with localcontext(_CONTEXT):
        return [None if x is None or y is None else function(x, y) for x, y in zip(a, b, strict=True)], single


def _rows_to_arrow(rows: list[Any], single: bool, type_: pa.DataType) -> Any:
    return pa.scalar(rows[0], type_) if single else pa.array(rows, type_)
