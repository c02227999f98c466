"""Set columns of the rows of a copied state for which a condition is true. Other entries stay the bytes they are.

Of the rows, values are encoded anew, by the serializer of the state: a value, an element of a list, the user value of a
map's entry; of timers their time. Fields of a value that are not set are written as they are stored: where encoding
them gives other bytes, nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import RowBytes, Unencodable, null_rows, numbers_of, row_bytes_of, values_array
from stateproc.codec.encoding.sized_writers import concatenate, write_rows
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.base import Unwritable
from stateproc.errors import InvalidOption, InvalidRows, UnsupportedSnapshot, Where
from stateproc.filters import RowExpression, parse, resolved_path
from stateproc.model.operator_context import OperatorContext
from stateproc.readers.entry_programs import StoredBytes, composite_value
from stateproc.readers.row_schema import element_layout
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.writers.bootstrap.column_types import conformed
from stateproc.writers.formats.entry_batches import gather, take_rows
from stateproc.writers.rewrite.row_selection import RowSelection, SelectedEntries, row_schemas, row_selection
from stateproc.writers.rewrite.transform import exact_read_options

_TIMESTAMP = "timestamp"
_TIMESTAMP_BYTES = 8
_EQUALS = re.compile(r"\"(?:[^\"]|\"\")*\"|`[^`]*`|(?P<equals>=)")
_FORM = "write COLUMN = EXPRESSION, as in value.total = 0 or value.total = value.total + 1"


@dataclass(frozen=True)
class Assignment:
    """A column, or a field in it, that is set.

    Attributes:
        text: As it was written.
        path: The column and the names of fields in it.
        expression: The SQL expression of the new value.
        columns: The columns that it reads.
    """

    text: str
    path: tuple[str, ...]
    expression: str
    columns: tuple[str, ...]

    @property
    def target(self) -> str:
        return ".".join(self.path)


def assignment(text: str, state: StateDescriptor, settable: str, schema: pa.Schema) -> Assignment:
    """Parse ``column = expression``.

    Args:
        text: The assignment.
        state: The state.
        settable: The column that can be set.
        schema: The columns of the rows, with dates and times as Arrow's types.

    Raises:
        InvalidOption: It is no assignment, or sets what is no column or cannot be set.
    """
    equals = next((found.start() for found in _EQUALS.finditer(text) if found["equals"]), None)
    if equals is None:
        raise InvalidOption(f"set: {text!r} is no assignment", where=Where(state=state.name), advice=_FORM)
    try:
        tree = parse(text[:equals], schema).tree
        expression = parse(text[equals + 1 :], schema)
    except InvalidOption as error:
        raise _of_set(error) from error
    path = resolved_path(tree, schema) if tree["class"] == "COLUMN_REF" else None
    if path is None:
        raise InvalidOption(f"set: {text[:equals].strip()!r} is no column or field", where=Where(state=state.name),
                            advice=_FORM)  # fmt: skip
    if path[0] != settable:
        raise InvalidOption(
            f"set: {path[0]!r} of {_shown_kind(state)} cannot be set",
            where=Where(state=state.name),
            advice=_advice(path[0], state, settable),
        )
    return Assignment(text, tuple(path), expression.text, expression.columns)


def _shown_kind(state: StateDescriptor) -> str:
    return state.kind.value if state.kind.is_queue else f"{state.kind.value} state"


def _advice(column: str, state: StateDescriptor, settable: str) -> str:
    if column == LAST_ACCESS:
        return "times of last access are changed by stateproc ttl"
    if column == "value" and state.kind in (StateKind.LIST, StateKind.MAP):
        return f"set {settable}, with flatten=True, --flatten"
    return f"keys stay: set {settable}, or read the state as rows and write it anew (SavepointWriter.transform_state)"


def _of_set(error: InvalidOption) -> InvalidOption:
    """Return the error of an expression that is no condition."""
    return InvalidOption("set: " + error.message.removeprefix("where: "), where=error.where, advice=error.advice)


@dataclass(frozen=True)
class RowUpdate:
    """Sets columns of the rows of one state that are selected. Picklable."""

    selection: RowSelection
    assignments: tuple[Assignment, ...]

    def batches(
        self, batches: Iterable[pa.RecordBatch], observe: Callable[[int], object] = lambda _: None
    ) -> Iterator[pa.RecordBatch]:
        """Return the entries (RAW_ENTRIES), in the same order; timers that get another time are no longer in order.

        Args:
            batches: The entries (RAW_ENTRIES).
            observe: Called with numbers of rows that are set.

        Raises:
            CorruptSnapshot: Entries are damaged.
            UnsupportedSnapshot: A value cannot be decoded, or not be encoded as it was.
            InvalidRows: A value does not fit the state's serializer.
            InvalidOption: A value that DuckDB refuses.
        """
        for part in self.selection.parts(batches):
            observe(part.count)
            if part.count:
                yield self._updated(part)
            elif len(part.batch):
                yield part.batch

    @property
    def _state(self) -> StateDescriptor:
        return self.selection.state

    @property
    def _settable(self) -> str:
        return settable_column(self._state)

    @cached_property
    def _expressions(self) -> tuple[tuple[Assignment, RowExpression], ...]:
        rows, temporal = row_schemas(self._state, self.selection.context, self.selection.flatten)
        return expressions(self.assignments, rows, temporal)

    def __getstate__(self) -> dict[str, object]:
        # Expressions are compiled once in each process.
        return {"selection": self.selection, "assignments": self.assignments}

    def check(self) -> None:
        """Raise InvalidOption for expressions that do not fit the rows; UnsupportedSnapshot for what is only read."""
        assert self._expressions
        if not self._state.kind.is_queue:
            rows = row_schemas(self._state, self.selection.context, self.selection.flatten)[0]
            none = {
                name: pa.array([], rows.field(name).type)
                for name in (self._settable, LAST_ACCESS)
                if name in rows.names
            }
            self._encoded(none[self._settable], none.get(LAST_ACCESS))

    def _updated(self, part: SelectedEntries) -> pa.RecordBatch:
        assert part.selected is not None
        rows = pa.Table.from_batches(part.columns).combine_chunks().to_batches()[0]
        values = self._new_values(rows)
        at = np.flatnonzero(part.selected)
        if self._state.kind.is_queue:
            keys = row_bytes_of(part.batch.column("key"))
            return part.with_keys(_replaced(keys, at, _with_times(take_rows(keys, at), values)))
        stored = part.values
        last_access = rows.column(LAST_ACCESS) if self._state.ttl else None
        try:
            if any(len(one.path) > 1 for one in self.assignments):
                self._check_rest(rows, take_rows(stored, at), last_access)
            encoded = self._encoded(values, last_access)
        except Unencodable as error:
            raise self._misfit(rows, error.row, error.message) from error
        return part.with_values(_replaced(stored, at, encoded))

    def _new_values(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the settable column of the rows with what is set. All expressions see the rows as they are."""
        column = rows.column(self._settable)
        for one, expression in self._expressions:
            try:
                value = expression.values(rows)
            except InvalidOption as error:
                raise _of_set(error) from error
            try:
                column = with_field(column, one.path[1:], value)
            except Unencodable as error:
                raise self._misfit(rows, error.row, f"{one.target}: {error.message}") from error
        if len(rows) and column.null_count and self._refuses_null:
            row = int(np.flatnonzero(null_rows(column))[0])
            raise self._misfit(rows, row, "a state has no null", "delete such rows: stateproc delete, delete_rows")
        return column

    @property
    def _refuses_null(self) -> bool:
        return self._state.kind is not StateKind.MAP

    def _check_rest(self, rows: pa.RecordBatch, stored: RowBytes, last_access: pa.Array | None) -> None:
        """Raise UnsupportedSnapshot where encoding gives a value other bytes than it has."""
        again = self._encoded(rows.column(self._settable), last_access)
        if not np.array_equal(
            again.offsets - again.offsets[0], stored.offsets - stored.offsets[0]
        ) or not np.array_equal(
            again.data[again.offsets[0] : again.offsets[-1]], stored.data[stored.offsets[0] : stored.offsets[-1]]
        ):
            raise UnsupportedSnapshot(
                "fields that are not set would be written as other bytes than they have",
                where=Where(state=self._state.name),
                advice=f"set the whole {self._settable}, or change the state with SavepointWriter.transform_state",
            )

    def _encoded(self, values: pa.Array, last_access: pa.Array | None) -> RowBytes:
        """Return values as entries have them. Raises Unencodable, Unwritable."""
        layout = self._layout
        if last_access is not None:
            values = pa.StructArray.from_arrays([_milliseconds(last_access), values], [LAST_ACCESS, "value"])
        try:
            return layout.encode(conformed(values, layout.arrow_type))
        except Unwritable as error:
            raise error.at(state=self._state.name) from error

    @cached_property
    def _layout(self) -> Layout:
        context = self.selection.context
        if self.selection.of_elements:
            return element_layout(self._state, context)
        return composite_value(self._state, context)

    def _misfit(self, rows: pa.RecordBatch, row: int, message: str, advice: str | None = None) -> InvalidRows:
        shown = ", ".join(f"{name}={_shown(rows.column(name)[row])}" for name in rows.schema.names if name in _SHOWN)
        return InvalidRows(
            f"set: {message} (row: {shown})",
            where=Where(state=self._state.name),
            advice=advice or "set a value of the column's type, or exclude such rows by the condition",
        )


