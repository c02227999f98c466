"""Arrow data as rows that fill a state: tables, readers, datasets, and whatever exports an Arrow stream."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import null_rows, numbers_of, values_array
from stateproc.errors import InvalidOption
from stateproc.writers.bootstrap.column_types import ColumnKind, ColumnType, FrameColumns

_BATCH_ROWS, _BATCH_BYTES = 1 << 16, 4 << 20
"""The most rows of a batch, and its bytes, about."""
_read_once: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()
"""Readers that have been read: they would return no rows again, and no error."""


def is_arrow(frame: Any) -> bool:
    """Return whether these are rows in Arrow's form."""
    return isinstance(frame, pa.RecordBatch) or hasattr(frame, "__arrow_c_stream__") or _is_dataset(frame)


def arrow_columns(frame: Any) -> FrameColumns:
    """Return the columns of Arrow data, in the types that `arrow_batches` returns."""
    return schema_columns(_schema(frame))


def schema_columns(schema: pa.Schema) -> FrameColumns:
    """Return the columns of an Arrow schema, in the types that `arrow_batches` returns."""
    return FrameColumns(schema.names, lambda index: arrow_type(_plain(schema.field(index).type)))


def arrow_type(found: pa.DataType) -> ColumnType:
    """Return an Arrow type as the type of a column."""
    kind: ColumnKind = "other"
    fields: list[tuple[str, pa.DataType]] = []
    if pa.types.is_integer(found):
        kind = "whole"
    elif pa.types.is_timestamp(found):
        kind = "time"
    elif pa.types.is_list(found):
        kind, fields = "list", [("element", found.value_type)]
    elif pa.types.is_map(found):
        kind, fields = "map", [("key", found.key_type), ("value", found.item_type)]
    elif pa.types.is_struct(found):
        kind, fields = "struct", [(field.name, field.type) for field in found]
    return ColumnType(str(found), kind, found, tuple((name, arrow_type(type_)) for name, type_ in fields))


def arrow_batches(frame: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read columns of Arrow data in small batches.

    Args:
        columns: The names of the columns, in the order in which they are returned.

    Raises:
        InvalidOption: A reader has been read before.
    """
    schema = _schema(frame)
    fields = [schema.field(name) for name in columns]
    wanted = pa.schema([field.with_type(_plain(field.type)) for field in fields])
    for batch in _batches(frame, list(columns)):
        rows = _without_views(batch.select(list(columns)))
        rows = rows if rows.schema.types == wanted.types else rows.cast(wanted)
        size = max(1, min(_BATCH_ROWS, rows.num_rows * _BATCH_BYTES // max(1, rows.nbytes)))
        for start in range(0, rows.num_rows, size):
            yield rows.slice(start, size)


def arrow_rows(frame: Any, roles: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Return all rows of the columns of ``roles``, under the names of their roles; None for a role without a column."""
    names = list(dict.fromkeys(name for name in roles.values() if name is not None))
    rows = [row for batch in arrow_batches(frame, names) for row in batch.to_pylist()]
    return [{role: None if name is None else row[name] for role, name in roles.items()} for row in rows]


def arrow_table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Return a table of these rows."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def _schema(frame: Any) -> pa.Schema:
    if isinstance(frame, pa.Table | pa.RecordBatch | pa.RecordBatchReader) or _is_dataset(frame):
        return frame.schema
    if hasattr(frame, "__arrow_c_schema__"):
        return pa.schema(frame)
    return pa.RecordBatchReader.from_stream(frame).schema


def _batches(frame: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if isinstance(frame, pa.RecordBatch):
        yield frame
    elif isinstance(frame, pa.Table):
        yield from frame.select(columns).to_batches(max_chunksize=_BATCH_ROWS)
    elif _is_dataset(frame):
        # Few batches ahead: by default a scan reads 16 batches of each of 4 files.
        yield from frame.to_batches(columns=columns, batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=1)
    else:
        if isinstance(frame, pa.RecordBatchReader):
            if frame in _read_once:
                raise InvalidOption(
                    "a RecordBatchReader can be read only once, and has been read",
                    advice="make a new one for each write, or give a table or a dataset",
                )
            _read_once.add(frame)
        yield from frame if isinstance(frame, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(frame)


def _is_dataset(frame: Any) -> bool:
    """Return whether this is a dataset, without importing the module of datasets."""
    return any(f"{kind.__module__}.{kind.__name__}" == "pyarrow._dataset.Dataset" for kind in type(frame).__mro__)


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with lists in place of list views, which Arrow casts to lists with wrong offsets."""
    columns = [_list_of_view(column) if _is_list_view(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _list_of_view(views: pa.Array) -> pa.Array:
    lengths = numbers_of(pc.fill_null(pc.list_value_length(views), 0))
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    starts = values_array(offsets, np.append(null_rows(views), False))  # A start that is null is a list that is null.
    return pa.LargeListArray.from_arrays(starts, pc.list_flatten(views))


def _plain(found: pa.DataType) -> pa.DataType:
    """Return the type of the same values that encoders know: no dictionaries, views or large lists.

    Raises InvalidOption for list views within other types.
    """
    is_map = pa.types.is_map(found)
    inside = [found.key_type, found.item_type] if is_map else [found.field(at).type for at in range(found.num_fields)]
    if any(map(_is_list_view, inside)):
        raise InvalidOption(f"a column is {found}, with list views inside of it", advice="cast these to lists")
    if pa.types.is_dictionary(found):
        return _plain(found.value_type)
    if isinstance(found, pa.BaseExtensionType):
        return _plain(found.storage_type)
    if pa.types.is_struct(found):
        return pa.struct([field.with_type(_plain(field.type)) for field in found])
    if pa.types.is_map(found):
        return pa.map_(_plain(found.key_type), found.item_field.with_type(_plain(found.item_type)))
    names = ("is_list", "is_large_list", "is_fixed_size_list")
    if _is_list_view(found) or any(getattr(pa.types, name)(found) for name in names):
        return pa.list_(found.value_field.with_type(_plain(found.value_type)))
    views = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    return views.get(str(found), found)


def _is_list_view(found: pa.DataType) -> bool:
    names = ("is_list_view", "is_large_list_view")
    return any(getattr(pa.types, name)(found) for name in names if hasattr(pa.types, name))
