"""Delete and update the elements of list and union states, and the entries of broadcast states, by conditions.

Rows are those that reading returns, of connectors' states with the columns of their formats. Other elements stay the
bytes they are; all stay in their order and in their subtask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.arrow_arrays import RowBytes, booleans_of, no_rows, numbers_of, row_bytes_of, values_array
from stateproc.codec.layouts import Counted, Layout, StructLayout
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import CorruptSnapshot, InvalidOption, Where
from stateproc.filters import RowFilter, parse
from stateproc.metadata.backend import StateMetaInfo
from stateproc.model.operator import Operator
from stateproc.model.operator_state import SUBTASK, OperatorState, opened_state
from stateproc.model.state import State
from stateproc.readers.error_context import placed
from stateproc.readers.operator_state import state_info
from stateproc.serializers import LayoutContext
from stateproc.writers.bootstrap.column_types import conformed
from stateproc.writers.rewrite.edits import DeleteEdit, UpdateEdit
from stateproc.writers.rewrite.operator_state_copy import (
    Elements,
    GivenElements,
    KeptElements,
    RawElements,
    raw_elements,
)
from stateproc.writers.rewrite.row_assignments import RowAssignments, Settable, parsed_assignments
from stateproc.writers.rewrite.transform import exact_read_options


@dataclass(frozen=True)
class EditedElements:
    """The elements of an operator state with edits of its rows.

    Attributes:
        elements: Of each subtask.
        counts: How many rows each edit deletes or updates.
        rows: How many rows stay.
        row_words: What a row is called: one, and several.
    """

    elements: tuple[Elements, ...]
    counts: tuple[int, ...]
    rows: int
    row_words: tuple[str, str]


def edited_elements(operator: Operator, state: str, edits: Sequence[DeleteEdit | UpdateEdit]) -> EditedElements:
    """Read an operator state and make edits of its rows, one after another.

    Args:
        state: A list, union or broadcast state.

    Raises:
        InvalidOption: A condition or an assignment does not fit the rows.
        InvalidRows: A value does not fit the state's serializer.
        SnapshotError: The state cannot be read, decoded or encoded.
    """
    operator = operator.with_options(replace(exact_read_options(operator.options, None), on_error="fail"))
    raw, parts = operator.operator_state(state), raw_elements(operator, state)
    rows = _EditedRows(operator, raw, opened_state(raw), parts)
    counts = tuple(rows.edit(edit) for edit in edits)
    words = ("entry", "entries") if raw.kind == "broadcast" else ("element", "elements")
    return EditedElements(rows.elements(), counts, int(np.count_nonzero(rows.kept)), words)


class _EditedRows:
    """The rows of an operator state while they are edited.

    Attributes:
        kept: Per row whether it stays.
    """

    def __init__(self, operator: Operator, raw: OperatorState, view: State, parts: Sequence[RawElements]) -> None:
        self._context = operator.options.context
        self._raw, self._view, self._parts = raw, view, parts
        self._schema, self._temporal = view.schema(), view.with_temporal("micros").schema()
        batches = [batch for split in view.splits() for batch in split.read()]
        table = pa.Table.from_batches(batches, self._schema).combine_chunks()
        self._rows: pa.RecordBatch = (table.to_batches() or [no_rows(self._schema)])[0]
        self.kept = np.ones(len(self._rows), dtype=np.bool_)
        self._stored: tuple[list[bytes], list[bytes]] | None = None
        self._changed: set[int] = set()

    def edit(self, edit: DeleteEdit | UpdateEdit) -> int:
        """Make an edit; return how many rows it deletes or updates."""
        condition = RowFilter(parse(edit.where, self._temporal), self._schema, self._temporal)
        chosen = booleans_of(condition.mask(self._rows)).view(np.bool_) & self.kept
        if isinstance(edit, UpdateEdit):
            self._update(edit, np.flatnonzero(chosen))
        else:
            self.kept &= ~chosen
        return int(np.count_nonzero(chosen))

    def elements(self) -> tuple[Elements, ...]:
        """Return what stays, with what is set."""
        if any(part.broadcast for part in self._parts):
            keys, values = self._bytes
            pairs = [key + value for key, value, kept in zip(keys, values, self.kept.tolist(), strict=True) if kept]
            data = len(pairs).to_bytes(4, "big") + b"".join(pairs)
            return tuple(GivenElements(part.subtask, (data,), broadcast=True) for part in self._parts)
        subtasks = [part.subtask for part in self._parts for _ in range(len(part))]
        # Rows have the order of elements.
        assert np.array_equal(subtasks, numbers_of(self._rows.column(SUBTASK)))
        found: list[Elements] = []
        first = 0
        for part in self._parts:
            positions = tuple(np.flatnonzero(self.kept[first : first + len(part)]).tolist())
            if any(first + at in self._changed for at in positions):
                values = self._bytes[1]
                found.append(GivenElements(part.subtask, tuple(values[first + at] for at in positions)))
            else:
                found.append(KeptElements(part, positions))
            first += len(part)
        return tuple(found)

    def _update(self, edit: UpdateEdit, at: npt.NDArray[np.int64]) -> None:
        name, broadcast = self._raw.name, self._raw.kind == "broadcast"
        if self._view is not self._raw:
            raise InvalidOption(
                "rows of a connector's state cannot be set",
                where=Where(state=name),
                advice="stateproc set-offsets changes where sources continue",
            )
        column = "map_value" if broadcast else "value"
        settable = Settable(name, f"{self._raw.distribution} state", column, flattened=False, nullable=True)
        layout = self._layout

        def encode(rows: pa.RecordBatch) -> RowBytes:
            return layout.encode(conformed(rows.column(column), layout.arrow_type))

        parsed = parsed_assignments(edit.assignments, settable, self._temporal)
        assignments = RowAssignments(settable, parsed, self._schema, self._temporal, encode)
        assignments.check()
        if not len(at):
            return
        values = self._bytes[1]
        stored = row_bytes_of(pa.array([values[row] for row in at.tolist()], pa.large_binary()))
        encoded = assignments.updated(self._rows.take(values_array(at)), stored)
        decoded = ValueDecoder(layout).decode(encoded.data, encoded.offsets[:-1], encoded.offsets[1:])
        for row, value in zip(at.tolist(), encoded.to_arrow().to_pylist(), strict=True):
            values[row] = value
        self._changed.update(at.tolist())
        order = np.arange(len(self._rows))
        order[at] = len(order) + np.arange(len(at))
        both = pa.concat_arrays([self._rows.column(column), decoded]).take(values_array(order))
        self._rows = self._rows.set_column(self._schema.get_field_index(column), column, both)

    @property
    def _layout(self) -> Layout:
        """The layout of an element, or of an entry's value."""
        value = self._raw.infos[0].value_serializer
        assert value is not None  # The rows are decoded by it.
        return value.layout(self._context.inner if self._raw.kind == "broadcast" else self._context)

    @property
    def _bytes(self) -> tuple[list[bytes], list[bytes]]:
        """The bytes of the keys and of the values of rows; elements have no keys."""
        if self._stored is None:
            if any(part.broadcast for part in self._parts):
                self._stored = _entries_of(self._parts[0], self._context.inner)
            else:
                pieces = [piece for part in self._parts for piece in part.read()]
                self._stored = [], [value for piece in pieces for value in piece.to_arrow().to_pylist()]
            assert len(self._stored[1]) == len(self._rows)
        return self._stored


