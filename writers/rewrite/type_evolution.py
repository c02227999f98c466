"""Write the values of a copied state in another type: fields by their names, others by expressions in SQL.

Of an entry only the value is decoded and written anew: a value, an element of a list, the user value of a map's entry;
of operator state an element, of broadcast state an entry's value. Keys, namespaces, user keys and times of last access
stay the bytes they are. Where the keys of a map get another type, it is only these that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import RowBytes, Unencodable, no_rows, null_rows, row_bytes_of
from stateproc.codec.encoding.sized_writers import concatenate, write_rows
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.codec.layouts import Counted, StructLayout
from stateproc.codec.layouts.base import Unwritable
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import InvalidOption, InvalidRows, UnsupportedSnapshot, Where
from stateproc.filters import RowExpression, parse
from stateproc.flink_versions import Release
from stateproc.metadata.backend import StateMetaInfo
from stateproc.model.operator_context import OperatorContext
from stateproc.readers.entry_programs import StoredBytes
from stateproc.readers.error_context import placed
from stateproc.readers.row_schema import state_fields
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer, Undecodable, proxied_snapshot
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.writers.bootstrap.column_types import conformed
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY
from stateproc.writers.formats.entry_batches import gather
from stateproc.writers.rewrite.merged_header import with_snapshots, with_user_key_snapshot, with_value_snapshot
from stateproc.writers.rewrite.row_assignments import Assignment, Settable, are_equal, of_set, plain, row_text
from stateproc.writers.rewrite.row_selection import RowSelection, SelectedEntries, row_schemas, row_selection
from stateproc.writers.rewrite.row_update import settable_column, stored_values, value_layout
from stateproc.writers.rewrite.transform import exact_read_options
from stateproc.writers.rewrite.type_changes import Change, Matched, Node, Path, WiderKeys

_ROW_KIND = "row_kind"
_Encoded = TypeVar("_Encoded")
_KINDS = (StateKind.VALUE, StateKind.REDUCING, StateKind.AGGREGATING, StateKind.LIST, StateKind.MAP)


# Columns of rows → values as they are stored.


@dataclass(frozen=True)
class ValueEvolution(Generic[_Encoded]):
    """Writes a column of rows in another type.

    Attributes:
        temporal: The same with dates and times as Arrow's types.
        value: The new type.
        node: What becomes of the column.
        assignments: The expressions for fields that the new type has.
        encode: Returns the new column of rows as it is stored; raises Unencodable, Unwritable.
    """

    settable: Settable
    rows: pa.Schema
    temporal: pa.Schema
    value: Serializer
    node: Node
    assignments: tuple[Assignment, ...]
    encode: Callable[[pa.Array, pa.RecordBatch], _Encoded]

    def check(self) -> None:
        """Raise InvalidOption for expressions that do not fit; UnsupportedSnapshot for what can only be read."""
        self.of(no_rows(self.rows))

    def of(self, rows: pa.RecordBatch) -> _Encoded:
        """Return the values as they are stored.

        Raises:
            InvalidRows: A value does not fit the new type.
            InvalidOption: A value that DuckDB refuses.
            UnsupportedSnapshot: The new type can only be read.
        """
        try:
            given = {path: expression.values(rows) for path, expression in self._expressions}
        except InvalidOption as error:
            raise of_set(error) from error
        at = Where(state=self.settable.state)
        try:
            column = self.node.of(rows.column(self.settable.column), given)
            if column.null_count and not self.settable.nullable:
                words = "a key is not null" if self._is_key else "a state has no null"
                raise Unencodable(words, int(np.flatnonzero(null_rows(column))[0]))
            return self.encode(column, rows)
        except Unwritable as error:
            raise error.at(state=at.state) from error
        except Unencodable as error:
            if not len(rows):
                raise InvalidOption(
                    f"set: {error.message}",
                    where=at,
                    advice="give an expression of that type, as in CAST(… AS VARCHAR), or NULL; text goes in "
                    "'single quotes'",
                ) from error
            what = "a key" if self._is_key else "a value"
            raise InvalidRows(
                f"{what} does not fit {self.value.type_name}: {error.message} ({row_text(rows, error.row)})",
                where=at,
                advice="convert it by an expression (set), or delete or correct such rows before: stateproc delete, "
                "stateproc update",
            ) from error

    @property
    def _is_key(self) -> bool:
        return self.settable.column == KEY

    @cached_property
    def _expressions(self) -> tuple[tuple[Path, RowExpression], ...]:
        found = []
        for one in self.assignments:
            try:
                expression = RowExpression(parse(one.expression, self.temporal), self.rows, self.temporal)
                assert expression.type is not None
            except InvalidOption as error:
                raise of_set(error) from error
            found.append((one.path, expression))
        return tuple(found)


# Entries of keyed states.


@dataclass(frozen=True)
class TypeEvolution:
    """Writes the values of one keyed state, or the keys of its maps, in another type. Picklable.

    Attributes:
        selection: Selects all rows of the state.
        value: The new type.
        matched: How the columns match.
        as_keys: Whether it is the keys of maps that get the type.
        keys: What writes the keys of maps in another type, after values.
    """

    selection: RowSelection
    value: Serializer
    matched: Matched
    as_keys: bool = False
    keys: TypeEvolution | None = None

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries (RAW_ENTRIES) with values of the new type, in the same order.

        Raises CorruptSnapshot, and what `ValueEvolution.of` raises.
        """
        made = (
            self._evolved(part) if part.rows else part.batch
            for part in self.selection.parts(batches)
            if len(part.batch)
        )
        yield from made if self.keys is None else self.keys.batches(made)

    def info(self, info: StateMetaInfo, release: Release) -> StateMetaInfo:
        """Return the state's entry in the header, with the new type."""
        if self.as_keys:
            return with_user_key_snapshot(info, proxied_snapshot(self.value, release))
        element = TtlSerializer(self.value) if self._state.ttl else self.value
        info = with_value_snapshot(info, self._state.kind, proxied_snapshot(element, release))
        return info if self.keys is None else self.keys.info(info, release)

    def __getstate__(self) -> dict[str, object]:
        # Expressions are compiled once in each process.
        return {name: getattr(self, name) for name in ("selection", "value", "matched", "as_keys", "keys")}

    def applied(self, state: StateDescriptor) -> StateDescriptor:
        """Return the state with the new type."""
        state = _with_type(state, self.value, self.as_keys)
        return state if self.keys is None else self.keys.applied(state)

    @property
    def _state(self) -> StateDescriptor:
        return self.selection.state

    @cached_property
    def values(self) -> ValueEvolution[RowBytes]:
        """What writes the column."""
        selection, matched = self.selection, self.matched
        rows, temporal = row_schemas(self._state, selection.context, selection.flatten)
        settable = _settable(self._state, self.as_keys)
        if self.as_keys:
            keys = self.value.layout(selection.context)

            def encode(column: pa.Array, rows: pa.RecordBatch) -> RowBytes:
                return keys.encode(conformed(column, keys.arrow_type))
        else:
            layout = value_layout(self.applied(self._state), selection)

            def encode(column: pa.Array, rows: pa.RecordBatch) -> RowBytes:
                return stored_values(column, rows, self._state, layout)

        return ValueEvolution(settable, rows, temporal, self.value, matched.node, matched.assignments, encode)

    def _evolved(self, part: SelectedEntries) -> pa.RecordBatch:
        rows = pa.Table.from_batches(part.columns).combine_chunks().to_batches()[0]
        return self._with_user_keys(part, rows) if self.as_keys else part.with_values(self.values.of(rows))

    def _with_user_keys(self, part: SelectedEntries, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the entries with other keys of maps, which are the last part of an entry's key."""
        keys, state = row_bytes_of(part.batch.column("key")), self._state
        assert state.user_key is not None
        layout = state.user_key.layout(self.selection.context)
        before = layout.encode(conformed(rows.column(MAP_KEY), layout.arrow_type))
        ends, lengths = keys.offsets[1:], np.diff(before.offsets)
        starts = np.maximum(ends - lengths, keys.offsets[:-1])
        if not are_equal(gather(keys.data, starts, ends), before):
            raise UnsupportedSnapshot(
                "keys of maps would be written as other bytes than they have",
                where=Where(state=state.name),
                advice="read the state as rows and write it anew: transform_state",
            )
        rest = row_bytes_writer(gather(keys.data, keys.offsets[:-1], starts))
        return part.with_keys(write_rows(concatenate([rest, row_bytes_writer(self.values.of(rows))]), len(rows)))


def _with_type(state: StateDescriptor, type_: Serializer, as_keys: bool) -> StateDescriptor:
    return replace(state, user_key=type_) if as_keys else replace(state, value=type_)


def _settable(state: StateDescriptor, as_keys: bool) -> Settable:
    if not as_keys:
        return settable_column(state)
    return Settable(state.name, "keys of maps", MAP_KEY, flattened=True, nullable=False)


def type_evolution(
    state: StateDescriptor, change: Change, operator: OperatorContext, names: Iterable[str]
) -> TypeEvolution:
    """Return what writes a keyed state's values in another type.

    Args:
        state: The state, as a header describes it.
        change: The new type.
        operator: The operator of the snapshot.
        names: The keyed states of the operator.

    Raises:
        InvalidOption: Fields are missing, a rename or an expression does not fit.
        UnsupportedSnapshot: Values cannot be decoded, or the new type can only be read.
    """
    at = Where(operator=operator.display, state=state.name)
    if state.kind not in _KINDS:
        raise InvalidOption(f"the values of {state.kind.value} have no other type", where=at, advice="leave them out")
    settable, flatten = _settable(state, change.as_keys), state.kind in (StateKind.LIST, StateKind.MAP)
    context = exact_read_options(operator.options, None).context
    needed = (settable.column,)
    selection = row_selection(state, "true", operator, names, flatten=flatten, needed=needed, context=context)
    if isinstance(selection.state.value, StoredBytes):
        raise undecodable(state.value, at)
    after = _with_type(selection.state, change.value, change.as_keys)
    if all(has_row_kind(one, selection.context, flatten, settable.column) for one in (selection.state, after)):
        selection = replace(selection, context=replace(selection.context, row_kind=True))
    _, before = row_schemas(selection.state, selection.context, flatten)
    try:
        wanted = pa.schema(state_fields(after, replace(selection.context, temporal="micros"), flatten))
    except Undecodable as error:
        raise without_columns(change.value, error, at) from error
    old = selection.state.user_key if change.as_keys else selection.state.value
    assert old is not None
    matched = change.matched(old, settable, before, wanted, at)
    columns = {name for one in matched.assignments for name in one.columns}
    selection = replace(selection, needed=frozenset({settable.column, *columns}))
    keys: TypeEvolution | None = None
    if change.user_key is not None:
        keys = type_evolution(_with_type(state, change.value, False), WiderKeys(change.user_key), operator, names)
        matched = replace(matched, changes=(*matched.changes, *keys.matched.changes))
    evolution = TypeEvolution(selection, change.value, matched, change.as_keys, keys)
    evolution.values.check()
    return evolution


# Elements of operator states.


@dataclass(frozen=True)
class ElementEvolution:
    """Writes the elements of a list or union state, or the values of a broadcast state, in another type.

    Attributes:
        info: The state's entry in the header.
        value: The new type.
        matched: How the columns match.
        context: Settings of layouts.
    """

    info: StateMetaInfo
    value: Serializer
    matched: Matched
    context: LayoutContext

    def pieces(self, pieces: Iterable[RowBytes]) -> Iterator[RowBytes]:
        """Yield elements of the new type. Raises CorruptSnapshot, and what `ValueEvolution.of` raises."""
        for piece in pieces:
            yield self._elements(piece) if self.info.key_serializer is None else self._entries(piece)

    def evolved_info(self, release: Release) -> StateMetaInfo:
        """Return the state's entry in the header, with the new type."""
        snapshot = proxied_snapshot(self.value, release)
        return with_snapshots(self.info, {**self.info.snapshots, "VALUE_SERIALIZER": snapshot})

    @cached_property
    def values(self) -> ValueEvolution[RowBytes]:
        """What writes the column."""
        rows, temporal = _element_schemas(self.info, self._old, self.context)
        layout, matched = self.value.layout(self.context), self.matched

        def encode(column: pa.Array, rows: pa.RecordBatch) -> RowBytes:
            return layout.encode(conformed(column, layout.arrow_type))

        settable = _settable_of(self.info)
        return ValueEvolution(settable, rows, temporal, self.value, matched.node, matched.assignments, encode)

    @property
    def _old(self) -> Serializer:
        assert self.info.value_serializer is not None  # The columns were matched by it.
        return self.info.value_serializer

    def _elements(self, piece: RowBytes) -> RowBytes:
        decoder = ValueDecoder(self._old.layout(self.context))
        with placed("<elements>", int, self.info.name):
            values = decoder.decode(piece.data, piece.offsets[:-1], piece.offsets[1:])
        return self.values.of(pa.RecordBatch.from_arrays([values], schema=self.values.rows))

    def _entries(self, piece: RowBytes) -> RowBytes:
        """The only element of a broadcast state: its entries, in any order, the same in each subtask."""
        key = self.info.key_serializer
        assert key is not None
        layouts = (("key", SerializedValue(key.layout(self.context))), ("value", self._old.layout(self.context)))
        stored = Counted(StructLayout(layouts))
        with placed("<elements>", int, self.info.name):
            pairs = ValueDecoder(stored).decode(piece.data, piece.offsets[:-1], piece.offsets[1:]).values
        keys = row_bytes_of(pairs.field(0))
        key_column = ValueDecoder(key.layout(self.context)).decode(keys.data, keys.offsets[:-1], keys.offsets[1:])
        rows = pa.RecordBatch.from_arrays([key_column, pairs.field(1)], schema=self.values.rows)
        values = self.values.of(rows)
        both = write_rows(concatenate([row_bytes_writer(keys), row_bytes_writer(values)]), len(rows))
        content = len(rows).to_bytes(4, "big") + both.data[both.offsets[0] : both.offsets[-1]].tobytes()
        return row_bytes_of(pa.array([content], pa.large_binary()))


def element_evolution(info: StateMetaInfo, change: Change, operator: OperatorContext) -> ElementEvolution:
    """Return what writes an operator state's elements in another type.

    Args:
        info: The state's entry in the header.
        change: The new type.
        operator: The operator of the snapshot.

    Raises:
        InvalidOption: Fields are missing, a rename or an expression does not fit.
        UnsupportedSnapshot: Elements cannot be decoded, or the new type can only be read.
    """
    at = Where(operator=operator.display, state=info.name)
    context = exact_read_options(operator.options, None).context
    context = replace(context, tail=info.key_serializer is None)
    old = info.value_serializer
    if old is None:
        raise UnsupportedSnapshot("the state has no serializer of elements", where=at, advice="leave it as it is")
    try:
        _, before = _element_schemas(info, old, context)
    except Undecodable as error:
        raise undecodable(old, at) from error
    try:
        _, after = _element_schemas(info, change.value, context)
    except Undecodable as error:
        raise without_columns(change.value, error, at) from error
    matched = change.matched(old, _settable_of(info), before, after, at)
    evolution = ElementEvolution(info, change.value, matched, context)
    evolution.values.check()
    return evolution


def _settable_of(info: StateMetaInfo) -> Settable:
    if info.key_serializer is None:
        return Settable(info.name, "operator state", "value", flattened=False, nullable=True)
    return Settable(info.name, "broadcast state", "map_value", flattened=False, nullable=True)


def _element_schemas(info: StateMetaInfo, value: Serializer, context: LayoutContext) -> tuple[pa.Schema, pa.Schema]:
    """Return the columns of an operator state's rows, and the same with dates and times as Arrow's types."""
    found = []
    for ctx in (context, replace(context, temporal="micros")):
        column = pa.field(_settable_of(info).column, value.layout(ctx).arrow_type)
        key = info.key_serializer
        found.append(pa.schema([column] if key is None else [("map_key", key.layout(ctx).arrow_type), column]))
    return found[0], found[1]


def undecodable(value: Serializer, at: Where) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"values of the type {value.type_name} cannot be decoded, and so not get another type",
        where=at,
        advice="describe their class (classes, --classes)",
    )


def without_columns(value: Serializer, error: Undecodable, at: Where) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"the type {value.type_name} has no columns: {error.message}",
        where=at,
        advice=error.advice or "describe its class (classes, --classes)",
    )


def has_row_kind(state: StateDescriptor, context: LayoutContext, flatten: bool, column: str) -> bool:
    rows, _ = row_schemas(state, replace(context, row_kind=True), flatten)
    type_ = plain(rows.field(column).type)
    return bool(pa.types.is_struct(type_)) and type_.get_field_index(_ROW_KIND) >= 0
