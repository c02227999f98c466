"""Read SQL types from snapshots: Java object streams of org.apache.flink.table.types.logical.*Type."""

from __future__ import annotations

from dataclasses import dataclass, field

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.wire import Cursor
from stateproc.wire.java_plain import java_list
from stateproc.wire.java_stream import JavaArray, JavaEnum, JavaObject, JavaValue, read_java_object

PACKAGE = "org.apache.flink.table.types.logical."
MAX_DEPTH = 64
_TYPEUTILS = "org.apache.flink.table.runtime.typeutils."
_LONGEST = 2**31 - 1

# How each LogicalTypeRoot is written in SQL; {n} the length, {p} the precision, {s} the scale.
_SQL: dict[str, str] = {
    "CHAR": "CHAR({n})",
    "VARCHAR": "VARCHAR({n})",
    "BINARY": "BINARY({n})",
    "VARBINARY": "VARBINARY({n})",
    "INTEGER": "INT",
    "DECIMAL": "DECIMAL({p}, {s})",
    "TIME_WITHOUT_TIME_ZONE": "TIME({p})",
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP({p})",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_LTZ({p})",
    "TIMESTAMP_WITH_TIME_ZONE": "TIMESTAMP({p}) WITH TIME ZONE",
    "INTERVAL_YEAR_MONTH": "INTERVAL YEAR TO MONTH",
    "INTERVAL_DAY_TIME": "INTERVAL DAY TO SECOND",
}
_UNBOUNDED = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}
# The fields of a type's class that hold its children.
_CHILDREN: dict[str, tuple[str, ...]] = {
    "ARRAY": ("elementType",),
    "MULTISET": ("elementType",),
    "MAP": ("keyType", "valueType"),
    "DISTINCT_TYPE": ("sourceType",),
}
_FIELD_LISTS = {"ROW": "fields", "STRUCTURED_TYPE": "attributes"}
# The fields of SQL serializers that decide how values are written: numbers, the serializer in it, SQL types.
_NUMBERS: dict[str, tuple[str, ...]] = {
    "LinkedListSerializer": ("hasNullMask",),
    "DecimalDataSerializer": ("precision", "scale"),
    "TimestampDataSerializer": ("precision",),
}
_INNER = {
    "LinkedListSerializer": "elementSerializer",
    "RawValueDataSerializer": "serializer",
    "ExternalSerializer": "internalSerializer",
}
_TYPES: dict[str, tuple[str, ...]] = {
    "ArrayDataSerializer": ("eleType",),
    "MapDataSerializer": ("keyType", "valueType"),
}


@dataclass(frozen=True)
class RawSerializer:
    """The serializer that a RAW type contains as a Java object, such as LinkedListSerializer.

    Only those of SQL (``kind``: the class without its package) have more than their class: ``numbers``, the SQL
    ``types`` of what they write, the serializer in them. All are empty where a release has other fields. ``element``:
    the SQL type of a LinkedList's elements, where the type is made and not read.
    """

    class_name: str
    kind: str | None = None
    numbers: tuple[int, ...] = ()
    types: tuple[LogicalType, ...] = ()
    inner: RawSerializer | None = None
    element: LogicalType | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LogicalType:
    """A SQL type. ``kind``: the constant of LogicalTypeRoot; ``names``: of ROW and STRUCTURED_TYPE fields.

    ``class_name``: the Java class of a STRUCTURED_TYPE or RAW value, if known; ``serializer``: of RAW values, if
    the type contains it. ``attribute``: the TimestampKind of times, ROWTIME or PROCTIME of time attributes.
    """

    kind: str
    nullable: bool = True
    precision: int = 0
    scale: int = 0
    length: int = 0
    children: tuple[LogicalType, ...] = ()
    names: tuple[str, ...] = ()
    class_name: str | None = None
    serializer: RawSerializer | None = None
    attribute: str | None = field(default=None, compare=False)

    @property
    def sql(self) -> str:
        """The type in SQL, as Flink's asSummaryString writes it but without quotes."""
        return self._text if self.nullable else f"{self._text} NOT NULL"

    @property
    def _text(self) -> str:
        if self.kind == "DISTINCT_TYPE":
            return self.children[0]._text
        if self.kind in _FIELD_LISTS:
            parts = [f"{name} {child.sql}" for name, child in zip(self.names, self.children, strict=True)]
            return f"{'ROW' if self.kind == 'ROW' else 'STRUCTURED'}<{', '.join(parts)}>"
        if self.children:
            return f"{self.kind}<{', '.join(child.sql for child in self.children)}>"
        if self.kind == "RAW":
            return f"RAW({self.class_name or '?'})"
        if self.length == _LONGEST and self.kind in _UNBOUNDED:
            return _UNBOUNDED[self.kind]
        pattern = _SQL.get(self.kind, self.kind)
        return pattern.format(n=self.length, p=self.precision, s=self.scale)


