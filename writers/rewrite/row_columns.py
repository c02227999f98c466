"""Give the SQL rows in a state other columns, by their positions: in values, or in the keys of a map. Rows of TopN get
into a state of another kind.

Rows are RowDataSerializer's, alone, in lists or in tuples, or the second field of a key; what is around them stays. A
column that is new is null in the rows that there are, or an expression over their other columns; one may get a wider
type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import Unencodable, entries_of, items_of, values_array
from stateproc.errors import InvalidOption, Where
from stateproc.filters import RowExpression, parse
from stateproc.query_plans.row_conversion import NewColumn, RowConversion, WiderColumn
from stateproc.readers.state_descriptor import StateKind
from stateproc.readers.state_names import rows_in
from stateproc.serializers import Serializer
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.java.structs import TupleOf
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData
from stateproc.types import INT, Tuple
from stateproc.types import RowData as row_data
from stateproc.writers.rewrite.row_assignments import Settable, family, of_set, plain
from stateproc.writers.rewrite.type_changes import Elements, Fields, Kept, Matched, Node, Path, fitting

_ROW_KIND = "row_kind"


@dataclass(frozen=True)
class Nulls:
    """A column of nulls beside those of the rows."""

    type: pa.DataType

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return a null for each row."""
        return pa.nulls(len(array), self.type)


@dataclass(frozen=True)
class Computed:
    """A column that is computed of the others of a row.

    Attributes:
        name: The column.
        text: The expression in SQL.
        fields: The columns of the rows, as they are called where they are decoded.
        rows: The same columns by their names, with dates and times as Arrow's types.
        type: The type of the column.
    """

    name: str
    text: str
    fields: tuple[str, ...]
    rows: pa.Schema
    type: pa.DataType

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the values. Raises InvalidOption for an expression that does not fit, Unencodable for a value."""
        try:
            rows = pa.RecordBatch.from_struct_array(array).select(self.fields)
            rows = pa.RecordBatch.from_arrays(rows.columns, self.rows.names)
            expression = _expression(self.text, rows.schema, self.rows)
            if family(expression.type) not in (family(self.type), "null"):
                raise InvalidOption(
                    f"{self.name} is {self.type}, and the expression {expression.type}",
                    advice="convert it, as in CAST(… AS BIGINT); text goes in 'single quotes'",
                )
            values = expression.values(rows)
        except InvalidOption as error:
            raise of_set(error, "fill") from error
        return fitting(values, self.type, self.name)


@dataclass(frozen=True)
class OnlyRow:
    """Maps of one row, in a list or with a number: what becomes of the row."""

    row: Node

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the rows. Raises Unencodable for maps of more."""
        rows = _rows_of(entries_of(array)[2])
        if len(rows) != len(array):
            raise Unencodable("a map of more than one row", 0)
        return self.row.of(rows, given)


@dataclass(frozen=True)
class NumberedRows:
    """Maps of lists of rows: maps of the rows with their numbers in these, from 1 on, by a key of their own.

    Attributes:
        row: What becomes of a row.
        unique: Positions of the columns of the key in the new rows.
        keys: The type of the keys.
        values: That of rows with their numbers.
    """

    row: Node
    unique: tuple[int, ...]
    keys: pa.DataType
    values: pa.DataType

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the new maps. Raises Unencodable."""
        of_maps, _, lists = entries_of(array)
        of_lists, stored = items_of(lists)
        rows = self.row.of(stored, given)
        numbers = np.arange(len(rows)) - np.repeat(of_lists[:-1], np.diff(of_lists)) + 1
        fields = [rows.field(name) for name in self._columns(rows.type)]
        keys = pa.StructArray.from_arrays([fields[at] for at in self.unique], [one.name for one in self.keys])
        pairs = [rows, values_array(numbers.astype(np.int32))]
        values = pa.StructArray.from_arrays(pairs, [one.name for one in self.values])
        return pa.MapArray.from_arrays(values_array(of_lists[of_maps].astype(np.int32)), keys, values)

    @staticmethod
    def _columns(rows: pa.StructType) -> list[str]:
        return [field.name for field in rows if field.name != _ROW_KIND]


def _rows_of(values: pa.Array) -> pa.Array:
    """Return the rows of a map's values: of lists, or of structs with a number."""
    return values.field(0) if pa.types.is_struct(values.type) else items_of(values)[1]


@lru_cache(maxsize=64)
def _expression(text: str, rows: pa.Schema, temporal: pa.Schema) -> RowExpression:
    """Compile an expression, once in each process."""
    return RowExpression(parse(text, temporal), rows, temporal)


