"""Set columns of the rows of a copied state for which a condition is true. Other entries stay the bytes they are.

Of the rows, values are encoded anew, by the serializer of the state: a value, an element of a list, the user value of a
map's entry; of timers their time. Fields of a value that are not set are written as they are stored: where encoding
them gives other bytes, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.arrow_arrays import (
    RowBytes,
    Unencodable,
    as_type,
    null_rows,
    numbers_of,
    row_bytes_of,
    values_array,
)
from stateproc.codec.encoding.sized_writers import concatenate, write_rows
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.codec.layouts import Layout
from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where
from stateproc.model.operator_context import OperatorContext
from stateproc.readers.entry_programs import StoredBytes, composite_value
from stateproc.readers.row_schema import element_layout
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.writers.bootstrap.column_types import conformed
from stateproc.writers.formats.entry_batches import gather, gather_scattered, take_rows
from stateproc.writers.rewrite.row_assignments import Assignment, RowAssignments, Settable, parsed_assignments
from stateproc.writers.rewrite.row_selection import RowEdit, RowSelection, SelectedEntries, row_schemas, row_selection
from stateproc.writers.rewrite.transform import exact_read_options

_TIMESTAMP = "timestamp"
_TIMESTAMP_BYTES = 8


@dataclass(frozen=True)
class RowUpdate(RowEdit):
    """Sets columns of the selected rows."""

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

    def check(self) -> None:
        """Raise InvalidOption for expressions that do not fit the rows; UnsupportedSnapshot for what is only read."""
        self._changes.check()

    def __getstate__(self) -> dict[str, object]:
        # Expressions are compiled once in each process.
        return {"selection": self.selection, "assignments": self.assignments}

    @property
    def _state(self) -> StateDescriptor:
        return self.selection.state

    @cached_property
    def _changes(self) -> RowAssignments:
        rows, temporal = row_schemas(self._state, self.selection.context, self.selection.flatten)
        encode = self._times if self._state.kind.is_queue else self._values
        return RowAssignments(settable_column(self._state), self.assignments, rows, temporal, encode)

    def _updated(self, part: SelectedEntries) -> pa.RecordBatch:
        assert part.selected is not None
        rows = pa.Table.from_batches(part.columns).combine_chunks().to_batches()[0]
        at = np.flatnonzero(part.selected)
        if self._state.kind.is_queue:
            keys = row_bytes_of(part.batch.column("key"))
            times = self._changes.updated(rows, None)
            rest = gather(keys.data, keys.offsets[at] + _TIMESTAMP_BYTES, keys.offsets[at + 1])
            moved = write_rows(concatenate([row_bytes_writer(times), row_bytes_writer(rest)]), len(at))
            return part.with_keys(_replaced(keys, at, moved))
        stored = part.values
        return part.with_values(_replaced(stored, at, self._changes.updated(rows, take_rows(stored, at))))

    def _values(self, rows: pa.RecordBatch) -> RowBytes:
        """Return values as entries have them. Raises Unencodable, Unwritable."""
        return stored_values(rows.column(settable_column(self._state).column), rows, self._state, self._layout)

    @cached_property
    def _layout(self) -> Layout:
        return value_layout(self._state, self.selection)

    @staticmethod
    def _times(rows: pa.RecordBatch) -> RowBytes:
        """Return times of timers, as TimerSerializer writes them. Raises Unencodable for what is no whole number."""
        times = numbers_of(as_type(rows.column(_TIMESTAMP), pa.int64()))
        stamps = (times ^ np.int64(-(2**63))).astype(">i8")
        offsets = np.arange(0, _TIMESTAMP_BYTES * len(stamps) + 1, _TIMESTAMP_BYTES, dtype=np.int64)
        return RowBytes(stamps.view(np.uint8), offsets)


def value_layout(state: StateDescriptor, selection: RowSelection) -> Layout:
    """Return the layout of what is stored of a row's value: of an entry's, or of an element of a list."""
    return (element_layout if selection.of_elements else composite_value)(state, selection.context)


def stored_values(values: pa.Array, rows: pa.RecordBatch, state: StateDescriptor, layout: Layout) -> RowBytes:
    """Return values as entries have them. Raises Unencodable, Unwritable.

    Args:
        values: The values, of each row.
        rows: The rows, of which times of last access are taken.
        layout: Of `value_layout`.
    """
    if state.ttl:
        times = _milliseconds(rows.column(LAST_ACCESS))
        values = pa.StructArray.from_arrays([times, values], [LAST_ACCESS, "value"])
    return layout.encode(conformed(values, layout.arrow_type))


def _milliseconds(last_access: pa.Array) -> pa.Array:
    """Return times of last access as they are stored. Raises Unencodable for a null of a map, which has none."""
    if last_access.null_count:
        row = int(np.flatnonzero(null_rows(last_access))[0])
        raise Unencodable("the entry has no time of last access", row)
    return values_array(numbers_of(last_access.cast(pa.int64())) // 1000)


def _replaced(rows: RowBytes, at: npt.NDArray[np.int64], new: RowBytes) -> RowBytes:
    """Return rows with others at some positions."""
    edges, others = (one.offsets + one.data.ctypes.data for one in (rows, new))
    starts, stops = edges[:-1].copy(), edges[1:].copy()
    starts[at], stops[at] = others[:-1], others[1:]
    return gather_scattered(starts, stops)


def settable_column(state: StateDescriptor) -> Settable:
    """Return the column of a state's rows that can be set."""
    if state.kind.is_queue:
        return Settable(state.name, state.kind.value, _TIMESTAMP, False, False)
    flattened = {StateKind.LIST: "list_element", StateKind.MAP: "map_value"}
    column = flattened.get(state.kind, "value")
    kind = f"{state.kind.value} state"
    return Settable(state.name, kind, column, state.kind in flattened, nullable=state.kind is StateKind.MAP)


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
            advice=f"set {settable.column} with flatten=True, --flatten",
        )
    selection = row_selection(
        state, where, operator, names, flatten=flatten, needed=(settable.column,), context=options.context
    )
    if isinstance(selection.state.value, StoredBytes):
        raise UnsupportedSnapshot(
            f"values of the type {state.value.type_name} cannot be decoded, and so not be set",
            where=Where(operator=operator.display, state=state.name),
            advice="describe their class (classes, --classes)",
        )
    _, temporal = row_schemas(selection.state, selection.context, flatten)
    parsed = parsed_assignments(assignments, settable, temporal)
    columns = {name for one in parsed for name in one.columns}
    # Rows of which only fields are set keep their RowKind.
    context = replace(
        selection.context, row_kind=selection.context.row_kind or any(len(one.path) > 1 for one in parsed)
    )
    update = RowUpdate(replace(selection, context=context, needed=frozenset({settable.column, *columns})), parsed)
    update.check()
    return update
