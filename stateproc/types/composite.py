"""Types made of others. Each function gives the serializer of Flink's TypeInformation named in its docstring."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stateproc.codec.kryo.types import java_order
from stateproc.errors import CorruptSnapshot, InvalidOption, UnsupportedSnapshot
from stateproc.serializers.avro.schema import parse_schema
from stateproc.serializers.avro.schema_text import schema_text
from stateproc.serializers.avro.serializer import Avro as AvroOf
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.structs import EitherOf, EnumOf, NullableOf, RowOf, Tuple0, TupleOf
from stateproc.serializers.kryo.serializer import Kryo as KryoOf
from stateproc.serializers.pojo.serializer import Pojo as PojoOf
from stateproc.serializers.pojo.serializer import described_pojo
from stateproc.serializers.runtime.timers import Timer as TimerOf
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.serializers.scala import SCALA_EITHER, OptionOf
from stateproc.serializers.scala import CaseClass as CaseClassOf
from stateproc.serializers.table.internal_serializers import internal_serializer, row_data
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import parse_sql_type
from stateproc.types.java_classes import java_class_of
from stateproc.types.scalars import STRING, STRING_ARRAY

MAX_TUPLE = 25
GENERIC_RECORD = "org.apache.avro.generic.GenericRecord"
_CLASS_NAME = re.compile(r"[\w$]+(\.[\w$]+)*")


def Tuple(*fields: Serializer) -> Serializer:
    """TupleTypeInfo: Tuple1 to Tuple25 (Tuple0 without fields)."""
    if len(fields) > MAX_TUPLE:
        raise InvalidOption(
            f"a tuple of {len(fields)} fields", advice=f"Flink's tuples have up to {MAX_TUPLE}: take a Row or a Pojo"
        )
    if not fields:
        return Tuple0()
    return TupleOf(f"org.apache.flink.api.java.tuple.Tuple{len(fields)}", _types(fields))


def Row(*fields: Serializer) -> Serializer:
    """RowTypeInfo. The names of the fields are no part of what Flink stores."""
    return RowOf(_types(fields), True)


def Pojo(class_name: str, fields: Mapping[str, Serializer], declared_in: Mapping[str, str] | None = None) -> Serializer:
    """PojoTypeInfo, of a class or a record, its fields sorted by name as Flink does.

    ``declared_in``: the class that declares a field, where that is a superclass. Primitive and boxed fields have
    the same types. Fields that Flink's own type extraction finds may have other types than one expects
    (LocalDate: Kryo; List: Kryo up to 1.20): see `Extracted`.
    """
    owners = declared_in or {}
    unknown = sorted(owners.keys() - fields.keys())
    if unknown:
        raise InvalidOption(f"the class {class_name!r} has no field {unknown[0]!r}", advice="declared_in names fields")
    names = sorted(fields, key=java_order)
    told = tuple((name, _type(fields[name])) for name in names)
    name = _class(class_name)
    return PojoOf(name, told, (), tuple(_class(owners.get(field, name)) for field in names))


def Extracted(class_name: str, classes: Mapping[str, Any]) -> Serializer:
    """What Flink's type extraction (TypeInformation.of(Order.class)) gives for a class of these descriptions.

    ``{"com.acme.Order": {"id": "long", "tags": "List<String>"}}``, see docs/kryo-and-classes.md. It depends on the
    release: lists, maps and sets are Kryo's up to 1.20.
    """
    found = described_pojo(class_name, classes)
    if found is None:
        raise InvalidOption(
            f"the class {class_name!r} is not described by its fields",
            advice=f'describe it: {{"{class_name}": {{"a": "int", "b": "String"}}}}',
        )
    return found


def CaseClass(class_name: str, *fields: Serializer) -> Serializer:
    """CaseClassTypeInfo: a Scala case class or tuple (``scala.Tuple2``), its fields in order."""
    return CaseClassOf(_class(class_name), _types(fields))


def List(element: Serializer) -> Serializer:
    """ListTypeInfo."""
    return ListOf("List", _type(element))


def Map(key: Serializer, value: Serializer) -> Serializer:
    """MapTypeInfo."""
    return MapOf(_type(key), _type(value))


def Set(element: Serializer) -> Serializer:
    """SetTypeInfo, of Flink 2.0 and later."""
    return ListOf("Set", _type(element), null_byte=1)


def Array(component: Serializer, class_name: str | None = None) -> Serializer:
    """BasicArrayTypeInfo, ObjectArrayTypeInfo: an array of objects, each of which may be null.

    ``class_name``: the component's class, as Class.getName() has it, where the type does not tell it. Arrays of
    primitives are types of their own: LONG_ARRAY, BYTES …
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
    """EnumTypeInfo: all constants, in the order in which the class declares them."""
    names = list(constants)
    if isinstance(constants, str) or not names or len(set(names)) < len(names) or not all(names):
        raise InvalidOption(
            f"the enum {class_name!r} has no list of different constants", advice="such as ['NEW', 'PAID']"
        )
    return EnumOf(_class(class_name), tuple(enumerate(names)))


