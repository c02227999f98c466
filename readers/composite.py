"""Decode raw entries (canonical, RocksDB) of one state to batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from stateproc.readers.entries import RawEntries
from stateproc.readers.failures import placed
from stateproc.readers.maps import MapGrouper
from stateproc.readers.programs import Columns, Form, entry_program
from stateproc.readers.rows import (
    KEY_GROUP,
    RAW_KEY,
    finished_rows,
    flat_entries,
    key_group_array,
    record_batch,
    state_fields,
)
from stateproc.readers.states import KeyedState, StateKind

from stateproc.codec.machine import Machine
from stateproc.serializers import LayoutContext


def decode_entries(
    entries: Iterable[RawEntries],
    state: KeyedState,
    ctx: LayoutContext,
    *,
    flatten: bool = False,
    raw_keys: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Batches of the state's rows; ``raw_keys`` adds the bytes of key and namespace as a column ``raw_key``.

    Raises CorruptSnapshot naming file and offset.
    """
    program = entry_program(state, Form.COMPOSITE, ctx, raw_keys=raw_keys)
    machine = Machine(program.program)
    fields = state_fields(state, ctx, flatten)
    schema = pa.schema([*fields, pa.field(RAW_KEY, pa.binary())] if raw_keys else fields)
    grouper = MapGrouper() if state.kind is StateKind.MAP and not flatten else None
    for chunk in entries:
        done, n = 0, len(chunk)
        starts, ends = chunk.ranges[0::2], chunk.ranges[1::2]
        while done < n:
            with placed(chunk.file, chunk.offset, state.name):
                reached = machine.run(chunk.data, starts, ends, done, n)
                taken = machine.taken()
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
    if grouper is not None:
        for rows in grouper.finish():
            yield record_batch(finished_rows(state, rows, False), schema)


def _rows(state: KeyedState, columns: Columns, flatten: bool) -> Columns:
    if state.kind is StateKind.MAP:
        return flat_entries(state, columns)
    return finished_rows(state, columns, flatten)
