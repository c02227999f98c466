"""Bound the bytes of the rows that Spark passes to Python, so that a number of rows bounds an Arrow batch."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from stateproc.errors import InvalidEntries

BATCH_ROWS = 2000
"""Rows of a batch without a byte limit; with rows of 32 KB at most (see ``SLICE``) a batch has 64 MB, Spark's limit."""
ARROW_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
}
"""Spark does not ask for a batch's bytes before each row if the limit is 2^31 - 1."""
_ENCODED_BYTES = 1 << 20
"""Bytes of small batches that are encoded together: what is done per batch takes long for few rows."""


class _SessionWrites:
    """The writes of one session that run now, and whether they run with the settings."""

    def __init__(self) -> None:
        self.count = 0
        self.by_rows = False
        self.changed: list[str] = []


_sessions: WeakKeyDictionary[SparkSession, _SessionWrites] = WeakKeyDictionary()
_released = threading.Condition()


@contextmanager
def batches_limited(spark: SparkSession, *, by_rows: bool) -> Iterator[None]:
    """Limit Arrow batches of the session's queries by rows instead of by bytes, and restore its settings afterwards.

    Args:
        spark: the session whose settings change. A session that sets one of ARROW_SETTINGS itself keeps both.
        by_rows: False leaves the session as it is, for rows whose bytes nothing else bounds. Writes of one session that
            differ in this wait for each other.
    """
    with _released:
        writes = _sessions.setdefault(spark, _SessionWrites())
        _released.wait_for(lambda: not writes.count or writes.by_rows == by_rows)
        writes.by_rows = by_rows
        if by_rows and not writes.count and all(spark.conf.get(name, None) is None for name in ARROW_SETTINGS):
            writes.changed = list(ARROW_SETTINGS)
            for name, value in ARROW_SETTINGS.items():
                spark.conf.set(name, value)
        writes.count += 1
    try:
        yield
    finally:
        with _released:
            writes.count -= 1
            if not writes.count:
                for name in writes.changed:
                    spark.conf.unset(name)
                writes.changed = []
            _released.notify_all()


def coalesced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, with small batches joined into batches of up to a megabyte."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if pending and size + batch.nbytes > _ENCODED_BYTES:
            yield _joined(pending)
            pending, size = [], 0
        pending.append(batch)
        size += batch.nbytes
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = pa.Table.from_batches(batches).combine_chunks().columns
    return pa.RecordBatch.from_arrays([column.chunk(0) for column in columns], schema=batches[0].schema)


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
                yield _joined_slices(pending)
                pending = []
        if start < len(slices):
            yield batch.slice(start).drop_columns([SLICE])
        # Batches are released as they are passed on; what a large row still needs is copied.
        pending = [_copied(row) for row in pending]
    if pending:
        raise InvalidEntries("the slices of a large row are incomplete")


def _joined_slices(rows: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
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


PADDING = "padding"
"""The column that marks rows without content."""
_ROW_BYTES, _NUMBER = "bytes", "number"
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
    sized = frame.select("*", reduce(add, known).alias(_ROW_BYTES))
    rows = F.sequence(F.lit(0), F.floor(F.col(_ROW_BYTES) / ROW_BYTES).cast("int"))
    # Most rows have no others after them: for these a sequence takes longer than a constant.
    numbers = F.when(F.col(_ROW_BYTES) >= ROW_BYTES, rows).otherwise(F.array(F.lit(0)))
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
