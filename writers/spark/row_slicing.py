"""Bound the bytes of every row that Spark passes to Python, so that a number of rows bounds a batch.

Spark limits Arrow batches by rows and by bytes. For bytes it asks every column for its size before each row, which
costs more than filling the columns (3.1 of 5.3 CPU seconds for 5 million rows of four columns). A limit of rows alone
is free, and bounds memory if each row is bounded. `sliced` splits rows with large strings into several adjacent rows in
the JVM; `reassembled` joins them in Python, within the same partition and without a shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from stateproc.errors import InvalidEntries

ROW_BYTES = 32 << 10
"""The most bytes of strings and binaries in a row that is not sliced, and the size of each slice."""
SLICE = "slice"
"""The column of slices: null for rows that are not sliced."""
VARIABLE = (StringType, BinaryType)
FIXED = (
    NumericType,
    BooleanType,
    DateType,
    getattr(types, "TimeType", DateType),  # since Spark 4.1
    TimestampType,
    TimestampNTZType,
    DayTimeIntervalType,
    NullType,
)
_LARGE, _BYTES, _PART = "is_large", "bytes", "part"
_NULL, _SEPARATOR, _END = "-", ",", "\n"
"""The header of a sliced row: the length of each string column, or that it is null."""


def is_bounded(schema: StructType) -> bool:
    """Whether `sliced` bounds rows of this schema: there are no arrays, maps, structs or variants."""
    return all(isinstance(field.dataType, (*FIXED, *VARIABLE)) for field in schema)


def sliced(frame: DataFrame) -> DataFrame:
    """Split rows with more than ROW_BYTES of strings and binaries into rows that each have a slice of them.

    Args:
        frame: columns of a bounded schema (`is_bounded`), whose names need no quotes.

    Returns:
        The columns and SLICE, or the frame itself if it has no column of strings or binaries. All rows of a split row
        have its columns of fixed width, and null strings; their slices are a header and the strings one after another.
        The last slice is shorter than ROW_BYTES, and may be empty.
    """
    variable = [field.name for field in frame.schema if isinstance(field.dataType, VARIABLE)]
    if not variable:
        return frame
    sizes = [F.coalesce(F.octet_length(name).cast("bigint"), F.lit(0)) for name in variable]
    sized = frame.select("*", (reduce(add, sizes) > ROW_BYTES).alias(_LARGE))
    # Spark does not move the concatenation across explode, and so evaluates it once for all slices of a row.
    whole = sized.select("*", F.when(F.col(_LARGE), _concatenated(variable)).alias(_BYTES))
    parts = F.sequence(F.lit(0), F.floor(F.octet_length(_BYTES) / ROW_BYTES).cast("int"))
    exploded = whole.select("*", F.explode(F.when(F.col(_LARGE), parts).otherwise(F.array(F.lit(0)))).alias(_PART))
    columns = [_without_large(field.name, field.dataType) for field in frame.schema]
    slices = F.col(_BYTES).substr(F.col(_PART) * ROW_BYTES + 1, F.lit(ROW_BYTES))
    return exploded.select(*columns, F.when(F.col(_LARGE), slices).alias(SLICE))


def _concatenated(names: Sequence[str]) -> Column:
    lengths = [F.coalesce(F.octet_length(name).cast("string"), F.lit(_NULL)) for name in names]
    header = F.concat(F.concat_ws(_SEPARATOR, *lengths), F.lit(_END)).cast("binary")
    return F.concat(header, *(F.coalesce(F.col(name).cast("binary"), F.lit(b"")) for name in names))


def _without_large(name: str, kind: DataType) -> Column:
    return F.when(~F.col(_LARGE), F.col(name)).alias(name) if isinstance(kind, VARIABLE) else F.col(name)


def reassembled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join the slices of large rows.

    Args:
        batches: rows of a partition of `sliced`, in their order.

    Yields:
        The columns without SLICE; each large row in a batch of its own.

    Raises:
        InvalidEntries: the slices of a row are incomplete.
    """
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if SLICE not in batch.schema.names:
            yield batch
            continue
        slices = batch.column(SLICE)
        if slices.null_count == len(slices) and not pending:
            yield batch.drop_columns([SLICE])
            continue
        start = 0
        for row, data in enumerate(slices):
            if not data.is_valid:
                if pending:
                    raise InvalidEntries("a row between the slices of a large row")
                continue
            if start < row:
                yield batch.slice(start, row - start).drop_columns([SLICE])
            start = row + 1
            pending.append(batch.slice(row, 1))
            if len(data.as_buffer()) < ROW_BYTES:
                yield _joined(pending)
                pending = []
        if start < len(slices):
            yield batch.slice(start).drop_columns([SLICE])
        # Batches are released as they are passed on; what a large row still needs is copied.
        pending = [_copied(row) for row in pending]
    if pending:
        raise InvalidEntries("the slices of a large row are incomplete")


def _joined(rows: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The row that these slices belong to."""
    first = rows[0].drop_columns([SLICE])
    data = b"".join(row.column(SLICE)[0].as_buffer() for row in rows)
    header, _, _ = data.partition(_END.encode())
    lengths = header.decode("ascii").split(_SEPARATOR)
    if not len(header) < len(data) or len(lengths) != sum(_is_variable(kind) for kind in first.schema.types):
        raise InvalidEntries("the header of a large row does not fit its columns")
    values, at = memoryview(data), len(header) + 1
    columns, rest = [], iter(lengths)
    for column in first.columns:
        if not _is_variable(column.type):
            columns.append(column)
            continue
        length = next(rest)
        if length == _NULL:
            columns.append(pa.nulls(1, column.type))
            continue
        columns.append(_single(values[at : at + int(length)], column.type))
        at += int(length)
    if at != len(data):
        raise InvalidEntries("the slices of a large row are incomplete")
    return pa.RecordBatch.from_arrays(columns, schema=first.schema)


def _is_variable(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _single(value: memoryview, kind: pa.DataType) -> pa.Array:
    """An array of one value; as text it is not checked, as Spark does not check it."""
    is_large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return pa.array([value], pa.large_binary() if is_large else pa.binary()).view(kind)


def _copied(row: pa.RecordBatch) -> pa.RecordBatch:
    return row.take(pa.array([0]))
