"""Describe a state: its types in Flink, Arrow and Spark, and how it is stored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from stateproc.errors import SnapshotError
from stateproc.metadata.backend import KeyedHeader, StateMetaInfo
from stateproc.readers.state_descriptor import StateDescriptor, StateKind, keyed_state
from stateproc.readers.state_names import OperatorNames
from stateproc.row_formats.column_types import spark_type
from stateproc.serializers import PROXY_VERSION, LayoutContext, Serializer
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.core.registry import ObservedSnapshot, read_observed
from stateproc.serializers.java.structs import EnumOf, RowOf, TupleOf
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData, SqlCollection
from stateproc.wire import Cursor

# Say what a conversion from Flink's types to Arrow's loses or changes.

_NANOS = frozenset({"LocalTime", "LocalDateTime", "Instant", "java.sql.Timestamp"})
_MILLIS = frozenset({"java.util.Date", "java.sql.Date", "java.sql.Time", "LocalDate", "DATE"})
_SQL_TIME = re.compile(r"(?:TIME|TIMESTAMP|TIMESTAMP_LTZ|TIMESTAMP_TZ)\((\d)\)")
_SQL_TEXT = re.compile(r"(?:VAR)?CHAR\(\d+\)|STRING")
_MICROS_DIGITS = 6
_EXACT = "ISO-8601 text with all digits"
_BY_NAME = {
    "BigInteger": "text with all digits",
    "BigDecimal": "text with all digits",
    "Character": "text of one character",
    "CharValue": "text of one character",
    "Void": "always null",
    "NullValue": "carries no information",
    "Tuple0": "carries no information",
}
_COLLECTIONS = frozenset(f"java.util.{name}" for name in ("Collection", "List", "Set", "Map", "SortedMap", "SortedSet"))
_BYTES = "the bytes as they are stored: describe the class with 'classes', or register a parser"


def type_changes(name: str, arrow: pa.DataType, temporal: str) -> Iterator[str]:
    """Yield what changes for values of a type.

    Args:
        name: The type as users know it.
        arrow: The Arrow type of its values.
        temporal: 'micros', 'exact' or 'lossless'.
    """
    plain = name.removesuffix(" NOT NULL")
    sql_time = _SQL_TIME.fullmatch(plain)
    if plain in ("String", "StringValue") or _SQL_TEXT.fullmatch(plain):
        yield "half a surrogate pair, which is no character, becomes U+FFFD"
    elif plain in _NANOS or (sql_time and int(sql_time[1]) > _MICROS_DIGITS):
        yield _EXACT if temporal != "micros" else "digits below a microsecond are cut off; temporal='exact' keeps them"
    elif (plain in _MILLIS or sql_time) and temporal == "exact":
        yield _EXACT
    elif plain.startswith("INTERVAL"):
        yield "a number of months" if pa.types.is_int32(arrow) else "a number of milliseconds"
    elif plain.startswith("RAW(org.apache.flink.table.api.dataview."):
        yield "always null: a view of another state of this operator, which contains its data"
    elif plain in _BY_NAME:
        yield _BY_NAME[plain]
    if pa.types.is_map(arrow):
        yield "a null key is an error: Arrow and Spark have none"


def serializer_changes(serializer: Serializer, arrow: pa.DataType, row_kind: bool) -> Iterator[str]:
    """Yield what changes for values of a serializer, besides :func:`type_changes`."""
    if isinstance(serializer, EnumOf):
        yield "the constant's name"
    elif isinstance(serializer, (Opaque, Kryo)) and pa.types.is_binary(arrow):
        yield _BYTES
    elif isinstance(serializer, Kryo) and serializer.class_name in _COLLECTIONS and pa.types.is_string(arrow):
        yield "JSON text: the snapshot does not contain the types of elements"
    elif isinstance(serializer, Pojo) and serializer.subclasses:
        yield "the field 'class' names the class of each value; fields of other classes are null"
    elif isinstance(serializer, (RowOf, RowData)) and not row_kind:
        yield "the RowKind is left out; row_kind=True adds it"


# Describe a type of Flink as a tree, with the Arrow and Spark types of each part.


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
    """Describe a serializer."""
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


@dataclass(frozen=True)
class StoredColumn:
    """A column of a state's rows."""

    name: str
    arrow: str
    spark: str


@dataclass(frozen=True)
class Storage:
    """How a state is stored.

    Attributes:
        layouts: canonical, heap, rocksdb, changelog, operator state or raw timers.
        subtasks: The subtasks whose files contain it.
        variants: How many different descriptions these files have; more than 1 after a schema was changed.
        compressed: Whether entries are compressed with snappy; None where that is not known.
        serializer: The class of the snapshot of the serializer that is registered for the values.
        version: The version of that snapshot.
    """

    layouts: tuple[str, ...] = ()
    subtasks: tuple[int, ...] = ()
    variants: int = 1
    compressed: bool | None = None
    serializer: str | None = None
    version: int | None = None


