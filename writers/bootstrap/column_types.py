"""Convert columns of rows to what encoders expect: fields by position, times in milliseconds, maps as lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import Unencodable, as_type, values_array
from stateproc.codec.temporal import instants


@contextmanager
def of_column(name: str) -> Iterator[None]:
    """Add the column's name to Unencodable errors raised in the context."""
    try:
        yield
    except Unencodable as error:
        raise Unencodable(f"column '{name}': {error.message}", error.row) from error


def times_of(array: pa.Array, name: str) -> pa.Array:
    """Convert timestamps, or milliseconds since the epoch, to int64 ms; nulls stay. Raises Unencodable."""
    with of_column(name):
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            raise Unencodable("text is no time: give timestamps, or milliseconds since the epoch", 0)
        return as_type(in_milliseconds(array), pa.int64())


def in_milliseconds(array: pa.Array) -> pa.Array:
    """Convert timestamps, and structs of them (windows), to milliseconds since the epoch; return others as they are.

    Fractions are rounded down, as in Java's Instant.toEpochMilli.
    """
    if pa.types.is_timestamp(array.type):
        seconds, nanos, null = instants(array)
        return values_array(seconds * 1000 + nanos // 10**6, null)
    if pa.types.is_struct(array.type):
        fields = [in_milliseconds(array.field(index)) for index in range(array.type.num_fields)]
        names = [array.type.field(index).name for index in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(fields, names, mask=array.is_null())
    return array


def refuse_empty_windows(windows: pa.Array) -> None:
    """Raise Unencodable for a window shorter than a millisecond, which no TimeWindow is."""
    if not pa.types.is_struct(windows.type) or windows.type.num_fields != 2 or not len(windows):
        return
    start, end = windows.field(0), windows.field(1)
    wrong = pc.fill_null(pc.and_kleene(windows.is_valid(), pc.less_equal(end, start)), False)
    if pc.any(wrong).as_py():
        row = int(pc.index(wrong, True).as_py())
        raise Unencodable(f"a window that ends at {end[row]}, and begins at {start[row]}", row)


def conformed(array: pa.Array, wanted: pa.DataType | None) -> pa.Array:
    """Structs of a type whose fields are only numbered (tuples, rows: f0, f1 … or _1, _2 …) by position, of others by
    their fields' names.

    Only names change; all else is for encoders to accept or refuse.
    """
    found = array.type
    if wanted is None or not pa.types.is_nested(found) or found == wanted:
        return array
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        names = [field.name for field in found]
        like = [wanted.get_field_index(name) for name in names]
        if has_positional_names([field.name for field in wanted]) and found.num_fields == wanted.num_fields:
            names, like = [field.name for field in wanted], list(range(wanted.num_fields))
        parts = [
            conformed(array.field(index), wanted.field(other).type if other >= 0 else None)
            for index, other in enumerate(like)
        ]
        return pa.StructArray.from_arrays(parts, names, mask=array.is_null() if array.null_count else None)
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        keys, items = conformed(array.keys, wanted.key_type), conformed(array.items, wanted.item_type)
        fields = [pa.field("key", keys.type, nullable=False), pa.field("value", items.type)]
        pairs = pa.StructArray.from_arrays([keys, items], fields=fields)
        kind = pa.map_(keys.type, items.type)
        return rebuilt(array, kind, pairs)
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        values = conformed(array.values, wanted.value_type)
        return rebuilt(array, pa.list_(values.type), values)
    return array


def has_positional_names(names: list[str]) -> bool:
    """Return whether names of struct fields are positions only: f0, f1 … or _1, _2 …"""
    return names in ([f"f{n}" for n in range(len(names))], [f"_{n}" for n in range(1, len(names) + 1)])


def rebuilt(array: pa.Array, kind: pa.DataType, child: pa.Array) -> pa.Array:
    """Return the list (or map) with another child array."""
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[child])


def listed(value: pa.Array) -> pa.Array:
    """Return a map array as a list array, whose lengths Arrow can compute; other arrays as they are."""
    if not pa.types.is_map(value.type):
        return value
    pairs = pa.struct([pa.field("key", value.type.key_type), pa.field("value", value.type.item_type)])
    return value.cast(pa.list_(pairs))


# The type of a column of rows that fill a state, whichever library holds the rows.

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
    """The columns of rows: their names in order, and the type of each, which is made of it when it is asked for.

    Rows of hundreds of columns fill hundreds of states, each of a few of them.
    """

    names: Sequence[str]
    type_at: Callable[[int], ColumnType]

    def type_of(self, name: str) -> ColumnType:
        """Return the type of the first column of a name. Raises ValueError for none."""
        return self.type_at(list(self.names).index(name))
