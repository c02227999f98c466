"""Layouts of flink-scala-api: case classes that begin with the number of their fields, collections that may be null.

Case class: [i32 number of fields] fields. Null, from 2.x on: i32 −2³¹, zeros in place of fields of fixed length.
Collection that may be null: i32 number of items, items; null: i32 −2³¹.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.codec import arrow_arrays as arrays
from stateproc.codec import ops
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.builder import Assembler, Builder, Label
from stateproc.codec.encoding.sized_writers import SizedWriter, concatenate, constant_bytes, scatter
from stateproc.codec.layouts import Counted, Layout, MapLayout
from stateproc.codec.layouts.base import refuse_rows
from stateproc.codec.layouts.collections import emit_items, list_array
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.core.registry import (
    SnapshotReader,
    find_reader,
    read_versioned,
    read_without_version,
    snapshot,
    write_versioned,
)
from stateproc.wire import Cursor, Output

NULL = -(2**31)
_NULL_BYTES = NULL.to_bytes(4, "big", signed=True)


@dataclass(frozen=True)
class FieldCount(Layout):
    """The number of fields before those of a case class, always the same."""

    fields: int
    arrow_type = pa.int32()
    size = 4

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        b.op(ops.SWITCH, 4, 1, -1, self.fields, following := b.label())
        b.bind(following)
        return lambda decoded: pa.nulls(0, pa.int32())

    def skip(self, b: Builder) -> None:
        """Read the number also where it is not kept: one that differs shows that these are no such bytes."""
        self.emit(b, False)

    def measure(self, array: pa.Array) -> SizedWriter:
        return constant_bytes(self.fields.to_bytes(4, "big"))


@dataclass(frozen=True)
class CountedFields(Layout):
    """The number of fields, then the fields. ``padding``: the zeros after the mark of a null; None if none is null."""

    fields: Layout
    count: int
    padding: int | None = None

    @property
    def arrow_type(self) -> pa.DataType:
        return self.fields.arrow_type

    @property
    def size(self) -> int | None:
        inner = self.fields.size
        return None if inner is None or self.padding not in (None, inner) else 4 + inner

    @property
    def min_size(self) -> int:
        return 4 + (self.fields.min_size if self.padding is None else min(self.padding, self.fields.min_size))

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        if self.padding is None:
            FieldCount(self.count).skip(b)
            return self.fields.emit(b, nullable)
        first, body, null, end, fill = b.column_count, b.label(), b.label(), b.label(), b.pending_fill()
        b.op(ops.SWITCH, 4, 2, -1, self.count, body, NULL, null)
        b.bind(body)
        assemble = self.fields.emit(b, True)
        b.op(ops.JUMP, end)
        b.bind(null)
        b.op(ops.FILL, fill)
        b.set_fill(fill, first)
        if self.padding:
            b.op(ops.SKIP, self.padding)
        b.bind(end)
        return assemble

    @property
    def converts_nulls(self) -> bool:
        return self.fields.converts_nulls

    @property
    def encodes_null(self) -> bool:
        return self.padding is not None

    def measure(self, array: pa.Array) -> SizedWriter:
        def present(values: pa.Array) -> SizedWriter:
            return concatenate([constant_bytes(self.count.to_bytes(4, "big")), self.fields.measure(values)])

        return present(array) if self.padding is None else _with_null(array, present, self.padding)

    def to_python(self, value: Any) -> Any:
        return self.fields.to_python(value)


@dataclass(frozen=True)
class NullableCounted(Counted):
    """An i32 count and so many items; a count of −2³¹ is null. ``lead``: read after the count and not kept."""

    lead: Layout | None = None
    encodes_null = True

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        first, null, end, fill = b.column_count, b.label(), b.label(), b.pending_fill()
        counts = b.column(4, -1)
        items = self._emit_counted(b, counts, null)
        b.op(ops.JUMP, end)
        b.bind(null)
        b.op(ops.FILL, fill)
        b.set_fill(fill, first)
        b.bind(end)
        return lambda decoded: list_array(decoded, counts, items, self.arrow_type)

    def _emit_counted(self, b: Builder, counts: int, null: Label) -> Assembler:
        # Whatever the tag, it becomes the count of the loop.
        b.op(ops.SWITCH, 4, 1, following := b.label(), NULL, null)
        b.bind(following)
        if self.lead is not None:
            self.lead.skip(b)
        return emit_items(b, self.item, counts)

    def measure(self, array: pa.Array) -> SizedWriter:
        if self.lead is not None and self.lead.size != 0:
            return refuse_rows(array, "sorted collections whose ordering has bytes of its own are read only")
        return _with_null(array, super().measure)


@dataclass(frozen=True)
class NullableMap(MapLayout):
    """A map whose entries are those of a `NullableCounted`."""

    @property
    def encodes_null(self) -> bool:
        return self.entries.encodes_null

    def measure(self, array: pa.Array) -> SizedWriter:
        return _with_null(array, super().measure)


def _with_null(array: pa.Array, measure: Callable[[pa.Array], SizedWriter], padding: int = 0) -> SizedWriter:
    """Measure the rows that are not null; others are the mark of a null and zeros."""
    if not array.null_count:
        return measure(array)
    rows, null = arrays.split_nulls(array)
    marks = constant_bytes(_NULL_BYTES + bytes(padding))
    return scatter(len(array), [(rows, measure(array.take(values_array(rows)))), (null, marks)])


# Read and write the snapshots that flink-scala-api nests in others.
#
# Up to 1.2.x collections, maps and coproducts write a nested snapshot without its version: utf class name, then the
# payload of the class's version in that release. From 2.x on they are versioned snapshots as Flink's.

PACKAGE = "org.apache.flinkx.api.serializer."
UNVERSIONED = 1
"""The version of the snapshots of collections, maps and coproducts that nest others without their version."""

_SIMPLE = 3
# Current versions that are not 3: that of simple and composite snapshots, enums and Avro.
_CURRENT = {
    "CollectionSerializerSnapshot": UNVERSIONED,
    "MapSerializer$MapSerializerSnapshot": UNVERSIONED,
    "MappedSerializer$MappedSerializerSnapshot": UNVERSIONED,
    "CoproductSerializer$CoproductSerializerSnapshot": UNVERSIONED,
    "ScalaCaseObjectSerializer$ScalaCaseObjectSerializerSnapshot": 1,
}
_RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
_CURRENT_OF_FLINK = {
    f"{_RUNTIME}PojoSerializerSnapshot": 2,
    f"{_RUNTIME}kryo.KryoSerializerSnapshot": 2,
    **{
        f"{_RUNTIME}{prefix}{name}SerializerSnapshot": 2
        for name in ("Value", "CopyableValue", "Writable")
        for prefix in ("", f"{name}Serializer$")
    },
}


def flinkx_snapshot(name: str) -> Callable[[SnapshotReader], SnapshotReader]:
    """Register a reader of a snapshot class of flink-scala-api (decorator)."""
    return snapshot(PACKAGE + name)


def read_part(cursor: Cursor, *, versioned: bool) -> Serializer:
    """Read a nested snapshot, with its version or without. Raises UnknownSnapshotClass, CorruptSnapshot."""
    return read_versioned(cursor) if versioned else read_without_version(cursor, _current_version)


def _current_version(class_name: str) -> int:
    if class_name.startswith(PACKAGE):
        return _CURRENT.get(class_name.removeprefix(PACKAGE), _SIMPLE)
    return _CURRENT_OF_FLINK.get(class_name, _SIMPLE)


def write_part(serializer: Serializer, out: Output, release: Release, *, versioned: bool) -> None:
    """Write what `read_part` reads."""
    if versioned:
        write_versioned(serializer, out, release)
        return
    whole = Output()
    write_versioned(serializer, whole, release)
    cursor = Cursor(bytes(whole))
    out.utf(cursor.utf())
    cursor.i32()
    out.raw(bytes(cursor.take(cursor.remaining)))


def serializer_of_class(class_name: str) -> Serializer:
    """Return the serializer of a class without parameters, of which a snapshot contains the name alone."""
    simple = class_name.rsplit(".", 1)[-1]
    for name in (f"{class_name}${simple}Snapshot", f"{class_name}Snapshot"):
        reader = find_reader(name)
        if reader is None:
            continue
        cursor = Cursor(b"", file=f"<snapshot of {class_name}>")
        try:
            return reader(cursor, _current_version(name))
        except SnapshotError:
            break  # it has parameters, which the snapshot does not contain
    reason = UnsupportedSnapshot(
        f"the snapshot names the serializer {class_name!r} and contains none of its parameters",
        advice="read it as bytes (opaque='bytes') or as null (on_error='null')",
    )
    return Opaque(class_name, reason=reason)
