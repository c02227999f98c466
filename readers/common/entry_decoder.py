"""Decode raw entries of one state to batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from stateproc.codec.machine import Machine
from stateproc.readers.common.entry_programs import Columns, Form, entry_program
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


def decode_entries(
    entries: Iterable[RawEntries],
    state: KeyedState,
    ctx: LayoutContext,
    *,
    flatten: bool = False,
    raw_keys: bool = False,
    longest: int = LONGEST,
    most: int = MOST_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Batches of the state's rows; ``raw_keys`` adds the bytes of key and namespace as a column ``raw_key``.

    ``longest``: flattened lists of more bytes are decoded in parts; ``most``: lists and maps of more bytes are
    refused if they are not flattened. Raises CorruptSnapshot naming file and offset, UnsupportedSnapshot.
    """
    if state.kind is not StateKind.LIST:
        yield from _decoded(entries, state, ctx, flatten=flatten, raw_keys=raw_keys, most=most)
        return
    if not flatten:
        checked = (check_lists(chunk, state, most) for chunk in entries)
        yield from _decoded(checked, state, ctx, flatten=False, raw_keys=raw_keys)
        return
    cutter = ElementCutter(state, ctx)
    parts = (part for chunk in entries for part in cut_lists(chunk, longest))
    for long, run in groupby(parts, key=itemgetter(1)):
        chunks = (part for part, _ in run)
        if not long:
            yield from _decoded(chunks, state, ctx, flatten=True, raw_keys=raw_keys)
            continue
        for entry in chunks:
            before = 0
            for batch in _decoded(cutter.split(entry, longest), state, ctx, flatten=True, raw_keys=raw_keys):
                check_index(before + len(batch), entry, state)
                yield _counted_on(batch, before)
                before += len(batch)


def _counted_on(batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    """The batch with ``list_index`` going on from the elements ``before``."""
    at = batch.schema.get_field_index("list_index")
    index = pa.array(batch.column(at).to_numpy(zero_copy_only=False) + np.int32(before), pa.int32())
    return batch.set_column(at, batch.schema.field(at), index)


def _decoded(
    entries: Iterable[RawEntries],
    state: KeyedState,
    ctx: LayoutContext,
    *,
    flatten: bool,
    raw_keys: bool,
    most: int = MOST_BYTES,
) -> Iterator[pa.RecordBatch]:
    program = entry_program(state, Form.COMPOSITE, ctx, raw_keys=raw_keys)
    machine = Machine(program.program)
    fields = state_fields(state, ctx, flatten)
    schema = pa.schema([*fields, pa.field(RAW_KEY, pa.binary())] if raw_keys else fields)
    grouper = MapGrouper(state.name, most) if state.kind is StateKind.MAP and not flatten else None
    chunk: RawEntries | None = None
    for chunk in entries:
        done, n = 0, len(chunk)
        starts, ends = chunk.ranges[0::2], chunk.ranges[1::2]
        while done < n:
            with placed(chunk.file, chunk.offset, state.name):
                reached = machine.run(chunk.data, starts, ends, done, n)
                taken = machine.decoded()
                columns = program.assemble(taken)
                columns[KEY_GROUP] = key_group_array(chunk.key_groups[done:reached])
                if program.raw_keys is not None:
                    columns[RAW_KEY] = program.raw_keys(taken)
                if grouper is None:
                    yield record_batch(_rows(state, columns, flatten), schema)
                else:
                    part = RawEntries(
                        chunk.data, chunk.key_groups[done:reached], chunk.ranges[:, done:reached], chunk.file,
                        chunk.file_at, chunk.exact,
                    )  # fmt: skip
                    marks = taken.column(program.marks, np.int64)
                    for rows in grouper.feed(part, columns, marks):
                        yield record_batch(finished_rows(state, rows, False), schema)
            done = reached
    if grouper is not None and chunk is not None:
        with placed(chunk.file, chunk.offset, state.name):
            for rows in grouper.finish():
                yield record_batch(finished_rows(state, rows, False), schema)


def _rows(state: KeyedState, columns: Columns, flatten: bool) -> Columns:
    if state.kind is StateKind.MAP:
        return flat_entries(state, columns)
    return finished_rows(state, columns, flatten)
