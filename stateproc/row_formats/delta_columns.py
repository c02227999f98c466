"""Convert columns to types that Delta tables have.

Times of day, durations and decimals of more than 38 digits become text or numbers that hold their values, as they do in
Spark; unsigned integers become wider ones.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

_REPLACED: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_time, pa.string()),
    (pa.types.is_duration, pa.int64()),
    (pa.types.is_null, pa.string()),
    (pa.types.is_decimal256, pa.string()),
)
"""Types that Delta does not have → the types that hold their values."""


def delta_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which a Delta table stores values of a type without children."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    return next((stored for matches, stored in _REPLACED if matches(type_)), type_)
