"""The type of a column of rows that fill a state, whichever library holds the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

ColumnKind = Literal["whole", "time", "list", "map", "struct", "other"]


@dataclass(frozen=True)
class ColumnType:
    """The type of a column.

    Attributes:
        text: The type as the library of the rows writes it.
        kind: What it is used as; ``whole``: a whole number, ``time``: a timestamp.
        arrow: The Arrow type; None for a type that has none.
        fields: The names and types of a struct's fields, of a list's elements, of a map's keys and values.
        advice: What to do about a type without an Arrow type.
    """

    text: str
    kind: ColumnKind
    arrow: pa.DataType | None
    fields: tuple[tuple[str, ColumnType], ...] = ()
    advice: str = ""

    @property
    def children(self) -> tuple[ColumnType, ...]:
        """The types of the fields."""
        return tuple(type_ for _, type_ in self.fields)


@dataclass(frozen=True)
class FrameColumns:
    """The columns of rows: their names and types, in order."""

    names: Sequence[str]
    types: Sequence[ColumnType]