@dataclass(frozen=True)
class StateDescription:
    """What is known of a state without reading its rows.

    Attributes:
        operator: The operator's uid, else its id.
        operator_id: The uid hash.
        name: The state's name.
        kind: value, list, map, reducing, aggregating, event timers, processing timers, broadcast.
        distribution: keyed, split, union or broadcast.
        ttl: Whether it has a time to live; then rows have a column ``last_access``.
        max_parallelism: The number of key groups.
        storage: How it is stored.
        types: Key, namespace and values; the key and the value of maps, the element of lists.
        columns: The columns of its rows.
        problem: Why it cannot be read; None if its types are known.
    """

    operator: str
    operator_id: str
    name: str
    kind: str
    distribution: str
    ttl: bool
    max_parallelism: int
    storage: Storage
    types: tuple[DescribedType, ...] = ()
    columns: tuple[StoredColumn, ...] = ()
    problem: str | None = field(default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain values, as ``stateproc describe --json`` prints them."""
        storage = {name: getattr(self.storage, name) for name in _STORAGE}
        return {
            **{name: getattr(self, name) for name in _STATE_FIELDS},
            "storage": {**storage, "layouts": list(self.storage.layouts), "subtasks": list(self.storage.subtasks)},
            "types": [node.to_dict() for node in self.types],
            "columns": [{"name": item.name, "arrow": item.arrow, "spark": item.spark} for item in self.columns],
        }

    def __str__(self) -> str:
        lines = [f"{self.kind} state {self.name!r} of operator {self.operator!r}"]
        lines += [f"  {item.name}: {item.arrow} (Spark: {item.spark})" for item in self.columns]
        lines += [f"  {self.problem}"] if self.problem else []
        return "\n".join(lines)


_STORAGE = ("layouts", "subtasks", "variants", "compressed", "serializer", "version")
_STATE_FIELDS = ("operator", "operator_id", "name", "kind", "distribution", "ttl", "max_parallelism", "problem")


def stored_columns(schema: pa.Schema) -> tuple[StoredColumn, ...]:
    """Return the columns of a schema."""
    return tuple(StoredColumn(item.name, str(item.type), spark_type(item.type)) for item in schema)


# Describe the types of one registered state by its serializers' snapshots.

_VALUE = "VALUE_SERIALIZER"


def keyed_types(
    state: StateDescriptor, header: KeyedHeader, context: LayoutContext, names: OperatorNames | None = None
) -> tuple[DescribedType, ...]:
    """Describe key, namespace and values of a keyed state.

    Args:
        state: The state.
        header: The header that registers it.
        context: How values are decoded.
        names: Names for the fields of SQL rows, from the plan of the query.
    """
    info = header.states[state.state_id]
    key, of_key = _observed(header.key_snapshot, header.key)
    observed, classes = _observed_info(info)
    found = keyed_state(observed, state.state_id, key) or state
    classes = {**of_key, **classes}
    if names is not None:
        plain, found = found, names.applied(found)
        classes = {**classes, **_classes_of_renamed(plain, found, classes)}
    parts: list[tuple[str, Serializer, LayoutContext]] = [("key", found.key, context.inner)]
    if found.has_namespace:
        parts.append(("namespace", found.namespace, context.inner))
    if found.kind.is_queue:
        return tuple(type_node(*part, classes) for part in parts)
    if found.user_key is not None:
        parts.append(("map key", found.user_key, context))
    # A list's elements follow one another: of one without a known length the end is not known.
    inside = context.inner if found.kind is StateKind.LIST else context
    name = {StateKind.LIST: "element", StateKind.MAP: "map value"}.get(found.kind, "value")
    return tuple(type_node(*part, classes) for part in (*parts, (name, found.value, inside)))


def operator_types(info: StateMetaInfo, context: LayoutContext) -> tuple[DescribedType, ...]:
    """Describe the elements of a list state, or the entries of a broadcast state."""
    observed, classes = _observed_info(info)
    key, value = observed.key_serializer, observed.value_serializer
    parts = [("map key", key, context.inner)] if key is not None else []
    parts += [("map value" if parts else "element", value, context.inner if parts else context)] if value else []
    return tuple(type_node(name, serializer, inside, classes) for name, serializer, inside in parts if serializer)


def value_snapshot(info: StateMetaInfo) -> tuple[str | None, int | None]:
    """Return class and version of the snapshot of the serializer that is registered for the values."""
    read = observed_snapshot(info.snapshots[_VALUE]) if _VALUE in info.snapshots else None
    if read is None:
        serializer = info.value_serializer
        return getattr(serializer, "class_name", None), None
    outer = read[1][id(read[0])]
    return outer.class_name, outer.version


def _classes_of_renamed(plain: StateDescriptor, named: StateDescriptor, classes: SnapshotClasses) -> SnapshotClasses:
    """Return the snapshots of the serializers whose rows have other names, which are other objects."""
    pairs = [(plain.key, named.key), (plain.namespace, named.namespace), (plain.value, named.value)]
    if plain.user_key is not None and named.user_key is not None:
        pairs.append((plain.user_key, named.user_key))
    found: dict[int, ObservedSnapshot] = {}
    while pairs:
        before, after = pairs.pop()
        if id(before) in classes:
            found[id(after)] = classes[id(before)]
        pairs += zip(before.nested, after.nested, strict=False)
    return found


def _observed(data: bytes, known: Serializer) -> tuple[Serializer, SnapshotClasses]:
    return (observed_snapshot(data) if data else None) or (known, {})


def _observed_info(info: StateMetaInfo) -> tuple[StateMetaInfo, SnapshotClasses]:
    """Return the state with serializers that were read again, and the classes of their snapshots."""
    serializers = dict(info.serializers)
    classes: dict[int, ObservedSnapshot] = {}
    for role, data in info.snapshots.items():
        read = observed_snapshot(data)
        if read is not None:
            serializers[role] = read[0]
            classes.update(read[1])
    return replace(info, serializers=serializers), classes
