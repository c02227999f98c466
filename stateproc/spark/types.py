"""Convert between Arrow types and Spark's; types that Spark lacks are mapped to types that hold their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from stateproc.errors import InvalidOption, not_found

_Test = Callable[[pa.DataType], bool]
_CARRIED: tuple[tuple[_Test, pa.DataType], ...] = (
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_time, pa.time64("us")),
    (pa.types.is_duration, pa.duration("us")),
    (pa.types.is_null, pa.string()),
    (pa.types.is_decimal256, pa.string()),
)
"""Types that Spark lacks or represents differently → the types that hold their values."""


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
    if pa.types.is_timestamp(of):
        return pa.timestamp("us", "UTC" if of.tz else None)
    return next((carrier for is_it, carrier in _CARRIED if is_it(of)), of)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return Spark's schema for rows of an Arrow schema."""
    struct: StructType = from_arrow_schema(pa.schema([pa.field(it.name, carried(it.type)) for it in schema]))
    return struct


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the batches that Spark accepts for ``schema``."""
    return to_arrow_schema(schema, timezone="UTC")


def check_wanted(wanted: pa.Schema, own: pa.Schema) -> None:
    """Raise NotFound or InvalidOption unless rows of ``own`` can be converted to ``wanted``."""
    for field in wanted:
        if field.name not in own.names:
            raise not_found("column", field.name, own.names)
        _check_type(field.name, field.type, own.field(field.name).type)


def _check_type(name: str, wanted: pa.DataType, own: pa.DataType) -> None:
    if pa.types.is_struct(wanted) and pa.types.is_struct(own):
        for field in wanted:
            index = own.get_field_index(field.name)
            if index < 0:
                raise not_found("field", field.name, [item.name for item in own], f"column '{name}'")
            _check_type(f"{name}.{field.name}", field.type, own.field(index).type)
    elif pa.types.is_map(wanted) and pa.types.is_map(own):
        _check_type(f"{name}.key", wanted.key_type, own.key_type)
        _check_type(f"{name}.value", wanted.item_type, own.item_type)
    elif pa.types.is_list(wanted) and pa.types.is_list(own):
        _check_type(f"{name}.element", wanted.value_type, own.value_type)
    elif not _castable(own, wanted):
        raise InvalidOption(
            f"column '{name}' holds {own}, which cannot be read as {wanted}",
            advice="leave the schema away, or give the column the type that printSchema() shows without it",
        )


def _castable(own: pa.DataType, wanted: pa.DataType) -> bool:
    nested: Any = (pa.types.is_nested(own), pa.types.is_nested(wanted))
    if any(nested):
        return False
    try:
        pa.array([], own).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
