"""Write SQL types and their serializers as Java object streams, which Flink's SQL snapshots contain.

Classes and serialVersionUIDs: org.apache.flink.table.types.logical.*, org.apache.flink.table.runtime.typeutils.*;
they are the same in every release from 1.13 to 2.3, but for structured types, the accumulators of aggregate functions:

    1.15 to 2.0   the comparison NONE
    from 2.1 on   the comparison EQUALS, and the class's name beside the class

Flink compares both, so that a type of another release is no type of the same state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stateproc.errors import UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.table.logical_types import PACKAGE, LogicalType, RawSerializer, logical_type
from stateproc.wire import Cursor
from stateproc.wire.java_stream import read_java_object
from stateproc.wire.java_writer import (
    SERIALIZABLE,
    WRITES,
    Array,
    ClassObject,
    Constant,
    Instance,
    WrittenClass,
    enum_class,
    java_object,
)

_UTILS = "org.apache.flink.api.common.typeutils."
_TABLE = "org.apache.flink.table.runtime.typeutils."


def _signature(class_name: str) -> str:
    return f"L{class_name.replace('.', '/')};"


# --- the classes of types --------------------------------------------------------------------------------------

_ROOT, _TIMESTAMP_KIND = enum_class(PACKAGE + "LogicalTypeRoot"), enum_class(PACKAGE + "TimestampKind")
_TYPE_SIGNATURE = _signature(PACKAGE + "LogicalType")
_TYPE = WrittenClass(PACKAGE + "LogicalType", 1, (("isNullable", "Z"), ("typeRoot", _signature(_ROOT.name))))


def _type_class(name: str, *fields: tuple[str, str], uid: int = 1) -> WrittenClass:
    return WrittenClass(f"{PACKAGE}{name}Type", uid, fields, _TYPE)


_LENGTH, _PRECISION = ("length", "I"), ("precision", "I")
_KIND = ("kind", _signature(_TIMESTAMP_KIND.name))
# LogicalTypeRoot → class. Fields are of the names that LogicalType has, or made in _values.
_TYPES: dict[str, WrittenClass] = {
    "CHAR": _type_class("Char", _LENGTH),
    "VARCHAR": _type_class("VarChar", _LENGTH),
    "BOOLEAN": _type_class("Boolean"),
    "BINARY": _type_class("Binary", _LENGTH),
    "VARBINARY": _type_class("VarBinary", _LENGTH),
    "DECIMAL": _type_class("Decimal", _PRECISION, ("scale", "I")),
    "TINYINT": _type_class("TinyInt"),
    "SMALLINT": _type_class("SmallInt"),
    "INTEGER": _type_class("Int"),
    "BIGINT": _type_class("BigInt"),
    "FLOAT": _type_class("Float"),
    "DOUBLE": _type_class("Double"),
    "DATE": _type_class("Date"),
    "TIME_WITHOUT_TIME_ZONE": _type_class("Time", _PRECISION),
    "TIMESTAMP_WITHOUT_TIME_ZONE": _type_class("Timestamp", _PRECISION, _KIND),
    "TIMESTAMP_WITH_TIME_ZONE": _type_class("ZonedTimestamp", _PRECISION, _KIND),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _type_class("LocalZonedTimestamp", _PRECISION, _KIND),
    "ARRAY": _type_class("Array", ("elementType", _TYPE_SIGNATURE)),
    "MULTISET": _type_class("Multiset", ("elementType", _TYPE_SIGNATURE)),
    "MAP": _type_class("Map", ("keyType", _TYPE_SIGNATURE), ("valueType", _TYPE_SIGNATURE)),
    "ROW": _type_class("Row", ("fields", "Ljava/util/List;")),
    "NULL": _type_class("Null"),
    "VARIANT": _type_class("Variant", uid=-7525210688776332292),
    "BITMAP": _type_class("Bitmap"),
    "UUID": _type_class("Uuid"),
}
_STRING = "Ljava/lang/String;"
_NAMED = (("description", _STRING), ("name", _STRING), ("type", _TYPE_SIGNATURE))
_FIELD = WrittenClass(PACKAGE + "RowType$RowField", 1, _NAMED)
_ATTRIBUTE = WrittenClass(PACKAGE + "StructuredType$StructuredAttribute", 1, _NAMED)
_ARRAY_LIST = WrittenClass("java.util.ArrayList", 8683452581122892189, (("size", "I"),), None, SERIALIZABLE | WRITES)
_COLLECTION = WrittenClass(
    "java.util.Collections$UnmodifiableCollection", 1820017752578914078, (("c", "Ljava/util/Collection;"),)
)
_LIST = WrittenClass(
    "java.util.Collections$UnmodifiableList", -283967356065247728, (("list", "Ljava/util/List;"),), _COLLECTION
)


def java_type(type_: LogicalType, release: Release | None = None) -> bytes:
    """Encode a LogicalType as one Java object stream. Raises UnsupportedSnapshot for types without a Java form here.

    Args:
        release: The release that reads it; None for a type that has no structured types in it.
    """
    return java_object(_type(type_, release))


def _type(type_: LogicalType, release: Release | None = None) -> Instance:
    values: dict[str, Any] = {"isNullable": type_.nullable, "typeRoot": Constant(_ROOT, type_.kind)}
    if type_.kind == "RAW" and type_.serializer is not None and type_.class_name in _RAW_CLASSES:
        values["clazz"] = ClassObject(_RAW_CLASSES[type_.class_name])
        if is_view(type_):
            return Instance(_RAW, {**values, "serializer": Instance(_NULL_SERIALIZER, {})})
        if type_.serializer.element is not None:
            return Instance(_RAW, {**values, "serializer": _list_serializer(type_.serializer.element)})
    is_accumulator = type_.kind == "STRUCTURED_TYPE" and (type_.class_name or "").startswith(_ACCUMULATORS)
    if is_accumulator and release is not None and release >= _FIRST_STRUCTURED:
        return _structured(type_, release, values)
    described = _TYPES.get(type_.kind)
    if described is None:
        raise UnsupportedSnapshot(
            f"the SQL type {type_.sql} cannot be written as Flink's Java object",
            advice="use a ROW in place of a structured type, BYTES in place of a RAW one",
        )
    values |= {"length": type_.length, "precision": type_.precision, "scale": type_.scale}
    values["kind"] = Constant(_TIMESTAMP_KIND, "REGULAR")
    if type_.kind == "ROW":
        values["fields"] = _fields(type_, _FIELD, release)
    names = [name for name, code in described.fields if code == _TYPE_SIGNATURE]
    values |= {name: _type(child) for name, child in zip(names, type_.children, strict=False)}
    return Instance(described, values)


_FIRST_STRUCTURED, _WITH_NAMES = Release(1, 15), Release(2, 1)
"""The first release whose structured types are known, and the first with the names of their classes."""
_ACCUMULATORS = "org.apache.flink.table.runtime.functions.aggregate."
"""The package of classes that are not Serializable, so that no serialVersionUID of theirs is compared."""
_COMPARISON = enum_class(PACKAGE + "StructuredType$StructuredComparison")
_USER_DEFINED = WrittenClass(
    PACKAGE + "UserDefinedType",
    1,
    (
        ("isFinal", "Z"),
        ("description", _STRING),
        ("objectIdentifier", "Lorg/apache/flink/table/catalog/ObjectIdentifier;"),
    ),
    _TYPE,
)
_STRUCTURED = _signature(PACKAGE + "StructuredType")


def _structured(type_: LogicalType, release: Release, values: dict[str, Any]) -> Instance:
    """Return a structured type of a class, not of a catalog, as DataTypes.STRUCTURED makes it."""
    is_named = release >= _WITH_NAMES
    fields = (
        ("isInstantiable", "Z"),
        ("attributes", "Ljava/util/List;"),
        *([("className", _STRING)] if is_named else []),
        ("comparison", _signature(_COMPARISON.name)),
        ("implementationClass", "Ljava/lang/Class;"),
        ("superType", _STRUCTURED),
    )
    values |= {
        "isFinal": True,
        "isInstantiable": True,
        "attributes": _fields(type_, _ATTRIBUTE, release),
        "className": type_.class_name,
        "comparison": Constant(_COMPARISON, "EQUALS" if is_named else "NONE"),
        "implementationClass": ClassObject(WrittenClass(str(type_.class_name), 0, flags=0)),
    }
    return Instance(WrittenClass(PACKAGE + "StructuredType", 1, fields, _USER_DEFINED), values)


# --- the classes of data types ----------------------------------------------------------------------------------

_DATA = "org.apache.flink.table.data."
_DATA_TYPE = WrittenClass(
    "org.apache.flink.table.types.DataType",
    -4138822262654336147,
    (("conversionClass", "Ljava/lang/Class;"), ("logicalType", _TYPE_SIGNATURE)),
)
_ATOMIC_TYPE = WrittenClass("org.apache.flink.table.types.AtomicDataType", 1911869481579848498, (), _DATA_TYPE)
_COLLECTION_TYPE = WrittenClass(
    "org.apache.flink.table.types.CollectionDataType",
    2464825922057708215,
    (("elementDataType", _signature(_DATA_TYPE.name)),),
    _DATA_TYPE,
)
_JAVA_LIST = WrittenClass("java.util.List", 0, flags=0)
_LONG, _LONGS = WrittenClass("long", 0, flags=0), WrittenClass("[J", 8655923659555304851)
_NUMBER = WrittenClass("java.lang.Number", -8742448824652078965)


def _boxed(name: str, code: str, uid: int, parent: WrittenClass | None = _NUMBER) -> WrittenClass:
    return WrittenClass(f"java.lang.{name}", uid, (("value", code),), parent)


_INTEGER, _BOXED_LONG = _boxed("Integer", "I", 1360826667806852920), _boxed("Long", "J", 4290774380558885855)
_STRING_DATA = WrittenClass(_DATA + "StringData", 0, flags=0)
_TIMESTAMP_DATA = WrittenClass(_DATA + "TimestampData", 0, flags=0)
_CLASSES: dict[str, WrittenClass] = {
    "CHAR": _STRING_DATA,
    "VARCHAR": _STRING_DATA,
    "BOOLEAN": _boxed("Boolean", "Z", -3665804199014368530, None),
    "DECIMAL": WrittenClass(_DATA + "DecimalData", 0, flags=0),
    "TINYINT": _boxed("Byte", "B", -7183698231559129828),
    "SMALLINT": _boxed("Short", "S", 7515723908773894738),
    "INTEGER": _INTEGER,
    "BIGINT": _BOXED_LONG,
    "FLOAT": _boxed("Float", "F", -2671257302660747028),
    "DOUBLE": _boxed("Double", "D", -9172774392245257468),
    "DATE": _INTEGER,
    "TIME_WITHOUT_TIME_ZONE": _INTEGER,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _TIMESTAMP_DATA,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _TIMESTAMP_DATA,
}
"""LogicalTypeRoot → the class of its values in Flink's operators."""
_NO_KEYS = frozenset(("BINARY", "VARBINARY"))
"""Their class is byte[]: in the maps of HashMapStateBackend no array equals another."""


