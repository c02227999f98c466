"""Read change records side by side in one buffer, and find what the operation of each carries.

A change (org.apache.flink.state.changelog.StateChangeOperation and the StateChangeLogger classes), big-endian:

    u8 operation, i16 state id
    key, namespace       by their serializers, without lengths; not of priority queues
    operand              nothing, a value, a list, a map, an element or namespaces: see `Operand`

Declarations of states (METADATA) have another form: see `changelog.log_metadata`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.array_types import Bytes, Longs
from stateproc.codec.builder import Builder
from stateproc.codec.layouts import Blob, Counted, Layout, StructLayout
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import DecodeFailure, Machine
from stateproc.errors import CorruptSnapshot, Where
from stateproc.readers.changelog.change_blocks import Change, ChangeBlock
from stateproc.readers.error_context import placed
from stateproc.readers.row_schema import serialized_items, serialized_pairs
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext

# Operations of change records, and what follows key and namespace in each.
#
# Format: org.apache.flink.state.changelog.StateChangeOperation and the StateChangeLogger classes.


class Operation(enum.IntEnum):
    """StateChangeOperation by its code."""

    CLEAR = 0
    SET = 1
    SET_INTERNAL = 2
    ADD = 3
    MERGE_NS = 4
    ADD_ELEMENT = 5
    ADD_OR_UPDATE_ELEMENT = 6
    REMOVE_ELEMENT = 7
    METADATA = 8


class Operand(enum.Enum):
    """What a change carries: nothing; one value, element, user key or timer up to the end; a counted list; a counted
    map with null marks; a user key and its value without a mark; the merge's namespaces."""

    NOTHING = "nothing"
    ONE = "one"
    ITEMS = "items"
    PAIRS = "pairs"
    PAIR = "pair"
    NAMESPACES = "namespaces"


_O, _P = Operation, Operand
_VALUE = {_O.CLEAR: _P.NOTHING, _O.SET: _P.ONE, _O.SET_INTERNAL: _P.ONE}
_MERGING = {**_VALUE, _O.MERGE_NS: _P.NAMESPACES}
_LIST = {
    _O.CLEAR: _P.NOTHING,
    _O.SET: _P.ITEMS,
    _O.SET_INTERNAL: _P.ITEMS,
    _O.ADD: _P.ITEMS,
    _O.ADD_ELEMENT: _P.ONE,
    _O.MERGE_NS: _P.NAMESPACES,
}
_MAP = {
    _O.CLEAR: _P.NOTHING,
    _O.ADD: _P.PAIRS,
    _O.ADD_ELEMENT: _P.PAIR,
    _O.ADD_OR_UPDATE_ELEMENT: _P.PAIR,
    _O.REMOVE_ELEMENT: _P.ONE,
}
_QUEUE = {_O.ADD_ELEMENT: _P.ITEMS, _O.REMOVE_ELEMENT: _P.ONE}

OPERANDS: dict[StateKind, dict[Operation, Operand]] = {
    StateKind.VALUE: _VALUE,
    StateKind.UNKNOWN: _VALUE,
    StateKind.FOLDING: _VALUE,
    StateKind.REDUCING: _MERGING,
    StateKind.AGGREGATING: _MERGING,
    StateKind.LIST: _LIST,
    StateKind.MAP: _MAP,
    StateKind.EVENT_TIMERS: _QUEUE,
    StateKind.PROCESSING_TIMERS: _QUEUE,
    StateKind.QUEUE: _QUEUE,
}
"""The operations that each kind of state logs."""


def operand_layout(operand: Operand, state: StateDescriptor, ctx: LayoutContext) -> Layout | None:
    """The operand's layout, up to the end of the record."""
    if operand is Operand.ONE:
        return Blob(ops.LENGTH_REST)
    if operand is Operand.ITEMS:
        return serialized_items(state, ctx)
    if operand is Operand.PAIRS:
        return serialized_pairs(state, ctx)
    if operand is Operand.NAMESPACES:
        namespace = SerializedValue(state.namespace.layout(ctx.inner))
        return StructLayout((("target", namespace), ("sources", Counted(namespace))))
    if operand is Operand.PAIR:
        assert state.user_key is not None
        return StructLayout(
            (("key", SerializedValue(state.user_key.layout(ctx.inner))), ("value", Blob(ops.LENGTH_REST)))
        )
    return None


HEAD = 3
"""Bytes of the operation and the state's id in front of a record."""


@dataclass(frozen=True)
class Records:
    """Changes of one state in their order.

    data: uint8, all records; starts, ends: int64 [n], positions in it; operations: uint8 [n]; groups: int64 [n];
    places: int64 [n], offsets in their files; files: the files of successive changes, each with their number.
    """

    data: Bytes
    starts: Longs
    ends: Longs
    operations: Bytes
    groups: Longs
    places: Longs
    files: Sequence[tuple[str, int]]

    def __len__(self) -> int:
        return len(self.starts)

    def change(self, index: int) -> Change:
        """One of them, with its place."""
        data = self.data[self.starts[index] : self.ends[index]].tobytes()
        return Change(int(self.groups[index]), data, self._file(index), int(self.places[index]))

    def _file(self, index: int) -> str:
        for file, number in self.files:
            if index < number:
                return file
            index -= number
        raise IndexError(index)