def ScalaEnum(class_name: str, constants: Mapping[str, int]) -> Serializer:
    """EnumValueTypeInfo, of a scala.Enumeration: name → id of each constant."""
    return EnumOf(_class(class_name), tuple((number, name) for name, number in constants.items()), scala=True)


def Nullable(type_: Serializer, *, padded: bool = False) -> Serializer:
    """NullableSerializer.wrap: a null mark in front. ``padded``: nulls of fixed-length types are as long as values."""
    if isinstance(type_, NullableOf):
        return type_
    length = _type(type_).length
    return NullableOf(type_, length if padded and length > 0 else 0)


def Either(left: Serializer, right: Serializer, *, scala: bool = False) -> Serializer:
    """EitherTypeInfo, of Java or of Scala."""
    return EitherOf(_type(left), _type(right), SCALA_EITHER if scala else "")


def Option(element: Serializer) -> Serializer:
    """OptionTypeInfo, of Scala."""
    return OptionOf(_type(element))


def Avro(schema: str | Mapping[str, Any], class_name: str = GENERIC_RECORD) -> Serializer:
    """AvroTypeInfo, GenericRecordAvroTypeInfo: the schema as JSON (text or parsed).

    ``class_name``: the class of specific or reflected records, where they are no generic ones.
    """
    text = schema if isinstance(schema, str) else json.dumps(schema)
    try:
        normal = schema_text(text)
        return AvroOf(_class(class_name), parse_schema(normal), normal)
    except (CorruptSnapshot, UnsupportedSnapshot, ValueError, KeyError, TypeError) as error:
        reason = error.message if isinstance(error, CorruptSnapshot | UnsupportedSnapshot) else str(error)
        raise InvalidOption(f"no Avro schema: {reason}", advice="give the schema's JSON, all types defined") from error


def Sql(type_: str | LogicalType) -> Serializer:
    """What SQL operators store of this SQL type (InternalTypeInfo), such as ``DECIMAL(10, 2)``, ``ARRAY<INT>``."""
    return internal_serializer(_sql(type_))


def RowData(fields: Mapping[str, str | LogicalType] | Iterable[tuple[str, str | LogicalType]]) -> Serializer:
    """InternalTypeInfo of a ROW: names and SQL types, ``{"id": "BIGINT NOT NULL", "at": "TIMESTAMP(3)"}``."""
    pairs = list(fields.items()) if isinstance(fields, Mapping) else list(fields)
    names = tuple(name for name, _ in pairs)
    if len(set(names)) < len(names):
        raise InvalidOption("a row has two fields of one name", advice="names of fields must differ")
    return row_data(LogicalType("ROW", names=names, children=tuple(_sql(type_) for _, type_ in pairs)))


def Ttl(value: Serializer) -> Serializer:
    """What the values of a state with a time to live are: the time of the last access, the value."""
    return TtlSerializer(_type(value))


def Timer(key: Serializer, namespace: Serializer) -> Serializer:
    """TimerSerializer."""
    return TimerOf(_type(key), _type(namespace))


def Kryo(class_name: str) -> Serializer:
    """GenericTypeInfo: what Flink leaves to Kryo. Such values are carried over, never made."""
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
