"""Evaluate the plainest conditions without DuckDB: columns compared with whole numbers and text, joined by AND.

``key = 42`` is what most reads ask for; it neither waits for DuckDB to load nor needs it to be installed. Everything
else is left to DuckDB, whose results these are, too: NaN is the greatest number, and what is null is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import number_dtype, repeated_text, values_array
from stateproc.filters.condition import RESERVED

_AND = re.compile(r"\s+AND\s+", re.IGNORECASE)
_COMPARISON = re.compile(r"([A-Za-z_]\w*)\s*(<=|>=|=|<|>)\s*(?:(-?\d{1,19})|'([^'\\]*)')", re.ASCII)
_FUNCTIONS: dict[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_EXACT_DOUBLES = 2**53
"""Below this, doubles represent each integer."""


@dataclass(frozen=True)
class PlainComparison:
    """A column, an operator of SQL and a constant of the column's type."""

    column: str
    operator: str
    constant: pa.Scalar

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return per row whether the comparison is true; null where the column is."""
        values = batch.column(self.column)
        found = _FUNCTIONS[self.operator](values, self.constant)
        if pa.types.is_floating(values.type) and ">" in self.operator:
            return pc.or_(found, pc.is_nan(values))
        return found


@dataclass(frozen=True)
class PlainCondition:
    """Comparisons that are all true for a row that is kept."""

    comparisons: tuple[PlainComparison, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(item.column for item in self.comparisons))

    def value_of(self, column: str) -> Any:
        """Return what a column has to equal; None if nothing says so."""
        equal = (item.constant.as_py() for item in self.comparisons if (item.column, item.operator) == (column, "="))
        return next(equal, None)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true."""
        mask = self.comparisons[0].mask(batch)
        for item in self.comparisons[1:]:
            mask = pc.and_(mask, item.mask(batch))
        return batch.filter(mask)


def plain_condition(text: str, schema: pa.Schema) -> PlainCondition | None:
    """Return a condition that needs no SQL; None for all others, also for those that are wrong.

    Args:
        text: The condition, as of `stateproc.filters.parse`.
        schema: The columns, with dates and times as Arrow's types, so that none of them is text.
    """
    if any(re.search("[<=>]", name) for name in schema.names):
        return None  # a name may look like a comparison
    comparisons = []
    for part in _AND.split(text.strip()):
        found = _COMPARISON.fullmatch(part)
        if found is None or schema.names.count(found[1]) != 1 or found[1].upper() in RESERVED:
            return None
        constant = _constant(found[3], found[4], schema.field(found[1]).type)
        if constant is None:
            return None
        comparisons.append(PlainComparison(found[1], found[2], constant))
    return PlainCondition(tuple(comparisons))


def _constant(number: str | None, text: str | None, type_: pa.DataType) -> pa.Scalar | None:
    """Return a constant in the type of a column; None if DuckDB would convert the one or the other."""
    if number is None:
        return repeated_text(text or "", 1)[0] if type_ == pa.string() else None
    if pa.types.is_signed_integer(type_):
        bound = 1 << (type_.bit_width - 1)
        fits = -bound <= int(number) < bound
    else:
        fits = type_ == pa.float64() and abs(int(number)) < _EXACT_DOUBLES
    return values_array(np.array([int(number)], dtype=number_dtype(type_)))[0] if fits else None
