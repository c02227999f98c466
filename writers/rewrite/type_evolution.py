"""Write the values of a copied state in another type: fields by their names, others by expressions in SQL.

Of an entry only the value is decoded and written anew: a value, an element of a list, the user value of a map's entry;
of operator state an element, of broadcast state an entry's value. Keys, namespaces, user keys and times of last access
stay the bytes they are.

Fields are matched by name and kind, and nothing is taken for another: what the old type does not have has to be said,
as a renamed field or as an expression. All that changes is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import RowBytes, Unencodable, null_rows, row_bytes_of
from stateproc.codec.encoding.sized_writers import concatenate, write_rows
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.codec.layouts import Counted, StructLayout
from stateproc.codec.layouts.base import Unwritable
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import InvalidOption, InvalidRows, UnsupportedSnapshot, Where, not_found
from stateproc.filters import RowExpression, parse
from stateproc.flink_versions import Release
from stateproc.metadata.backend import StateMetaInfo
from stateproc.model.operator_context import OperatorContext
from stateproc.readers.entry_programs import StoredBytes
from stateproc.readers.error_context import placed
from stateproc.readers.row_schema import SerializedValue, state_fields
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer, Undecodable, proxied_snapshot
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.structs import NullableOf, RowOf, TupleOf
from stateproc.serializers.pojo.serializer import CLASS_FIELD, Pojo
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.writers.bootstrap.column_types import conformed, rebuilt
from stateproc.writers.rewrite.merged_header import with_snapshots, with_value_snapshot
from stateproc.writers.rewrite.row_assignments import (
    Assignment,
    Settable,
    family,
    fits,
    of_set,
    parsed_assignments,
    plain,
    row_text,
)
from stateproc.writers.rewrite.row_selection import RowSelection, SelectedEntries, row_schemas, row_selection
from stateproc.writers.rewrite.row_update import settable_column, stored_values, value_layout
from stateproc.writers.rewrite.transform import exact_read_options

Path = tuple[str, ...]
"""The names of a column and of fields in it. Elements of lists and entries of maps have no name of their own."""
_ROW_KIND = "row_kind"
_KINDS = (StateKind.VALUE, StateKind.REDUCING, StateKind.AGGREGATING, StateKind.LIST, StateKind.MAP)


# What becomes of a column: a tree of the new type.


class Node(Protocol):
    """What becomes of a column, of a field in it, of elements."""

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the new values of those before (of none, if they are an expression's). Raises Unencodable."""


@dataclass(frozen=True)
class Kept:
    """Values stay what they are; their encoder refuses those that do not fit."""

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the values."""
        return array


@dataclass(frozen=True)
class Narrowed:
    """Doubles as floats, where nothing is lost; Arrow would take the nearest."""

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the floats. Raises Unencodable."""
        found = array.cast(pa.float32())
        same = pc.or_(pc.equal(found.cast(pa.float64()), array), pc.is_nan(array))
        lost = pc.fill_null(pc.invert(same), False)
        if pc.any(lost).as_py():
            row = pc.index(lost, True).as_py()
            raise Unencodable(f"{array[row]} is no float: CAST(… AS FLOAT) takes the nearest", row)
        return found


@dataclass(frozen=True)
class Given:
    """The values of the expression for a path."""

    path: Path
    type: pa.DataType

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the values. Raises Unencodable for values of another kind."""
        values = given[self.path]
        if not fits(values, self.type):
            raise Unencodable(f"{'.'.join(self.path)}: {values.type} does not fit {self.type}", 0)
        return pa.nulls(len(values), self.type) if pa.types.is_null(values.type) else values


@dataclass(frozen=True)
class Fields:
    """Structs with other fields.

    Attributes:
        parts: Of each field its name, the name before (None for one of an expression), and what becomes of it.
        only: The class that all values have to have, as the new type has no subclasses; "" for any.
    """

    parts: tuple[tuple[str, str | None, Node], ...]
    only: str = ""

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the new structs; null ones stay null. Raises Unencodable for values of subclasses."""
        if self.only:
            self._refuse_subclasses(array.field(array.type.get_field_index(CLASS_FIELD)))
        children = [
            node.of(pa.nulls(0) if before is None else array.field(array.type.get_field_index(before)), given)
            for _, before, node in self.parts
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, [name for name, _, _ in self.parts], mask=mask)

    def _refuse_subclasses(self, classes: pa.Array) -> None:
        others = pc.fill_null(pc.not_equal(classes.cast(pa.string()), self.only), False)
        if pc.any(others).as_py():
            row = pc.index(others, True).as_py()
            raise Unencodable(f"a value of the subclass {classes[row]}, which the new type does not have", row)


