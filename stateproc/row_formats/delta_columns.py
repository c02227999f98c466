"""Convert columns to types that Delta tables have.

Times of day, durations and decimals of more than 38 digits become text or numbers that hold their values, as they do in
Spark; unsigned integers become wider ones.
"""

from __future__ import annotations

import pyarrow as pa

from stateproc.row_formats.substitute_types import substitute_type

_SUBSTITUTES = ((pa.types.is_time, pa.string()), (pa.types.is_duration, pa.int64()))


def delta_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which a Delta table stores values of a type without children."""
    return substitute_type(type_, _SUBSTITUTES)
