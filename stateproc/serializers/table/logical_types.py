"""Read SQL types from snapshots: Java object streams of org.apache.flink.table.types.logical.*Type."""

from __future__ import annotations

from dataclasses import dataclass, field

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.wire import Cursor
from stateproc.wire.java_collections import java_list
from stateproc.wire.java_stream import read_java_object
from stateproc.wire.java_values import JavaEnum, JavaObject, JavaValue

PACKAGE = "org.apache.flink.table.types.logical."
MAX_DEPTH = 64
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


@dataclass(frozen=True)
class LogicalType:
    """A SQL type. ``kind``: the constant of LogicalTypeRoot; ``names``: of ROW and STRUCTURED_TYPE fields.

    ``class_name``: the Java class of a STRUCTURED_TYPE or RAW value, if known; ``serializer``: the class of
    the serializer of RAW values. ``attribute``: the TimestampKind of times, ROWTIME or PROCTIME of time attributes.
    """

    kind: str
    nullable: bool = True
    precision: int = 0
    scale: int = 0
    length: int = 0
    children: tuple[LogicalType, ...] = ()
    names: tuple[str, ...] = ()
    class_name: str | None = None
    serializer: str | None = None
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


def logical_type(value: JavaValue, depth: int = 0) -> LogicalType:
    """Convert a Java object of a logical type class to the type."""
    if depth > MAX_DEPTH:
        raise CorruptSnapshot(f"a SQL type nested over {MAX_DEPTH} levels deep")
    if not isinstance(value, JavaObject):
        raise CorruptSnapshot("a Java object that is no SQL type where one belongs")
    root = value.fields.get("typeRoot")
    if not isinstance(root, JavaEnum):
        return _legacy_type(value)
    kind = root.constant
    names, children = _fields_of(value, kind, depth)
    children = children or tuple(logical_type(value.fields.get(name), depth + 1) for name in _CHILDREN.get(kind, ()))
    serializer, attribute = value.fields.get("serializer"), value.fields.get("kind")
    return LogicalType(
        kind,
        nullable=value.fields.get("isNullable") is not False,
        precision=_number(value, "precision"),
        scale=_number(value, "scale"),
        length=_number(value, "length"),
        children=children,
        names=names,
        class_name=_class_name(value),
        serializer=serializer.class_name if isinstance(serializer, JavaObject) else None,
        attribute=attribute.constant if isinstance(attribute, JavaEnum) else None,
    )


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


def _fields_of(value: JavaObject, kind: str, depth: int) -> tuple[tuple[str, ...], tuple[LogicalType, ...]]:
    """Return names and types of RowField or StructuredAttribute objects; a supertype's come first."""
    if kind not in _FIELD_LISTS:
        return (), ()
    names: list[str] = []
    types: list[LogicalType] = []
    above = value.fields.get("superType")
    if isinstance(above, JavaObject):
        inherited = logical_type(above, depth + 1)
        names += inherited.names
        types += inherited.children
    for entry in java_list(value.fields.get(_FIELD_LISTS[kind])) or ():
        name = entry.fields.get("name") if isinstance(entry, JavaObject) else None
        if not isinstance(name, str):
            raise CorruptSnapshot(f"a field without a name in a SQL type {kind}")
        names.append(name)
        types.append(logical_type(entry.fields.get("type"), depth + 1))
    return tuple(names), tuple(types)
