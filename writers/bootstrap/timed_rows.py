"""Rows of keys that have times: those after a time, and aggregates of the rows of each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import Unencodable, as_type, values_array
from stateproc.errors import InvalidOption, InvalidRows
from stateproc.query_plans.state_parts import Record
from stateproc.serializers import LayoutContext
from stateproc.writers.bootstrap.arrow_frames import arrow_batches
from stateproc.writers.bootstrap.frame_columns import columns_of, is_spark
from stateproc.writers.bootstrap.keyed_encoder import KEY
from stateproc.writers.bootstrap.plan_windows import millis_of
from stateproc.writers.bootstrap.state_registration import check_time, column_type

NEVER = 2**62
"""After all times: the watermark, where no row waits."""


def rows_after(frame: Any, name: str, state: str, least: int, after: int) -> Any:
    """Return the rows whose times are after another, with their times in milliseconds.

    Raises:
        NotFound: The column is missing.
        InvalidRows: A time is null, or before the first. Spark has an error of its own, when it computes the rows.
    """
    check_time(frame, name, state, "the time of rows")
    if is_spark(frame):
        from stateproc.writers.bootstrap import spark_timed_rows  # Lazy: only where Spark is imported.

        return spark_timed_rows.rows_after(frame, name, least, after)
    names = list(columns_of(frame).names)  # type: ignore[union-attr]
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, column_type(frame, one, "").arrow) for one in names], names)
    found = [_kept(batch, name, least, after) for batch in (empty, *arrow_batches(frame, names))]
    return pa.Table.from_batches(found)


def _kept(batch: pa.RecordBatch, name: str, least: int, after: int) -> pa.RecordBatch:
    times = millis_of(batch.column(name), name)
    early = np.flatnonzero(times < least)
    if len(early):
        raise InvalidRows(
            f"column '{name}' has the time {times[early[0]]} ms, and Flink drops rows before {least} ms as late",
            advice="drop such rows",
        )
    at = batch.schema.get_field_index(name)
    arrays = [values_array(times) if index == at else column for index, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names).filter(values_array(times > after))


def key_type(key: Record) -> pa.StructType:
    """Return the Arrow type of keys."""
    return key.serializer.layout(LayoutContext()).arrow_type


def by_key(
    parts: Iterable[list[pa.Array]], wanted: pa.StructType, how: Mapping[str, str], what: str
) -> tuple[list[pa.Array], dict[str, pa.Array]]:
    """Return the fields of keys, each once, and aggregates of BIGINT for each key.

    Args:
        parts: Batches: the columns of `flat_keys`, and those that are aggregated.
        wanted: The type of keys.
        how: The columns that are aggregated, in their order, and Arrow's function for each.
        what: What the rows are, for errors.

    Raises:
        InvalidOption: Arrow does not group by keys of this type.
    """
    names = [f"k{at}" for at in range(wanted.num_fields)] or ["k"]
    types_ = [field.type for field in wanted] or [pa.int64()]
    schema = pa.schema([*zip(names, types_, strict=True), *((name, pa.int64()) for name in how)])
    flat = pa.Table.from_batches([pa.RecordBatch.from_arrays(one, schema.names) for one in parts], schema)
    try:
        once = flat.group_by(names, use_threads=False).aggregate(list(how.items()))
    except pa.ArrowNotImplementedError as error:
        raise InvalidOption(
            f"{what} by keys of the types {', '.join(map(str, types_))}",
            advice="give the rows as a DataFrame of Spark, or let the operator begin without state",
        ) from error
    found = {name: once.column(f"{name}_{word}").combine_chunks() for name, word in how.items()}
    return [once.column(name).combine_chunks() for name in names][: wanted.num_fields], found


def flat_keys(batch: pa.RecordBatch, wanted: pa.StructType) -> list[pa.Array]:
    """Return the fields of keys, of one type wherever they come from; without any a constant."""
    if not wanted.num_fields:
        return [values_array(np.zeros(len(batch), np.int64))]
    keys = batch.column(KEY).flatten()
    try:
        return [as_type(column, field.type) for column, field in zip(keys, wanted, strict=True)]
    except Unencodable as error:
        row = batch.slice(error.row, 1).column(KEY).to_pylist()
        text = f"a key is of another type: {error.message} (key: {row})"
        raise InvalidRows(text, advice="cast the column") from error


def keys_of(fields: list[pa.Array], n: int) -> pa.Array:
    types_ = [pa.field(f"f{at}", column.type) for at, column in enumerate(fields)]
    return pa.Array.from_buffers(pa.struct(types_), n, [None], children=fields)
