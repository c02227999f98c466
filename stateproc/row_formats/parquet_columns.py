"""Convert columns that Parquet cannot store: structs without fields get a field that is always null.

Such structs are the keys of SQL operators that do not group (a global aggregate, a cross join).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

_NULL_FIELD = pa.field("_", pa.null())


LeafType = Callable[[pa.DataType], pa.DataType]


def _same(type_: pa.DataType) -> pa.DataType:
    return type_


def parquet_schema(schema: pa.Schema, leaf: LeafType = _same) -> pa.Schema:
    """Return the schema of the batches that ``parquet_batch`` returns; equal if Parquet can store all columns.

    Args:
        schema: The schema of the rows.
        leaf: Returns the type in which values without children are stored.
    """
    return pa.schema([field.with_type(_type(field.type, leaf)) for field in schema], schema.metadata)


def parquet_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to a schema that ``parquet_schema`` returned."""
    columns = [_column(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _type(type_: pa.DataType, leaf: LeafType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct(
            [field.with_type(_type(field.type, leaf)) for field in type_] or [_NULL_FIELD.with_type(leaf(pa.null()))]
        )
    if pa.types.is_map(type_):
        return pa.map_(_type(type_.key_type, leaf), type_.item_field.with_type(_type(type_.item_type, leaf)))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_type(type_.value_type, leaf)))
    return leaf(type_)


def _column(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    if not pa.types.is_nested(type_):
        return _cast(array, type_)
    if pa.types.is_struct(type_):
        inner = [_column(array.field(at), type_.field(at).type) for at in range(array.type.num_fields)]
        children = inner or [pa.nulls(len(array), type_.field(0).type)]
        # Without a mask where nothing is null: as keys of a map, structs have to be known to have no nulls (Arrow 25).
        return pa.StructArray.from_arrays(
            children, fields=list(type_), mask=array.is_null() if array.null_count else None
        )
    if pa.types.is_map(type_):
        entries = [_column(array.keys, type_.key_type), _column(array.items, type_.item_type)]
        values = pa.StructArray.from_arrays(entries, fields=[type_.key_field, type_.item_field])
    else:
        values = _column(array.values, type_.value_type)
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(type_, len(array), buffers, array.null_count, array.offset, children=[values])


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal256(array.type) and pa.types.is_string(type_):
        # Arrow has no kernel for it.
        return pa.array([None if item is None else format(item, "f") for item in array.to_pylist()], type_)
    return pc.cast(array, type_)
