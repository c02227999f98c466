"""Merge schemas that differ between subtasks, and convert batches to the merged schema.

RocksDB lists in every subtask's header the POJO subclasses that this subtask has met, so that the structs read
from two files may have different fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from stateproc.errors import InvalidOption, UnsupportedSnapshot

_MOST_AT_ONCE = 64 << 20


def merged_type(one: pa.DataType, two: pa.DataType) -> pa.DataType:
    """Return a type for the values of both. Raises UnsupportedSnapshot if there is none."""
    if one == two:
        return one
    if pa.types.is_struct(one) and pa.types.is_struct(two):
        names = list(dict.fromkeys([field.name for field in one] + [field.name for field in two]))
        return pa.struct([pa.field(name, _merged_child(one, two, name)) for name in names])
    if pa.types.is_list(one) and pa.types.is_list(two):
        return pa.list_(merged_type(one.value_type, two.value_type))
    if pa.types.is_map(one) and pa.types.is_map(two):
        return pa.map_(merged_type(one.key_type, two.key_type), merged_type(one.item_type, two.item_type))
    raise UnsupportedSnapshot(
        f"subtasks of one operator hold a state as {one} and as {two}",
        advice="read the subtasks apart, by their key groups (option 'keyGroups')",
    )


def _merged_child(one: pa.StructType, two: pa.StructType, name: str) -> pa.DataType:
    places = [struct.get_field_index(name) for struct in (one, two)]
    if min(places) < 0:
        struct, place = (one, places[0]) if places[0] >= 0 else (two, places[1])
        return struct.field(place).type
    return merged_type(one.field(places[0]).type, two.field(places[1]).type)


def merged_schema(one: pa.Schema, two: pa.Schema) -> pa.Schema:
    """Return one schema for the rows of both."""
    if one.equals(two):
        return one
    names = list(dict.fromkeys(one.names + two.names))
    fields = []
    for name in names:
        types = [schema.field(name).type for schema in (one, two) if name in schema.names]
        fields.append(pa.field(name, types[0] if len(types) == 1 else merged_type(*types)))
    return pa.schema(fields)


def portions(batch: pa.RecordBatch, most: int = _MOST_AT_ONCE) -> Iterator[pa.RecordBatch]:
    """Slice a batch into batches of about ``most`` bytes.

    A flattened list or map may have millions of rows, and Spark's JVM holds each batch in one block of memory.
    """
    size = batch.nbytes
    rows = len(batch) if size <= most else max(1, len(batch) * most // size)
    for first in range(0, max(len(batch), 1), max(rows, 1)):
        yield batch.slice(first, rows)


def aligned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the schema's columns of ``batch``; fields that the batch lacks are null."""
    if batch.schema.equals(schema):
        return batch
    columns = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        column = pa.nulls(len(batch), field.type) if index < 0 else aligned_array(batch.column(index), field.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def aligned_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert ``array`` to the type ``wanted``: structs at any depth get its fields."""
    if array.type == wanted:
        return array
    if pa.types.is_struct(wanted):
        children = []
        for field in wanted:
            index = array.type.get_field_index(field.name)
            child = pa.nulls(len(array), field.type) if index < 0 else aligned_array(array.field(index), field.type)
            children.append(child)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if pa.types.is_map(wanted):
        offsets, keys, items = array.offsets, aligned_array(array.keys, wanted.key_type), array.items
        made = pa.MapArray.from_arrays(offsets, keys, aligned_array(items, wanted.item_type))
        return _with_validity(made, array)
    if pa.types.is_list(wanted):
        return _with_validity(
            pa.ListArray.from_arrays(array.offsets, aligned_array(array.values, wanted.value_type)), array
        )
    return array.cast(wanted)


def _with_validity(made: pa.Array, like: pa.Array) -> pa.Array:
    if not like.null_count:
        return made
    import pyarrow.compute as pc

    return pc.if_else(like.is_valid(), made, pa.scalar(None, made.type))


def narrowed(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of the selected columns. Raises InvalidOption for one that does not exist."""
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise InvalidOption(f"no column {unknown[0]!r}", advice=f"there are: {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns])
