"""Describe a type of Flink as a tree, with the Arrow and Spark types of each part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.errors import SnapshotError
from stateproc.row_formats.column_types import spark_type
from stateproc.serializers import PROXY_VERSION, LayoutContext, Serializer
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.core.registry import ObservedSnapshot, read_observed
from stateproc.serializers.java.structs import RowOf, TupleOf
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData, SqlCollection
from stateproc.states.type_changes import serializer_changes, type_changes
from stateproc.wire import Cursor


@dataclass(frozen=True)
class DescribedType:
    """One part of a type.

    Attributes:
        name: The name of the field, or the role of the part: key, value, element.
        type: The type as users know it.
        java_class: The class of the values, where the snapshot names it.
        serializer: The class of the serializer's snapshot; None for parts of SQL types, which have none of their own.
        version: The version of that snapshot.
        arrow: The Arrow type; None if values cannot be decoded.
        spark: Spark's type.
        changes: What the conversion loses or changes.
        problem: Why values cannot be decoded; None if they can.
        fields: The parts of this type.
    """

    name: str
    type: str
    java_class: str | None = None
    serializer: str | None = None
    version: int | None = None
    arrow: str | None = None
    spark: str | None = None
    changes: tuple[str, ...] = ()
    problem: str | None = None
    fields: tuple[DescribedType, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the node and its parts as plain values."""
        shown = {name: getattr(self, name) for name in _PLAIN}
        return {**shown, "changes": list(self.changes), "fields": [field.to_dict() for field in self.fields]}


_PLAIN = ("name", "type", "java_class", "serializer", "version", "arrow", "spark", "problem")
SnapshotClasses = Mapping[int, ObservedSnapshot]
"""The id of a serializer object → the snapshot that it was read from."""


def observed_snapshot(data: bytes) -> tuple[Serializer, SnapshotClasses] | None:
    """Read a serializer's snapshot with its proxy version again, with the classes of all nested snapshots.

    Returns:
        The serializer, and the snapshots by the ids of nested serializers; None if it cannot be read by itself.
    """
    cursor = Cursor(data)
    try:
        if cursor.i32() != PROXY_VERSION:
            return None
        serializer, observed = read_observed(cursor)
    except SnapshotError:
        return None
    return serializer, {id(item.serializer): item for item in observed}


def type_node(name: str, serializer: Serializer, context: LayoutContext, classes: SnapshotClasses) -> DescribedType:
    """Describe a serializer.

    Args:
        name: The name or role of the part.
        serializer: The serializer.
        context: How its values are decoded.
        classes: Where serializers were read from.
    """
    arrow, problem = _arrow_type(serializer, context)
    snapshot = classes.get(id(serializer))
    class_name = snapshot.class_name if snapshot else None
    java_class = getattr(serializer, "class_name", None)
    if isinstance(serializer, Opaque):
        class_name, java_class = serializer.class_name, None
    changes: list[str] = []
    if arrow is not None:
        changes += type_changes(serializer.type_name, arrow, context.temporal)
        changes += serializer_changes(serializer, arrow, context.row_kind)
    return DescribedType(
        name=name,
        type=serializer.type_name,
        java_class=java_class if isinstance(java_class, str) else None,
        serializer=class_name,
        version=snapshot.version if snapshot else None,
        arrow=None if arrow is None else str(arrow),
        spark=None if arrow is None else spark_type(arrow),
        changes=tuple(changes),
        problem=problem,
        fields=tuple(_fields(serializer, arrow, context.inner, classes)),
    )


def _arrow_type(serializer: Serializer, context: LayoutContext) -> tuple[pa.DataType | None, str | None]:
    try:
        return serializer.layout(context).arrow_type, None
    except SnapshotError as error:
        return None, error.message


def _fields(
    serializer: Serializer, arrow: pa.DataType | None, context: LayoutContext, classes: SnapshotClasses
) -> Iterator[DescribedType]:
    if isinstance(serializer, RowData):
        row = LogicalType("ROW", children=serializer.types, names=serializer.names)
        parts = [type_node("", field, context, classes) for field in serializer.fields]
        yield from _sql_fields(row, arrow, context, parts)
    elif isinstance(serializer, SqlCollection):
        yield from _sql_fields(serializer.type, arrow, context)
    else:
        for name, nested in zip(_names(serializer, arrow), serializer.nested, strict=False):
            yield type_node(name, nested, context, classes)


def _names(serializer: Serializer, arrow: pa.DataType | None) -> Sequence[str]:
    """Return names of the nested serializers."""
    count = len(serializer.nested)
    fields = getattr(serializer, "fields", ())
    if fields and all(isinstance(field, tuple) for field in fields):
        return [str(name) for name, *_ in fields]
    if isinstance(serializer, (TupleOf, RowOf)):
        return getattr(serializer, "names", ()) or [f"f{place}" for place in range(count)]
    return _names_of_parts(arrow, count)


def _names_of_parts(arrow: pa.DataType | None, count: int) -> Sequence[str]:
    if arrow is not None:
        if pa.types.is_struct(arrow) and arrow.num_fields == count:
            return [field.name for field in arrow]
        if pa.types.is_list(arrow) and count == 1:
            return ["element"]
        if pa.types.is_map(arrow) and count == 2:
            return ["key", "value"]
    return ["value"] if count == 1 else [f"{place}" for place in range(count)]


def _sql_fields(
    type_: LogicalType, arrow: pa.DataType | None, context: LayoutContext, serializers: Sequence[DescribedType] = ()
) -> Iterator[DescribedType]:
    """Describe the parts of a SQL type.

    Args:
        type_: The type.
        arrow: The Arrow type of its values.
        context: How values are decoded.
        serializers: Descriptions of the serializers of the parts; parts of parts have none in the snapshot.
    """
    types = _part_types(arrow)
    names = type_.names or _names_of_parts(arrow, len(type_.children))
    if type_.kind == "ROW" and not type_.names:
        names = [f"f{place}" for place in range(len(type_.children))]
    for place, child in enumerate(type_.children):
        part = types[place] if place < len(types) else None
        known = serializers[place] if place < len(serializers) else None
        yield DescribedType(
            name=names[place] if place < len(names) else str(place),
            type=child.sql,
            java_class=child.class_name,
            serializer=known.serializer if known else None,
            version=known.version if known else None,
            arrow=None if part is None else str(part),
            spark=None if part is None else spark_type(part),
            changes=() if part is None else tuple(type_changes(child.sql, part, context.temporal)),
            fields=tuple(_sql_fields(child, part, context)),
        )


def _part_types(arrow: pa.DataType | None) -> list[pa.DataType]:
    if arrow is None:
        return []
    if pa.types.is_struct(arrow):
        return [field.type for field in arrow]
    if pa.types.is_map(arrow):
        return [arrow.key_type, arrow.item_type]
    return [arrow.value_type] if pa.types.is_list(arrow) else []
