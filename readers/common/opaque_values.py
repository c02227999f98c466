"""Read values of unknown types as their bytes, where entries have their length."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stateproc.codec import ops
from stateproc.codec.layouts import Blob, Layout
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.serializers import LayoutContext, Serializer, Undecodable


@dataclass(frozen=True)
class StoredBytes(Serializer):
    """The bytes from the start of a value to the end of its entry."""

    inner: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        if not ctx.tail:
            return self.inner.layout(ctx)  # raises the error that says why the value's end is unknown
        return Blob(ops.LENGTH_REST)

    @property
    def type_name(self) -> str:
        return self.inner.type_name


def known_or_bytes(serializer: Serializer, ctx: LayoutContext) -> Serializer:
    """Return the serializer, or one of its bytes if it cannot be decoded and ``ctx`` asks for bytes."""
    if not ctx.has_bytes:
        return serializer
    try:
        serializer.layout(ctx)
    except Undecodable:
        return StoredBytes(serializer)
    return serializer


def with_opaque_values(state: KeyedState, ctx: LayoutContext) -> KeyedState:
    """Return the state as its entries can be read, if ``ctx`` asks for the bytes of unknown types.

    A value, a map's user key and its user value become bytes each by itself. Elements of a list have no length: the
    list becomes one value, the bytes of its entry, which contain delimiters and times of last access.
    """
    if not ctx.has_bytes or state.kind.is_queue:
        return state
    if state.kind is StateKind.LIST:
        try:
            state.value.layout(ctx.inner)
        except Undecodable:
            return replace(state, kind=StateKind.VALUE, value=StoredBytes(state.value), ttl=False)
        return state
    user_key = None if state.user_key is None else known_or_bytes(state.user_key, ctx)
    return replace(state, value=known_or_bytes(state.value, ctx), user_key=user_key)