def java_data_type(type_: LogicalType) -> bytes:
    """Encode a DataType whose values are those of operators as one Java object stream.

    Raises UnsupportedSnapshot for types with others in them.
    """
    return java_object(_data_type(type_))


def java_list_type(type_: LogicalType) -> bytes:
    """Encode the DataType of a java.util.List with values of operators, which is an ARRAY, as one Java object stream.

    Raises UnsupportedSnapshot for elements with others in them.
    """
    own = {"conversionClass": ClassObject(_JAVA_LIST), "logicalType": _type(type_)}
    return java_object(Instance(_COLLECTION_TYPE, {**own, "elementDataType": _data_type(type_.children[0])}))


def java_longs_type(type_: LogicalType) -> bytes:
    """Encode the DataType of a Java array of long, an ARRAY of BIGINT NOT NULL, as one Java object stream."""
    (element,) = type_.children
    inner = Instance(_ATOMIC_TYPE, {"conversionClass": ClassObject(_LONG), "logicalType": _type(element)})
    own = {"conversionClass": ClassObject(_LONGS), "logicalType": _type(type_)}
    return java_object(Instance(_COLLECTION_TYPE, {**own, "elementDataType": inner}))


def _data_type(type_: LogicalType) -> Instance:
    if type_.kind in _NO_KEYS:
        raise UnsupportedSnapshot(
            f"values of the SQL type {type_.sql} cannot be written for operators that find them again: in memory, "
            "Flink takes no array of bytes for the same as another",
            advice="let the query convert the column to text before the aggregate",
        )
    if type_.kind not in _CLASSES:
        raise UnsupportedSnapshot(
            f"the SQL type {type_.sql} cannot be written as Flink's data type",
            advice="let the query's aggregate read a column of another type: a field of the value, or text made of it",
        )
    values = {"conversionClass": ClassObject(_CLASSES[type_.kind]), "logicalType": _type(type_)}
    return Instance(_ATOMIC_TYPE, values)


