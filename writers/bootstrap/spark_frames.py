"""DataFrames of Spark as rows that fill a state: their columns and types. Imported only where Spark is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from stateproc.codec.layouts.rows import ROW_KIND_FIELD
from stateproc.query_plans.state_parts import MOST_ELEMENTS, Always, NodeState, Pair, Part, Record, Rows, Seen, Zeros
from stateproc.query_plans.state_parts import Column as Single
from stateproc.spark.types import arrow_type, spark_struct
from stateproc.writers.bootstrap.column_types import ColumnKind, ColumnType, FrameColumns

_VARIANT: Any = getattr(types, "VariantType", ())
"""Spark 3.5 has none."""
_KINDS: dict[type[DataType], ColumnKind] = {
    ByteType: "whole",
    ShortType: "whole",
    IntegerType: "whole",
    LongType: "whole",
    TimestampType: "time",
    TimestampNTZType: "time",
    ArrayType: "list",
    MapType: "map",
    StructType: "struct",
}


def column_named(name: str) -> Column:
    """Return a DataFrame's column by its name, in which dots and backticks have no meaning."""
    return F.col("`" + name.replace("`", "``") + "`")


def millis_of(frame: DataFrame, name: str) -> Column:
    """Return a column of times as milliseconds; timestamps without time zone are taken for UTC."""
    column, kind = column_named(name), frame.schema[name].dataType
    if isinstance(kind, IntegralType):
        return column.cast("long")
    if isinstance(kind, TimestampNTZType):
        column = F.to_timestamp_ltz(F.concat(column.cast("string"), F.lit("Z")))
    micros = F.unix_micros(column)
    text = F.concat(F.lit(f"column '{name}' has a time that is no millisecond: "), column.cast("string"))
    whole = F.pmod(micros, long(1000)) == long(0)
    return F.when(whole | column.isNull(), F.unix_millis(column)).otherwise(F.raise_error(text).cast("long"))


def long(value: int) -> Column:
    """Return a BIGINT."""
    return F.lit(value).cast("long")


def spark_columns(frame: Any) -> FrameColumns | None:
    """Return the columns of anything with a schema of Spark; None for anything else."""
    return _struct_columns(frame.schema) if is_data_frame(frame) else None


def is_data_frame(frame: Any) -> bool:
    """Return whether this has a schema of Spark: a DataFrame of Spark, or of Spark Connect."""
    return isinstance(getattr(frame, "schema", None), StructType)


def columns_of_schema(schema: pa.Schema) -> FrameColumns:
    """Return an Arrow schema as columns of Spark. Raises InvalidOption for a type that this release does not have."""
    return _struct_columns(spark_struct(schema))


def _struct_columns(schema: StructType) -> FrameColumns:
    return FrameColumns(schema.names, lambda index: spark_type(schema[index].dataType))


def spark_type_given(given: object) -> ColumnType | None:
    """Return a type of Spark as the type of a column; None for anything else."""
    return spark_type(given) if isinstance(given, DataType) else None


def spark_type(found: DataType) -> ColumnType:
    """Return a type of Spark as the type of a column."""
    fields = tuple((name, spark_type(type_)) for name, type_ in _fields(found))
    kind: ColumnKind = "other"
    for type_, known in _KINDS.items():
        kind = known if isinstance(found, type_) else kind
    arrow: pa.DataType | None = None
    advice = ""
    if _has_variants(found):
        advice = "give text instead: to_json(…); Flink's VARIANT is read here, and not written"
    else:
        try:
            arrow = arrow_type(found)
        except PySparkTypeError:
            advice = "cast the column, to a number of months for instance"
        except ValueError:  # Elements of array(), which have no type and cannot be null.
            advice = "give elements a type: array().cast('array<string>') for instance"
    return ColumnType(found.simpleString(), kind, arrow, fields, advice)


def _fields(kind: DataType) -> Iterator[tuple[str, DataType]]:
    if isinstance(kind, StructType):
        yield from ((field.name, field.dataType) for field in kind)
    elif isinstance(kind, MapType):
        yield from (("key", kind.keyType), ("value", kind.valueType))
    elif isinstance(kind, ArrayType):
        yield "element", kind.elementType


def _has_variants(kind: DataType) -> bool:
    return isinstance(kind, _VARIANT) or any(_has_variants(type_) for _, type_ in _fields(kind))


