"""Check the arguments of a bootstrap before anything runs: DataFrames, names, columns and their types."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from stateproc import types
from stateproc.errors import InvalidOption, Where, not_found
from stateproc.serializers import Serializer
from stateproc.writers.bootstrap.column_types import has_positional_names

Type: TypeAlias = "Serializer | str | pa.DataType | DataType | None"
"""A type of stateproc.types, its text, an Arrow or Spark type for its default, or None for that of the column."""
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_TIMES = (TimestampType, TimestampNTZType, *_WHOLE)


def column_type(frame: Any, column: str, state: str) -> Any:
    """The Spark type of a column. Raises NotFound; InvalidOption for no DataFrame, or two columns of one name."""
    schema = getattr(frame, "schema", None)
    if not isinstance(schema, StructType):
        raise InvalidOption(
            f"the rows are a {type(frame).__name__}, and no DataFrame of Spark",
            where=Where(state=state),
            advice="make one: spark.createDataFrame(…) takes pandas DataFrames, Arrow tables and lists of rows",
        )
    if column not in schema.names:
        raise not_found("column", column, schema.names).at(state=state)
    if schema.names.count(column) > 1:
        raise InvalidOption(
            f"two columns are called '{column}'", where=Where(state=state), advice="rename one: frame.toDF(…)"
        )
    return schema[column].dataType


def check_whole(frame: Any, column: str, state: str, what: str) -> None:
    """Raise InvalidOption unless the column is of whole numbers; ``what`` they mean."""
    found = column_type(frame, column, state)
    if not isinstance(found, _WHOLE):
        raise InvalidOption(
            f"column '{column}' is {found.simpleString()}, where {what} is a whole number",
            where=Where(state=state),
            advice=f"cast it: frame.withColumn('{column}', col('{column}').cast('int'))",
        )


def check_time(frame: Any, column: str, state: str, what: str, *, nested: bool = False) -> None:
    """Raise InvalidOption unless the column is of timestamps or whole numbers; ``what`` they mean.

    nested: it may as well be of arrays or maps of them, a time for each element.
    """
    found = column_type(frame, column, state)
    inner = found
    if nested and isinstance(found, ArrayType | MapType):
        inner = found.elementType if isinstance(found, ArrayType) else found.valueType
    if not isinstance(inner, _TIMES):
        raise InvalidOption(
            f"column '{column}' is {found.simpleString()}, where {what} is a timestamp, or ms since the epoch",
            where=Where(state=state),
            advice=f"cast it: col('{column}').cast('timestamp'), or .cast('long') if it is in milliseconds",
        )


def check_name(name: object, what: str) -> None:
    """Raise InvalidOption unless ``name`` is text."""
    if not isinstance(name, str):
        raise InvalidOption(f"{what} is called by text, and not by {name!r}", advice="give its name as a string")


def type_of(given: Type, column: Any = None) -> Serializer:
    """The type given, or the default of a Spark type. Raises InvalidOption."""
    if isinstance(given, DataType):
        given, column = None, given
    if given is not None:
        return types.of(given)
    if column is None:
        raise InvalidOption("no type is given, and no column to take it from")
    if _has_variants(column):
        raise InvalidOption(
            f"a column of type {column.simpleString()} has no Flink type by default",
            advice="give text instead: to_json(…); Flink's VARIANT is read here, and not written",
        )
    try:
        arrow: pa.DataType = to_arrow_type(column, timezone="UTC")
    except PySparkTypeError as error:
        raise InvalidOption(
            f"a column of type {column.simpleString()} has no Flink type by default",
            advice="cast the column, to a number of months for instance",
        ) from error
    return types.of_arrow(arrow)


def state_type(given: Type, column: Any, state: str) -> Serializer:
    """The type given for a state, or the default of its column; warns if that loses the names of struct fields.

    Raises:
        InvalidOption: the column has no default type.
    """
    lost = [] if given is not None else list(_lost_names(column))
    if lost:
        warnings.warn(
            f"state '{state}': struct fields are written as fields of Flink's Row, by position: the names "
            f"{', '.join(lost)} are not stored; give a type with names (types.Pojo, types.RowData) to keep them, or "
            "types.Row to write the fields without names",
            stacklevel=4,
        )
    return type_of(given, column)


def _lost_names(kind: Any) -> Iterator[str]:
    """The names of struct fields other than f0, f1 … and _1, _2 …, which name positions."""
    if isinstance(kind, StructType):
        if not has_positional_names(kind.names):
            yield from kind.names
        for field in kind:
            yield from _lost_names(field.dataType)
    elif isinstance(kind, MapType):
        yield from _lost_names(kind.keyType)
        yield from _lost_names(kind.valueType)
    elif isinstance(kind, ArrayType):
        yield from _lost_names(kind.elementType)


def _has_variants(kind: Any) -> bool:
    if isinstance(kind, StructType):
        return any(_has_variants(field.dataType) for field in kind)
    if isinstance(kind, MapType):
        return _has_variants(kind.keyType) or _has_variants(kind.valueType)
    return _has_variants(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, VariantType)