def records(blocks: Sequence[ChangeBlock]) -> Records:
    """Copy the blocks' changes into one buffer. Each has its head, which whoever collected them has seen to."""
    data = np.frombuffer(b"".join([block.data for block in blocks]) or b"\0", dtype=np.uint8)
    bases = np.cumsum([0, *(len(block.data) for block in blocks)])
    none = np.zeros(0, dtype=np.int64)
    starts = np.concatenate([none, *(block.starts + base for block, base in zip(blocks, bases, strict=False))])
    ends = np.concatenate([none, *(block.ends + base for block, base in zip(blocks, bases, strict=False))])
    counts = [len(block) for block in blocks]
    groups = np.repeat(np.array([block.key_group for block in blocks], dtype=np.int64), np.array(counts, int))
    places = np.concatenate([none, *(block.places for block in blocks)])
    files = [(block.file, count) for block, count in zip(blocks, counts, strict=True)]
    return Records(data, starts, ends, data[starts], groups, places, files)


def check_operations(found: Records, state: StateDescriptor) -> None:
    """Raise CorruptSnapshot for a change by an operation that no such state logs."""
    allowed = np.zeros(256, dtype=np.bool_)
    allowed[list(OPERANDS[state.kind])] = True
    bad = np.flatnonzero(~allowed[found.operations])
    if len(bad):
        change = found.change(int(bad[0]))
        code = change.data[0]
        name = Operation(code).name if code <= max(Operation) else str(code)
        raise CorruptSnapshot(
            f"the operation {name}, which no {state.kind.value} state logs",
            where=Where(file=change.file, offset=change.at, state=state.name),
            advice="the file is damaged; restore it from a copy or take the snapshot again",
        )


@dataclass(frozen=True)
class ChangeOperands:
    """The changes of one operation: where key, namespace and user key end (positions in the data), and operands.

    which: int64, their indexes among the changes. items: of Operand.ITEMS and PAIRS a list array; of
    NAMESPACES structs of target and sources.
    """

    which: Longs
    key_ends: Longs
    scope_ends: Longs
    user_ends: Longs
    items: pa.Array | None


def operands_of(found: Records, operation: Operation, state: StateDescriptor, ctx: LayoutContext) -> ChangeOperands:
    """Take the changes of one operation apart. Raises CorruptSnapshot naming file and offset."""
    which = np.flatnonzero(found.operations == int(operation)).astype(np.int64)
    operand = OPERANDS[state.kind][operation]
    b = Builder()
    b.op(ops.SKIP, HEAD)
    marks = [b.column(8, 0) for _ in range(3)]
    scope = () if state.kind.is_queue else (state.key, state.namespace)
    layouts = [serializer.layout(ctx.inner) for serializer in scope]
    if operand is Operand.PAIR:
        assert state.user_key is not None
        layouts.append(state.user_key.layout(ctx.inner))
    for at, mark in enumerate(marks):
        if at < len(layouts):
            layouts[at].skip(b)
        b.op(ops.MARK, mark)
    items = None
    if operand in (Operand.ITEMS, Operand.PAIRS, Operand.NAMESPACES):
        layout = operand_layout(operand, state, ctx)
        assert layout is not None
        items = layout.emit(b, False)
    elif operand is not Operand.NOTHING:
        b.op(ops.SKIP_REST)
    b.op(ops.ROW_END)
    machine = Machine(b.build())
    starts, ends = found.starts[which], found.ends[which]
    places: list[list[Longs]] = [[], [], []]
    arrays: list[pa.Array] = []
    done = 0
    while done < len(which):
        try:
            machine.run(found.data, starts[None, :], ends[None, :], done, len(which))
        except DecodeFailure as failure:
            _fail(failure, found, int(which[failure.row]), state)
        taken = machine.decoded()
        for place, mark in zip(places, marks, strict=True):
            place.append(np.array(taken.column(mark, np.int64), dtype=np.int64))
        if items is not None:
            arrays.append(items(taken))
        done += len(places[0][-1])
    key_ends, scope_ends, user_ends = (np.concatenate(place or [starts[:0]]) for place in places)
    return ChangeOperands(which, key_ends, scope_ends, user_ends, pa.concat_arrays(arrays) if arrays else None)


def _fail(failure: DecodeFailure, found: Records, index: int, state: StateDescriptor) -> None:
    """Raise with the change's place."""
    change, start = found.change(index), int(found.starts[index])
    with placed(change.file, lambda position: change.at + position - start, state.name):
        raise failure
