"""Rows under the column names of a SQL query as rows of keys and values, as its operators' states have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import null_rows, numbers_of, values_array
from stateproc.errors import InvalidRows
from stateproc.query_plans.node_states import Always, Column, NodeState, Pair, Part, defaults
from stateproc.writers.bootstrap.arrow_frames import arrow_batches
from stateproc.writers.bootstrap.frame_columns import columns_of, is_spark
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, MAP_VALUE, VALUE
from stateproc.writers.bootstrap.state_registration import column_type


def rows_of_state(frame: Any, state: NodeState) -> Any:
    """Return the rows with a column of keys and one of values, or of the keys and values of a map's entries.

    Args:
        frame: A DataFrame of Spark, or Arrow data, with the columns of the state; without a count each row is once.
        state: What the state consists of.

    Raises:
        NotFound: A column is missing.
        InvalidOption: The rows are something else, or two columns have one name.
        InvalidRows: A number of rows is null or below 1, or the rows of a sort key are null. Spark has an error of its
            own, when it computes them.
    """
    parts: dict[str, Part] = {KEY: state.key}
    parts |= {VALUE: state.value} if state.map_key is None else {MAP_KEY: state.map_key, MAP_VALUE: state.value}
    found = columns_of(frame)
    absent = [] if found is None else [name for name in defaults(state.value) if name not in found.names]
    needed = [name for name in state.columns if name not in absent]
    for name in needed:
        column_type(frame, name, state.name)
    if is_spark(frame):
        from stateproc.writers.bootstrap.spark_frames import nested_columns  # Lazy: only where Spark is imported.

        return nested_columns(frame, parts)
    plain = [pa.nulls(0, column_type(frame, name, state.name).arrow) for name in needed]
    schema = _nested(pa.RecordBatch.from_arrays(plain, needed), parts).schema
    batches = (_nested(batch, parts) for batch in arrow_batches(frame, needed))
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return pa.Table.from_batches(batches, schema)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _nested(batch: pa.RecordBatch, parts: Mapping[str, Part]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_array(part, batch) for part in parts.values()], list(parts))


def _array(part: Part, batch: pa.RecordBatch) -> pa.Array:
    n = len(batch)
    if isinstance(part, Always):
        return values_array(np.full(n, part.value))
    if isinstance(part, Column):
        if part.name not in batch.schema.names:
            return values_array(np.full(n, part.default, np.int32))
        return _checked(batch.column(part.name), part)
    if isinstance(part, Pair):
        found = [_array(part.first, batch), _array(part.second, batch)]
    else:
        no_time = pa.nulls(n, pa.timestamp("us", "UTC"))
        found = [no_time if name is None else batch.column(name) for name in part.given]
        found = [
            _with_zeros(column) if name in part.counted else column
            for name, column in zip(part.columns, found, strict=True)
        ]
    fields = [pa.field(f"f{at}", column.type) for at, column in enumerate(found)]
    return pa.Array.from_buffers(pa.struct(fields), n, [None], children=found)


def _checked(column: pa.Array, part: Column) -> pa.Array:
    """Return the column. Raises InvalidRows for a null, or for less than its default."""
    wrong = null_rows(column)
    if part.default is not None and pa.types.is_integer(column.type):
        wrong = wrong | (numbers_of(column) < part.default)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        least = "null" if part.default is None else f"null or below {part.default}"
        raise InvalidRows(
            f"column '{part.name}' cannot be {least}, and is {column[row].as_py()} in row {row} of a batch",
            advice="drop or fix such rows",
        )
    return column


def _with_zeros(column: pa.Array) -> pa.Array:
    """Return a column of numbers with 0 for nulls."""
    if not column.null_count:
        return column
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        return values_array(np.zeros(len(column), np.int64)) if column.null_count == len(column) else column
    zeros = pa.py_buffer(bytes(column.type.bit_width // 8 * len(column)))
    return pc.coalesce(column, pa.Array.from_buffers(column.type, len(column), [None, zeros]))
