"""Rows under the column names of a SQL query as rows of keys and values, as its operators' states have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import Unencodable, as_type, items_of, list_of, null_rows, numbers_of, values_array
from stateproc.codec.layouts.rows import ROW_KIND_FIELD
from stateproc.errors import InvalidOption, InvalidRows, Where, not_found
from stateproc.query_plans.state_parts import (
    MOST_ELEMENTS,
    Always,
    Column,
    NodeState,
    Pair,
    Part,
    Record,
    Rows,
    Seen,
    Zeros,
    arrays_of,
    defaults,
)
from stateproc.query_plans.state_parts import columns_of as part_columns
from stateproc.writers.bootstrap.arrow_frames import arrow_batches, is_arrow
from stateproc.writers.bootstrap.column_types import ColumnType
from stateproc.writers.bootstrap.frame_columns import columns_of, is_spark
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACE, TIMESTAMP, VALUE
from stateproc.writers.bootstrap.plan_windows import millis_of
from stateproc.writers.bootstrap.state_registration import check_time, column_type


def rows_of_state(frame: Any, state: NodeState) -> Any:
    """Return the rows with a column of keys and one of values, or of the keys and values of a map's entries.

    Args:
        frame: A DataFrame of Spark, or Arrow data, with the columns of the state; without a count each row is once.
        state: What the state consists of.

    Raises:
        NotFound: A column is missing.
        InvalidOption: The rows are something else, two columns have one name, or one is no array where it has to be.
        InvalidRows: A number of rows is null, no whole number or below 1, or the rows of a sort key are null. Spark has
            an error of its own, when it computes them.
    """
    parts: dict[str, Part] = {KEY: state.key}
    if state.slices is not None:
        parts[NAMESPACE] = state.slices.namespace
    if state.as_of is not None:
        check_time(frame, state.as_of.time.name, state.name, "the time of rows")
        parts[TIMESTAMP] = state.as_of.time
    parts |= {VALUE: state.value} if state.map_key is None else {MAP_KEY: state.map_key, MAP_VALUE: state.value}
    found = columns_of(frame)
    absent = [] if found is None else [name for name in defaults(state.value) if name not in found.names]
    named = (*state.columns, *(() if state.slices is None else part_columns(state.slices.namespace)))
    needed = [name for name in dict.fromkeys(named) if name not in absent]
    kind = state.value.kind if isinstance(state.value, Record) else None
    needed += [] if found is None or kind is None or kind not in found.names else [kind]
    arrays = arrays_of(state.value)
    for name in needed:
        column = column_type(frame, name, state.name)
        if isinstance(state.value, Rows) and name == state.value.name and column.kind == "list":
            _check_fields(column, state.value, state.name)
        if name in arrays and column.kind != "list" and column.arrow != pa.null():
            raise InvalidOption(
                f"column '{name}' is {column.text}, where an array of the values is needed",
                where=Where(state=state.name),
                advice="gather them, in their order: array_agg(… ORDER BY …) of DuckDB, collect_list(…) of Spark",
            )
    if is_spark(frame):
        from stateproc.writers.bootstrap.spark_frames import (
            nested_columns,
            rows_in,
        )  # Lazy: only where Spark is imported.

        return nested_columns(rows_in(frame, state), parts)
    plain = [pa.nulls(0, column_type(frame, name, state.name).arrow) for name in needed]
    schema = _nested(pa.RecordBatch.from_arrays(plain, needed), parts).schema
    if state.is_empty:
        return schema.empty_table()
    batches = (_nested(_rows_in(batch, state), parts) for batch in arrow_batches(frame, needed))
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return pa.Table.from_batches(batches, schema)
    return pa.RecordBatchReader.from_batches(schema, batches)


def read_again(frame: Any) -> Any:
    """Return rows that can be read several times: a table in memory, where they come from a stream of Arrow data."""
    columns = columns_of(frame)
    if is_spark(frame) or not is_arrow(frame) or isinstance(frame, pa.Table | pa.RecordBatch) or columns is None:
        return frame
    schema = pa.schema([(name, column_type(frame, name, "").arrow) for name in columns.names])
    return pa.Table.from_batches(arrow_batches(frame, schema.names), schema)


def _rows_in(batch: pa.RecordBatch, state: NodeState) -> pa.RecordBatch:
    """Return the rows of a batch that fill a state: of two that share rows, those without or with null."""
    if state.split is not None:
        column = batch.column(state.split)
        batch = batch.filter(column.is_valid() if state.rows is None else column.is_null())
    if not isinstance(state.value, Seen):
        return batch
    return batch.filter(pa.array((_numbers_seen(state.value, batch) != 0).any(axis=0)))


def _numbers_seen(part: Seen, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return how often calls have seen the values of rows: a row of numbers for each call."""
    return np.stack([numbers_of(_array(number, batch)).astype(np.int64) for number in part.numbers])


