"""Find the columns in which rows of two snapshots are compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from stateproc.errors import UnsupportedSnapshot
from stateproc.model.schema_merging import aligned, merged_schema, merged_type
from stateproc.model.state import State
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.kryo.serializer import Kryo

_COLLECTIONS = ("list", "map")
_RENAMED = {"map_value": "value"}
_View = TypeVar("_View", bound=State)


class NotComparable(UnsupportedSnapshot):
    """The contents of two states cannot be compared: their types have nothing in common, or are not known."""


@dataclass(frozen=True)
class RowForm:
    """What the rows of a comparison are.

    Attributes:
        times: Whether times of last access count.
        list_elements: Whether each element of a list in keyed state is a row of its own, identified by its position.
        temporal: How changed rows show dates and times, ``exact`` or ``micros``. All digits are compared in any case.
        raw: Whether source and sink states are compared as their bytes.
    """

    times: bool = False
    list_elements: bool = False
    temporal: str = "exact"
    raw: bool = False

    def is_flat(self, view: State) -> bool:
        """Return whether the entries of this state's values are rows of their own."""
        return view.kind == "map" or (self.list_elements and view.kind == "list" and view.is_keyed)


PLAIN_ROWS = RowForm()


def exact_view(view: _View, *, opaque: bool = False, row_kind: bool = True, temporal: str = "exact") -> _View:
    """Return a view of a state whose rows lose nothing: all digits of times, the kinds of rows, no nulls for errors.

    Args:
        opaque: Values of unknown types are their bytes.
        row_kind: Whether rows have their kind; without it they have it if the snapshot was opened so.
        temporal: ``micros`` for rows that are shown with Arrow's dates and times.
    """
    options = view.operator.options
    return view.with_options(
        replace(
            options,
            temporal=temporal,
            on_error="fail",
            opaque="bytes" if opaque else "fail",
            row_kind=row_kind or options.row_kind,
        )
    )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with one name for values of all kinds."""
    return pa.schema([field.with_name(_RENAMED.get(field.name, field.name)) for field in schema])


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


def common_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows in the common columns; fields that they do not have are null.

    Raises:
        NotComparable: They have fields that the schema does not have, which would be lost.
    """
    rows = pa.RecordBatch.from_arrays(batch.columns, schema=plain_schema(batch.schema))
    if not rows.schema.equals(schema) and not _includes(schema, rows.schema):
        raise NotComparable("the rows of one snapshot have fields that its types do not declare")
    return aligned(rows, schema)


def _includes(schema: pa.Schema, other: pa.Schema) -> bool:
    try:
        merged = merged_schema(schema, other)
    except UnsupportedSnapshot:
        return False
    return all(merged.field(name).type == schema.field(name).type for name in schema.names) and len(merged) == len(
        schema
    )


def one_batch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Join batches of a schema to one. Raises UnsupportedSnapshot if they have more bytes than one array can."""
    parts = list(batches)
    return parts[0] if len(parts) == 1 else batch_of(pa.Table.from_batches(parts, schema=schema))


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch. Raises UnsupportedSnapshot if a column has more bytes than one array can."""
    columns = []
    for column in table.combine_chunks().columns:
        if column.num_chunks > 1:
            raise UnsupportedSnapshot(
                "rows that differ have more than 2 GiB in one range of key groups",
                advice="compare other states (--state), or read both states and compare their rows",
            )
        columns.append(column.chunk(0) if column.num_chunks else pa.nulls(0, column.type))
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


# Whether equal bytes of two states' entries are equal rows: what their serializers have to do with it.


def have_equal_codecs(targets: Sequence[StateDescriptor], kryo: Collection[object]) -> bool:
    """Return whether equal bytes are equal rows: all states have the same serializers, which encode alike.

    Args:
        targets: The states as their files describe them.
        kryo: The settings of Kryo of both snapshots, without repetitions.
    """
    if any(_codec(target) != _codec(targets[0]) for target in targets[1:]):
        return False
    return len(kryo) == 1 or not any(has_kryo(part) for target in targets[:1] for part in _serializers(target))


def has_kryo(serializer: Serializer) -> bool:
    """Return whether Kryo writes a value or a part of it."""
    return isinstance(serializer, Kryo) or any(has_kryo(part) for part in serializer.nested)


def _codec(target: StateDescriptor) -> tuple[object, ...]:
    """Return what determines the meaning of a state's bytes."""
    kind = target.kind if target.kind in (StateKind.LIST, StateKind.MAP) else StateKind.VALUE
    return kind, target.key, target.namespace, target.user_key, target.value, target.ttl


def _serializers(target: StateDescriptor) -> Iterator[Serializer]:
    yield from (item for item in (target.key, target.namespace, target.user_key, target.value) if item is not None)