@dataclass(frozen=True)
class RowChange:
    """Rows of a state with other columns, or in a state of another kind.

    Attributes:
        value: The new type of values, of list elements, of map values; of keys of a map with ``conversion.as_keys``.
        conversion: Which column is which.
        kind: The kind of state that it becomes; None where that stays. The state is a map of lists of rows, or of rows
            with a number: as a value it is the only one of these, as a map that of rows with their numbers in the
            lists.
        user_key: The new type of a map state's keys, of one that stays a map a wider one.
        unique: Positions of the columns that are these keys, in the rows as they will be.
    """

    value: Serializer
    conversion: RowConversion
    kind: StateKind | None = None
    user_key: Serializer | None = None
    unique: tuple[int, ...] = ()

    @property
    def as_keys(self) -> bool:
        """Whether the rows are keys of a map."""
        return self.conversion.as_keys

    def matched(self, old: Serializer, settable: Settable, before: pa.Schema, after: pa.Schema, at: Where) -> Matched:
        """Return how the columns match, with dates and times as Arrow's types. Raises InvalidOption."""
        types = [plain(schema.field(settable.column).type) for schema in (before, after)]
        words = () if self.conversion.keeps_all else tuple(self.conversion.words)
        if self.kind is None:
            return Matched(self._node(old, *types), (), words)
        item = types[0].item_type
        row, is_list = (old.element, True) if isinstance(old, ListOf) else (_first(old), False)
        stored = item.value_type if is_list else item.field(0).type
        if self.kind is not StateKind.MAP:
            return Matched(OnlyRow(self._node(row, stored, types[1])), (), words)
        keys, value = types[1].key_type, types[1].item_type
        made = self._node(row, stored, value.field(0).type)
        return Matched(NumberedRows(made, self.unique, keys, value), (), words)

    def _node(self, old: Serializer, before: pa.DataType, after: pa.DataType) -> Node:
        match old:
            case RowData() if self.conversion.after_key:
                return self._after_key(old, before, after)
            case RowData() if len(old.types) == len(self.conversion.before):
                return self._row(old, before, after)
            case ListOf():
                return Elements(self._node(old.element, before.value_type, after.value_type))
            case TupleOf():
                parts: list[tuple[str, str | None, Node]] = []
                for one, was, to in zip(old.fields, before, after, strict=True):
                    parts.append((to.name, was.name, self._node(one, was.type, to.type)))
                return Fields(tuple(parts))
        return Kept()

    def _after_key(self, old: RowData, before: pa.StructType, after: pa.StructType) -> Node:
        parts: list[tuple[str, str | None, Node]] = []
        for was, to in zip(before, after, strict=True):
            inner: Serializer = old.fields[1]
            node: Node = Kept()
            if was.name == old.names[1] and isinstance(inner, RowData):
                names = tuple(one.name for one in was.type if one.name != _ROW_KIND)
                node = self._row(replace(inner, names=names), was.type, to.type)
            parts.append((to.name, was.name, node))
        return Fields(tuple(parts))

    def _row(self, old: RowData, before: pa.StructType, after: pa.StructType) -> Node:
        names = [field.name for field in after if field.name != _ROW_KIND]
        types = [after.field(name).type for name in names]
        named = zip(self.conversion.before, old.names, strict=True)
        rows = pa.schema([pa.field(str(name), plain(before.field(field).type)) for name, field in named])
        kinds = [(_ROW_KIND, _ROW_KIND, Kept())] if after.get_field_index(_ROW_KIND) >= 0 else []
        parts: list[tuple[str, str | None, Node]] = [*kinds]
        for name, type_, column in zip(names, types, self.conversion.columns, strict=True):
            if not isinstance(column, NewColumn):
                position = column.position if isinstance(column, WiderColumn) else column
                parts.append((name, old.names[position], Kept()))
            elif column.expression is None:
                parts.append((name, None, Nulls(type_)))
            else:
                parts.append((name, None, Computed(column.name, column.expression, old.names, rows, plain(type_))))
        order = [field.name for field in after]
        return Fields(tuple(sorted(parts, key=lambda part: order.index(part[0]))))


