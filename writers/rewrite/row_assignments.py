"""Set a column of rows, or fields in it, by expressions in SQL: parse assignments, evaluate and check them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import RowBytes, Unencodable, no_rows, null_rows, scalar_text
from stateproc.codec.layouts.base import Unwritable
from stateproc.errors import InvalidOption, InvalidRows, UnsupportedSnapshot, Where, located
from stateproc.filters import RowExpression, parse, resolved_path
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.writers.bootstrap.keyed_encoder import KEY

_EQUALS = re.compile(r"\"(?:[^\"]|\"\")*\"|`[^`]*`|(?P<equals>=)")
_FORM = "write COLUMN = EXPRESSION, as in value.total = 0 or value.total = value.total + 1"
_ROW = ("key", "namespace", "map_key", "list_index", "timestamp", "subtask")
"""Columns that say which row it is."""


@dataclass(frozen=True)
class Settable:
    """The column of a state's rows that can be set.

    Attributes:
        state: The state's name; None of what all states have, as their keys.
        kind: What it is, for messages: ``map state``.
        flattened: Whether rows are elements or entries of what ``value`` is without flatten.
        nullable: Whether it may be null.
    """

    state: str | None
    kind: str
    column: str
    flattened: bool
    nullable: bool


@dataclass(frozen=True)
class Assignment:
    """A column, or a field in it, that is set.

    Attributes:
        path: The column and the names of fields in it.
        expression: The SQL expression of the new value.
        columns: The columns that it reads.
    """

    path: tuple[str, ...]
    expression: str
    columns: tuple[str, ...]

    @property
    def target(self) -> str:
        """The column or field, as SQL has it."""
        return ".".join(self.path)


def parsed_assignments(
    texts: Sequence[str], settable: Settable, schema: pa.Schema, after: pa.Schema | None = None
) -> tuple[Assignment, ...]:
    """Parse assignments ``column = expression``.

    Args:
        settable: What can be set.
        schema: The columns of the rows, with dates and times as Arrow's types.
        after: The columns that are set, if those are others.

    Raises:
        InvalidOption: A text is no assignment, or sets what is no column, cannot be set or is set already.
    """
    found: list[Assignment] = []
    for text in texts:
        one = _parsed(text, settable, schema, schema if after is None else after)
        for path in (other.path for other in found):
            if one.path[: len(path)] == path or path[: len(one.path)] == one.path:
                raise InvalidOption(
                    f"set: {one.target} is set twice", where=Where(state=settable.state), advice="set each column once"
                )
        found.append(one)
    return tuple(found)


def sets_whole(texts: Sequence[str], column: str) -> bool:
    """Return whether one of the assignments sets a column, and not a field in it."""
    schema = pa.schema([(column, pa.int64())])
    for text in texts:
        equals = next((found.start() for found in _EQUALS.finditer(text) if found["equals"]), len(text))
        try:
            tree = parse(text[:equals], schema).tree
        except InvalidOption:
            continue
        if tree["class"] == "COLUMN_REF" and resolved_path(tree, schema) == [column]:
            return True
    return False


def _parsed(text: str, settable: Settable, schema: pa.Schema, after: pa.Schema) -> Assignment:
    where = Where(state=settable.state)
    equals = next((found.start() for found in _EQUALS.finditer(text) if found["equals"]), None)
    if equals is None:
        raise InvalidOption(f"set: {text!r} is no assignment", where=where, advice=_FORM)
    try:
        tree = parse(text[:equals], after).tree
        expression = parse(text[equals + 1 :], schema)
    except InvalidOption as error:
        raise of_set(error) from error
    path = resolved_path(tree, after) if tree["class"] == "COLUMN_REF" else None
    if path is None:
        raise InvalidOption(f"set: {text[:equals].strip()!r} is no column or field", where=where, advice=_FORM)
    if path[0] != settable.column:
        raise InvalidOption(
            f"set: {path[0]!r} of {settable.kind} cannot be set", where=where, advice=_advice(path[0], settable)
        )
    return Assignment(tuple(path), expression.text.strip(), expression.columns)


def _advice(column: str, settable: Settable) -> str:
    if column == LAST_ACCESS:
        return "times of last access are changed by stateproc ttl"
    if column == "value" and settable.flattened:
        return f"set {settable.column}, with flatten=True, --flatten"
    if settable.column == KEY:
        return "set key, or a field in it: key.name = key.first || key.last"
    return f"keys stay: set {settable.column}, or read the state as rows and write it anew"


def of_set(error: InvalidOption, option: str = "set") -> InvalidOption:
    """Return the error of an expression that is no condition, but of an option."""
    return InvalidOption(f"{option}: {error.message.removeprefix('where: ')}", where=error.where, advice=error.advice)


@dataclass(frozen=True)
class RowAssignments:
    """What is set of the rows of one state.

    Attributes:
        settable: The column.
        assignments: The assignments to it and to fields in it.
        rows: The columns of the rows.
        temporal: The same with dates and times as Arrow's types.
        encode: Returns the column of rows as the state's serializer writes it; raises Unencodable, Unwritable.
    """

    settable: Settable
    assignments: tuple[Assignment, ...]
    rows: pa.Schema
    temporal: pa.Schema
    encode: Callable[[pa.RecordBatch], RowBytes]

    def check(self) -> None:
        """Raise InvalidOption for expressions that do not fit the rows; UnsupportedSnapshot for what is only read."""
        assert self._expressions
        self._encoded(no_rows(self.rows))

    def updated(self, rows: pa.RecordBatch, stored: RowBytes | None) -> RowBytes:
        """Return what is stored of rows, with what is set.

        Args:
            stored: What is stored of them; None where no part of it stays.

        Raises:
            InvalidRows: A value does not fit the state's serializer.
            InvalidOption: A value that DuckDB refuses.
            UnsupportedSnapshot: What is not set would be written as other bytes than it has.
        """
        changed = self._with_values(rows)
        try:
            if stored is not None and any(len(one.path) > 1 for one in self.assignments):
                self._check_rest(rows, stored)
            return self._encoded(changed)
        except Unencodable as error:
            raise self._misfit(rows, error.row, error.message) from error

    @cached_property
    def _expressions(self) -> tuple[tuple[Assignment, RowExpression], ...]:
        """The expressions. Raises InvalidOption for those that do not fit their columns."""
        found = []
        for one in self.assignments:
            try:
                expression = RowExpression(parse(one.expression, self.temporal), self.rows, self.temporal)
                given = expression.type
            except InvalidOption as error:
                raise of_set(error) from error
            wanted = self._type(one)
            if family(given) not in (family(wanted), "null"):
                raise InvalidOption(
                    f"set: {one.target} is {wanted}, and the expression {given}",
                    where=Where(state=self.settable.state),
                    advice="convert it, as in CAST(… AS BIGINT); text goes in 'single quotes'",
                )
            found.append((one, expression))
        return tuple(found)

    def _type(self, one: Assignment) -> pa.DataType:
        """The type of a column or field that is set, with dates and times as Arrow's types."""
        found: pa.DataType = self.temporal.field(one.path[0]).type
        for name in one.path[1:]:
            found = plain(found).field(name).type
        return found

    def _with_values(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with what is set. All expressions see the rows as they are."""
        name = self.settable.column
        column = rows.column(name)
        for one, expression in self._expressions:
            try:
                value = expression.values(rows)
            except InvalidOption as error:
                raise of_set(error) from error
            try:
                if not fits(value, wanted := self._type(one)):
                    raise Unencodable(f"{value.type} does not fit {wanted}", 0)
                column = with_field(column, one.path[1:], value)
            except Unencodable as error:
                raise self._misfit(rows, error.row, f"{one.target}: {error.message}") from error
        if column.null_count and not self.settable.nullable:
            row = int(np.flatnonzero(null_rows(column))[0])
            raise self._misfit(rows, row, "a state has no null", "delete such rows: stateproc delete, delete_rows")
        return rows.set_column(rows.schema.get_field_index(name), name, column)

    def _check_rest(self, rows: pa.RecordBatch, stored: RowBytes) -> None:
        """Raise UnsupportedSnapshot where encoding gives a value other bytes than it has."""
        if not are_equal(self._encoded(rows), stored):
            raise UnsupportedSnapshot(
                "fields that are not set would be written as other bytes than they have",
                where=Where(state=self.settable.state),
                advice=f"set the whole {self.settable.column}, or read the state as rows and write it anew",
            )

    def _encoded(self, rows: pa.RecordBatch) -> RowBytes:
        with located(Unwritable, state=self.settable.state):
            return self.encode(rows)

    def _misfit(self, rows: pa.RecordBatch, row: int, message: str, advice: str | None = None) -> InvalidRows:
        return InvalidRows(
            f"set: {message} ({row_text(rows, row)})",
            where=Where(state=self.settable.state),
            advice=advice or "set a value of the column's type, or exclude such rows by the condition",
        )


def row_text(rows: pa.RecordBatch, row: int) -> str:
    """Return which row it is, for messages."""
    shown = ", ".join(f"{name}={_shown(rows.column(name)[row])}" for name in rows.schema.names if name in _ROW)
    return f"row: {shown}"


def _shown(value: pa.Scalar) -> str:
    text = scalar_text(value)
    return text if len(text) <= 80 else text[:80] + "…"


def are_equal(one: RowBytes, two: RowBytes) -> bool:
    """Whether rows are the same bytes."""
    starts, others = (rows.offsets - rows.offsets[0] for rows in (one, two))
    content, other = (rows.data[rows.offsets[0] : rows.offsets[-1]] for rows in (one, two))
    return np.array_equal(starts, others) and np.array_equal(content, other)


def fits(values: pa.Array, wanted: pa.DataType) -> bool:
    """Whether values are of the kind of a type, and what they contain; DuckDB has a type of numbers for ``[]``."""
    wanted = plain(wanted)
    if values.null_count == len(values):
        return True
    if family(values.type) != family(wanted):
        return False
    match family(wanted):
        case "list":
            return fits(values.flatten(), wanted.value_type)
        case "map":
            return fits(values.keys, wanted.key_type) and fits(values.items, wanted.item_type)
        case "struct":
            names = {field.name: field.type for field in wanted}
            fields = [(values.field(at), names.get(field.name)) for at, field in enumerate(values.type)]
            return all(type_ is None or fits(array, type_) for array, type_ in fields)
    return True


def with_field(array: pa.Array, path: Sequence[str], value: pa.Array) -> pa.Array:
    """Return structs with another field at a path; without a path, the value. Raises Unencodable for null structs."""
    if not path:
        return pa.nulls(len(value), array.type) if pa.types.is_null(value.type) else value
    if array.null_count:
        raise Unencodable("a field of a value that is null", int(np.flatnonzero(null_rows(array))[0]))
    names = [item.name for item in array.type]
    at = names.index(path[0])
    parts = [array.field(index) for index in range(len(names))]
    parts[at] = with_field(parts[at], path[1:], value)
    return pa.StructArray.from_arrays(parts, names)


def plain(type_: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary, any other as it is."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


_FAMILIES: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("null", pa.types.is_null),
    ("boolean", pa.types.is_boolean),
    ("number", lambda type_: pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)),
    ("text", lambda type_: pa.types.is_string(type_) or pa.types.is_large_string(type_)),
    ("bytes", lambda type_: pa.types.is_binary(type_) or pa.types.is_large_binary(type_)),
    ("date", pa.types.is_date),
    ("time", pa.types.is_time),
    ("timestamp", pa.types.is_timestamp),
    ("struct", pa.types.is_struct),
    ("map", pa.types.is_map),
    ("list", lambda type_: pa.types.is_list(type_) or pa.types.is_large_list(type_)),
)


def family(type_: pa.DataType) -> str:
    """Return the kind of a type: what is never converted into another kind."""
    type_ = plain(type_)
    return next((name for name, fits in _FAMILIES if fits(type_)), str(type_))
