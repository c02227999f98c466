"""The form of keys, namespaces and nulls in composite keys and in the log."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.builder import Builder
from stateproc.codec.byte_arrays import Unencodable
from stateproc.codec.layouts.base import Layout, Unwritable
from stateproc.codec.machine import Machine
from stateproc.readers.error_context import placed
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext


def null_form(layout: Layout) -> bytes | None:
    """Return the bytes of a null, None if the layout's bytes cannot express nulls."""
    if not layout.encodes_null:
        return None
    try:
        return layout.encode(pa.nulls(1, layout.arrow_type)).data.tobytes()
    except (Unencodable, Unwritable):
        return None


def is_ambiguous(state: KeyedState) -> bool:
    """Return whether key and namespace both have variable length, so that each is followed by its length."""
    return not state.kind.is_queue and state.key.length < 0 and state.namespace.length < 0


def user_key_starts(entries: RawEntries, state: KeyedState, ctx: LayoutContext) -> Longs:
    """Return where the user keys begin in the data of a map's entries, by running the key's program."""
    b = Builder()
    mark = b.column(8, 0)
    for serializer in (state.key, state.namespace):
        if is_ambiguous(state):
            b.op(ops.PUSH_POS)
        serializer.layout(ctx.inner).skip(b)
        if is_ambiguous(state):
            b.op(ops.LENGTH_SUFFIX)
    b.op(ops.MARK, mark)
    b.op(ops.SKIP_REST)
    b.op(ops.ROW_END)
    machine = Machine(b.build())
    starts, ends = np.ascontiguousarray(entries.ranges[:1]), np.ascontiguousarray(entries.ranges[1:2])
    marks = np.empty(len(entries), dtype=np.int64)
    done = 0
    with placed(entries.file, entries.offset, state.name):
        while done < len(entries):
            machine.run(entries.data, starts, ends, done, len(entries))
            found = machine.decoded().column(mark, np.int64)
            marks[done : done + len(found)] = found
            done += len(found)
    return marks