def _fields(row: LogicalType, field: WrittenClass, release: Release | None) -> Instance:
    fields = tuple(
        Instance(field, {"name": name, "type": _type(child, release)})
        for name, child in zip(row.names, row.children, strict=True)
    )
    inner = Instance(_ARRAY_LIST, {"size": len(fields)}, fields)
    return Instance(_LIST, {"c": inner, "list": inner})


# --- the classes of serializers --------------------------------------------------------------------------------

_SERIALIZER_SIGNATURE = _signature(_UTILS + "TypeSerializer")
_SERIALIZER = WrittenClass(_UTILS + "TypeSerializer", 1)
_SINGLETON = WrittenClass(_UTILS + "base.TypeSerializerSingleton", 8766687317209282373, (), _SERIALIZER)
# What an accumulator has in place of a view, whose values are in states of their own.
_NULL_SERIALIZER = WrittenClass("org.apache.flink.table.dataview.NullSerializer", -5381596724707742625, (), _SINGLETON)
_LIST_VIEW, _MAP_VIEW = (
    WrittenClass(f"org.apache.flink.table.api.dataview.{name}View", 0, flags=0) for name in ("List", "Map")
)
_RAW = _type_class("Raw", ("clazz", "Ljava/lang/Class;"), ("serializer", _SERIALIZER_SIGNATURE))
LIST_VIEW, MAP_VIEW = (
    LogicalType("RAW", class_name=view.name, serializer=RawSerializer(_NULL_SERIALIZER.name))
    for view in (_LIST_VIEW, _MAP_VIEW)
)
"""The types of an accumulator's field of a view that is a list or a map."""
_LINKED_LIST = WrittenClass("java.util.LinkedList", 876323262645176354, (), None, SERIALIZABLE | WRITES)
_LIST_SERIALIZER = WrittenClass(
    _TABLE + "LinkedListSerializer",
    1,
    (("hasNullMask", "Z"), ("elementSerializer", _SERIALIZER_SIGNATURE)),
    _SERIALIZER,
)
_RAW_CLASSES = {one.name: one for one in (_LIST_VIEW, _MAP_VIEW, _LINKED_LIST)}


