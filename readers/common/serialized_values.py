"""Layouts that return values as the bytes in which they are serialized, without decoding them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.layouts import Counted, Layout, Marked, StructLayout
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.readers.common.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext
from stateproc.serializers.runtime.ttl import TtlSerializer


@dataclass(frozen=True)
class SerializedValue(Layout):
    """Return the bytes of another layout's value as Arrow binary."""

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


def element_layout(state: KeyedState, ctx: LayoutContext) -> Layout:
    """Return the layout of a value, a list's element or a map's user value, including its TTL timestamp."""
    return (TtlSerializer(state.value) if state.ttl else state.value).layout(ctx.inner)


def serialized_value(state: KeyedState, ctx: LayoutContext) -> Layout:
    """Return the layout of one value or timer as its bytes."""
    return SerializedValue(element_layout(state, ctx))


def serialized_items(state: KeyedState, ctx: LayoutContext) -> Layout:
    """Return the layout of a list as its ListSerializer writes it, or of timers: the bytes of each element."""
    return Counted(SerializedValue(element_layout(state, ctx)))


def serialized_pairs(state: KeyedState, ctx: LayoutContext) -> Layout:
    """Return the layout of a map as its MapSerializer writes it: each user key, and each value with its null mark."""
    assert state.user_key is not None
    value = SerializedValue(Marked(element_layout(state, ctx)))
    return Counted(StructLayout((("key", SerializedValue(state.user_key.layout(ctx.inner))), ("value", value))))