@dataclass(frozen=True)
class Elements:
    """Lists of other elements."""

    element: Node

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the new lists. Raises Unencodable."""
        child = self.element.of(array.values, given)
        return rebuilt(array, pa.list_(child.type), child)


@dataclass(frozen=True)
class Entries:
    """Maps of other values; their keys stay."""

    value: Node

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the new maps. Raises Unencodable."""
        items = self.value.of(array.items, given)
        pairs = pa.StructArray.from_arrays([array.keys, items], ["key", "value"])
        return rebuilt(array, pa.map_(array.keys.type, items.type), pairs)


class _Matching:
    """Matches the fields of a type with those of another.

    Attributes:
        changes: What changes, in words.
        missing: Fields that the old type does not have in that kind, and which were not given.
        removed: Fields that the new type does not have.
        fields: The fields of the old type that were looked at, by their paths in a value.
    """

    def __init__(self, value: Serializer, renames: Mapping[Path, Path], given: Mapping[Path, str]) -> None:
        self.changes: list[str] = []
        self.missing: list[str] = []
        self.removed: list[str] = []
        self._value, self._renames, self._given = value, renames, given
        self._used: set[Path] = set()
        self.fields: list[str] = []

    @property
    def unused(self) -> list[Path]:
        """The renamed fields that there are not."""
        return [path for path in self._renames if path not in self._used]

    def node(self, old: pa.DataType, new: pa.DataType, path: Path, before: Path) -> Node:
        """Return what becomes of a column or field; ``path``, ``before``: where it is, and was."""
        old, new = plain(old), plain(new)
        if path in self._given:
            self.changes.append(f"{_shown(path)} = {self._given[path]}")
            return Given(path, new)
        kind = family(old)
        if kind != family(new) == "struct":
            return self._made(new, path)
        if kind != family(new):
            self.missing.append(f"{_shown(path)}, which is {new} and was {old}")
            return Kept()
        match kind:
            case "struct":
                return self._fields(old, new, path, before)
            case "list":
                element = self.node(old.value_type, new.value_type, path, before)
                return element if isinstance(element, Kept) else Elements(element)
            case "map":
                if not isinstance(self.node(old.key_type, new.key_type, path, before), Kept):
                    self.missing.append(f"{_shown(path)}, whose keys have other fields")
                value = self.node(old.item_type, new.item_type, path, before)
                return value if isinstance(value, Kept) else Entries(value)
        if old != new:
            self.changes.append(f"{_shown(path)}: {old} → {new}")
        return Narrowed() if pa.types.is_float64(old) and pa.types.is_float32(new) else Kept()

    def _made(self, new: pa.StructType, path: Path) -> Node:
        """Return structs that expressions give, where there were none."""
        parts: list[tuple[str, str | None, Node]] = []
        for one in new:
            mine = (*path, one.name)
            if mine in self._given:
                self.changes.append(f"{_shown(mine)} = {self._given[mine]}")
            else:
                self.missing.append(_shown(mine))
            parts.append((one.name, None, Given(mine, plain(one.type))))
        return Fields(tuple(parts))

    def _fields(self, old: pa.StructType, new: pa.StructType, path: Path, before: Path) -> Node:
        source = self._sources(old, new, before)
        self.fields += [_shown((*before[1:], one.name)) for one in old]
        parts: list[tuple[str, str | None, Node]] = []
        for one in new:
            mine, was = (*path, one.name), source.get(one.name)
            if mine in self._given:
                self.changes.append(f"{_shown(mine)} = {self._given[mine]}")
                parts.append((one.name, None, Given(mine, plain(one.type))))
            elif was is None:
                nested = {given for given in self._given if given[: len(mine)] == mine}
                self.missing.append(_shown(mine) + (", as a whole" if nested else ""))
                parts.append((one.name, None, Kept()))
            else:
                if was != one.name:
                    self.changes.append(f"{_shown((*before, was))} renamed to {one.name}")
                parts.append((one.name, was, self.node(old.field(was).type, one.type, mine, (*before, was))))
        taken = {was for _, was, _ in parts if was is not None}
        gone = [one.name for one in old if one.name not in taken and one.name != CLASS_FIELD]
        self.removed += [_shown((*before, name)) for name in gone if (*path, name) not in self._given]
        self.changes += [f"{_shown((*before, name))} removed" for name in gone if (*path, name) not in self._given]
        is_same = [one.name for one in old] == [was for _, was, _ in parts] == [name for name, _, _ in parts]
        if is_same and all(isinstance(node, Kept) for _, _, node in parts):
            return Kept()
        loses_class = old.get_field_index(CLASS_FIELD) >= 0 and CLASS_FIELD not in taken
        return Fields(tuple(parts), self._class_at(before) if loses_class else "")

    def _class_at(self, before: Path) -> str:
        """Return the class of the POJOs at a path; "" for structs that are no POJOs."""
        found = _structure(self._value)
        for name in before[1:]:
            child = _children(found).get(name)
            if child is None:
                return ""
            found = _structure(child)
        return found.class_name if isinstance(found, Pojo) else ""

    def _sources(self, old: pa.StructType, new: pa.StructType, before: Path) -> dict[str, str]:
        """Return the field before of each field."""
        found, moved = dict[str, str](), set[str]()
        for one in old:
            to = self._renames.get((*before[1:], one.name))
            if to is not None and to[:-1] == before[1:] and new.get_field_index(to[-1]) >= 0:
                self._used.add((*before[1:], one.name))
                found[to[-1]] = one.name
                moved.add(one.name)
        for one in old:
            if one.name not in moved and new.get_field_index(one.name) >= 0:
                found.setdefault(one.name, one.name)
        return found


