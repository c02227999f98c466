"""Compile programs that decode the entries of a state, in either of the forms in which backends store them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.builder import Assembler, Builder, DecodedColumns, Program
from stateproc.codec.errors import BadValue
from stateproc.codec.layouts import Blob, Delimited, Layout, Marked, with_nulls
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.codec.temporal import ints, nulls
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.readers.common.unknown_keys import key_layout, timer_layout
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.runtime.ttl import LAST_ACCESS, TtlSerializer

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
    state: KeyedState, form: Form, ctx: LayoutContext, *, raw_keys: bool = False, values: bool = True
) -> EntryProgram:
    """Compile the state's entries. Raises Undecodable naming the state's part that is not.

    Without ``values``, those of composite entries are skipped, whatever their bytes: there is no column ``value``.
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
        marks, raw = emit_composite_key(b, state, ctx, columns, raw_keys)
        b.op(ops.SEGMENT, 1)
        if values:
            columns["value"] = composite_value(state, ctx).emit(b, False)
        else:
            Blob(ops.LENGTH_REST).skip(b)
    b.op(ops.ROW_END)
    return EntryProgram(b.build(), columns, marks, raw)


def skip_program(state: KeyedState, ctx: LayoutContext) -> Program:
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
    state: KeyedState,
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


def composite_value(state: KeyedState, ctx: LayoutContext) -> Layout:
    """A value as canonical and RocksDB entries hold it."""
    element = TtlSerializer(state.value) if state.ttl else state.value
    if state.kind is StateKind.LIST:
        return Delimited(element.layout(ctx.inner))
    if state.kind is StateKind.MAP:
        # After the mark of a null there may be bytes: heap backends write the serializer's own null form.
        return Marked(element.layout(ctx), pad=-1)
    return element.layout(ctx)


def stream_value(state: KeyedState, ctx: LayoutContext) -> Layout:
    """A value as native heap snapshots hold it: a complete object of the state's value serializer."""
    element = TtlSerializer(state.value) if state.ttl else state.value
    if state.kind is StateKind.LIST:
        return ListOf("List", element).layout(ctx)
    if state.kind is StateKind.MAP and state.user_key is not None:
        return MapOf(state.user_key, element).layout(ctx)
    return element.layout(ctx)


# --- the columns users see -------------------------------------------------------------------------------------


def split_ttl(state: KeyedState, value: pa.Array) -> Columns:
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