def collected_rows(frame: DataFrame, roles: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Return all rows of the columns of ``roles``, under the names of their roles."""
    columns = [(F.lit(None) if name is None else column_named(name)).alias(role) for role, name in roles.items()]
    return [row.asDict() for row in frame.select(*columns).collect()]


def created(frame: DataFrame, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> DataFrame:
    """Return a DataFrame of these rows in the session of ``frame``."""
    return frame.sparkSession.createDataFrame(rows, spark_struct(schema))


def nested_columns(frame: DataFrame, parts: Mapping[str, Part]) -> DataFrame:
    """Return the parts of keys and values as columns."""
    return frame.select(*(_nested(part, frame).alias(name) for name, part in parts.items()))


def rows_in(frame: DataFrame, state: NodeState) -> DataFrame:
    """Return the rows that fill a state: of two that share rows, by a column that is null in those of one."""
    if state.is_empty:
        return frame.limit(0)
    if state.split is not None:
        column = column_named(state.split)
        frame = frame.filter(column.isNotNull() if state.rows is None else column.isNull())
    if not isinstance(state.value, Seen):
        return frame
    return frame.filter(F.greatest(*(_nested(one, frame).cast("long") for one in state.value.numbers)) != F.lit(0))


def _field(part: Record, name: str, frame: DataFrame) -> Column:
    """Return a field of a row."""
    if name in part.rows:
        row = part.rows[name]
        names = zip(row.columns, part.type_of(name).names, strict=True)
        return F.struct(*(_field(row, column, frame).alias(field) for column, field in names))
    if part.is_absent(name):
        return F.lit(None).cast("void" if part.type_of(name).kind == "RAW" else "timestamp")
    if name in part.orders:
        order = part.orders[name]
        return F.when(column_named(order.column).isNull(), F.lit(order.none)).otherwise(F.lit(0)).cast("long")
    if name in part.always:
        return F.lit(part.always[name]).cast(_type(part.arrow_type_of(name)))
    if name in part.empty:
        return _no_elements(_element_type(part, name))
    column, initial = column_named(name), part.initial.get(name)
    if isinstance(initial, tuple):
        found = frame.schema[name].dataType
        element = found.elementType if isinstance(found, ArrayType) else NullType()
        if isinstance(element, NullType):
            element = _element_type(part, name)
            # All elements are null: their type is not always one that Spark casts to.
            column = F.transform(column.cast(ArrayType(NullType())), lambda _: F.lit(None).cast(element))
        return F.coalesce(column, _no_elements(element))
    if isinstance(initial, str):
        return F.coalesce(column.cast("string"), F.lit(initial))
    if initial is None:
        return column
    found = frame.schema[name].dataType
    return F.coalesce(column, F.lit(initial).cast(LongType() if isinstance(found, NullType) else found))


def _rows(part: Rows) -> Column:
    """Return arrays of rows."""
    text, mark = F.lit(f"column '{part.name}' cannot be null or empty, or have null rows"), part.mark

    def one(item: Column) -> Column:
        none, row = F.lit(None).cast("timestamp"), part.row
        found = F.struct(*((none if row.is_absent(name) else item[name]).alias(name) for name in row.columns))
        if mark is None:
            return found
        if isinstance(mark, Always):
            beside = F.lit(mark.value)
        else:
            null = F.raise_error(F.lit(f"column '{mark.name}' cannot be null")).cast("boolean")
            beside = F.when(item[mark.name].isNotNull(), item[mark.name]).otherwise(null)
        return F.struct(found.alias("f0"), beside.alias("f1"))

    given = column_named(part.name)
    right = (F.size(given) > F.lit(0)) & F.forall(given, lambda item: item.isNotNull())
    return F.transform(F.when(right, given).otherwise(F.raise_error(text)), one)


def _no_elements(type_: DataType) -> Column:
    """Return an array of a type of elements, which may be null, as those of array() cannot."""
    return F.filter(F.array(F.lit(None).cast(type_)), lambda _: F.lit(False))


def _element_type(part: Record, name: str) -> DataType:
    """Return the type of the elements of a column that is an array in Flink."""
    return _type(part.arrow_type_of(name).value_type)


def _type(type_: pa.DataType) -> DataType:
    (field,) = spark_struct(pa.schema([("value", type_)]))
    return field.dataType


def _nested(part: Part, frame: DataFrame) -> Column:
    if isinstance(part, Always):
        return F.lit(part.value)
    if isinstance(part, Zeros):
        number, most = _nested(part.number, frame), f"column '{part.number.name}' cannot be over {MOST_ELEMENTS}"
        number = F.when(number <= F.lit(MOST_ELEMENTS), number).otherwise(F.raise_error(most))
        return F.array_repeat(F.lit(0).cast("long"), number.cast("int"))
    if isinstance(part, Seen):
        seen = [_nested(number, frame).cast("long") for number in part.numbers]
        if not part.are_bits:
            return F.array(*seen)
        bits = [F.when(one != F.lit(0), F.lit(1 << at)).otherwise(F.lit(0)).cast("long") for at, one in enumerate(seen)]
        return reduce(Column.bitwiseOR, bits)
    if isinstance(part, Rows):
        return _rows(part)
    if isinstance(part, Single):
        if part.name not in frame.columns:
            return F.lit(part.default)
        column, text = column_named(part.name), f"column '{part.name}' cannot be null"
        if part.is_time:
            column = millis_of(frame, part.name)
        if part.null is not None:
            return F.coalesce(column.cast("string"), F.lit(part.null))
        if part.is_array and isinstance(frame.schema[part.name].dataType, NullType):
            column = column.cast(ArrayType(NullType()))
        right = column.isNotNull()
        if part.least is not None and part.is_array:
            right, text = F.size(column) >= F.lit(part.least), f"{text} or empty"
        elif part.least is not None:
            number = column.cast("long")
            right, text = (
                (number == column) & (number >= F.lit(part.least)),
                f"{text}, below {part.least} or a fraction",
            )
            column = number
        return F.when(right, column).otherwise(F.raise_error(text))
    names: tuple[str, ...]
    if isinstance(part, Pair):
        found, names = [_nested(part.first, frame), _nested(part.second, frame)], part.fields
    else:
        found = [_field(part, name, frame) for name in part.columns]
        names = tuple(f"f{at}" for at in range(len(found)))
        if part.kind in frame.columns:
            found, names = [*found, column_named(part.kind)], (*names, ROW_KIND_FIELD)
    fields = [column.alias(name) for name, column in zip(names, found, strict=True)]
    return F.struct(*fields) if fields else F.expr("named_struct()")
