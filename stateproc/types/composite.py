"""Functions that return the serializers of composite types; each names the TypeInformation that makes it in Flink."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stateproc.codec.avro_schema import parse_schema
from stateproc.codec.kryo.types import java_order
from stateproc.errors import CorruptSnapshot, InvalidOption, UnsupportedSnapshot
from stateproc.serializers.avro.schema_text import schema_text
from stateproc.serializers.avro.serializer import Avro as AvroOf
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.structs import EitherOf, EnumOf, NullableOf, RowOf, Tuple0, TupleOf
from stateproc.serializers.kryo.serializer import Kryo as KryoOf
from stateproc.serializers.pojo.serializer import Pojo as PojoOf
from stateproc.serializers.pojo.serializer import described_pojo
from stateproc.serializers.runtime.streaming import Timer as TimerOf
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.serializers.scala import SCALA_EITHER, OptionOf
from stateproc.serializers.scala import CaseClass as CaseClassOf
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import internal_serializer, parse_sql_type, row_data
from stateproc.types.java_classes import java_class_of
from stateproc.types.scalars import STRING, STRING_ARRAY

MAX_TUPLE = 25
GENERIC_RECORD = "org.apache.avro.generic.GenericRecord"
_CLASS_NAME = re.compile(r"[\w$]+(\.[\w$]+)*")


def Tuple(*fields: Serializer) -> Serializer:
    """Return the type of a Java tuple (TupleTypeInfo), Tuple0 to Tuple25.

    Args:
        *fields: the types of the fields, in order.

    Raises:
        InvalidOption: there are more than 25 fields, or one of them is no type.
    """
    if len(fields) > MAX_TUPLE:
        raise InvalidOption(
            f"a tuple of {len(fields)} fields", advice=f"Flink's tuples have up to {MAX_TUPLE}: take a Row or a Pojo"
        )
    if not fields:
        return Tuple0()
    return TupleOf(f"org.apache.flink.api.java.tuple.Tuple{len(fields)}", _types(fields))


def Row(*fields: Serializer) -> Serializer:
    """Return the type of org.apache.flink.types.Row (RowTypeInfo).

    Args:
        *fields: the types of the fields, in order. Flink does not store the fields' names.

    Raises:
        InvalidOption: a field is no type.
    """
    return RowOf(_types(fields), True)


def Pojo(class_name: str, fields: Mapping[str, Serializer], declared_in: Mapping[str, str] | None = None) -> Serializer:
    """Return the type of a POJO or a record (PojoTypeInfo), its fields sorted by name as Flink sorts them.

    Primitive and boxed fields have the same type. Flink's type extraction may give a field another type than expected
    (LocalDate and, up to 1.20, List are left to Kryo): `Extracted` returns what it gives.

    Args:
        class_name: the class, as Class.getName() returns it.
        fields: field name → type.
        declared_in: field name → declaring class, for fields that a superclass declares.

    Raises:
        InvalidOption: a field is no type, the class name is invalid, or ``declared_in`` names an unknown field.
    """
    owners = declared_in or {}
    unknown = sorted(owners.keys() - fields.keys())
    if unknown:
        raise InvalidOption(f"the class {class_name!r} has no field {unknown[0]!r}", advice="declared_in names fields")
    names = sorted(fields, key=java_order)
    typed = tuple((name, _type(fields[name])) for name in names)
    name = _class(class_name)
    return PojoOf(name, typed, (), tuple(_class(owners.get(field, name)) for field in names))


def Extracted(class_name: str, classes: Mapping[str, Any]) -> Serializer:
    """Return the type that Flink's type extraction (TypeInformation.of(Order.class)) gives a described class.

    It depends on the release that is written for: lists, maps and sets are left to Kryo up to 1.20.

    Args:
        class_name: the class; it must be one of ``classes``.
        classes: class descriptions, such as ``{"com.acme.Order": {"id": "long", "tags": "List<String>"}}``; see
            docs/kryo-and-classes.md.

    Raises:
        InvalidOption: the class is not described by its fields, or a description is invalid.
    """
    found = described_pojo(class_name, classes)
    if found is None:
        raise InvalidOption(
            f"the class {class_name!r} is not described by its fields",
            advice=f'describe it: {{"{class_name}": {{"a": "int", "b": "String"}}}}',
        )
    return found


def CaseClass(class_name: str, *fields: Serializer) -> Serializer:
    """Return the type of a Scala case class or tuple (CaseClassTypeInfo).

    Args:
        class_name: the class, such as ``com.acme.Order`` or ``scala.Tuple2``.
        *fields: the types of the fields, in order.

    Raises:
        InvalidOption: the class name is invalid, or a field is no type.
    """
    return CaseClassOf(_class(class_name), _types(fields))


def List(element: Serializer) -> Serializer:
    """Return the type of a java.util.List (ListTypeInfo).

    Args:
        element: the type of the elements, none of which is null.
    """
    return ListOf("List", _type(element))


def Map(key: Serializer, value: Serializer) -> Serializer:
    """Return the type of a java.util.Map (MapTypeInfo).

    Args:
        key: the type of the keys, none of which is null.
        value: the type of the values, which may be null.
    """
    return MapOf(_type(key), _type(value))


def Set(element: Serializer) -> Serializer:
    """Return the type of a java.util.Set (SetTypeInfo, Flink 2.0 and later).

    Args:
        element: the type of the elements.
    """
    return ListOf("Set", _type(element), null_byte=1)


def Array(component: Serializer, class_name: str | None = None) -> Serializer:
    """Return the type of an array of objects (BasicArrayTypeInfo, ObjectArrayTypeInfo), each of which may be null.

    Arrays of primitives are types of their own: LONG_ARRAY, BYTES …

    Args:
        component: the type of the items.
        class_name: the items' class, as Class.getName() returns it, where ``component`` does not determine it.

    Raises:
        InvalidOption: the items' class is not known.
    """
    if component == STRING:
        return STRING_ARRAY
    found = class_name or java_class_of(_type(component))
    if found is None:
        raise InvalidOption(
            f"the class of an array's items of type {component.type_name} is not known",
            advice="give it: Array(type, 'com.acme.Item')",
        )
    return ListOf("Array", component, null_byte=0, component=found)


def Enum(class_name: str, constants: Sequence[str]) -> Serializer:
    """Return the type of a Java enum (EnumTypeInfo).

    Args:
        class_name: the enum's class.
        constants: all constants, in the order in which the class declares them.

    Raises:
        InvalidOption: the constants are empty or not distinct, or the class name is invalid.
    """
    names = list(constants)
    if isinstance(constants, str) or not names or len(set(names)) < len(names) or not all(names):
        raise InvalidOption(
            f"the enum {class_name!r} has no list of different constants", advice="such as ['NEW', 'PAID']"
        )
    return EnumOf(_class(class_name), tuple(enumerate(names)))


def ScalaEnum(class_name: str, constants: Mapping[str, int]) -> Serializer:
    """Return the type of a scala.Enumeration's values (EnumValueTypeInfo).

    Args:
        class_name: the enumeration's class.
        constants: name → id of each constant.
    """
    return EnumOf(_class(class_name), tuple((number, name) for name, number in constants.items()), scala=True)


def Nullable(type_: Serializer, *, padded: bool = False) -> Serializer:
    """Return the type of nullable values (NullableSerializer.wrap): a null mark precedes each value.

    Args:
        type_: the type of the values that are not null; a nullable type is returned as it is.
        padded: whether nulls of fixed-length types are as long as values.
    """
    if isinstance(type_, NullableOf):
        return type_
    length = _type(type_).length
    return NullableOf(type_, length if padded and length > 0 else 0)


def Either(left: Serializer, right: Serializer, *, scala: bool = False) -> Serializer:
    """Return the type of Either (EitherTypeInfo): Flink's Java class, or Scala's.

    Args:
        left: the type of left values.
        right: the type of right values.
        scala: whether it is scala.util.Either.
    """
    return EitherOf(_type(left), _type(right), SCALA_EITHER if scala else "")


def Option(element: Serializer) -> Serializer:
    """Return the type of scala.Option (OptionTypeInfo).

    Args:
        element: the type of the value.
    """
    return OptionOf(_type(element))


def Avro(schema: str | Mapping[str, Any], class_name: str = GENERIC_RECORD) -> Serializer:
    """Return the type of Avro records (AvroTypeInfo, GenericRecordAvroTypeInfo).

    Args:
        schema: the schema as JSON, text or parsed, with all named types defined.
        class_name: the class of specific or reflected records; by default records are generic.

    Raises:
        InvalidOption: the schema is invalid.
    """
    text = schema if isinstance(schema, str) else json.dumps(schema)
    try:
        normal = schema_text(text)
        return AvroOf(_class(class_name), parse_schema(normal), normal)
    except InvalidOption:
        raise
    except (CorruptSnapshot, UnsupportedSnapshot, ValueError, KeyError, TypeError) as error:
        reason = error.message if isinstance(error, CorruptSnapshot | UnsupportedSnapshot) else str(error)
        raise InvalidOption(f"no Avro schema: {reason}", advice="give the schema's JSON, all types defined") from error


def Sql(type_: str | LogicalType) -> Serializer:
    """Return the type in which SQL operators store values of a SQL type (InternalTypeInfo).

    Args:
        type_: the SQL type, such as ``DECIMAL(10, 2)`` or ``ARRAY<INT>``.

    Raises:
        InvalidOption: the text is no SQL type, or its values cannot be written.
    """
    return internal_serializer(_sql(type_))


def RowData(fields: Mapping[str, str | LogicalType] | Iterable[tuple[str, str | LogicalType]]) -> Serializer:
    """Return the type of SQL rows (InternalTypeInfo of a ROW).

    Args:
        fields: field name → SQL type, such as ``{"id": "BIGINT NOT NULL", "at": "TIMESTAMP(3)"}``, or pairs of these.

    Raises:
        InvalidOption: two fields have one name, or a text is no SQL type.
    """
    pairs = list(fields.items()) if isinstance(fields, Mapping) else list(fields)
    names = tuple(name for name, _ in pairs)
    if len(set(names)) < len(names):
        raise InvalidOption("a row has two fields of one name", advice="names of fields must differ")
    return row_data(LogicalType("ROW", names=names, children=tuple(_sql(type_) for _, type_ in pairs)))


def Ttl(value: Serializer) -> Serializer:
    """Return the type of values of a state with a time to live: the time of the last access, and the value.

    Args:
        value: the type of the user's value.
    """
    return TtlSerializer(_type(value))


def Timer(key: Serializer, namespace: Serializer) -> Serializer:
    """Return the type of timers (TimerSerializer).

    Args:
        key: the type of keys.
        namespace: the type of namespaces, such as TIME_WINDOW or VOID_NAMESPACE.
    """
    return TimerOf(_type(key), _type(namespace))


def Kryo(class_name: str) -> Serializer:
    """Return the type of values that Flink leaves to Kryo (GenericTypeInfo).

    Args:
        class_name: the class, as Class.getName() returns it.
    """
    return KryoOf(_class(class_name), (class_name,))


def _type(type_: Any) -> Serializer:
    if not isinstance(type_, Serializer):
        raise InvalidOption(
            f"{type_!r} is no type",
            advice="give one of stateproc.types, such as LONG, or parse('Tuple2<Long, String>')",
        )
    return type_


def _types(fields: Sequence[Serializer]) -> tuple[Serializer, ...]:
    return tuple(_type(field) for field in fields)


def _class(name: str) -> str:
    if not isinstance(name, str) or not _CLASS_NAME.fullmatch(name):
        raise InvalidOption(
            f"{name!r} is no class name", advice="as Class.getName() has it: com.acme.Order, com.acme.Outer$Inner"
        )
    return name


def _sql(type_: str | LogicalType) -> LogicalType:
    return type_ if isinstance(type_, LogicalType) else parse_sql_type(type_)
