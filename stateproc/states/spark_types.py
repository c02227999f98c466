"""Name Spark's types of Arrow types, without Spark: as ``DataType.simpleString`` does for the data source's columns."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

_Test = Callable[[pa.DataType], bool]
_NAMES: tuple[tuple[_Test, str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    # Spark has no unsigned numbers: the next larger type holds them.
    (pa.types.is_uint8, "smallint"),
    (pa.types.is_uint16, "int"),
    (pa.types.is_uint32, "bigint"),
    (pa.types.is_uint64, "decimal(20,0)"),
    (pa.types.is_float16, "float"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time(6)"),
    (pa.types.is_duration, "interval day to second"),
    (pa.types.is_null, "string"),
    (pa.types.is_decimal256, "string"),
)


def spark_type(of: pa.DataType) -> str:
    """Return the name of Spark's type for values of an Arrow type."""
    if pa.types.is_dictionary(of):
        return spark_type(of.value_type)
    if pa.types.is_struct(of):
        return f"struct<{','.join(f'{field.name}:{spark_type(field.type)}' for field in of)}>"
    if pa.types.is_map(of):
        return f"map<{spark_type(of.key_type)},{spark_type(of.item_type)}>"
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return f"array<{spark_type(of.value_type)}>"
    if pa.types.is_timestamp(of):
        return "timestamp" if of.tz else "timestamp_ntz"
    if pa.types.is_decimal128(of):
        return f"decimal({of.precision},{of.scale})"
    return next((name for is_it, name in _NAMES if is_it(of)), str(of))
