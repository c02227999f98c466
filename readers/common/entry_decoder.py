"""Decode raw entries of one state to batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import numbers_of, values_array
from stateproc.codec.machine import HostFailure, Machine
from stateproc.errors import SnapshotError, UnsupportedSnapshot, Where
from stateproc.readers.common.entry_programs import Columns, EntryProgram, Form, composite_value, entry_program
from stateproc.readers.common.error_context import placed
from stateproc.readers.common.list_splitting import (
    LONGEST,
    MOST_BYTES,
    ElementCutter,
    check_index,
    check_lists,
    cut_lists,
)
from stateproc.readers.common.map_grouping import MapGrouper
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.row_schema import (
    KEY_GROUP,
    RAW_KEY,
    finished_rows,
    flat_entries,
    key_group_array,
    record_batch,
    state_fields,
)
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.described_classes import described_classes

Report: TypeAlias = Callable[[SnapshotError], None]


def decode_entries(
    entries: Iterable[RawEntries],
    state: KeyedState,
    ctx: LayoutContext,
    *,
    flatten: bool = False,
    raw_keys: bool = False,
    longest: int = LONGEST,
    most: int = MOST_BYTES,
    report: Report | None = None,
) -> Iterator[pa.RecordBatch]:
    """Decode entries to batches of the state's rows.

    Args:
        entries: The entries of the state.
        state: The state.
        ctx: Settings of layouts.
        flatten: Whether each list element or map entry is a row.
        raw_keys: Whether to add the bytes of key and namespace as a column ``raw_key``.
        longest: Flattened lists of more bytes are decoded in parts.
        most: Lists and maps of more bytes are refused if they are not flattened.
        report: Called with the error of each value that cannot be decoded, which is null then; without it, the error
            is raised.

    Raises:
        CorruptSnapshot: The entries are damaged; names file and offset.
        UnsupportedSnapshot: A key cannot be decoded; or a value, without ``report``.
    """
    if state.kind is not StateKind.LIST:
        yield from _decoded(entries, state, ctx, flatten=flatten, raw_keys=raw_keys, most=most, report=report)
        return
    if not flatten:
        checked = (check_lists(chunk, state, most) for chunk in entries)
        yield from _decoded(checked, state, ctx, flatten=False, raw_keys=raw_keys, report=report)
        return
    cutter = ElementCutter(state, ctx)
    parts = (part for chunk in entries for part in cut_lists(chunk, longest))
    for long, run in groupby(parts, key=itemgetter(1)):
        chunks = (part for part, _ in run)
        if not long:
            yield from _decoded(chunks, state, ctx, flatten=True, raw_keys=raw_keys, report=report)
            continue
        for entry in chunks:
            before = 0
            for batch in _decoded(cutter.split(entry, longest), state, ctx, flatten=True, raw_keys=raw_keys):
                check_index(before + len(batch), entry, state)
                yield _counted_on(batch, before)
                before += len(batch)


def _placed_error(error: SnapshotError, chunk: RawEntries) -> SnapshotError:
    """Return the error of a value with its position in the file instead of that in the buffer."""
    where = Where(chunk.file, chunk.offset(error.where.offset or 0))
    return type(error)(error.message, where=where, advice=error.advice)


def _counted_on(batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    """The batch with ``list_index`` going on from the elements ``before``."""
    at = batch.schema.get_field_index("list_index")
    index = values_array(numbers_of(batch.column(at)) + np.int32(before))
    return batch.set_column(at, batch.schema.field(at), index)


def _decoded(
    entries: Iterable[RawEntries],
    state: KeyedState,
    ctx: LayoutContext,
    *,
    flatten: bool,
    raw_keys: bool,
    most: int = MOST_BYTES,
    report: Report | None = None,
) -> Iterator[pa.RecordBatch]:
    program = entry_program(state, Form.COMPOSITE, ctx, raw_keys=raw_keys)
    machine = Machine(program.program)
    described = described_classes(state.serializers, ctx)
    fields = state_fields(state, ctx, flatten)
    schema = pa.schema([*fields, pa.field(RAW_KEY, pa.binary())] if raw_keys else fields)
    without_values = _ValueSkipper(state, ctx, raw_keys)
    grouper = MapGrouper(state.name, most) if state.kind is StateKind.MAP and not flatten else None
    chunk: RawEntries | None = None
    for chunk in entries:
        done, n = 0, len(chunk)
        starts, ends = chunk.ranges[0::2], chunk.ranges[1::2]
        while done < n:
            with placed(chunk.file, chunk.offset, state.name, described):
                ran, ran_machine = program, machine
                try:
                    reached = machine.run(chunk.data, starts, ends, done, n)
                except HostFailure as failure:
                    if report is None or not isinstance(failure.error, UnsupportedSnapshot):
                        raise
                    report(_placed_error(failure.error, chunk))
                    if failure.row == done:
                        ran, ran_machine = without_values.program, without_values.machine
                    reached = ran_machine.run(chunk.data, starts, ends, done, max(failure.row, done + 1))
                taken = ran_machine.decoded()
                columns = ran.assemble(taken)
                columns[KEY_GROUP] = key_group_array(chunk.key_groups[done:reached])
                if ran.raw_keys is not None:
                    columns[RAW_KEY] = ran.raw_keys(taken)
                if grouper is None and ran is not program:
                    yield _null_rows(columns, schema)
                elif grouper is None:
                    yield record_batch(_rows(state, columns, flatten), schema)
                else:
                    part = RawEntries(
                        chunk.data, chunk.key_groups[done:reached], chunk.ranges[:, done:reached], chunk.file,
                        chunk.file_at, chunk.exact,
                    )  # fmt: skip
                    if ran is not program:
                        columns["value"] = pa.nulls(reached - done, without_values.value_type)
                    marks = taken.column(ran.marks, np.int64)
                    for rows in grouper.feed(part, columns, marks):
                        yield record_batch(finished_rows(state, rows, False), schema)
            done = reached
    if grouper is not None and chunk is not None:
        with placed(chunk.file, chunk.offset, state.name, described):
            for rows in grouper.finish():
                yield record_batch(finished_rows(state, rows, False), schema)


def _rows(state: KeyedState, columns: Columns, flatten: bool) -> Columns:
    if state.kind is StateKind.MAP:
        return flat_entries(state, columns)
    return finished_rows(state, columns, flatten)


class _ValueSkipper:
    """The program for entries whose values cannot be decoded, compiled when the first of them is met."""

    def __init__(self, state: KeyedState, ctx: LayoutContext, raw_keys: bool) -> None:
        self._state, self._ctx, self._raw_keys = state, ctx, raw_keys

    @cached_property
    def program(self) -> EntryProgram:
        return entry_program(self._state, Form.COMPOSITE, self._ctx, raw_keys=self._raw_keys, values=False)

    @cached_property
    def machine(self) -> Machine:
        return Machine(self.program.program)

    @property
    def value_type(self) -> pa.DataType:
        return composite_value(self._state, self._ctx).arrow_type


def _null_rows(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """Return one row for each entry, with its keys and a null value; of a flattened list, a null element."""
    if "user_key" in columns:
        columns = {**columns, "map_key": columns["user_key"]}
    rows = len(columns[KEY_GROUP])
    return record_batch({field.name: columns.get(field.name, pa.nulls(rows, field.type)) for field in schema}, schema)
