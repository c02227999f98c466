"""Arrow types that tables elsewhere lack, and the types that hold their values there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

Substitute = tuple[Callable[[pa.DataType], bool], pa.DataType]
"""Which types are replaced, and by which."""
SUBSTITUTES: tuple[Substitute, ...] = (
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_null, pa.string()),
    (pa.types.is_decimal256, pa.string()),
)
"""What both Spark and Delta lack."""


def substitute_type(of: pa.DataType, further: Iterable[Substitute]) -> pa.DataType:
    """Return the type that holds values of a type without children.

    Args:
        of: The type.
        further: What is replaced besides ``SUBSTITUTES``.
    """
    if pa.types.is_timestamp(of):
        return pa.timestamp("us", "UTC" if of.tz else None)
    return next((held for matches, held in (*SUBSTITUTES, *further) if matches(of)), of)
