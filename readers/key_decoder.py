"""Decode keys and namespaces of entries, without values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from stateproc.codec.machine import Machine
from stateproc.readers.entry_programs import Form, entry_program
from stateproc.readers.error_context import placed
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import KEY_GROUP, finished_rows, key_group_array
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext
from stateproc.serializers.described_classes import described_classes


def decode_keys(
    entries: Iterable[RawEntries], state: StateDescriptor, ctx: LayoutContext, *, user_keys: bool = False
) -> Iterator[pa.RecordBatch]:
    """Decode keys and namespaces of entries, a row each, whatever the bytes of their values.

    Args:
        entries: The entries of the state; they need not have values.
        state: The state.
        ctx: Settings of layouts.
        user_keys: Whether to decode the user keys of map entries, too, as ``map_key``.

    Raises:
        CorruptSnapshot: The entries are damaged; names file and offset.
        UnsupportedSnapshot: A key cannot be decoded.
    """
    program = entry_program(state, Form.COMPOSITE, ctx, values=False, user_keys=user_keys)
    machine = Machine(program.program)
    described = described_classes(state.serializers, ctx)
    for chunk in entries:
        done, n = 0, len(chunk)
        starts, ends = chunk.ranges[0::2], chunk.ranges[1::2]
        while done < n:
            with placed(chunk.file, chunk.offset, state.name, described):
                reached = machine.run(chunk.data, starts, ends, done, n)
                columns = program.assemble(machine.decoded())
            if state.kind.is_queue:
                columns = finished_rows(state, columns, False)
            elif "user_key" in columns:
                columns["map_key"] = columns.pop("user_key")
            columns[KEY_GROUP] = key_group_array(chunk.key_groups[done:reached])
            yield pa.RecordBatch.from_pydict(columns)
            done = reached