def _nested(batch: pa.RecordBatch, parts: Mapping[str, Part]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_array(part, batch) for part in parts.values()], list(parts))


def _array(part: Part, batch: pa.RecordBatch) -> pa.Array:
    n = len(batch)
    if isinstance(part, Always):
        return values_array(np.full(n, part.value))
    if isinstance(part, Zeros):
        column = _array(part.number, batch)
        numbers = numbers_of(column)
        _refuse(numbers > MOST_ELEMENTS, column, f"column '{part.number.name}' cannot be over {MOST_ELEMENTS}")
        ends = np.cumsum(numbers, dtype=np.int64)
        return list_of(np.concatenate([[0], ends]), values_array(np.zeros(ends[-1] if n else 0, np.int64)))
    if isinstance(part, Seen):
        seen = _numbers_seen(part, batch)
        if part.are_bits:
            bits = np.int64(1) << np.arange(len(seen), dtype=np.int64)
            return values_array(np.bitwise_or.reduce(np.where(seen != 0, bits[:, None], 0), axis=0))
        ends = np.arange(n + 1, dtype=np.int64) * len(seen)
        return list_of(ends, values_array(np.ascontiguousarray(seen.T).reshape(-1)))
    if isinstance(part, Rows):
        return _rows(part, batch)
    if isinstance(part, Column):
        if part.name not in batch.schema.names:
            return values_array(np.full(n, part.default, np.int32))
        if part.is_time:
            return values_array(millis_of(batch.column(part.name), part.name))
        return _checked(batch.column(part.name), part)
    names: tuple[str, ...]
    if isinstance(part, Pair):
        found, names = [_array(part.first, batch), _array(part.second, batch)], part.fields
    else:
        found = [_field(part, name, batch) for name in part.columns]
        names = tuple(f"f{at}" for at in range(len(found)))
        if part.kind in batch.schema.names:
            found, names = [*found, batch.column(part.kind).cast(pa.string())], (*names, ROW_KIND_FIELD)
    fields = [pa.field(name, column.type) for name, column in zip(names, found, strict=True)]
    return pa.Array.from_buffers(pa.struct(fields), n, [None], children=found)


def _check_fields(column: ColumnType, part: Rows, state: str) -> None:
    """Raise NotFound for rows in arrays that lack a field, InvalidOption for arrays of something else."""
    (element,) = column.children
    if element.kind != "struct":
        raise InvalidOption(
            f"column '{part.name}' is {column.text}, where an array of structs is needed, a row each",
            where=Where(state=state),
            advice=f"give structs with the fields {', '.join(part.given)}",
        )
    names = [name for name, _ in element.fields]
    for name in part.given:
        if name not in names:
            raise not_found(f"field in the rows of column '{part.name}'", name, names).at(state=state)


def _rows(part: Rows, batch: pa.RecordBatch) -> pa.Array:
    """Return arrays of rows."""
    given = Column(part.name, part.serializer, least=1, is_array=True)
    offsets, items = items_of(_checked(batch.column(part.name), given))
    if items.null_count:
        entry = np.searchsorted(offsets, np.flatnonzero(null_rows(items))[:1], side="right") - 1
        _refuse(np.arange(len(batch)) == entry, batch.column(part.name), f"column '{part.name}' cannot have null rows")
    rows = pa.RecordBatch.from_struct_array(items)
    found = pa.StructArray.from_arrays([_field(part.row, name, rows) for name in part.row.columns], part.row.columns)
    if part.mark is not None:
        found = pa.StructArray.from_arrays([found, _array(part.mark, rows)], ["f0", "f1"])
    return list_of(offsets, found)