def is_view(type_: LogicalType) -> bool:
    """Whether a type is that of an accumulator's field of a view."""
    return replace(type_, nullable=True) in (LIST_VIEW, MAP_VIEW)


def linked_list(element: LogicalType) -> LogicalType:
    """Return the RAW type of a LinkedList in an accumulator. Raises UnsupportedSnapshot for elements of other types."""
    values = {"clazz": ClassObject(_LINKED_LIST), "serializer": _list_serializer(element)}
    made = Instance(_RAW, {"isNullable": True, "typeRoot": Constant(_ROOT, "RAW"), **values})
    type_ = logical_type(read_java_object(Cursor(java_object(made))))
    assert type_.serializer is not None
    return replace(type_, serializer=replace(type_.serializer, element=element))


def _list_serializer(element: LogicalType) -> Instance:
    return Instance(_LIST_SERIALIZER, {"elementSerializer": _serializer(element), "hasNullMask": True})


_DECIMAL = WrittenClass(_TABLE + "DecimalDataSerializer", 1, (_PRECISION, ("scale", "I")), _SERIALIZER)
_TIMESTAMP = WrittenClass(_TABLE + "TimestampDataSerializer", 1, (_PRECISION,), _SERIALIZER)
_GETTER = "Lorg/apache/flink/table/data/ArrayData$ElementGetter;"
_ARRAY_DATA = WrittenClass(
    _TABLE + "ArrayDataSerializer",
    1,
    (("eleSer", _SERIALIZER_SIGNATURE), ("eleType", _TYPE_SIGNATURE), ("elementGetter", _GETTER)),
    _SERIALIZER,
)
_MAP_DATA = WrittenClass(
    _TABLE + "MapDataSerializer",
    4073842523628732956,
    (
        *(("keyGetter", _GETTER), ("keySerializer", _SERIALIZER_SIGNATURE), ("keyType", _TYPE_SIGNATURE)),
        *(("valueGetter", _GETTER), ("valueSerializer", _SERIALIZER_SIGNATURE), ("valueType", _TYPE_SIGNATURE)),
    ),
    _SERIALIZER,
)
_PAGED = WrittenClass(_TABLE + "PagedTypeSerializer", 1, (), _SERIALIZER)
_ABSTRACT_ROW = WrittenClass(_TABLE + "AbstractRowDataSerializer", 1, (), _PAGED)
_BINARY_ROW = WrittenClass(
    _TABLE + "BinaryRowDataSerializer", 1, (("fixedLengthPartSize", "I"), ("numFields", "I")), _ABSTRACT_ROW
)
_ROW_DATA = WrittenClass(
    _TABLE + "RowDataSerializer",
    1,
    (
        ("binarySerializer", _signature(_BINARY_ROW.name)),
        ("fieldGetters", "[Lorg/apache/flink/table/data/RowData$FieldGetter;"),
        ("fieldSerializers", f"[{_SERIALIZER_SIGNATURE}"),
        ("types", f"[{_TYPE_SIGNATURE}"),
    ),
    _ABSTRACT_ROW,
)
_SERIALIZERS = WrittenClass(f"[L{_UTILS}TypeSerializer;", 0x39811CA7B916FB98)
_LOGICAL_TYPES = WrittenClass(f"[L{PACKAGE}LogicalType;", 0x183447ACDB71A136)


