"""Decode only the keys of a state's entries, for rows of a wide table whose column of that state is not selected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.layouts import Blob
from stateproc.codec.machine import Machine
from stateproc.readers.common.entry_programs import emit_composite_key
from stateproc.readers.common.error_context import placed
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.row_schema import KEY_GROUP, RAW_KEY, key_group_array
from stateproc.readers.common.splits import KeyedSplit
from stateproc.readers.common.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext
from stateproc.serializers.core.plugins import load_plugins
from stateproc.serializers.described_classes import described_classes


def read_keys(split: KeyedSplit) -> Iterator[pa.RecordBatch]:
    """Read the keys of a split's entries: key_group, key, [namespace], raw_key; a key may come more than once.

    Values and user keys are not decoded, so that values which cannot be decoded do no harm. Native heap files are read
    with their values, because these contain the only indication of where an entry ends.

    Raises:
        CorruptSnapshot: The files are damaged.
        MissingFile: A file does not exist.
        UnsupportedSnapshot: The end of an entry cannot be determined.
    """
    if split.namespace_first:
        yield from split.read()
        return
    load_plugins(split.scan.options.plugins)
    target = split.target()
    if target is not None:
        yield from decode_keys(split.raw_entries(), target, split.scan.options.context)


def decode_keys(entries: Iterable[RawEntries], state: KeyedState, ctx: LayoutContext) -> Iterator[pa.RecordBatch]:
    """Decode key and namespace of composite entries. Raises CorruptSnapshot naming file and offset."""
    builder = Builder()
    columns: dict[str, Assembler] = {}
    builder.op(ops.PUSH_POS)
    _, raw_key = emit_composite_key(builder, state, ctx, columns, raw_keys=True, user_keys=False)
    assert raw_key is not None
    if state.user_key is not None:
        Blob(ops.LENGTH_REST).skip(builder)
    builder.op(ops.ROW_END)
    machine, described = Machine(builder.build()), described_classes((state.key, state.namespace), ctx)
    for chunk in entries:
        done, starts, ends = 0, chunk.ranges[0::2], chunk.ranges[1::2]
        while done < len(chunk):
            with placed(chunk.file, chunk.offset, state.name, described):
                reached = machine.run(chunk.data, starts, ends, done, len(chunk))
                taken = machine.decoded()
                found = {name: assembler(taken) for name, assembler in columns.items()}
                found[KEY_GROUP] = key_group_array(chunk.key_groups[done:reached])
                found[RAW_KEY] = raw_key(taken)
                yield pa.RecordBatch.from_pydict(found)
            done = reached
