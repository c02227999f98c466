"""Every entry of every keyed state that Flink wrote is decoded and encoded to the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.keys import composite_keys
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.base import Unwritable
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.codec.machine import Machine
from stateproc.model.keyed_state import KeyedState
from stateproc.readers.canonical.reader import CanonicalSplit
from stateproc.readers.entry_programs import (
    Columns,
    EntryProgram,
    Form,
    composite_value,
    entry_program,
    key_layout,
    stream_value,
)
from stateproc.readers.heap.reader import HeapSplit, heap_entries
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb.splits import RocksDbSplit
from stateproc.readers.splits import KeyedSplit
from stateproc.readers.state_descriptor import StateDescriptor, StateKind, header_states
from stateproc.serializers import LayoutContext
from tests.helpers.fixtures import Fixture, fixtures
from tests.unit.snapshot.test_fixtures import CLASSES

Compared = tuple[str, list[bytes], list[bytes]]
ENTRY = ("namespace", "key", "value")
# Half of a surrogate pair is read as U+FFFD, because UTF-8 cannot encode it, and is written as U+FFFD.
HALVES = {("08bcb00320616c6f6e65", "08fdff0320616c6f6e65"), ("d83c", "fffd")}


def _read_only(state: StateDescriptor) -> bool:
    """Return whether the state's values or keys may be of Kryo or Java classes that can only be read."""
    pending = [state.key, state.namespace, state.value, *([state.user_key] if state.user_key else [])]
    while pending:
        serializer = pending.pop()
        if type(serializer).__name__ in ("Kryo", "JavaObjectOf", "Variant"):
            return True
        pending += serializer.nested
    return False


def _stored_entries() -> list[Fixture]:
    """Return the fixtures with entries in files, which changelogs do not have (see readers/changelog)."""
    return [fixture for fixture in fixtures() if "changelog" not in fixture.manifest.get("mode", "")]


@pytest.mark.parametrize("fixture", _stored_entries(), ids=lambda fixture: fixture.name)
def test_every_entry_is_encoded_to_the_bytes_that_flink_wrote(fixture: Fixture) -> None:
    snapshot = fixture.open(classes=CLASSES, temporal="exact", row_kind=True)
    ctx = snapshot.options.context
    for operator in snapshot.operators:
        for view in operator.states:
            if not isinstance(view, KeyedState):
                continue
            for split in view.plain_splits():
                try:
                    for part, real, made in _compared(split, view.name, ctx):
                        wrong = [(a.hex(), b.hex()) for a, b in zip(real, made, strict=True) if a != b]
                        assert set(wrong) <= HALVES, (view.name, view.value_type, part, len(wrong), wrong[:2])
                except Unwritable:
                    assert _read_only(view.keyed)


def _compared(split: KeyedSplit, name: str, ctx: LayoutContext) -> Iterator[Compared]:
    """Yield (component, Flink's bytes, encoded bytes) of a state's entries, chunk by chunk."""
    state = split.target()
    assert state is not None and state.name == name
    if isinstance(split, HeapSplit):
        yield from heap_entries(
            split.source, split.ranges, header_states(split.header), state, ctx, _spanned(state, ctx),
            _HeapPairs(state, ctx), compressed=split.header.compressed,
        )  # fmt: skip
        return
    assert isinstance(split, CanonicalSplit | RocksDbSplit)
    for chunk in split.raw_entries():
        yield from _composite_pairs(state, ctx, chunk)


# --- canonical files, RocksDB ----------------------------------------------------------------------------------


def _composite_pairs(state: StateDescriptor, ctx: LayoutContext, chunk: RawEntries) -> Iterator[Compared]:
    program = entry_program(state, Form.COMPOSITE, ctx)
    machine = Machine(program.program)
    data, n = chunk.data.tobytes(), len(chunk)
    assert machine.run(chunk.data, chunk.ranges[0::2], chunk.ranges[1::2], 0, n) == n
    columns = program.assemble(machine.decoded())
    keys, values = (
        [data[start:end] for start, end in zip(chunk.ranges[at], chunk.ranges[at + 1], strict=True)] for at in (0, 2)
    )
    if state.kind.is_queue:
        yield "timer", keys, _encoded(state.value.layout(ctx.inner), columns["timer"])
        return
    if state.kind is StateKind.MAP:
        # Canonical savepoints of the heap backend write the serializer's encoding of null after the null mark.
        values = [value[:1] if value[0] else value for value in values]
    yield "value", values, _encoded(composite_value(state, ctx), columns["value"])
    key = key_layout(state, ctx).encode(columns["key"])
    namespace = state.namespace.layout(ctx.inner).encode(columns.get("namespace", pa.nulls(n)))
    user_key = None if state.user_key is None else state.user_key.layout(ctx).encode(columns["user_key"])
    ambiguous = state.key.length < 0 and state.namespace.length < 0
    yield "key", keys, composite_keys(key, namespace, user_key, ambiguous).to_arrow().to_pylist()


def _encoded(layout: Layout, array: pa.Array) -> list[bytes]:
    return layout.encode(array).to_arrow().to_pylist()


# --- native heap files -----------------------------------------------------------------------------------------


def _layouts(state: StateDescriptor, ctx: LayoutContext) -> dict[str, Layout]:
    if state.kind.is_queue:
        return {"timer": state.value.layout(ctx.inner)}
    inner = ctx.inner
    return dict(
        zip(ENTRY, (state.namespace.layout(inner), state.key.layout(inner), stream_value(state, inner)), strict=True)
    )


def _spanned(state: StateDescriptor, ctx: LayoutContext) -> EntryProgram:
    """Return the state's program with an additional column ``"<component> bytes"`` for each component."""
    b = Builder()
    columns: dict[str, Assembler] = {}
    for name, layout in _layouts(state, ctx).items():
        b.op(ops.PUSH_POS)
        columns[name] = layout.emit(b, False)
        lengths, data = blob_columns(b)
        b.op(ops.SPAN, lengths, data)
        columns[f"{name} bytes"] = _span(lengths, data)
    b.op(ops.ROW_END)
    return EntryProgram(b.build(), columns, -1, None)


def _span(lengths: int, data: int) -> Assembler:
    return lambda taken: blob_array(taken, lengths, data, pa.binary())


class _HeapPairs:
    """Decodes and encodes chunks of heap entries."""

    def __init__(self, state: StateDescriptor, ctx: LayoutContext) -> None:
        self._layouts = _layouts(state, ctx)

    def __call__(self, columns: Columns) -> Compared:
        real: list[bytes] = []
        made: list[bytes] = []
        for name, layout in self._layouts.items():
            real += columns[f"{name} bytes"].to_pylist()
            made += _encoded(layout, columns[name])
        return "entry", real, made
