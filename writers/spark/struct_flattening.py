"""Pass structs of a DataFrame to Python as columns of their fields, and rebuild them there.

Flat columns cost less than structs on the way, and their strings can be bounded (`row_slicing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.types import BooleanType, DataType, StructType

FlatColumn: TypeAlias = "FlatField | FlatStruct"


@dataclass(frozen=True)
class FlatField:
    """A column that is no struct; ``name``: its name in flat batches."""

    name: str

    def rebuilt(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(self.name)


@dataclass(frozen=True)
class FlatStruct:
    """A struct's fields by name; ``null``: the boolean column that marks null structs, None if there can be none."""

    fields: tuple[tuple[str, FlatColumn], ...]
    null: str | None

    def rebuilt(self, batch: pa.RecordBatch) -> pa.Array:
        """The struct array of a batch that has its fields as columns."""
        names = [name for name, _ in self.fields]
        mask = None if self.null is None else batch.column(self.null)
        return pa.StructArray.from_arrays([column.rebuilt(batch) for _, column in self.fields], names, mask=mask)


SelectedColumn: TypeAlias = tuple[Column, str, DataType]
"""A column to select, its name in flat batches, its type."""


def flattened(column: Column, kind: DataType, nullable: bool, name: str) -> tuple[FlatColumn, list[SelectedColumn]]:
    """Replace a struct by its fields, recursively; structs in lists and maps stay as they are.

    Args:
        column: the column, of the type ``kind``.
        nullable: whether it can be null.
        name: the name of the flat column, and the prefix of the names of fields.

    Returns:
        How to rebuild the column, and the columns to select for it.
    """
    columns: list[SelectedColumn] = []
    return _flattened(column, kind, nullable, name, columns), columns


def _flattened(column: Column, kind: DataType, nullable: bool, name: str, columns: list[SelectedColumn]) -> FlatColumn:
    # Sessions that ignore case cannot select fields whose names differ in nothing else.
    if not isinstance(kind, StructType) or not kind.fields or len({it.lower() for it in kind.names}) < len(kind.names):
        columns.append((column, name, kind))
        return FlatField(name)
    null = None
    if nullable:
        null = f"{name}_null"
        columns.append((column.isNull(), null, BooleanType()))
    return FlatStruct(tuple(_fields(column, kind, name, columns)), null)


def _fields(
    column: Column, kind: StructType, name: str, columns: list[SelectedColumn]
) -> Iterator[tuple[str, FlatColumn]]:
    for index, field in enumerate(kind.fields):
        part = column.getField(field.name)
        # A field of a null struct is null, whatever its own schema says.
        yield field.name, _flattened(part, field.dataType, field.nullable, f"{name}_{index}", columns)