def row_change(
    old: Serializer, conversion: RowConversion, names: Sequence[Sequence[str]] = (), user_key: Serializer | None = None
) -> RowChange | None:
    """Return the change of a type; None if there are no rows in it.

    Args:
        old: The type of values, or of keys of a map (``conversion.as_keys``).
        conversion: Which column is which.
        names: Of keys that are made of rows the names of the fields of each.
        user_key: The type of keys of a map beside the values.

    Raises:
        InvalidOption: Rows of other columns than the plan has.
    """
    if conversion.after_key:
        if not isinstance(old, RowData) or len(old.types) != 2 or not isinstance(old.fields[1], RowData):
            raise _of_another_plan("keys that are not made of two rows")
        rows = _converted(old.fields[1], conversion)
        assert isinstance(rows, RowData)
        row = replace(old.types[1], names=rows.names, children=rows.types)
        return RowChange(with_names(_with_field(old, 1, row), names), conversion)
    if not any(rows_in(old)):
        return None
    wider = conversion.wider_keys
    if wider and (not isinstance(user_key, RowData) or len(user_key.types) != len(conversion.unique)):
        raise _of_another_plan(f"keys of maps that have no {len(conversion.unique)} columns")
    for at, type_ in wider.items():
        assert isinstance(user_key, RowData)
        user_key = _with_field(user_key, at, type_)
    return RowChange(_converted(old, conversion), conversion, user_key=user_key if wider else None)


def with_names(old: Serializer, names: Sequence[Sequence[str]]) -> Serializer:
    """Return keys of a map that are made of rows, whose fields get names. Raises InvalidOption for other keys."""
    for at, own in enumerate(names):
        row = old.types[at] if isinstance(old, RowData) and at < len(old.types) else None
        if not isinstance(old, RowData) or row is None or row.kind != "ROW" or len(row.children) != len(own):
            raise _of_another_plan(f"keys that have no row of {len(own)} columns")
        if row.names != tuple(own):
            old = _with_field(old, at, replace(row, names=tuple(own)))
    return old


def _with_field(old: RowData, at: int, type_: LogicalType) -> RowData:
    """Return rows in which a field has another type. Others keep all that the snapshot says of them."""
    made = row_data({"f0": type_})
    assert isinstance(made, RowData)
    written = list(_written(old))
    types, fields = list(old.types), list(old.fields)
    types[at], fields[at], written[at] = type_, made.fields[0], b""
    return replace(old, types=tuple(types), fields=tuple(fields), written=tuple(written))


def _written(old: RowData) -> tuple[bytes, ...]:
    return old.written or (b"",) * len(old.types)


def _of_another_plan(what: str) -> InvalidOption:
    return InvalidOption(f"{what}, as the plan has them", advice="give the plan that the job ran")


def ranked_change(old: Serializer, conversion: RowConversion, kind: StateKind, unique: Sequence[int]) -> RowChange:
    """Return the change of rows of TopN, in lists or with a number each, that get into a state of another kind.

    Args:
        old: The type of the map's values.
        conversion: Which column is which.
        kind: A value, which is the only row, or a map of rows with their numbers.
        unique: Positions of the columns that are its keys, in the new rows.

    Raises:
        InvalidOption: The rows have other columns.
    """
    row = _converted(old.element if isinstance(old, ListOf) else _first(old), conversion)
    if kind is not StateKind.MAP or not isinstance(row, RowData):
        return RowChange(row, conversion, kind)
    key = row_data({f"f{number}": row.types[at] for number, at in enumerate(unique)})
    return RowChange(Tuple(row, INT), conversion, kind, key, tuple(unique))


def _first(old: Serializer) -> Serializer:
    return old.fields[0] if isinstance(old, TupleOf) else old


def _converted(old: Serializer, conversion: RowConversion) -> Serializer:
    match old:
        case RowData():
            if len(old.types) != len(conversion.before):
                raise InvalidOption(
                    f"rows of {len(old.types)} columns, of which the plan has {len(conversion.before)}",
                    advice="give the plan that the job ran",
                )
            return _row_of(old, conversion)
        case ListOf():
            return replace(old, element=_converted(old.element, conversion))
        case TupleOf():
            return replace(old, fields=tuple(_converted(one, conversion) for one in old.fields))
    return old


def _row_of(old: RowData, conversion: RowConversion) -> RowData:
    """Return rows of the new columns. Fields that stay keep all that the snapshot says of them."""
    written, parts = _written(old), []
    for column in conversion.columns:
        if not isinstance(column, int):
            made = row_data({"f0": column.type})
            assert isinstance(made, RowData)
            parts.append((column.type, made.fields[0], b""))
        else:
            parts.append((old.types[column], old.fields[column], written[column]))
    types, fields, texts = zip(*parts, strict=True)
    return replace(old, types=types, names=tuple(f"f{at}" for at in range(len(types))), fields=fields, written=texts)