def _singleton(name: str, package: str = _UTILS + "base.") -> WrittenClass:
    return WrittenClass(f"{package}{name}Serializer", 1, (), _SINGLETON)


_INT, _LONG = _singleton("Int"), _singleton("Long")
_BYTES, _TEXT = _singleton("BytePrimitiveArray", _UTILS + "base.array."), _singleton("StringData", _TABLE)
_PLAIN: dict[str, WrittenClass] = {
    "CHAR": _TEXT,
    "VARCHAR": _TEXT,
    "BINARY": _BYTES,
    "VARBINARY": _BYTES,
    "UUID": _BYTES,
    "BOOLEAN": _singleton("Boolean"),
    "TINYINT": _singleton("Byte"),
    "SMALLINT": _singleton("Short"),
    "INTEGER": _INT,
    "DATE": _INT,
    "TIME_WITHOUT_TIME_ZONE": _INT,
    "BIGINT": _LONG,
    "FLOAT": _singleton("Float"),
    "DOUBLE": _singleton("Double"),
    "DECIMAL": _DECIMAL,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _TIMESTAMP,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _TIMESTAMP,
}
_COUNT = LogicalType("INTEGER", nullable=False)


def java_serializer(type_: LogicalType) -> bytes:
    """Encode the serializer of a SQL type's values (InternalSerializers) as one Java object stream.

    Getters of nested collections are Java lambdas, whose names the compiler chose: they are left null. Flink
    compares types and serializers, and reads binary values, without them. Raises UnsupportedSnapshot.
    """
    return java_object(_serializer(type_))


def _serializer(type_: LogicalType) -> Instance:
    plain = _PLAIN.get(type_.kind)
    if plain is not None:
        return Instance(plain, {"precision": type_.precision, "scale": type_.scale})
    if type_.kind == "ARRAY":
        (element,) = type_.children
        return Instance(_ARRAY_DATA, {"eleSer": _serializer(element), "eleType": _type(element)})
    if type_.kind in ("MAP", "MULTISET"):
        key, value = type_.children if type_.kind == "MAP" else (*type_.children, _COUNT)
        return Instance(
            _MAP_DATA,
            {
                "keySerializer": _serializer(key),
                "keyType": _type(key),
                "valueSerializer": _serializer(value),
                "valueType": _type(value),
            },
        )
    if type_.kind == "ROW":
        return _row_serializer(type_)
    raise UnsupportedSnapshot(
        f"the serializer of the SQL type {type_.sql} cannot be written as Flink's Java object",
        advice="use a ROW in place of a structured type, BYTES in place of a RAW one",
    )


def _row_serializer(row: LogicalType) -> Instance:
    n = len(row.children)
    fixed = (n + 63 + 8) // 64 * 8 + 8 * n
    return Instance(
        _ROW_DATA,
        {
            "binarySerializer": Instance(_BINARY_ROW, {"fixedLengthPartSize": fixed, "numFields": n}),
            "fieldSerializers": Array(_SERIALIZERS, tuple(_serializer(child) for child in row.children)),
            "types": Array(_LOGICAL_TYPES, tuple(_type(child) for child in row.children)),
        },
    )