def _entries_of(part: RawElements, context: LayoutContext) -> tuple[list[bytes], list[bytes]]:
    """Return the bytes of keys and values of a broadcast state. Raises CorruptSnapshot."""
    info: StateMetaInfo | None = state_info(part.file.header, part.partition)
    key, value = (None, None) if info is None else (info.key_serializer, info.value_serializer)
    if key is None or value is None:
        where = Where(file=part.file.source.name, offset=0, state=part.partition.name)
        raise CorruptSnapshot(f"broadcast state '{part.partition.name}' lacks a serializer", where=where)
    pairs = (("key", SerializedValue(key.layout(context))), ("value", SerializedValue(value.layout(context))))
    (stored,) = part.read()
    with placed(part.file.source.name, int, part.partition.name):
        decoder = ValueDecoder(Counted(StructLayout(pairs)))
        entries = decoder.decode(stored.data, stored.offsets[:-1], stored.offsets[1:]).values
    return entries.field(0).to_pylist(), entries.field(1).to_pylist()


def refuse_flatten(operator: str, state: str, *, flatten: bool) -> None:
    """Raise InvalidOption where elements of operator state are asked for as rows, which they are."""
    if flatten:
        raise InvalidOption(
            "rows of operator state are elements and entries already",
            where=Where(operator=operator, state=state),
            advice="leave out flatten",
        )
