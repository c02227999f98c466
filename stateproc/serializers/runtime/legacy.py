"""Read and write types that Flink has removed: two-phase-commit sinks, FlinkKafkaProducer, Gelly's arrays.

Also byte arrays of PyFlink: pickled Python objects, which are never unpickled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import items_of, list_of, refuse_nulls
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding import list_encoding
from stateproc.codec.encoding.sized_writers import SizedWriter, concatenate, fixed
from stateproc.codec.layouts import (
    Blob,
    Converted,
    Counted,
    FlinkString,
    JavaUtf,
    Layout,
    Marked,
    Number,
    Numbers,
    StructLayout,
)
from stateproc.codec.layouts.collections import emit_items, measure_items
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import VARIABLE, LayoutContext, Serializer
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    composite_with,
    expect_version,
    simple_snapshot,
    snapshot,
    write_composite,
)
from stateproc.serializers.java.collections import PlainArray
from stateproc.serializers.java.scalars import Scalar, character, unit
from stateproc.wire import Cursor, Output

_I16, _I32, _I64 = Number(pa.int16()), Number(pa.int32()), Number(pa.int64())
_STREAMING = "org.apache.flink.streaming."
_SINK = "TwoPhaseCommitSinkFunction$StateSerializerSnapshot"
_SINKS = tuple(f"{_STREAMING}api.functions.sink.{package}{_SINK}" for package in ("", "legacy."))
_NULL_TRANSACTION = Release(1, 14)
_MISSING = 0  # the byte before an optional value


@dataclass(frozen=True)
class TwoPhaseCommitState(CompositeSerializer):
    """TwoPhaseCommitSinkFunction.StateSerializer: open transaction, those to commit, user's context."""

    transaction: Serializer
    context: Serializer
    pending_may_miss: bool
    snapshot_class: str = field(default=_SINKS[0], compare=False)
    type_pattern = "TwoPhaseCommitState<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        inner = ctx.inner
        holder = StructLayout((("transaction", self.transaction.layout(inner)), ("start", _I64)))
        return StructLayout(
            (
                ("pending", Marked(holder, _MISSING) if self.pending_may_miss else holder),
                ("pending_commits", Counted(holder)),
                ("context", Marked(self.context.layout(inner), _MISSING)),
            )
        )

    def write_snapshot(self, out: Output, release: Release) -> None:
        # Outer version 4 says whether there may be no open transaction, 3 means so, 2 means there is always one.
        outer_version = 4 if release >= _NULL_TRANSACTION else 3 if self.pending_may_miss else 2
        flag = (lambda outer: outer.boolean(self.pending_may_miss)) if outer_version == 4 else None
        write_composite(out, self.snapshot_class, outer_version, self.nested, release, flag)


def _read_two_phase(cursor: Cursor, version: int, *, class_name: str) -> Serializer:
    def read_flag(outer: Cursor, outer_version: int) -> bool:
        expect_version(outer, "StateSerializerSnapshot", outer_version, 1, 2, 3, 4)
        return outer.boolean() if outer_version >= 4 else outer_version == 3

    pending_may_miss, (transaction, context) = composite_with(cursor, version, 2, read_flag)
    return TwoPhaseCommitState(transaction, context, pending_may_miss, class_name)


for _class_name in _SINKS:
    snapshot(_class_name)(partial(_read_two_phase, class_name=_class_name))


class _CountedBytes(Counted):
    """An i32 count and an i32 size in bytes before the items: Gelly's StringValueArray."""

    min_size = 8

    def _emit_items(self, b: Builder, counts: int) -> Assembler:
        b.op(ops.READ_COUNT, ops.COUNT_I32)
        b.op(ops.ENTER, ops.ENTER_I32)
        items = emit_items(b, self.item, counts)
        b.op(ops.RANGE_END)
        b.op(ops.LEAVE)
        return items

    def measure(self, array: pa.Array) -> SizedWriter:
        offsets, items = measure_items(self.item, array)
        counts = list_encoding.counts_of(offsets, 2**31 - 1, "items").astype(np.int32)
        return concatenate([fixed(counts), list_encoding.sized(list_encoding.joined(offsets, items), len(array))])


def characters(lists: pa.ListArray) -> pa.ListArray:
    """Convert lists of UTF-16 units to lists of strings of one character."""
    buffers = lists.buffers()[:2]
    values = lists.values
    return pa.Array.from_buffers(pa.list_(pa.string()), len(lists), buffers, children=[character(values)])


def units(lists: pa.ListArray) -> pa.Array:
    """Convert lists of strings of one character to lists of UTF-16 units."""
    refuse_nulls(lists, "an array")
    offsets, items = items_of(lists)
    return list_of(offsets, unit(items))


CHARS = Converted(Numbers(pa.int16()), pa.list_(pa.string()), characters, inverse=units)
_TRANSACTION = StructLayout((("transactionalId", Marked(JavaUtf(), _MISSING)), ("producerId", _I64), ("epoch", _I16)))
_CONTEXT = Counted(JavaUtf())
_HINT = StructLayout((("nextFreeTransactionalId", _I64), ("lastParallelism", _I32)))


def _register(class_name: str, serializer: Scalar | PlainArray) -> None:
    simple_snapshot(replace(serializer, snapshot_class=class_name), class_name)


for _producer in ("FlinkKafkaProducer", "FlinkKafkaProducer011"):
    for _name, _layout, _size in (
        ("TransactionState", _TRANSACTION, VARIABLE),
        ("ContextState", _CONTEXT, VARIABLE),
        ("NextTransactionalIdHint", _HINT, 12),
    ):
        _register(
            f"{_STREAMING}connectors.kafka.{_producer}${_name}Serializer${_name}SerializerSnapshot",
            Scalar(_name, f"Kafka{_name}", _layout, _size),
        )

_GELLY: tuple[tuple[str, Layout], ...] = (
    ("Byte", Blob(ops.LENGTH_I32)),
    ("Short", Numbers(pa.int16())),
    ("Int", Numbers(pa.int32())),
    ("Long", Numbers(pa.int64())),
    ("Float", Numbers(pa.float32())),
    ("Double", Numbers(pa.float64())),
    ("Char", CHARS),
    ("String", _CountedBytes(FlinkString(bias=0))),
)
for _name, _items in _GELLY:
    _array = f"{_name}ValueArraySerializer"
    _register(
        f"org.apache.flink.graph.types.valuearray.{_array}${_array}Snapshot",
        PlainArray(f"{_name}Value", _items),
    )
_register(
    # An array of nulls is stored as their number.
    "org.apache.flink.graph.types.valuearray.NullValueArraySerializer$NullValueArraySerializerSnapshot",
    Scalar("NullValueArray", "NullValue[]", _I32, 4),
)
_register(
    "org.apache.flink.api.common.typeutils.base.array.CharPrimitiveArraySerializer$CharPrimitiveArraySerializerSnapshot",
    PlainArray("char", CHARS),
)
_register(
    _STREAMING + "api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot",
    Scalar("ByteArrayWrapper", "byte[]", Blob(ops.LENGTH_I32), VARIABLE),
)