def _structure(serializer: Serializer) -> Serializer:
    """Return what elements of lists, values of maps and what may be null are."""
    while isinstance(serializer, ListOf | MapOf | NullableOf):
        serializer = serializer.nested[-1]
    return serializer


def _children(serializer: Serializer) -> Mapping[str, Serializer]:
    """Return the types of fields by their names."""
    if isinstance(serializer, Pojo):
        return dict(serializer.fields)
    if isinstance(serializer, TupleOf | RowOf):
        return {f"f{index}": one for index, one in enumerate(serializer.fields)}
    return {}


def _shown(path: Path) -> str:
    return ".".join(path)


# Columns of rows → values as they are stored.


@dataclass(frozen=True)
class ValueEvolution:
    """Writes a column of rows in another type.

    Attributes:
        settable: The column.
        rows: The columns of the rows.
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
    encode: Callable[[pa.Array, pa.RecordBatch], RowBytes]

    def check(self) -> None:
        """Raise InvalidOption for expressions that do not fit; UnsupportedSnapshot for what can only be read."""
        arrays = [pa.array([], item.type) for item in self.rows]
        self.of(pa.RecordBatch.from_arrays(arrays, schema=self.rows))

    def of(self, rows: pa.RecordBatch) -> RowBytes:
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
                raise Unencodable("a state has no null", int(np.flatnonzero(null_rows(column))[0]))
            return self.encode(column, rows)
        except Unwritable as error:
            raise error.at(state=at.state) from error
        except Unencodable as error:
            raise InvalidRows(
                f"a value does not fit {self.value.type_name}: {error.message} ({row_text(rows, error.row)})",
                where=at,
                advice="convert it by an expression (set), or delete or correct such rows before: stateproc delete, "
                "stateproc update",
            ) from error

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


@dataclass(frozen=True)
class Matched:
    """How the columns of two types match: what becomes of the column, the expressions, and what changes in words."""

    node: Node
    assignments: tuple[Assignment, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True)
class TypeChange:
    """Another type of a state's values, as a user wants it.

    Attributes:
        value: The new type of values, of list elements, of map values.
        renames: Fields that have another name, as they were and as they are: ``address.zip`` → ``address.postcode``.
        assignments: Fields that are given by expressions, as ``value.note = 'none'``: fields of the new type, and
            columns of the old one.
    """

    value: Serializer
    renames: Mapping[str, str]
    assignments: tuple[str, ...]

    def matched(self, old: Serializer, settable: Settable, before: pa.Schema, after: pa.Schema, at: Where) -> Matched:
        """Return how the columns match, with dates and times as Arrow's types. Raises InvalidOption."""
        parsed = parsed_assignments(self.assignments, settable, before, after)
        matching = _Matching(old, _paths(self.renames, at), {one.path: one.expression for one in parsed})
        root = (settable.column,)
        node = matching.node(before.field(root[0]).type, after.field(root[0]).type, root, root)
        _check_complete(matching, root, at)
        words = f"type {old.type_name} → {self.value.type_name}"
        return Matched(node, parsed, (words, *matching.changes))


# Entries of keyed states.


