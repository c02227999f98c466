"""Compile programs that decode the entries of a state, in either of the forms in which backends store them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.builder import Assembler, Builder, DecodedColumns, Program
from stateproc.codec.errors import BadValue
from stateproc.codec.layouts import Blob, Delimited, Hosted, Layout, Marked, StructLayout, with_nulls
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.codec.temporal import ints, nulls
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer, Undecodable
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.runtime.streaming import Timer
from stateproc.serializers.runtime.ttl import LAST_ACCESS, TtlSerializer
from stateproc.wire import Cursor

# Read keys whose serializer is unknown as their bytes, where the rest of an entry shows where they end.
#
# A canonical or RocksDB entry is key, namespace, map key; a timer is i64 timestamp, key, namespace. If what follows the
# key has a fixed size, the key is the rest. Otherwise the key ends where namespace and map key fill the entry: if they
# do so after more than one prefix, nothing shows which is the key, and reading it is an error.

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


def key_layout(state: StateDescriptor, ctx: LayoutContext) -> Layout:
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


def timer_layout(state: StateDescriptor, ctx: LayoutContext, *, alone: bool) -> Layout:
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
    from stateproc.codec.machine import ValueDecoder
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


Columns = dict[str, pa.Array]
LAST_ACCESS_TYPE = pa.timestamp("us", "UTC")


class Form(enum.Enum):
    """COMPOSITE: two ranges, the composite key and the value (canonical, RocksDB).
    STREAM: namespace, key, value one after another (native heap)."""

    COMPOSITE = "composite"
    STREAM = "stream"


@dataclass(frozen=True)
class EntryProgram:
    """``program`` and how its columns become Arrow.

    ``columns``: name → assembler for key, namespace, user_key, value. ``marks``: the column of positions where the
    user key begins (-1: none), for grouping map entries.
    """

    program: Program
    columns: dict[str, Assembler]
    marks: int
    raw_keys: Assembler | None

    def assemble(self, taken: DecodedColumns) -> Columns:
        return {name: assembler(taken) for name, assembler in self.columns.items()}


def entry_program(
    state: StateDescriptor,
    form: Form,
    ctx: LayoutContext,
    *,
    raw_keys: bool = False,
    values: bool = True,
    user_keys: bool = True,
) -> EntryProgram:
    """Compile the state's entries. Raises Undecodable naming the state's part that is not.

    Without ``values``, those of composite entries are skipped, whatever their bytes: there is no column ``value``.
    So are user keys without ``user_keys``.
    """
    b = Builder()
    columns: dict[str, Assembler] = {}
    marks = -1
    raw: Assembler | None = None
    if state.kind.is_queue:
        columns["timer"] = timer_layout(state, ctx, alone=form is Form.COMPOSITE).emit(b, False)
        if form is Form.COMPOSITE:
            b.op(ops.SEGMENT, 1)
    elif form is Form.STREAM:
        if raw_keys:
            b.op(ops.PUSH_POS)
        namespace = state.namespace.layout(ctx.inner)
        if state.has_namespace:
            columns["namespace"] = namespace.emit(b, False)
        else:
            namespace.skip(b)
        columns["key"] = state.key.layout(ctx.inner).emit(b, False)
        if raw_keys:
            raw = _emit_span(b)
        columns["value"] = stream_value(state, ctx.inner).emit(b, False)
    else:
        if raw_keys:
            b.op(ops.PUSH_POS)
        marks, raw = emit_composite_key(b, state, ctx, columns, raw_keys, user_keys=user_keys)
        if not user_keys:
            b.op(ops.SKIP_REST)
        b.op(ops.SEGMENT, 1)
        if values:
            columns["value"] = composite_value(state, ctx).emit(b, False)
        else:
            Blob(ops.LENGTH_REST).skip(b)
    b.op(ops.ROW_END)
    return EntryProgram(b.build(), columns, marks, raw)


def skip_program(state: StateDescriptor, ctx: LayoutContext) -> Program:
    """A program that passes the state's entries in a native heap stream."""
    b = Builder()
    if state.kind.is_queue:
        state.value.layout(ctx.inner).skip(b)
    else:
        for layout in (state.namespace.layout(ctx.inner), state.key.layout(ctx.inner), stream_value(state, ctx.inner)):
            layout.skip(b)
    b.op(ops.ROW_END)
    return b.build()


def _emit_span(b: Builder) -> Assembler:
    lengths, data = blob_columns(b)
    b.op(ops.SPAN, lengths, data)
    return lambda taken: blob_array(taken, lengths, data, pa.binary())


