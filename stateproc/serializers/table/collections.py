"""Read and write lists and maps of SQL operators, views of aggregate functions and sink state.

Source: org.apache.flink.table.runtime.typeutils, org.apache.flink.table.dataview.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from stateproc.codec.layouts import AlwaysNull, Converted, Layout, Number, StructLayout
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer, fixed_sum
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    composite,
    expect_version,
    read_nested,
    read_versioned,
    simple_snapshot,
    snapshot,
    write_composite,
)
from stateproc.serializers.java.collections import LIST_VIEW, MAP_VIEW, SORTED_MAP, ListOf, MapOf, NullAwareMap
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.runtime.streaming import unflip
from stateproc.serializers.table.serializers import ROW_KEY, RowData
from stateproc.wire import Cursor, Output
from stateproc.wire.java_stream import JavaArray, JavaObject, JavaValue, read_java_object

_TABLE = "org.apache.flink.table."
_I64 = Number(pa.int64())


@snapshot(SORTED_MAP)
def _read_sorted_map(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "SortedMapSerializerSnapshot", version, 3)
    at = cursor.pos
    order = _order(read_java_object(cursor))  # the comparator: the entries are written in its order
    comparator = bytes(cursor.data[at : cursor.pos])
    at = cursor.pos
    nested = read_nested(cursor)
    if len(nested) != 2:
        cursor.corrupt(f"a map of {len(nested)} serializers", at=at)
    return MapOf(nested[0], nested[1], "SortedMap", comparator, order)


def _order(comparator: JavaValue) -> tuple[tuple[bool, bool], ...] | None:
    """Return the order of ComparableRecordComparator; None for another one."""
    if not isinstance(comparator, JavaObject):
        return None
    found = [comparator.fields.get(name) for name in ("compareOrders", "nullsIsLast")]
    ascends, last = (one.values if isinstance(one, JavaArray) else [] for one in found)
    return tuple((bool(one), bool(other)) for one, other in zip(ascends, last, strict=False)) or None


@snapshot(LIST_VIEW)
def _read_list_view(cursor: Cursor, version: int) -> Serializer:
    (inner,) = composite(cursor, version, 1)
    return replace(inner, in_view=True) if isinstance(inner, ListOf) else _not_a("list", cursor)


@snapshot(MAP_VIEW)
def _read_map_view(cursor: Cursor, version: int) -> Serializer:
    (inner,) = composite(cursor, version, 1)
    return replace(inner, in_view=True) if isinstance(inner, (MapOf, NullAwareMap)) else _not_a("map", cursor)


def _not_a(what: str, cursor: Cursor) -> Serializer:
    cursor.unsupported(
        f"a {what} view whose {what} has a serializer of its own kind",
        advice="please report this snapshot: no Flink release is known to write it",
    )


def _longs(*names: str) -> Layout:
    return StructLayout(tuple((name, _I64) for name in names))


_NULL = "dataview.NullSerializer$NullSerializerSnapshot"
NULL_VALUE = Scalar("Null", "NULL", AlwaysNull(1), 1, snapshot_class=_TABLE + _NULL)
"""What an accumulator has in place of a view, whose values are in states of their own."""
SORTED_LONG = Scalar("SortedLong", "BIGINT", Converted(_I64, pa.int64(), unflip, inverse=unflip), 8)
"""A BIGINT that is sorted as its bytes are, in the keys of maps."""
# Snapshot class below org.apache.flink.table., and what its values are.
_PLAIN: tuple[tuple[str, Scalar], ...] = (
    (_NULL, NULL_VALUE),
    (
        "runtime.typeutils.SortedLongSerializer$SortedLongSerializerSnapshot",
        SORTED_LONG,
    ),
    (
        "runtime.operators.sink.SortedLongSerializer$SortedLongSerializerSnapshot",
        SORTED_LONG,
    ),
    (
        "runtime.operators.window.CountWindow$Serializer$CountWindowSerializerSnapshot",
        Scalar("CountWindow", "CountWindow", _longs("id"), 8),
    ),
)


for _class_name, _serializer in _PLAIN:
    simple_snapshot(replace(_serializer, snapshot_class=_TABLE + _class_name), _TABLE + _class_name)


@dataclass(frozen=True)
class Named(CompositeSerializer):
    """A composite of values written in order; only its class knows their names."""

    type: str
    names: tuple[str, ...]
    parts: tuple[Serializer, ...]

    def layout(self, ctx: LayoutContext) -> Layout:
        inner = ctx.inner
        return StructLayout(
            tuple((name, part.layout(inner)) for name, part in zip(self.names, self.parts, strict=True))
        )

    @property
    def length(self) -> int:
        return fixed_sum(self.parts)

    @property
    def type_name(self) -> str:
        return self.type

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, f"{_LINKED}{self.type}Serializer${self.type}SerializerSnapshot", 0, self.parts, release)


@snapshot(ROW_KEY)
def _read_row_key(cursor: Cursor, version: int) -> Serializer:
    # Two generated functions as framed Java objects, which only hash and compare; then the row's serializer.
    expect_version(cursor, "RowDataKeySerializerSnapshot", version, 0)
    at = cursor.pos
    for _ in range(2):
        cursor.bytes32()
    functions = bytes(cursor.data[at : cursor.pos])
    row = read_versioned(cursor)
    return replace(row, key_functions=functions) if isinstance(row, RowData) else row


_LINKED = _TABLE + "runtime.sequencedmultisetstate.linked."
_NODE = ("row", "sqn", "prevSqn", "nextSqn", "nextSqnForRecord", "timestamp")
# SinkUpsertMaterializer's linked list of rows (2.2+).
for _type, _names in (
    ("MetaSqnInfo", ("highSqn", "size")),
    ("RowSqnInfo", ("firstSqn", "lastSqn")),
    ("Node", _NODE),
):

    def _read_named(cursor: Cursor, version: int, *, type_: str = _type, names: tuple[str, ...] = _names) -> Serializer:
        return Named(type_, names, composite(cursor, version, len(names)))

    snapshot(f"{_LINKED}{_type}Serializer${_type}SerializerSnapshot")(_read_named)