@dataclass(frozen=True)
class TypeEvolution:
    """Writes the values of one keyed state in another type. Picklable.

    Attributes:
        selection: Selects all rows of the state.
        value: The new type of values.
        matched: How the columns match.
    """

    selection: RowSelection
    value: Serializer
    matched: Matched

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries (RAW_ENTRIES) with values of the new type, in the same order.

        Raises CorruptSnapshot, and what `ValueEvolution.of` raises.
        """
        for part in self.selection.parts(batches):
            if len(part.batch):
                yield self._evolved(part) if part.rows else part.batch

    def info(self, info: StateMetaInfo, release: Release) -> StateMetaInfo:
        """Return the state's entry in the header, with the new type."""
        element = TtlSerializer(self.value) if self._state.ttl else self.value
        return with_value_snapshot(info, self._state.kind, proxied_snapshot(element, release))

    def __getstate__(self) -> dict[str, object]:
        # Expressions are compiled once in each process.
        return {"selection": self.selection, "value": self.value, "matched": self.matched}

    @property
    def _state(self) -> StateDescriptor:
        return self.selection.state

    @cached_property
    def values(self) -> ValueEvolution:
        """What writes the column."""
        selection, matched = self.selection, self.matched
        rows, temporal = row_schemas(self._state, selection.context, selection.flatten)
        layout = value_layout(replace(self._state, value=self.value), selection)
        settable = settable_column(self._state)

        def encode(column: pa.Array, rows: pa.RecordBatch) -> RowBytes:
            return stored_values(column, rows, self._state, layout)

        return ValueEvolution(settable, rows, temporal, self.value, matched.node, matched.assignments, encode)

    def _evolved(self, part: SelectedEntries) -> pa.RecordBatch:
        rows = pa.Table.from_batches(part.columns).combine_chunks().to_batches()[0]
        return part.with_values(self.values.of(rows))


def type_evolution(
    state: StateDescriptor, change: TypeChange, operator: OperatorContext, names: Iterable[str]
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
    settable, flatten = settable_column(state), state.kind in (StateKind.LIST, StateKind.MAP)
    context = exact_read_options(operator.options, None).context
    needed = (settable.column,)
    selection = row_selection(state, "true", operator, names, flatten=flatten, needed=needed, context=context)
    if isinstance(selection.state.value, StoredBytes):
        raise _undecodable(state.value, at)
    after = replace(selection.state, value=change.value)
    if all(_has_row_kind(one, selection.context, flatten, settable.column) for one in (selection.state, after)):
        selection = replace(selection, context=replace(selection.context, row_kind=True))
    _, before = row_schemas(selection.state, selection.context, flatten)
    try:
        wanted = pa.schema(state_fields(after, replace(selection.context, temporal="micros"), flatten))
    except Undecodable as error:
        raise _without_columns(change.value, error, at) from error
    matched = change.matched(selection.state.value, settable, before, wanted, at)
    columns = {name for one in matched.assignments for name in one.columns}
    selection = replace(selection, needed=frozenset({settable.column, *columns}))
    evolution = TypeEvolution(selection, change.value, matched)
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
    def values(self) -> ValueEvolution:
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


def element_evolution(info: StateMetaInfo, change: TypeChange, operator: OperatorContext) -> ElementEvolution:
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
        raise _undecodable(old, at) from error
    try:
        _, after = _element_schemas(info, change.value, context)
    except Undecodable as error:
        raise _without_columns(change.value, error, at) from error
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


def _undecodable(value: Serializer, at: Where) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"values of the type {value.type_name} cannot be decoded, and so not get another type",
        where=at,
        advice="describe their class (classes, --classes)",
    )


def _without_columns(value: Serializer, error: Undecodable, at: Where) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"the type {value.type_name} has no columns: {error.message}",
        where=at,
        advice=error.advice or "describe its class (classes, --classes)",
    )


def _has_row_kind(state: StateDescriptor, context: LayoutContext, flatten: bool, column: str) -> bool:
    rows, _ = row_schemas(state, replace(context, row_kind=True), flatten)
    type_ = plain(rows.field(column).type)
    return bool(pa.types.is_struct(type_)) and type_.get_field_index(_ROW_KIND) >= 0


def _paths(renames: Mapping[str, str], at: Where) -> dict[Path, Path]:
    found: dict[Path, Path] = {}
    for before, after in renames.items():
        one, two = tuple(before.split(".")), tuple(after.split("."))
        if one[:-1] != two[:-1]:
            raise InvalidOption(
                f"rename: {before} and {after} are in different places",
                where=at,
                advice=f"move it by an expression: --set 'value.{after} = value.{before}'",
            )
        if two in found.values():
            raise InvalidOption(f"rename: two fields are renamed to {after}", where=at, advice="rename one of them")
        found[one] = two
    return found


def _check_complete(matching: _Matching, root: Path, at: Where) -> None:
    """Raise NotFound for renamed fields that there are not; InvalidOption for fields that nobody gave."""
    if matching.unused:
        unknown = not_found("field that can be renamed so", _shown(matching.unused[0]), matching.fields)
        raise unknown.at(operator=at.operator, state=at.state)
    if not matching.missing:
        return
    gone = f" (the new type does not have {', '.join(matching.removed)})" if matching.removed else ""
    first = matching.missing[0].partition(",")[0]
    raise InvalidOption(
        f"the old type does not have: {'; '.join(matching.missing)}{gone}",
        where=at,
        advice=f"give each by an expression over the old columns, as in --set '{first} = NULL', or name the field that "
        f"it was: --rename OLD={first.rpartition('.')[2] if first != _shown(root) else 'NEW'}",
    )
