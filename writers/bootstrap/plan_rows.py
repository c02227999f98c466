"""Rows under the column names of a SQL query as rows of keys and values, as its operators' states have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from stateproc.query_plans.node_states import OCCURRENCES, Always, Column, NodeState, Pair, Part
from stateproc.writers.bootstrap.arrow_frames import arrow_batches
from stateproc.writers.bootstrap.frame_columns import columns_of, is_spark
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, MAP_VALUE, VALUE
from stateproc.writers.bootstrap.state_registration import column_type

ONCE = pa.scalar(1, pa.int32())
"""The occurrences of a row of which nothing says how often it is there."""


def rows_of_state(frame: Any, state: NodeState) -> Any:
    """Return the rows with a column of keys and one of values, or of the keys and values of a map's entries.

    Args:
        frame: A DataFrame of Spark, or Arrow data, with the columns of the state; without occurrences each row is once.
        state: What the state consists of.

    Raises:
        NotFound: A column is missing.
        InvalidOption: The rows are something else, or two columns have one name.
    """
    found = columns_of(frame)
    is_single = found is not None and OCCURRENCES not in found.names
    needed = [name for name in state.columns if not (is_single and name == OCCURRENCES)]
    for name in needed:
        column_type(frame, name, state.name)
    parts: dict[str, Part] = {KEY: state.key}
    parts |= {VALUE: state.value} if state.map_key is None else {MAP_KEY: state.map_key, MAP_VALUE: state.value}
    if is_spark(frame):
        from stateproc.writers.bootstrap.spark_frames import nested_columns  # Lazy: only where Spark is imported.

        return nested_columns(frame, parts, needed)
    plain = pa.schema([(name, column_type(frame, name, state.name).arrow) for name in needed])
    schema = _nested(pa.RecordBatch.from_pylist([], plain), parts).schema
    batches = (_nested(batch, parts) for batch in arrow_batches(frame, needed))
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return pa.Table.from_batches(batches, schema)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _nested(batch: pa.RecordBatch, parts: Mapping[str, Part]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_array(part, batch) for part in parts.values()], list(parts))


def _array(part: Part, batch: pa.RecordBatch) -> pa.Array:
    if isinstance(part, Column):
        return batch.column(part.name) if part.name in batch.schema.names else pa.repeat(ONCE, len(batch))
    if isinstance(part, Always):
        return pa.repeat(part.value, len(batch))
    if isinstance(part, Pair):
        found = [_array(part.first, batch), _array(part.second, batch)]
    else:
        found = [
            pa.nulls(len(batch), pa.timestamp("us", "UTC")) if name is None else batch.column(name)
            for name in part.given
        ]
    fields = [pa.field(f"f{at}", column.type) for at, column in enumerate(found)]
    return pa.Array.from_buffers(pa.struct(fields), len(batch), [None], children=found)
