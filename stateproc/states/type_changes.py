"""Say what a conversion from Flink's types to Arrow's loses or changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from stateproc.serializers import Serializer
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.java.structs import EnumOf, RowOf
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.serializers.table.serializers import RowData

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
