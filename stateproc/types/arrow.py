"""Map Arrow types of columns to the Flink types that they have by default."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from stateproc.errors import InvalidOption
from stateproc.serializers.core.base import Serializer
from stateproc.types import scalars as s
from stateproc.types.composite import List, Map, Row

MAX_DEPTH = 32
_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Serializer], ...] = (
    (pa.types.is_boolean, s.BOOLEAN),
    (pa.types.is_int8, s.BYTE),
    (pa.types.is_int16, s.SHORT),
    (pa.types.is_int32, s.INT),
    (pa.types.is_int64, s.LONG),
    (pa.types.is_float32, s.FLOAT),
    (pa.types.is_float64, s.DOUBLE),
    (pa.types.is_decimal, s.BIG_DEC),
    (pa.types.is_string, s.STRING),
    (pa.types.is_large_string, s.STRING),
    (pa.types.is_binary, s.BYTES),
    (pa.types.is_large_binary, s.BYTES),
    (pa.types.is_fixed_size_binary, s.BYTES),
    (pa.types.is_date, s.LOCAL_DATE),
    (pa.types.is_time, s.LOCAL_TIME),
)


def of_arrow(type_: pa.DataType) -> Serializer:
    """Return the default Flink type of a column.

    string → String, int64 → Long, struct → Row, list → List, map → Map, binary → byte[], date → LocalDate, timestamp
    with a time zone → Instant, without → LocalDateTime, decimal → BigDecimal.

    Args:
        type_: the column's Arrow type.

    Raises:
        InvalidOption: the type has no default, or is nested over 32 levels deep.
    """
    return _of(type_, 0)


def _of(type_: pa.DataType, depth: int) -> Serializer:
    if depth > MAX_DEPTH:
        raise InvalidOption(f"a column's type is nested over {MAX_DEPTH} levels deep")
    if pa.types.is_dictionary(type_):
        return _of(type_.value_type, depth + 1)
    if pa.types.is_struct(type_):
        return Row(*(_of(field.type, depth + 1) for field in type_))
    if pa.types.is_map(type_):
        return Map(_of(type_.key_type, depth + 1), _of(type_.item_type, depth + 1))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return List(_of(type_.value_type, depth + 1))
    if pa.types.is_timestamp(type_):
        return s.INSTANT if type_.tz else s.LOCAL_DATE_TIME
    for is_it, made in _PLAIN:
        if is_it(type_):
            return made
    raise InvalidOption(
        f"a column of type {type_} has no Flink type by default",
        advice="specify its type, such as 'Long' or stateproc.types.LONG, or cast the column",
    )
