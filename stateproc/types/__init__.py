"""Name Flink's types: each constant and function is the serializer that Flink's TypeInformation creates.

    from stateproc import types
    types.Tuple(types.LONG, types.STRING)
    types.Pojo("com.acme.Order", {"id": types.LONG, "tags": types.List(types.STRING)})

The same as text: ``types.parse("Tuple2<Long, String>")``. The default type of a column: ``types.of_arrow(type)``.
Functions raise InvalidOption for types that Flink does not have.
"""

from __future__ import annotations

import pyarrow as pa

from stateproc.errors import InvalidOption
from stateproc.serializers.core.base import Serializer
from stateproc.types.arrow import of_arrow
from stateproc.types.composite import (
    Array,
    Avro,
    CaseClass,
    Either,
    Enum,
    Extracted,
    Kryo,
    List,
    Map,
    Nullable,
    Option,
    Pojo,
    Row,
    RowData,
    ScalaEnum,
    Set,
    Sql,
    Timer,
    Ttl,
    Tuple,
)
from stateproc.types.scalars import (
    BIG_DEC,
    BIG_INT,
    BITMAP,
    BOOLEAN,
    BOOLEAN_ARRAY,
    BYTE,
    BYTES,
    CHAR,
    CHAR_ARRAY,
    DATE,
    DOUBLE,
    DOUBLE_ARRAY,
    FLOAT,
    FLOAT_ARRAY,
    GLOBAL_WINDOW,
    INSTANT,
    INT,
    INT_ARRAY,
    JAVA,
    LOCAL_DATE,
    LOCAL_DATE_TIME,
    LOCAL_TIME,
    LONG,
    LONG_ARRAY,
    SHORT,
    SHORT_ARRAY,
    SQL_DATE,
    SQL_TIME,
    SQL_TIMESTAMP,
    STRING,
    STRING_ARRAY,
    TIME_WINDOW,
    UNIT,
    UUID,
    VALUES,
    VARIANT,
    VOID,
    VOID_NAMESPACE,
)
from stateproc.types.text import parse

__all__ = [
    "BIG_DEC",
    "BIG_INT",
    "BITMAP",
    "BOOLEAN",
    "BOOLEAN_ARRAY",
    "BYTE",
    "BYTES",
    "CHAR",
    "CHAR_ARRAY",
    "DATE",
    "DOUBLE",
    "DOUBLE_ARRAY",
    "FLOAT",
    "FLOAT_ARRAY",
    "GLOBAL_WINDOW",
    "INSTANT",
    "INT",
    "INT_ARRAY",
    "JAVA",
    "LOCAL_DATE",
    "LOCAL_DATE_TIME",
    "LOCAL_TIME",
    "LONG",
    "LONG_ARRAY",
    "SHORT",
    "SHORT_ARRAY",
    "SQL_DATE",
    "SQL_TIME",
    "SQL_TIMESTAMP",
    "STRING",
    "STRING_ARRAY",
    "TIME_WINDOW",
    "UNIT",
    "UUID",
    "VALUES",
    "VARIANT",
    "VOID",
    "VOID_NAMESPACE",
    "Array",
    "Avro",
    "CaseClass",
    "Either",
    "Enum",
    "Extracted",
    "Kryo",
    "List",
    "Map",
    "Nullable",
    "Option",
    "Pojo",
    "Row",
    "RowData",
    "ScalaEnum",
    "Set",
    "Sql",
    "Timer",
    "Ttl",
    "Tuple",
    "of",
    "of_arrow",
    "parse",
]


def of(type_: Serializer | str | pa.DataType) -> Serializer:
    """Return the Flink type of any form in which users give types.

    Args:
        type_: a type of this package, its text (see `parse`), or an Arrow type (see `of_arrow`).

    Raises:
        InvalidOption: the text is no type, the Arrow type has no default, or the argument is none of these.
    """
    if isinstance(type_, Serializer):
        return type_
    if isinstance(type_, str):
        return parse(type_)
    if isinstance(type_, pa.DataType):
        return of_arrow(type_)
    raise InvalidOption(f"{type_!r} is no type", advice="give one of stateproc.types, or text such as 'Long'")
