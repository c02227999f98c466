"""Read keys whose serializer is unknown as their bytes, where the rest of an entry shows where they end.

A canonical or RocksDB entry is key, namespace, map key; a timer is i64 timestamp, key, namespace. If what follows the
key has a fixed size, the key is the rest. Otherwise the key ends where namespace and map key fill the entry: if they do
so after more than one prefix, nothing shows which is the key, and reading it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.layouts import Blob, Hosted, Layout, StructLayout
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.readers.common.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext, Serializer, Undecodable
from stateproc.serializers.runtime.timers import Timer
from stateproc.wire import Cursor

_LONGEST = 4096
"""Keys of more bytes are not tried byte by byte."""


@dataclass(frozen=True)
class KeyBytes(Serializer):
    """A key of unknown type: all bytes of the entry but the last ``following`` ones."""

    inner: Serializer
    following: int

    def layout(self, ctx: LayoutContext) -> Layout:
        return Blob(ops.LENGTH_REST_BUT, self.following)

    @property
    def type_name(self) -> str:
        return self.inner.type_name


def key_layout(state: KeyedState, ctx: LayoutContext) -> Layout:
    """Return the layout of the key in a composite key; that of its bytes for a key that nothing can decode.

    Raises Undecodable if nothing shows where such a key ends.
    """
    try:
        return state.key.layout(ctx.inner)
    except Undecodable as unknown:
        namespace = state.namespace.layout(ctx.inner)
        if namespace.size is None:
            raise
        if state.user_key is None:
            return Blob(ops.LENGTH_REST_BUT, namespace.size)
        user_key = state.user_key.layout(ctx)
        if user_key.size is not None:
            return Blob(ops.LENGTH_REST_BUT, namespace.size + user_key.size)
        return _key_before(namespace, user_key, unknown)


def timer_layout(state: KeyedState, ctx: LayoutContext, *, alone: bool) -> Layout:
    """Return the layout of a timer. ``alone``: nothing follows it, so that a key of unknown type has an end."""
    timer = state.value
    try:
        return timer.layout(ctx.inner)
    except Undecodable:
        if not alone or not isinstance(timer, Timer):
            raise
        namespace = timer.namespace.layout(ctx.inner).size
        if namespace is None:
            raise
        return Timer(KeyBytes(timer.key, namespace), timer.namespace).layout(ctx)


def _key_before(namespace: Layout, user_key: Layout, unknown: Undecodable) -> Layout:
    # Lazy: start-up.
    from stateproc.codec.decoder import ValueDecoder
    from stateproc.serializers.core.value_decoding import fits

    rest = StructLayout((("namespace", namespace), ("map_key", user_key)))
    decoder = ValueDecoder(rest)

    def read(cursor: Cursor) -> bytes:
        data = bytes(cursor.data[cursor.pos : cursor.end])
        if len(data) > _LONGEST:
            raise _without_end(cursor, unknown, f"an entry's key of {len(data)} bytes is too long to look for its end")
        lengths = [length for length in range(len(data) + 1) if fits(rest, decoder, data, length)]
        if len(lengths) != 1:
            found = "nowhere" if not lengths else f"at {len(lengths)} places"
            raise _without_end(cursor, unknown, f"the key of a map entry can end {found} before namespace and map key")
        return bytes(cursor.take(lengths[0], "a key"))

    return Hosted(read, pa.binary(), least=0)


def _without_end(cursor: Cursor, unknown: Undecodable, reason: str) -> SnapshotError:
    return UnsupportedSnapshot(f"{reason}: {unknown.message}", where=cursor.where(), advice=unknown.advice)
