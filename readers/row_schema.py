"""Rows as users see them: from decoded columns to batches, with lists and maps whole or flattened."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.arrow_arrays import offsets_of, values_array
from stateproc.codec.layouts import Counted, Layout, Marked, StructLayout, with_nulls
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.temporal import nulls
from stateproc.readers.entry_programs import LAST_ACCESS_TYPE, Columns, key_layout, last_access, split_ttl, timer_layout
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer, Undecodable
from stateproc.serializers.runtime.ttl import LAST_ACCESS, TtlSerializer

KEY_GROUP = "key_group"
RAW_KEY = "raw_key"


def state_fields(
    state: StateDescriptor, ctx: LayoutContext, flatten: bool, *, unknown: pa.DataType | None = None
) -> list[pa.Field]:
    """The columns of a state's rows.

    Args:
        ctx: Settings of layouts.
        flatten: Whether each list element or map entry is a row.
        unknown: The type of values, elements and user keys that cannot be decoded.

    Raises:
        Undecodable: The key or the namespace cannot be decoded; or a value, if ``unknown`` is None.
    """
    fields = [pa.field(KEY_GROUP, pa.int32(), nullable=False)]
    if state.kind.is_queue:
        timer = timer_layout(state, ctx, alone=True).arrow_type
        fields += [pa.field("timestamp", pa.int64()), pa.field("key", timer.field("key").type)]
        return fields + ([pa.field("namespace", timer.field("namespace").type)] if state.has_namespace else [])
    fields.append(pa.field("key", key_layout(state, ctx).arrow_type))
    if state.has_namespace:
        fields.append(pa.field("namespace", state.namespace.layout(ctx.inner).arrow_type))
    fields += _value_fields(state, ctx, flatten, unknown)
    return fields


def _value_fields(
    state: StateDescriptor, ctx: LayoutContext, flatten: bool, unknown: pa.DataType | None
) -> list[pa.Field]:
    collected = state.kind in (StateKind.LIST, StateKind.MAP)
    plain = _type(state.value, ctx if state.kind is not StateKind.LIST else ctx.inner, unknown)
    access: pa.DataType = LAST_ACCESS_TYPE
    user_key = None if state.user_key is None else _type(state.user_key, ctx, unknown)
    if collected and flatten:
        if state.kind is StateKind.LIST:
            fields = [pa.field("list_index", pa.int32()), pa.field("list_element", plain)]
        else:
            fields = [pa.field("map_key", user_key), pa.field("map_value", plain)]
    elif state.kind is StateKind.LIST:
        fields, access = [pa.field("value", pa.list_(plain))], pa.list_(access)
    elif state.kind is StateKind.MAP:
        fields, access = [pa.field("value", _map_type(user_key, plain))], _map_type(user_key, access)
    else:
        fields = [pa.field("value", plain)]
    if state.ttl:
        fields.append(pa.field(LAST_ACCESS, access))
    return fields


def _map_type(user_key: pa.DataType | None, item: pa.DataType) -> pa.DataType:
    """Return a map's type; of unknown keys the null type, which cannot be a map's key."""
    return pa.null() if user_key == pa.null() else pa.map_(user_key, item)


def _type(serializer: Serializer, ctx: LayoutContext, unknown: pa.DataType | None) -> pa.DataType:
    try:
        return serializer.layout(ctx).arrow_type
    except Undecodable:
        if unknown is None:
            raise
        return unknown


def finished_rows(state: StateDescriptor, columns: Columns, flatten: bool) -> Columns:
    """Decoded columns (one row per key) as the columns of :func:`state_fields`."""
    columns = dict(columns)
    if state.kind.is_queue:
        timer = columns.pop("timer")
        for name in ("timestamp", "key", "namespace"):
            columns[name] = timer.field(name)
    else:
        value = columns.pop("value")
        if flatten and state.kind in (StateKind.LIST, StateKind.MAP):
            return _exploded(state, columns, value)
        columns |= split_ttl(state, value)
    if not state.has_namespace:
        columns.pop("namespace", None)
    return columns


def _exploded(state: StateDescriptor, columns: Columns, value: pa.Array) -> Columns:
    """One row per element or entry."""
    offsets = offsets_of(value)
    lengths = np.diff(offsets)
    parents = values_array(np.repeat(np.arange(len(value)), lengths))
    out = {name: column.take(parents) for name, column in columns.items()}
    if not state.has_namespace:
        out.pop("namespace", None)
    split = split_ttl(state, value)
    if state.kind is StateKind.LIST:
        index = np.arange(int(lengths.sum())) - np.repeat(offsets[:-1] - offsets[0], lengths)
        out["list_index"] = values_array(index.astype(np.int32))
        out["list_element"] = split["value"].values
        if state.ttl:
            out[LAST_ACCESS] = split[LAST_ACCESS].values
    else:
        out["map_key"], out["map_value"] = split["value"].keys, split["value"].items
        if state.ttl:
            out[LAST_ACCESS] = split[LAST_ACCESS].items
    return out


def flat_entries(state: StateDescriptor, columns: Columns) -> Columns:
    """Decoded map entries (one row per entry) as flattened rows."""
    columns = dict(columns)
    value, columns["map_key"] = columns.pop("value"), columns.pop("user_key")
    if state.ttl:
        access = split_ttl_struct(value)
        columns["map_value"], columns[LAST_ACCESS] = access
    else:
        columns["map_value"] = value
    if not state.has_namespace:
        columns.pop("namespace", None)
    return columns


def split_ttl_struct(value: pa.StructArray) -> tuple[pa.Array, pa.Array]:
    """(user value, last access) of an array of TtlValues."""
    gone = nulls(value)
    return with_nulls(value.field(1), gone), last_access(with_nulls(value.field(0), gone))


def key_group_array(key_groups: npt.NDArray[np.int32]) -> pa.Array:
    return values_array(key_groups.astype(np.int32, copy=False))


def record_batch(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of the schema's columns, in its order."""
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


# Layouts that return values as the bytes in which they are serialized, without decoding them.


def element_layout(state: StateDescriptor, ctx: LayoutContext) -> Layout:
    """Return the layout of a value, a list's element or a map's user value, including its TTL timestamp."""
    return (TtlSerializer(state.value) if state.ttl else state.value).layout(ctx.inner)


def serialized_value(state: StateDescriptor, ctx: LayoutContext) -> Layout:
    """Return the layout of one value or timer as its bytes."""
    return SerializedValue(element_layout(state, ctx))


def serialized_items(state: StateDescriptor, ctx: LayoutContext) -> Layout:
    """Return the layout of a list as its ListSerializer writes it, or of timers: the bytes of each element."""
    return Counted(SerializedValue(element_layout(state, ctx)))


def serialized_pairs(state: StateDescriptor, ctx: LayoutContext) -> Layout:
    """Return the layout of a map as its MapSerializer writes it: each user key, and each value with its null mark."""
    assert state.user_key is not None
    value = SerializedValue(Marked(element_layout(state, ctx)))
    return Counted(StructLayout((("key", SerializedValue(state.user_key.layout(ctx.inner))), ("value", value))))
