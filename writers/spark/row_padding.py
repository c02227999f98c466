"""Follow rows with large lists and maps by rows without content, so that a number of rows bounds a batch.

Strings can be split into slices of bounded size (`row_slicing`), lists and maps of any type cannot. A row with them is
followed by one empty row for each ROW_BYTES that it has: then a batch of n rows has at most n * ROW_BYTES, and one more
row. Spark's limit of bytes guarantees as much, but for it Spark asks all columns for their size before each row:
without it a million lists of five longs cost the JVM 0.70 CPU seconds instead of 0.85, maps of two longs 1.05, not 1.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import add

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from stateproc.writers.spark.row_slicing import FIXED, ROW_BYTES, VARIABLE

PADDING = "padding"
"""The column that marks rows without content."""
_BYTES, _NUMBER = "bytes", "number"
_FIXED_BYTES = 16
"""The most bytes that Arrow has for a value of fixed width, a decimal, or for the offset of one of variable width."""


def can_be_padded(schema: StructType) -> bool:
    """Return whether `padded` bounds rows of this schema: Spark can compute their bytes from the lengths of columns."""
    return all(_bytes_of(F.col(field.name), field.dataType) is not None for field in schema)


def padded(frame: DataFrame) -> DataFrame:
    """Follow each row by one row without content for each ROW_BYTES of its strings, lists and maps.

    Args:
        frame: columns of a schema that `can_be_padded`, whose names need no quotes.

    Returns:
        The columns and PADDING, which is true for rows without content. Columns of fixed width have their values there,
        too, so that their types stay; others are null.
    """
    varying = (field for field in frame.schema if not _is_fixed(field.dataType))
    sizes = (_bytes_of(F.col(field.name), field.dataType) for field in varying)
    known = (F.coalesce(size, F.lit(0)) for size in sizes if size is not None)
    sized = frame.select("*", reduce(add, known).alias(_BYTES))
    rows = F.sequence(F.lit(0), F.floor(F.col(_BYTES) / ROW_BYTES).cast("int"))
    # Most rows have no others after them: for these a sequence takes longer than a constant.
    numbers = F.when(F.col(_BYTES) >= ROW_BYTES, rows).otherwise(F.array(F.lit(0)))
    exploded = sized.select("*", F.explode(numbers).alias(_NUMBER))
    columns = [_without_padding(field.name, field.dataType) for field in frame.schema]
    return exploded.select(*columns, (F.col(_NUMBER) > 0).alias(PADDING))


def _without_padding(name: str, kind: DataType) -> Column:
    return F.col(name) if _is_fixed(kind) else F.when(F.col(_NUMBER) == 0, F.col(name)).alias(name)


def unpadded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of `padded` without padding and its column; batches without the column as they are."""
    for batch in batches:
        if PADDING not in batch.schema.names:
            yield batch
            continue
        padding = batch.column(PADDING)
        rows = batch.drop_columns([PADDING])
        yield rows.filter(pc.invert(padding)) if padding.true_count else rows


def _is_fixed(kind: DataType) -> bool:
    return isinstance(kind, FIXED)


def _bytes_of(column: Column, kind: DataType) -> Column | None:
    """The most bytes of a column's value in Arrow, null for null; None if it does not follow from lengths."""
    if _is_fixed(kind):
        return F.lit(0)
    if isinstance(kind, VARIABLE):
        return F.octet_length(column).cast("bigint")
    if isinstance(kind, ArrayType):
        return _bytes_of_items(column, kind.elementType)
    if isinstance(kind, MapType):
        return _sum(
            _bytes_of_items(F.map_keys(column), kind.keyType), _bytes_of_items(F.map_values(column), kind.valueType)
        )
    return None


def _bytes_of_items(items: Column, kind: DataType) -> Column | None:
    """The most bytes of all items of an array column, null for null; None if it does not follow from lengths."""
    offsets = F.array_size(items).cast("bigint") * _FIXED_BYTES
    if _is_fixed(kind):
        return offsets
    if isinstance(kind, VARIABLE):
        texts = items.cast("array<string>") if isinstance(kind, BinaryType) else items
        return offsets + F.octet_length(F.concat_ws("", texts))
    if isinstance(kind, ArrayType):
        # Spark flattens an array with a null inside to null.
        arrays = F.filter(items, lambda item: item.isNotNull())
        return _sum(offsets, _bytes_of_items(F.flatten(arrays), kind.elementType))
    if isinstance(kind, StructType) and len({name.lower() for name in kind.names}) == len(kind.names):
        return _sum(offsets, *(_bytes_of_items(items.getField(field.name), field.dataType) for field in kind))
    return None


def _sum(*sizes: Column | None) -> Column | None:
    known = [size for size in sizes if size is not None]
    return reduce(add, known) if len(known) == len(sizes) else None