def read_logical_type(cursor: Cursor) -> LogicalType:
    """Read one LogicalType from a Java object stream. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    value = read_java_object(cursor)
    try:
        return logical_type(value)
    except (CorruptSnapshot, UnsupportedSnapshot) as error:
        raise error.at(file=cursor.file, offset=cursor.base + at) from error


def logical_type(value: JavaValue, depth: int = 0, in_raw: bool = False) -> LogicalType:
    """Convert a Java object of a logical type class to the type.

    Args:
        depth: How many types are around it.
        in_raw: Whether a RAW type is around it: the serializers of RAW types in RAW types are known by class only.
    """
    if depth > MAX_DEPTH:
        raise CorruptSnapshot(f"a SQL type nested over {MAX_DEPTH} levels deep")
    if not isinstance(value, JavaObject):
        raise CorruptSnapshot("a Java object that is no SQL type where one belongs")
    root = value.fields.get("typeRoot")
    if not isinstance(root, JavaEnum):
        return _legacy_type(value)
    kind = root.constant
    names, children = _fields_of(value, kind, depth, in_raw)
    children = children or tuple(
        logical_type(value.fields.get(name), depth + 1, in_raw) for name in _CHILDREN.get(kind, ())
    )
    attribute = value.fields.get("kind")
    return LogicalType(
        kind,
        nullable=value.fields.get("isNullable") is not False,
        precision=_number(value, "precision"),
        scale=_number(value, "scale"),
        length=_number(value, "length"),
        children=children,
        names=names,
        class_name=_class_name(value),
        serializer=_raw_serializer(value.fields.get("serializer"), depth, in_raw),
        attribute=attribute.constant if isinstance(attribute, JavaEnum) else None,
    )


def _raw_serializer(value: JavaValue, depth: int, in_raw: bool) -> RawSerializer | None:
    if not isinstance(value, JavaObject):
        return None
    name = value.class_name
    if in_raw or not name.startswith(_TYPEUTILS):
        return RawSerializer(name)
    try:
        return _sql_serializer(value, depth)
    except (CorruptSnapshot, UnsupportedSnapshot):
        return RawSerializer(name)  # of other fields or types than are known: values stay bytes


def _sql_serializer(value: JavaValue, depth: int) -> RawSerializer:
    """Convert a serializer with those in it. Raises CorruptSnapshot, UnsupportedSnapshot."""
    if depth > MAX_DEPTH:
        raise CorruptSnapshot(f"a serializer nested over {MAX_DEPTH} levels deep")
    if not isinstance(value, JavaObject):
        raise CorruptSnapshot("a Java object that is no serializer where one belongs")
    if not value.class_name.startswith(_TYPEUTILS):
        return RawSerializer(value.class_name)
    kind = value.class_name.removeprefix(_TYPEUTILS)
    names = _NUMBERS.get(kind, ())
    numbers = tuple(number for name in names if isinstance(number := value.fields.get(name), int))
    if len(numbers) < len(names):
        raise UnsupportedSnapshot(f"a {kind} without {', '.join(names)}")
    return RawSerializer(
        value.class_name,
        kind,
        numbers,
        tuple(logical_type(type_, depth + 1, in_raw=True) for type_ in _types_in(value, kind)),
        _sql_serializer(value.fields.get(_INNER[kind]), depth + 1) if kind in _INNER else None,
    )


def _types_in(serializer: JavaObject, kind: str) -> list[JavaValue]:
    """Return the SQL types that a serializer has as Java objects."""
    fields = serializer.fields
    if kind == "RowDataSerializer":
        types = fields.get("types")
        return list(types.values) if isinstance(types, JavaArray) else [None]
    if kind == "ExternalSerializer":
        data_type = fields.get("dataType")
        return [data_type.fields.get("logicalType") if isinstance(data_type, JavaObject) else None]
    return [fields.get(name) for name in _TYPES.get(kind, ())]


def _legacy_type(value: JavaObject) -> LogicalType:
    raise UnsupportedSnapshot(
        f"a Java object of class {value.class_name} where a SQL type belongs",
        advice="types that users define in Java cannot be read from bytes alone",
    )


def _number(value: JavaObject, name: str) -> int:
    found = value.fields.get(name, 0)
    return found if isinstance(found, int) else 0


def _class_name(value: JavaObject) -> str | None:
    for name in ("implementationClass", "className", "clazz", "originatingClass"):
        found = value.fields.get(name)
        if isinstance(found, str):
            return found
        text = getattr(found, "class_name", None)
        if isinstance(text, str):
            return text
    return None


def _fields_of(
    value: JavaObject, kind: str, depth: int, in_raw: bool
) -> tuple[tuple[str, ...], tuple[LogicalType, ...]]:
    """Return names and types of RowField or StructuredAttribute objects; a supertype's come first."""
    if kind not in _FIELD_LISTS:
        return (), ()
    names: list[str] = []
    types: list[LogicalType] = []
    above = value.fields.get("superType")
    if isinstance(above, JavaObject):
        inherited = logical_type(above, depth + 1, in_raw)
        names += inherited.names
        types += inherited.children
    for entry in java_list(value.fields.get(_FIELD_LISTS[kind])) or ():
        name = entry.fields.get("name") if isinstance(entry, JavaObject) else None
        if not isinstance(name, str):
            raise CorruptSnapshot(f"a field without a name in a SQL type {kind}")
        names.append(name)
        types.append(logical_type(entry.fields.get("type"), depth + 1, in_raw))
    return tuple(names), tuple(types)
