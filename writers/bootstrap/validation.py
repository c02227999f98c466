"""Check the arguments of a bootstrap before anything runs: rows, names, columns and their types."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from stateproc import types
from stateproc.errors import InvalidOption, Where, not_found
from stateproc.serializers import Serializer
from stateproc.writers.bootstrap.column_type import ColumnType
from stateproc.writers.bootstrap.column_types import has_positional_names
from stateproc.writers.bootstrap.frame_columns import columns_of, type_given

Type: TypeAlias = "Serializer | str | pa.DataType | Any | None"
"""A type of stateproc.types, its text, an Arrow or Spark type for its default, or None for that of the column."""


def column_type(frame: Any, column: str, state: str) -> ColumnType:
    """The type of a column. Raises NotFound; InvalidOption for no DataFrame, or two columns of one name."""
    columns = columns_of(frame)
    if columns is None:
        raise InvalidOption(
            f"the rows are a {type(frame).__name__}, and no DataFrame of Spark or Arrow data",
            where=Where(state=state),
            advice="make one: spark.createDataFrame(…) takes pandas DataFrames, Arrow tables and lists of rows; "
            "pyarrow.Table.from_pylist(…) and .from_pandas(…) for the local engine",
        )
    names = list(columns.names)
    if column not in names:
        raise not_found("column", column, names).at(state=state)
    if names.count(column) > 1:
        raise InvalidOption(
            f"two columns are called '{column}'",
            where=Where(state=state),
            advice="rename one: frame.toDF(…), table.rename_columns(…)",
        )
    return columns.types[names.index(column)]


def check_whole(frame: Any, column: str, state: str, what: str) -> None:
    """Raise InvalidOption unless the column is of whole numbers; ``what`` they mean."""
    found = column_type(frame, column, state)
    if found.kind != "whole":
        raise InvalidOption(
            f"column '{column}' is {found.text}, where {what} is a whole number",
            where=Where(state=state),
            advice=f"cast it: frame.withColumn('{column}', col('{column}').cast('int')), or Arrow data to int32",
        )


def check_time(frame: Any, column: str, state: str, what: str, *, nested: bool = False) -> None:
    """Raise InvalidOption unless the column is of timestamps or whole numbers; ``what`` they mean.

    nested: it may as well be of arrays or maps of them, a time for each element.
    """
    found = column_type(frame, column, state)
    inner = found.children[-1] if nested and found.kind in ("list", "map") else found
    if inner.kind not in ("whole", "time"):
        raise InvalidOption(
            f"column '{column}' is {found.text}, where {what} is a timestamp, or ms since the epoch",
            where=Where(state=state),
            advice=f"cast it: col('{column}').cast('timestamp'), or .cast('long') if it is in milliseconds; Arrow data "
            "to timestamp or int64",
        )


def check_name(name: object, what: str) -> None:
    """Raise InvalidOption unless ``name`` is text."""
    if not isinstance(name, str):
        raise InvalidOption(f"{what} is called by text, and not by {name!r}", advice="give its name as a string")


def type_of(given: Type, column: ColumnType | None = None) -> Serializer:
    """The type given, or the default of a column's type. Raises InvalidOption."""
    of_frame = type_given(given)
    if of_frame is not None:
        given, column = None, of_frame
    if given is not None:
        return types.of(given)
    if column is None:
        raise InvalidOption("no type is given, and no column to take it from")
    if column.arrow is None:
        raise InvalidOption(f"a column of type {column.text} has no Flink type by default", advice=column.advice)
    return types.of_arrow(column.arrow)


def state_type(given: Type, column: ColumnType, state: str) -> Serializer:
    """The type given for a state, or the default of its column; warns if that loses the names of struct fields.

    Raises:
        InvalidOption: the column has no default type.
    """
    lost = [] if given is not None else list(_lost_names(column))
    if lost:
        warnings.warn(
            f"state '{state}': struct fields are written as fields of Flink's Row, by position: the names "
            f"{', '.join(lost)} are not stored; give a type with names (types.Pojo, types.Avro) to keep them, or "
            "types.Row to write the fields without names",
            stacklevel=4,
        )
    return type_of(given, column)


def _lost_names(found: ColumnType) -> Iterator[str]:
    """The names of struct fields other than f0, f1 … and _1, _2 …, which name positions."""
    names = [name for name, _ in found.fields]
    if found.kind == "struct" and not has_positional_names(names):
        yield from names
    for child in found.children:
        yield from _lost_names(child)
