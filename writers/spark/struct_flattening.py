"""Structs of a DataFrame as columns of their fields on the way to Python, and back.

Before each row Spark asks how large the batch has become, and a struct's vectors take as long to tell that as to be
filled: half of what it costs to hand rows over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.types import BooleanType, DataType, StructType

Flat: TypeAlias = "Leaf | Struct"


@dataclass(frozen=True)
class Leaf:
    """A column that stays as it is; ``name``: what it is called in flat batches."""

    name: str

    def rebuilt(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(self.name)


@dataclass(frozen=True)
class Struct:
    """A struct's fields; ``null``: the column of booleans that tells which are null, if any can be."""

    fields: tuple[tuple[str, Flat], ...]
    null: str | None

    def rebuilt(self, batch: pa.RecordBatch) -> pa.Array:
        """The struct's array of a batch that has its fields as columns."""
        names = [name for name, _ in self.fields]
        mask = None if self.null is None else batch.column(self.null)
        return pa.StructArray.from_arrays([part.rebuilt(batch) for _, part in self.fields], names, mask=mask)


Selected: TypeAlias = tuple[Column, str, DataType]
"""A column, what it is called, its type."""


def flattened(column: Column, kind: DataType, nullable: bool, name: str) -> tuple[Flat, list[Selected]]:
    """How a column comes back, and the columns to select for it, called ``name`` and names that begin with it.

    Structs in lists and maps stay there.
    """
    columns: list[Selected] = []
    return _flattened(column, kind, nullable, name, columns), columns


def _flattened(column: Column, kind: DataType, nullable: bool, name: str, columns: list[Selected]) -> Flat:
    # Names that differ in case alone cannot be told apart in every session.
    if not isinstance(kind, StructType) or not kind.fields or len({it.lower() for it in kind.names}) < len(kind.names):
        columns.append((column, name, kind))
        return Leaf(name)
    null = None
    if nullable:
        null = f"{name}_null"
        columns.append((column.isNull(), null, BooleanType()))
    return Struct(tuple(_fields(column, kind, name, columns)), null)


def _fields(column: Column, kind: StructType, name: str, columns: list[Selected]) -> Iterator[tuple[str, Flat]]:
    for index, field in enumerate(kind.fields):
        part = column.getField(field.name)
        # A field of a null struct is null, whatever its own schema says.
        yield field.name, _flattened(part, field.dataType, field.nullable, f"{name}_{index}", columns)
