"""Convert between Arrow types and Spark's; types that Spark lacks are mapped to types that hold their values."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType

from stateproc.errors import InvalidOption, not_found
from stateproc.row_formats.column_types import carried

_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
"""Timestamps get the time zone UTC: on request since Spark 4.2, always before."""


def spark_schema(schema: pa.Schema) -> StructType:
    """Return Spark's schema for rows of an Arrow schema."""
    return spark_struct(pa.schema([pa.field(it.name, carried(it.type)) for it in schema]))


def spark_struct(schema: pa.Schema) -> StructType:
    """Return Spark's types of an Arrow schema. Raises InvalidOption for a type that this release does not have."""
    # Before Spark 4.2 the default takes timestamps without a time zone for moments.
    try:
        struct: StructType = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    except PySparkTypeError as error:
        # Times of day, before Spark 4.1.
        raise InvalidOption(
            f"PySpark {pyspark.__version__} has no type for a column: {error}",
            advice="install pyspark>=4.1; or leave the column out: option columns",
        ) from error
    return struct


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the batches that Spark accepts for ``schema``."""
    return to_arrow_schema(schema, **_UTC)


def arrow_type(found: DataType) -> pa.DataType:
    """Return the Arrow type of a type of Spark. Raises PySparkTypeError."""
    return to_arrow_type(found, **_UTC)


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
