"""Find the columns in which rows of two snapshots are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from stateproc.errors import UnsupportedSnapshot
from stateproc.states.schema_merging import merged_type
from stateproc.states.state import State

_COLLECTIONS = ("list", "map")
_RENAMED = {"map_value": "value"}
_View = TypeVar("_View", bound=State)


class NotComparable(UnsupportedSnapshot):
    """The contents of two states cannot be compared: their types have nothing in common, or are not known."""


def exact_view(view: _View, *, opaque: bool = False) -> _View:
    """Return a view of a state whose rows lose nothing: all digits of times, the kinds of rows, no nulls for errors.

    Args:
        view: The state.
        opaque: Values of unknown types are their bytes.
    """
    twin = view.with_temporal("exact")
    options = replace(twin.operator.options, on_error="fail", opaque="bytes" if opaque else "fail")
    twin.operator = replace(twin.operator, options=options)
    return twin


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with one name for values of all kinds."""
    return pa.schema([field.with_name(_RENAMED.get(field.name, field.name)) for field in schema])


def plain_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with one name for values of all kinds."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=plain_schema(batch.schema))


def check_kinds(left: State, right: State) -> None:
    """Raise NotComparable if one state is a list or a map and the other one is not."""
    kinds = [state.kind if state.kind in _COLLECTIONS else "value" for state in (left, right)]
    if kinds[0] != kinds[1]:
        raise NotComparable(f"{left.kind} state and {right.kind} state have no entries in common")


def common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of all schemas (one or two); structs have the fields of both.

    Raises:
        NotComparable: The types of a column have nothing in common, or a key has a part that the other has not.
    """
    names = list(dict.fromkeys(name for schema in schemas for name in schema.names))
    fields = []
    for name in names:
        found = [schema.field(name).type for schema in schemas if name in schema.names]
        if len(found) < len(schemas) and name in ("namespace", "key"):
            raise NotComparable(f"only one of the states has a {name}")
        try:
            fields.append(pa.field(name, found[0] if len(found) == 1 else merged_type(*found)))
        except UnsupportedSnapshot:
            raise NotComparable(f"the {name} is {found[0]} in one snapshot and {found[1]} in the other") from None
    return pa.schema(fields)


def one_batch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Join batches of a schema to one."""
    parts = list(batches)
    if len(parts) == 1:
        return parts[0]
    table = pa.Table.from_batches(parts, schema=schema).combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else pa.nulls(0, column.type) for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
