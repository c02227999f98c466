"""Compare two operands with SQL's three-valued logic."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption
from stateproc.filters.blobs import parse_blob
from stateproc.filters.exact_numbers import compare_numbers
from stateproc.filters.float_numbers import KERNELS
from stateproc.filters.moments import ordered_text
from stateproc.filters.sql_value import SqlValue, null_booleans

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERED = ("date", "time")
_COMPARABLE = ("boolean", "number", "text", "bytes", *_ORDERED)


def compare(sign: str, left: SqlValue, right: SqlValue) -> Any:
    """Compare two operands.

    Args:
        sign: One of ``= != < <= > >=``.
        left: The operand before the sign.
        right: The operand after the sign.

    Returns:
        True, false or null per row; a scalar if both operands are scalars.

    Raises:
        InvalidOption: The types have no common order.
    """
    if left.is_scalar and not right.is_scalar:
        left, right, sign = right, left, _MIRRORED[sign]
    kinds = (left.kind, right.kind)
    if "null" in kinds:
        return null_booleans(left, right)
    for operand in (left, right):
        if operand.kind not in _COMPARABLE:
            raise InvalidOption(
                f"{operand.shown} is a {operand.kind}, which has no order",
                advice="compare a field or an element, as in value.name = 'tea' or value[1] = 1, or use --flatten",
            )
    if kinds in (("number", "number"), ("number", "text"), ("text", "number")):
        if kinds[0] == "number" and kinds[1] == "text" and right.is_scalar:
            raise _mismatch(left, right)
        return compare_numbers(sign, left, right)
    if kinds[0] in _ORDERED or kinds[1] in _ORDERED:
        return _compare_times(sign, left, right)
    if kinds == ("bytes", "text") and right.is_scalar:
        return KERNELS[sign](left.values, pa.scalar(parse_blob(right.values.as_py()), left.values.type))
    if kinds[0] != kinds[1]:
        raise _mismatch(left, right)
    return KERNELS[sign](left.values, right.values)


def null_safe_equal(left: SqlValue, right: SqlValue) -> Any:
    """Compare so that null equals null and nothing else."""
    left_null, right_null = pc.is_null(left.values), pc.is_null(right.values)
    equal = pc.fill_null(compare("=", left, right), False)
    return pc.or_(pc.and_(left_null, right_null), equal)


def _compare_times(sign: str, left: SqlValue, right: SqlValue) -> Any:
    kinds = {left.kind, right.kind} - {"text"}
    if len(kinds) > 1:
        for operand in (left, right):
            if operand.kind == "number" and operand.is_scalar:
                raise InvalidOption(
                    f"a date or time cannot be compared with the number {operand.values}",
                    advice="write it as text: '2024-02-29' or '2024-02-29T12:30:00.5Z' (instants in UTC)",
                )
        raise _mismatch(left, right)
    return KERNELS[sign](ordered_text(left, right), ordered_text(right, left))


def _mismatch(left: SqlValue, right: SqlValue) -> InvalidOption:
    return InvalidOption(
        f"{left.shown} cannot be compared with {right.shown}",
        advice="text goes in 'single quotes', numbers and TRUE or FALSE without quotes",
    )
