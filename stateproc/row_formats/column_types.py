"""Column types elsewhere: what Spark, Parquet and Delta lack of Arrow's types, and what holds the values there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

Substitute = tuple[Callable[[pa.DataType], bool], pa.DataType]
"""Which types are replaced, and by which."""
SUBSTITUTES: tuple[Substitute, ...] = (
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_null, pa.string()),
    (pa.types.is_decimal256, pa.string()),
)
"""What both Spark and Delta lack."""


def substitute_type(of: pa.DataType, further: Iterable[Substitute]) -> pa.DataType:
    """Return the type that holds values of a type without children.

    Args:
        further: What is replaced besides ``SUBSTITUTES``.
    """
    if pa.types.is_timestamp(of):
        return pa.timestamp("us", "UTC" if of.tz else None)
    return next((held for matches, held in (*SUBSTITUTES, *further) if matches(of)), of)


_SUBSTITUTES = ((pa.types.is_time, pa.time64("us")), (pa.types.is_duration, pa.duration("us")))
_NAMES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time(6)"),
    (pa.types.is_duration, "interval day to second"),
)


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
    return substitute_type(of, _SUBSTITUTES)


def spark_type(of: pa.DataType) -> str:
    """Return the Spark type of values of an Arrow type, as ``DataType.simpleString`` names it."""
    return _name(carried(of))


def _name(of: pa.DataType) -> str:
    if pa.types.is_struct(of):
        return f"struct<{','.join(f'{field.name}:{_name(field.type)}' for field in of)}>"
    if pa.types.is_map(of):
        return f"map<{_name(of.key_type)},{_name(of.item_type)}>"
    if pa.types.is_list(of):
        return f"array<{_name(of.value_type)}>"
    if pa.types.is_timestamp(of):
        return "timestamp" if of.tz else "timestamp_ntz"
    if pa.types.is_decimal128(of):
        return f"decimal({of.precision},{of.scale})"
    return next((name for is_it, name in _NAMES if is_it(of)), str(of))


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


_DELTA_SUBSTITUTES = ((pa.types.is_time, pa.string()), (pa.types.is_duration, pa.int64()))


def delta_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which a Delta table stores values of a type without children."""
    return substitute_type(type_, _DELTA_SUBSTITUTES)
