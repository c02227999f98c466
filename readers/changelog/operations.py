"""Operations of change records, and what follows key and namespace in each.

Format: org.apache.flink.state.changelog.StateChangeOperation and the StateChangeLogger classes.
"""

from __future__ import annotations

import enum

from stateproc.codec import ops
from stateproc.codec.layouts import Blob, Counted, Layout, StructLayout
from stateproc.readers.row_schema import SerializedValue, serialized_items, serialized_pairs
from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.serializers import LayoutContext


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


def operand_layout(operand: Operand, state: KeyedState, ctx: LayoutContext) -> Layout | None:
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