def _field(part: Record, name: str, batch: pa.RecordBatch) -> pa.Array:
    """Return a field of a row."""
    if name in part.rows:
        row = part.rows[name]
        found = [_field(row, column, batch) for column in row.columns]
        return pa.StructArray.from_arrays(found, list(part.type_of(name).names))
    if part.is_absent(name):
        return pa.nulls(len(batch), pa.null() if part.type_of(name).kind == "RAW" else pa.timestamp("us", "UTC"))
    if name in part.orders:
        order = part.orders[name]
        missing = null_rows(batch.column(order.column))
        if order.none is None:
            return pa.array(np.zeros(len(batch), np.int64), mask=missing)
        return values_array(np.where(missing, np.int64(order.none), np.int64(0)))
    if name in part.always:
        return pa.repeat(pa.scalar(part.always[name], part.arrow_type_of(name)), len(batch))
    if name in part.empty:
        return list_of(np.zeros(len(batch) + 1, np.int64), pa.nulls(0, part.arrow_type_of(name).value_type))
    column = batch.column(name)
    if isinstance(part.initial.get(name), tuple) and column.type in (pa.null(), pa.list_(pa.null())):
        column = column.cast(part.arrow_type_of(name))
    return _with_initial(column, part.initial[name]) if name in part.initial else column


def _checked(column: pa.Array, part: Column) -> pa.Array:
    """Return the column. Raises InvalidRows for a null, for less than it can be, or for a fraction of a number."""
    if part.null is not None:
        return _with_initial(column, part.null)
    if part.is_array and pa.types.is_null(column.type):
        column = pa.nulls(len(column), pa.list_(pa.null()))
    wrong, text = null_rows(column), f"column '{part.name}' cannot be null"
    if part.least is not None:
        if part.is_array:
            numbers = pc.fill_null(pc.list_value_length(column), 0)
        else:
            numbers = column = _whole(column, part.name)
        wrong = wrong | (numbers_of(numbers) < part.least)
        text += " or empty" if part.is_array else f" or below {part.least}"
    _refuse(wrong, column, text)
    return column


def _whole(column: pa.Array, name: str) -> pa.Array:
    """Return numbers of another type, such as the sums of DuckDB, as whole numbers. Raises InvalidRows."""
    if pa.types.is_integer(column.type):
        return column
    try:
        return as_type(column, pa.int64())
    except Unencodable as error:
        wrong = np.arange(len(column)) == error.row
        _refuse(wrong, column, f"column '{name}' has to be whole numbers ({column.type} is given)")
        raise InvalidRows(f"column '{name}': {error.message}", advice="cast it to BIGINT") from error


def _refuse(wrong: npt.NDArray[np.bool_], column: pa.Array, text: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidRows(
            f"{text}, and is {column[row].as_py()} in row {row} of a batch", advice="drop or fix such rows"
        )


def _with_initial(column: pa.Array, initial: int | str | tuple[()]) -> pa.Array:
    """Return a column with the initial value of accumulators, 0 of numbers, for nulls."""
    if isinstance(initial, tuple):
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        return list_of(np.concatenate([[0], np.cumsum(numbers_of(lengths), dtype=np.int64)]), pc.list_flatten(column))
    if isinstance(initial, str):
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        return (column if is_text else column.cast(pa.string())).fill_null(initial)
    if pa.types.is_null(column.type):
        return values_array(np.zeros(len(column), np.int64))
    if not column.null_count:
        return column
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        return values_array(np.zeros(len(column), np.int64)) if column.null_count == len(column) else column
    zeros = pa.py_buffer(bytes(column.type.bit_width // 8 * len(column)))
    return pc.coalesce(column, pa.Array.from_buffers(column.type, len(column), [None, zeros]))