def emit_composite_key(
    b: Builder,
    state: StateDescriptor,
    ctx: LayoutContext,
    columns: dict[str, Assembler],
    raw_keys: bool,
    *,
    user_keys: bool = True,
) -> tuple[int, Assembler | None]:
    """Key, namespace, user key, with their lengths where two variable parts follow one another.

    Without ``user_keys``, those of map entries are left to the caller.
    """
    ambiguous = state.key.length < 0 and state.namespace.length < 0
    parts: tuple[tuple[str, Serializer], ...] = (("key", state.key), ("namespace", state.namespace))
    for name, serializer in parts:
        if ambiguous:
            b.op(ops.PUSH_POS)
        layout = key_layout(state, ctx) if name == "key" else serializer.layout(ctx.inner)
        if name == "namespace" and not state.has_namespace:
            layout.skip(b)
        else:
            columns[name] = layout.emit(b, False)
        if ambiguous:
            b.op(ops.LENGTH_SUFFIX)
    raw = _emit_span(b) if raw_keys else None
    marks = -1
    if state.user_key is not None and user_keys:
        marks = b.column(8, 0)
        b.op(ops.MARK, marks)
        columns["user_key"] = state.user_key.layout(ctx).emit(b, False)
    return marks, raw


def composite_value(state: StateDescriptor, ctx: LayoutContext) -> Layout:
    """A value as canonical and RocksDB entries hold it."""
    element = TtlSerializer(state.value) if state.ttl else state.value
    if state.kind is StateKind.LIST:
        return Delimited(element.layout(ctx.inner))
    if state.kind is StateKind.MAP:
        # After the mark of a null there may be bytes: heap backends write the serializer's own null form.
        return Marked(element.layout(ctx), pad=-1)
    return element.layout(ctx)


def stream_value(state: StateDescriptor, ctx: LayoutContext) -> Layout:
    """A value as native heap snapshots hold it: a complete object of the state's value serializer."""
    element = TtlSerializer(state.value) if state.ttl else state.value
    if state.kind is StateKind.LIST:
        return ListOf("List", element).layout(ctx)
    if state.kind is StateKind.MAP and state.user_key is not None:
        return MapOf(state.user_key, element).layout(ctx)
    return element.layout(ctx)


# --- the columns users see -------------------------------------------------------------------------------------


def split_ttl(state: StateDescriptor, value: pa.Array) -> Columns:
    """``value`` and, for TTL states, ``last_access``: in lists and maps one for each element."""
    if not state.ttl:
        return {"value": value}
    if state.kind is StateKind.LIST:
        structs = value.values
        return {
            "value": _relist(value, structs.field(1)),
            LAST_ACCESS: _relist(value, last_access(structs.field(0))),
        }
    if pa.types.is_map(value.type):
        return {
            "value": _remap(value, value.items.field(1), value.items),
            LAST_ACCESS: _remap(value, last_access(value.items.field(0)), value.items),
        }
    return {"value": _masked(value, value.field(1)), LAST_ACCESS: last_access(_masked(value, value.field(0)))}


def last_access(millis: pa.Array) -> pa.Array:
    """Milliseconds since the epoch as timestamp[us, UTC]; impossible values are reported as damage."""
    values = ints(millis)
    limit = 2**63 // 1000
    if len(values) and (values.min() <= -limit or values.max() >= limit):
        raise BadValue("a last-access time is outside of 64-bit microseconds")
    return with_nulls(values_array(values * 1000).cast(LAST_ACCESS_TYPE), nulls(millis))


def _masked(struct: pa.StructArray, child: pa.Array) -> pa.Array:
    return with_nulls(child, nulls(struct))


def _relist(like: pa.ListArray, values: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.list_(values.type), len(like), like.buffers()[:2], children=[values])


def _remap(like: pa.MapArray, items: pa.Array, structs: pa.StructArray) -> pa.Array:
    values = _masked(structs, items)
    fields = [pa.field("key", like.keys.type, nullable=False), pa.field("value", values.type)]
    pairs = pa.Array.from_buffers(pa.struct(fields), len(values), [None], children=[like.keys, values])
    return pa.Array.from_buffers(pa.map_(like.keys.type, values.type), len(like), like.buffers()[:2], children=[pairs])


# Read values of unknown types as their bytes, where entries have their length.


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


def with_opaque_values(state: StateDescriptor, ctx: LayoutContext) -> StateDescriptor:
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