_SHOWN = ("key", "namespace", "map_key", "list_index", _TIMESTAMP)


def _shown(value: pa.Scalar) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 80 else text[:80] + "…"


def expressions(
    assignments: Sequence[Assignment], rows: pa.Schema, temporal: pa.Schema
) -> tuple[tuple[Assignment, RowExpression], ...]:
    """Return the expressions of assignments over rows. Raises InvalidOption for those that do not fit their columns."""
    found = []
    for one in assignments:
        try:
            expression = RowExpression(parse(one.expression, temporal), rows, temporal)
            given = expression.type
        except InvalidOption as error:
            raise _of_set(error) from error
        wanted = temporal.field(one.path[0]).type
        for name in one.path[1:]:
            wanted = _plain(wanted).field(name).type
        if _family(given) not in (_family(wanted), "null"):
            raise InvalidOption(
                f"set: {one.target} is {wanted}, and the expression {given}",
                advice="convert it, as in CAST(… AS BIGINT); text goes in 'single quotes'",
            )
        found.append((one, expression))
    return tuple(found)


def _plain(type_: pa.DataType) -> pa.DataType:
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


def _family(type_: pa.DataType) -> str:
    """Return the kind of a type: what is never converted into another kind."""
    type_ = _plain(type_)
    return next((name for name, fits in _FAMILIES if fits(type_)), str(type_))


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


