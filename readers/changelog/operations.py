"""Operations of change records, and what follows key and namespace in each.

Format: org.apache.flink.state.changelog.StateChangeOperation and the StateChangeLogger classes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.layouts import Blob, Counted, Layout, Marked, Struct
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.runtime.ttl import Ttl


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


@dataclass(frozen=True)
class Raw(Layout):
    """The bytes of another layout's value."""

    inner: Layout

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.binary()

    @property
    def min_size(self) -> int:
        return self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        lengths, data = blob_columns(b)
        b.op(ops.PUSH_POS)
        self.inner.skip(b)
        b.op(ops.SPAN, lengths, data)
        return lambda taken: blob_array(taken, lengths, data, pa.binary())


def element_of(state: KeyedState, ctx: LayoutContext) -> Layout:
    """How a value, a list's element, a map's user value lies, its TTL timestamp included."""
    return (Ttl(state.value) if state.ttl else state.value).layout(ctx.inner)


def value_of(state: KeyedState, ctx: LayoutContext) -> Layout:
    """The bytes of one value or timer."""
    return Raw(element_of(state, ctx))


def items_of(state: KeyedState, ctx: LayoutContext) -> Layout:
    """A whole list by its serializer, or timers: the bytes of each."""
    return Counted(Raw(element_of(state, ctx)))


def pairs_of(state: KeyedState, ctx: LayoutContext) -> Layout:
    """A whole map by its serializer: the bytes of each user key, and of each value behind its null mark."""
    assert state.user_key is not None
    value = Raw(Marked(element_of(state, ctx)))
    return Counted(Struct((("key", Raw(state.user_key.layout(ctx.inner))), ("value", value))))


def operand_layout(operand: Operand, state: KeyedState, ctx: LayoutContext) -> Layout | None:
    """The operand's layout, up to the end of the record."""
    if operand is Operand.ONE:
        return Blob(ops.LENGTH_REST)
    if operand is Operand.ITEMS:
        return items_of(state, ctx)
    if operand is Operand.PAIRS:
        return pairs_of(state, ctx)
    if operand is Operand.NAMESPACES:
        namespace = Raw(state.namespace.layout(ctx.inner))
        return Struct((("target", namespace), ("sources", Counted(namespace))))
    if operand is Operand.PAIR:
        assert state.user_key is not None
        return Struct((("key", Raw(state.user_key.layout(ctx.inner))), ("value", Blob(ops.LENGTH_REST))))
    return None
