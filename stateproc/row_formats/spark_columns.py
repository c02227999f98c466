"""The Arrow types in which Spark receives columns, and its names for them, without importing Spark."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from stateproc.row_formats.substitute_types import substitute_type

_SUBSTITUTES = ((pa.types.is_time, pa.time64("us")), (pa.types.is_duration, pa.duration("us")))
_NAMES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time(6)"),
    (pa.types.is_duration, "interval day to second"),
)


def carried(of: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark receives values of type ``of``; all of its fields are nullable."""
    if pa.types.is_dictionary(of):
        return carried(of.value_type)
    if pa.types.is_struct(of):
        return pa.struct([pa.field(field.name, carried(field.type)) for field in of])
    if pa.types.is_map(of):
        return pa.map_(carried(of.key_type), carried(of.item_type))
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return pa.list_(carried(of.value_type))
    return substitute_type(of, _SUBSTITUTES)


def spark_type(of: pa.DataType) -> str:
    """Return the Spark type of values of an Arrow type, as ``DataType.simpleString`` names it."""
    return _name(carried(of))


def _name(of: pa.DataType) -> str:
    if pa.types.is_struct(of):
        return f"struct<{','.join(f'{field.name}:{_name(field.type)}' for field in of)}>"
    if pa.types.is_map(of):
        return f"map<{_name(of.key_type)},{_name(of.item_type)}>"
    if pa.types.is_list(of):
        return f"array<{_name(of.value_type)}>"
    if pa.types.is_timestamp(of):
        return "timestamp" if of.tz else "timestamp_ntz"
    if pa.types.is_decimal128(of):
        return f"decimal({of.precision},{of.scale})"
    return next((name for is_it, name in _NAMES if is_it(of)), str(of))
