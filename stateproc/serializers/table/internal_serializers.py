"""Find the serializers of SQL types: org.apache.flink.table.runtime.typeutils.InternalSerializers."""

from __future__ import annotations

from stateproc.errors import InvalidOption
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.java.collections import PRIMITIVE_ARRAYS, PlainArray
from stateproc.serializers.java.scalars import SCALARS, Scalar
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import DecimalData, RowData, SqlCollection, StringData, TimestampData
from stateproc.serializers.table.variants import BITMAP_VALUE, VARIANT_VALUE

_COUNT = LogicalType("INTEGER", nullable=False)
_SCALARS = {row[0]: Scalar(*row) for row in SCALARS}
_BYTES = PlainArray("byte", dict(PRIMITIVE_ARRAYS)["Byte"])
_PLAIN: dict[str, Serializer] = {
    "CHAR": StringData(),
    "VARCHAR": StringData(),
    "BINARY": _BYTES,
    "VARBINARY": _BYTES,
    "BOOLEAN": _SCALARS["Boolean"],
    "TINYINT": _SCALARS["Byte"],
    "SMALLINT": _SCALARS["Short"],
    "INTEGER": _SCALARS["Int"],
    "DATE": _SCALARS["Int"],
    "TIME_WITHOUT_TIME_ZONE": _SCALARS["Int"],
    "INTERVAL_YEAR_MONTH": _SCALARS["Int"],
    "BIGINT": _SCALARS["Long"],
    "INTERVAL_DAY_TIME": _SCALARS["Long"],
    "FLOAT": _SCALARS["Float"],
    "DOUBLE": _SCALARS["Double"],
    "VARIANT": VARIANT_VALUE,
    "BITMAP": BITMAP_VALUE,
}


def internal_serializer(type_: LogicalType) -> Serializer:
    """Return the serializer of a SQL type. Raises InvalidOption for types whose values cannot be written."""
    plain = _PLAIN.get(type_.kind)
    if plain is not None:
        return plain
    if type_.kind == "DECIMAL":
        return DecimalData(type_.precision, type_.scale)
    if type_.kind in ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"):
        return TimestampData(type_.precision)
    if type_.kind == "ARRAY" or type_.kind == "MAP":
        return SqlCollection(LogicalType(type_.kind, children=type_.children))
    if type_.kind == "MULTISET":
        return SqlCollection(LogicalType("MAP", children=(*type_.children, _COUNT)))
    if type_.kind == "ROW":
        return row_data(type_)
    raise InvalidOption(
        f"values of the SQL type {type_.sql} cannot be written",
        advice="use a ROW in place of a structured type, BYTES in place of a RAW one",
    )


def row_data(row: LogicalType) -> RowData:
    """Return the RowDataSerializer of a ROW type."""
    return RowData(row.children, row.names, tuple(internal_serializer(child) for child in row.children))
