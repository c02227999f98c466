"""Count the partners of a join's rows by a condition beside its keys: DuckDB evaluates it for the rows of each key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc import types
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.filters.condition import arrow_reader, connection, duckdb_errors
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.structs import TupleOf
from stateproc.writers.rewrite.row_selection import raw_entries

KEY, NUMBER = "key", "number"
"""Columns of rows: their key of the join, and how often each is there."""
_OWN, _PARTNERS, _ROW = "own_rows", "partner_rows", "row"
_AT_ONCE = 1 << 16


def row_columns(
    batch: pa.RecordBatch, state: StateDescriptor, context: LayoutContext, columns: Sequence[tuple[str, int]]
) -> dict[str, pa.Array]:
    """Return columns of the row of each entry (RAW_ENTRIES) of a join's state, by their names.

    Args:
        batch: The entries.
        context: How they are decoded.
        columns: The name of each column, and its position in the row.

    Raises:
        CorruptSnapshot: An entry cannot be decoded.
        UnsupportedSnapshot: Rows have not as many columns.
    """
    value, is_map = state.value, state.kind is StateKind.MAP
    is_pair = isinstance(value, TupleOf)
    is_counted = types.INT in (value, value.fields[0] if isinstance(value, TupleOf) else None)
    decoded = pa.Table.from_batches(list(decode_entries([raw_entries(batch)], state, context, flatten=True)))
    name = "map_key" if is_counted else "map_value" if is_map else "value"
    rows = decoded.column(name).combine_chunks()
    if is_pair and not is_counted:
        rows = pc.struct_field(rows, [0])
    if any(position >= rows.type.num_fields for _, position in columns):
        raise UnsupportedSnapshot(
            "rows of the join have other columns than in its plan",
            where=Where(state=state.name),
            advice="give the plan that the job ran, or let the join begin without state: --empty",
        )
    return {one: _plain(pc.struct_field(rows, [position])) for one, position in columns}


def _plain(array: pa.Array) -> pa.Array:
    # DuckDB compares values of a dictionary by their numbers.
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def counted_partners(own: pa.Table, partners: pa.Table, condition: str, state: str) -> pa.Array:
    """Return how many partners each row has.

    Args:
        own: The rows: their column ``key``, and those of the condition.
        partners: Those of the other input, with ``number``, how often each is there.
        condition: Which rows of one key are partners, in SQL.
        state: The state of the rows, for errors.

    Raises:
        UnsupportedSnapshot: DuckDB cannot evaluate the condition.
    """
    found = np.zeros(len(own), dtype=np.int64)
    if not len(own) or not len(partners):
        return pa.array(found)
    # Numbers instead of keys, so that these are hashed once.
    keys = pc.unique(partners.column(KEY))
    numbered = [
        table.set_column(table.column_names.index(KEY), KEY, pc.index_in(table.column(KEY), value_set=keys))
        for table in (own, partners)
    ]
    rows = numbered[0].append_column(_ROW, pa.array(np.arange(len(own))))
    database = connection()
    database.register(_OWN, rows.filter(pc.is_valid(rows.column(KEY))))
    database.register(_PARTNERS, numbered[1])
    query = (
        f"SELECT {_OWN}.{_ROW}, CAST(SUM({_PARTNERS}.{NUMBER}) AS BIGINT) AS {NUMBER} FROM {_OWN} JOIN {_PARTNERS} "
        f"ON {_OWN}.{KEY} = {_PARTNERS}.{KEY} WHERE {condition} GROUP BY {_OWN}.{_ROW}"
    )
    try:
        for counted in arrow_reader(database.sql(query), _AT_ONCE):
            found[counted.column(0).to_numpy()] = counted.column(1).to_numpy()
    except duckdb_errors() as error:
        raise UnsupportedSnapshot(
            f"the condition of the join beside its keys is not computed: {str(error).partition(chr(10))[0][:200]}",
            where=Where(state=state),
            advice="let the join begin without state: --empty",
        ) from error
    finally:
        for name in (_OWN, _PARTNERS):
            database.unregister(name)
    return pa.array(found)
