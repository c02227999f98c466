"""Compare and calculate floats and doubles as DuckDB does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption
from stateproc.filters.sql_value import SqlValue

KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ARITHMETIC = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}


def is_float(operand: SqlValue) -> bool:
    return bool(pa.types.is_floating(operand.type))


def common_float(*operands: SqlValue) -> pa.DataType | None:
    """Return double if an operand is one, else float if an operand is one, else None."""
    types = {operand.type for operand in operands if is_float(operand)}
    return pa.float64() if pa.float64() in types else pa.float32() if types else None


def compare_floats(sign: str, left: Any, right: Any) -> Any:
    """Compare arrays or scalars of one floating type: NaN equals NaN and is greater than everything else."""
    if not (_has_nan(left) or _has_nan(right)):
        return KERNELS[sign](left, right)
    if sign in ("!=", "<=", ">="):
        return pc.invert(compare_floats({"!=": "=", "<=": ">", ">=": "<"}[sign], left, right))
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if sign == "=":
        extra = pc.and_(left_nan, right_nan)
    elif sign == ">":
        extra = pc.and_(left_nan, pc.invert(right_nan))
    else:
        extra = pc.and_(right_nan, pc.invert(left_nan))
    return pc.or_(KERNELS[sign](left, right), extra)


def _has_nan(values: Any) -> bool:
    found = pc.is_nan(values)
    return bool((found if isinstance(values, pa.Scalar) else pc.any(found)).as_py())


def float_arithmetic(sign: str, left: Any, right: Any) -> Any:
    """Calculate with arrays or scalars of one floating type; a division by zero gives an infinity or NaN."""
    if sign in _ARITHMETIC:
        return _ARITHMETIC[sign](left, right)
    if sign != "%":
        raise InvalidOption("// needs whole numbers", advice="FLOOR(a / b) divides other numbers")
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(_remainder(left.as_py(), right.as_py()), left.type)
    count = len(right if isinstance(left, pa.Scalar) else left)
    rows = (
        [values.as_py()] * count if isinstance(values, pa.Scalar) else values.to_pylist() for values in (left, right)
    )
    return pa.array([_remainder(a, b) for a, b in zip(*rows, strict=True)], left.type)


def _remainder(dividend: float | None, divisor: float | None) -> float | None:
    if dividend is None or divisor is None:
        return None
    return math.nan if divisor == 0 or math.isinf(dividend) else math.fmod(dividend, divisor)


def round_floats(values: Any, places: int) -> Any:
    """Round half away from zero to ``places`` digits after the point, or before it where negative.

    A half is what is written so: 2.675 becomes 2.68, as in Spark and DuckDB 1, although its double is a little less.
    """
    factor = pa.scalar(float(10 ** min(abs(places), 400)) if abs(places) <= 308 else math.inf, pa.float64())
    doubles = pc.cast(values, pa.float64())
    scaled = pc.multiply(doubles, factor) if places >= 0 else pc.divide(doubles, factor)
    whole = pc.round(scaled, 0, "half_towards_infinity")
    rounded = pc.divide(whole, factor) if places >= 0 else pc.multiply(whole, factor)
    # Beyond the range of doubles nothing is rounded.
    kept = pc.if_else(pc.is_finite(rounded), rounded, doubles if places >= 0 else 0.0)
    return pc.cast(pc.if_else(pc.is_finite(doubles), kept, doubles), values.type, safe=False)