def _milliseconds(last_access: pa.Array) -> pa.Array:
    """Times of last access as they are stored. Raises Unencodable for a null of a map, which has none."""
    if last_access.null_count:
        row = int(np.flatnonzero(null_rows(last_access))[0])
        raise Unencodable("the entry has no time of last access", row)
    return values_array(numbers_of(last_access.cast(pa.int64())) // 1000)


def _with_times(keys: RowBytes, times: pa.Array) -> RowBytes:
    """Return timers with other times, whole milliseconds. Raises Unencodable."""
    stamps = (numbers_of(times.cast(pa.int64())) ^ np.int64(-(2**63))).astype(">i8")
    new = RowBytes(stamps.view(np.uint8), np.arange(0, 8 * len(stamps) + 1, 8, dtype=np.int64))
    rest = gather(keys.data, keys.offsets[:-1] + _TIMESTAMP_BYTES, keys.offsets[1:])
    return write_rows(concatenate([row_bytes_writer(new), row_bytes_writer(rest)]), len(keys))


def _replaced(rows: RowBytes, at: np.ndarray, new: RowBytes) -> RowBytes:
    """Return rows with others at some positions."""
    n, shift = len(rows), len(rows.data)
    starts, stops = rows.offsets[:-1].copy(), rows.offsets[1:].copy()
    starts[at], stops[at] = new.offsets[:-1] + shift, new.offsets[1:] + shift
    assert len(starts) == n
    return gather(np.concatenate([rows.data, new.data]), starts, stops)


def settable_column(state: StateDescriptor) -> str:
    """Return the column of a state's rows that can be set."""
    if state.kind.is_queue:
        return _TIMESTAMP
    if state.kind in (StateKind.LIST, StateKind.MAP):
        return "list_element" if state.kind is StateKind.LIST else "map_value"
    return "value"


def row_update(
    state: StateDescriptor,
    assignments: Sequence[str],
    where: str,
    operator: OperatorContext,
    names: Iterable[str],
    *,
    flatten: bool = False,
) -> RowUpdate:
    """Return what sets columns of the rows of a state for which a condition is true.

    Args:
        state: The state, as a header describes it.
        assignments: What is set, as ``column = expression`` in SQL.
        where: The condition, in SQL; see docs/cli.md.
        operator: The operator of the snapshot.
        names: The keyed states of the operator.
        flatten: Whether each list element or map entry is a row.

    Raises:
        InvalidOption: Condition or assignments do not fit the rows, or set what cannot be set.
        UnsupportedSnapshot: Values cannot be decoded, or their serializer can only be read.
    """
    options = exact_read_options(operator.options, None)
    settable = settable_column(state)
    if state.kind in (StateKind.LIST, StateKind.MAP) and not flatten:
        raise InvalidOption(
            f"rows of a {state.kind.value} state are set one by one",
            where=Where(operator=operator.display, state=state.name),
            advice=f"set {settable} with flatten=True, --flatten",
        )
    selection = row_selection(
        state, where, operator, names, flatten=flatten, needed=(settable,), context=options.context
    )
    if isinstance(selection.state.value, StoredBytes):
        raise UnsupportedSnapshot(
            f"values of the type {state.value.type_name} cannot be decoded, and so not be set",
            where=Where(operator=operator.display, state=state.name),
            advice="describe their class (classes, --classes)",
        )
    _, temporal = row_schemas(selection.state, selection.context, flatten)
    parsed = tuple(assignment(text, selection.state, settable, temporal) for text in assignments)
    targets = [one.path for one in parsed]
    for at, path in enumerate(targets):
        if any(path[: len(other)] == other or other[: len(path)] == path for other in targets[:at]):
            raise InvalidOption(f"set: {'.'.join(path)} is set twice", where=Where(state=state.name),
                                advice="set each column once")  # fmt: skip
    columns = {name for one in parsed for name in one.columns}
    # Rows of which only fields are set keep their RowKind.
    context = replace(selection.context, row_kind=selection.context.row_kind or any(len(path) > 1 for path in targets))
    update = RowUpdate(replace(selection, context=context, needed=frozenset({settable, *columns})), parsed)
    update.check()
    return update
