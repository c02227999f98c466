"""Rules of SQL's serializers: types are compared exactly, with nullability, length, precision (LogicalType.equals)."""

from __future__ import annotations

from stateproc.serializers.core.compatibility import (
    AS_IS,
    Comparison,
    Compatibility,
    answer_of,
    composite_answer,
    incompatible,
    readability,
    rule,
    unreadable,
)
from stateproc.serializers.java.collections import MapOf
from stateproc.serializers.kryo.serializer import HOLDERS
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import External, RowData, SqlCollection


@rule(RowData)
def _resolve_row(old: RowData, new: RowData, comparison: Comparison) -> Compatibility:
    """Only the names of the row's own fields may differ, not those of nested rows."""
    if len(old.types) != len(new.types):
        return incompatible(f"a row of {len(old.types)} fields → {len(new.types)} fields")
    found = AS_IS
    for index, (one, other) in enumerate(zip(old.types, new.types, strict=True)):
        if one != other:
            return incompatible(f"field {index}: {one.sql} → {other.sql}").below(old.names[index])
        if one.kind == "RAW" and index < min(len(old.fields), len(new.fields)):
            found &= answer_of(old.fields[index], new.fields[index], comparison.inner).below(old.names[index])
    return found


@rule(SqlCollection)
def _resolve_collection(old: SqlCollection, new: SqlCollection, comparison: Comparison) -> Compatibility:
    return AS_IS if old.type == new.type else incompatible(f"{old.type.sql} → {new.type.sql}")


@rule(External)
def _resolve_external(old: External, new: External, comparison: Comparison) -> Compatibility:
    """Values of views: only the serializer in it is compared, so that text may get longer, and NOT NULL go."""
    return answer_of(old.internal, new.internal, comparison)


@rule(MapOf)
def _resolve_map(old: MapOf, new: MapOf, comparison: Comparison) -> Compatibility:
    """A SortedMap is compared by its comparator alone, which has the types of its keys."""
    if old.kind == new.kind == "SortedMap" and None not in (old.order, new.order):
        if old.order != new.order:
            return incompatible("rows are sorted in another order")
        return answer_of(old.key, new.key, comparison)
    return composite_answer(old, new, comparison)


_SAME_OBJECTS = ("org.apache.flink.table.runtime.typeutils.", "org.apache.flink.api.common.typeutils.base.")
_CONFIG = b"org.apache.flink.api.common.ExecutionConfig"


@readability(RowData)
def _read_row(old: RowData, comparison: Comparison) -> Compatibility | None:
    holders = b"".join(old.written)
    for name, type_ in zip(old.names, old.types, strict=True):
        found = _read_raw(type_, comparison, holders)
        if found is not None:
            return found.below(name)
    return None


@readability(SqlCollection)
def _read_collection(old: SqlCollection, comparison: Comparison) -> Compatibility | None:
    return _read_raw(old.type, comparison, old.written)


def _read_raw(type_: LogicalType, comparison: Comparison, written: bytes) -> Compatibility | None:
    """A RAW type holds its serializer as a Java object: many of Flink 1 hold an ExecutionConfig, which Flink 2 has not.

    Kryo's does not, but may hold serializers that are registered as objects. Those of SQL, as of ARRAY_AGG and LAG, and
    those of Flink's basic types are the same objects in both releases.
    """
    if not comparison.changes_kryo:
        return None
    if type_.kind == "RAW" and not (type_.class_name or "").startswith("org.apache.flink."):
        serializer = type_.serializer.class_name if type_.serializer is not None else ""
        if serializer.endswith(".KryoSerializer"):
            return _unknown_object(type_, comparison) if HOLDERS[comparison.old_kryo] in written else None
        is_same = serializer.startswith(_SAME_OBJECTS) and _CONFIG not in written
        return _unknown_object(type_, comparison) if comparison.release.kryo == 5 and not is_same else None
    return next(
        (found for child in type_.children if (found := _read_raw(child, comparison, written)) is not None), None
    )


def _unknown_object(type_: LogicalType, comparison: Comparison) -> Compatibility:
    exception = "java.io.InvalidClassException: failed to read class descriptor"
    return unreadable(
        f"{type_.sql} holds its serializer as a Java object of the other major release",
        exception if comparison.release.kryo == 5 else "",
    )
