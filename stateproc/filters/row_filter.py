"""Keep the rows of a batch for which a condition is true, and compute expressions over them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import no_rows, null_rows, numbers_of, values_array
from stateproc.errors import InvalidOption
from stateproc.filters.condition import (
    SELECT,
    Node,
    WhereCondition,
    arrow_reader,
    children,
    connection,
    constant,
    duckdb_errors,
    is_null,
    matching_name,
    resolved_path,
    sql_of,
    type_of,
    walk,
)
from stateproc.row_formats.case_collisions import (
    ascii_lower,
    colliding_names,
    distinct_names,
    distinct_schema,
    renamed_batch,
)

# Convert columns for DuckDB: ISO text of dates and times to its types.

_FRACTION = r"\.\d{6}\d*[1-9]"
_ISO = r"^(?P<year>[+-]?\d{4,10})-(?P<rest>.*)$"
_DAY_MICROSECONDS = 86_400 * 10**6
_CYCLE_DAYS = 146_097
"""Days of 400 years."""


class UnheldMoment(InvalidOption):
    """Internal: a column's dates or times have no common type of SQL that holds all of them."""


def sql_column(array: pa.Array, temporal: pa.DataType, name: str) -> pa.Array:
    """Return a column in types of DuckDB.

    Args:
        array: The values; dates and times may be ISO text.
        temporal: Their type with dates and times as Arrow's types.
        name: The column, for errors.

    Raises:
        InvalidOption: A date or time has more digits, or is further away, than SQL's types hold.
    """
    if pa.types.is_dictionary(array.type):
        array, temporal = array.dictionary_decode(), _value_type(temporal)
    if array.type.equals(temporal):
        return array
    if pa.types.is_string(array.type) and pa.types.is_temporal(temporal):
        return _moments(array, temporal, name)

    def column(values: pa.Array, type_: pa.DataType) -> pa.Array:
        return sql_column(values, type_, name)

    if pa.types.is_struct(array.type):
        fields = [column(array.field(i), temporal.field(i).type) for i in range(array.type.num_fields)]
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(fields, names, mask=array.is_null()) if fields else array
    if pa.types.is_map(array.type):
        keys, items = column(array.keys, temporal.key_type), column(array.items, temporal.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items)
    if pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(_offsets(array), column(array.values, temporal.value_type))
    return array


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of lists or maps, null where a list is null."""
    return values_array(numbers_of(array.offsets), np.append(null_rows(array), False))


def _moments(texts: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    """Convert ISO text to microseconds, or to nanoseconds if a value has them."""
    unit = "ns" if pc.any(pc.match_substring_regex(texts, _FRACTION)).as_py() else "us"
    plain = pc.utf8_rtrim(texts, "Z")
    try:
        if pa.types.is_time(type_):
            since_midnight = pc.cast(pc.binary_join_element_wise("1970-01-01T", plain, ""), pa.timestamp(unit))
            return pc.cast(since_midnight.cast(pa.int64()), pa.time64(unit))
        moments = _microseconds(plain) if unit == "us" else pc.cast(plain, pa.timestamp("ns"))
        if pa.types.is_date(type_):
            return pc.cast(pc.divide(moments, _DAY_MICROSECONDS).cast(pa.int32()), pa.date32())
        zone = type_.tz if unit == "us" else None  # DuckDB has no type of nanoseconds with a time zone
        return moments.cast(pa.timestamp(unit, zone))
    except pa.ArrowInvalid as error:
        raise UnheldMoment(
            f"where: {name!r} has a date or time that SQL's types do not hold: {str(error).splitlines()[0]}",
            advice="read it without temporal='exact', or leave the column out of the condition",
        ) from error


def _microseconds(texts: pa.Array) -> pa.Array:
    """Return the microseconds since 1970 of ISO text with years of any size. Raises ArrowInvalid beyond 64 bits."""
    parts = pc.extract_regex(texts, _ISO)
    years = pc.cast(pc.utf8_ltrim(pc.struct_field(parts, "year"), "+"), pa.int64())
    # Calendars of years 400 apart are the same, and Arrow parses four digits.
    cycles = pc.floor(pc.divide(pc.cast(pc.subtract(years, 2000), pa.float64()), 400.0)).cast(pa.int64())
    near = pc.cast(pc.subtract(years, pc.multiply(cycles, 400)), pa.string())
    moments = pc.cast(pc.binary_join_element_wise(near, pc.struct_field(parts, "rest"), "-"), pa.timestamp("us"))
    shift = pc.multiply_checked(cycles, _CYCLE_DAYS * _DAY_MICROSECONDS)
    return pc.add_checked(moments.cast(pa.int64()), shift)


@dataclass(frozen=True)
class SqlNames:
    """The names that columns and fields have in DuckDB, which does not distinguish them by case.

    Attributes:
        schema: The columns of a condition.
    """

    schema: pa.Schema

    @cached_property
    def renames(self) -> bool:
        """Whether columns or fields differ by case alone, and have other names therefore."""
        return bool(colliding_names(self.schema, ascii_lower))

    def renamed(self, node: Any) -> Any:
        """Return an expression with names as DuckDB has them."""
        if not self.renames:
            return node
        if isinstance(node, list):
            return [self.renamed(item) for item in node]
        if not isinstance(node, dict):
            return node
        if node.get("class") == "COLUMN_REF":
            type_, parts = pa.struct(list(self.schema)), []
            for name in resolved_path(node, self.schema) or []:
                index = [field.name for field in type_].index(name)
                parts.append(_distinct(type_)[index])
                type_ = type_.field(index).type
            return node | {"column_names": parts}
        if node.get("type") in ("STRUCT_EXTRACT", "ARRAY_EXTRACT"):
            base, key = node["children"]
            outer = type_of(base, self.schema)
            if outer is not None and pa.types.is_struct(outer):
                fields = [field.name for field in outer]
                name = _distinct(outer)[fields.index(str(matching_name(fields, str(constant(key)))))]
                return node | {"children": [self.renamed(base), _text_constant(key, name)]}
            if outer is None and node["type"] == "STRUCT_EXTRACT":
                raise InvalidOption(
                    "where: a field of a computed value, where names of fields differ by case alone",
                    advice="take fields of columns, as in value.name",
                )
        return {name: self.renamed(item) for name, item in node.items()}


def _distinct(type_: pa.StructType) -> list[str]:
    return distinct_names([field.name for field in type_], ascii_lower)


def _text_constant(node: Node, text: str) -> Node:
    if "literal" in node:
        return node | {"literal": node["literal"] | {"kind": "STRING", "text": text}}
    return node | {"value": node["value"] | {"value": text}}


ROWS, _ROW = "__rows", "__row"
_ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], ["none"])
_WHERE = f"SELECT {_ROW} FROM {ROWS} WHERE "
_VALUE = "__value"
_VALUES = f"SELECT {_ROW}, ("
_NUMBERS = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|INTEGER_LITERAL|DECIMAL|FLOAT|DOUBLE)\b")


@dataclass(frozen=True)
class RowExpression:
    """An expression over the columns of a schema.

    Attributes:
        condition: The parsed expression.
        schema: The schema of the batches, in which dates and times may be ISO text.
        temporal: The same schema with dates and times as Arrow's types.

    Raises:
        InvalidOption: The types in the expression do not fit each other.
    """

    condition: WhereCondition
    schema: pa.Schema
    temporal: pa.Schema

    def __post_init__(self) -> None:
        self._check_types()
        assert self.type is not None

    @cached_property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self.values(self._no_rows).type

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the value of each row, in the type that DuckDB gives it. Raises InvalidOption."""
        if len(batch) > 1 and not self.condition.columns:
            return self._constant.take(values_array(np.zeros(len(batch), dtype=np.int64)))
        try:
            query = f"{_VALUES}{self._sql}\n) AS {_VALUE} FROM {ROWS}"
            table = arrow_reader(self._run(query, batch, relation=True), max(1, len(batch))).read_all()
        except UnheldMoment as error:
            raise InvalidOption(error.message, advice=error.advice) from error
        except duckdb_errors() as error:
            raise self._explained(error, _VALUES) from error
        if not len(table):
            return pa.nulls(0, table.schema.field(_VALUE).type)  # no chunks, which pyarrow combines by pandas
        rows = numbers_of(table.column(_ROW).combine_chunks())
        value: pa.Array = table.column(_VALUE).combine_chunks()
        is_in_order = (rows[1:] > rows[:-1]).all()
        return value if is_in_order else value.take(values_array(np.argsort(rows, kind="stable")))

    @cached_property
    def _constant(self) -> pa.Array:
        """The value of an expression that reads no column."""
        return self.values(_ONE_ROW)

    @cached_property
    def _names(self) -> SqlNames:
        return SqlNames(self._no_rows.schema)

    @cached_property
    def _no_rows(self) -> pa.RecordBatch:
        """No rows, of the columns that the expression reads."""
        return no_rows(pa.schema([self.schema.field(name) for name in self.condition.columns]))

    @cached_property
    def _sql(self) -> str:
        """The expression as it was written, unless names in it differ by case alone."""
        if not self._names.renames:
            return self.condition.sql
        return sql_of(self._names.renamed(self.condition.tree)).removeprefix("SELECT ")

    def _run(self, query: str, batch: pa.RecordBatch, *, relation: bool = False) -> Any:
        names = self.condition.columns
        columns = [sql_column(batch.column(name), self.temporal.field(name).type, name) for name in names]
        table = pa.RecordBatch.from_arrays([*columns, values_array(np.arange(len(batch)))], names=[*names, _ROW])
        if self._names.renames:
            table = renamed_batch(table, distinct_schema(table.schema, ascii_lower))
        database = connection()
        try:
            database.register(ROWS, pa.Table.from_batches([table]))
            return database.sql(query) if relation else database.execute(query)
        except duckdb_errors() as error:
            raise self._explained(error, query) from error

    def _explained(self, error: Exception, query: str) -> InvalidOption:
        """Convert DuckDB's error, which is JSON, to one that points into the expression."""
        text = str(error)
        try:
            found = json.loads(text[text.index("{") :])
        except ValueError:
            return self.condition.error_at(None, text.partition("\n")[0])
        position = found.get("position")
        start = next((prefix for prefix in (_WHERE, _VALUES) if query.startswith(prefix)), None)
        is_written = position is not None and start is not None and not self._names.renames
        at = int(position) - len(str(start)) + len(SELECT) if is_written else None
        return self.condition.error_at(at, str(found["exception_message"]).partition("\n")[0])

    def _check_types(self) -> str:
        """Return DuckDB's type of the values. Refuses text that DuckDB would round to compare it with a number."""
        comparisons = [node for node in walk(self.condition.tree) if _compares(node)]
        operands = [operand for node in comparisons for operand in _operands(node)]
        query = sql_of(*(self._names.renamed(node) for node in [self.condition.tree, *operands]))
        types = iter([row[1] for row in self._run(f"DESCRIBE {query} FROM {ROWS}", self._no_rows).fetchall()])
        kind = str(next(types))
        for node in comparisons:
            found = [(operand, next(types)) for operand in _operands(node)]
            texts = [operand for operand, type_ in found if type_ == "VARCHAR" and constant(operand) is None]
            numbers = [type_ for operand, type_ in found if _NUMBERS.match(type_) and not is_null(operand)]
            if texts and numbers:
                raise self.condition.error(
                    node,
                    f"text is compared with a number ({numbers[0]})",
                    "convert it: CAST(… AS DECIMAL(38, 6)), or DOUBLE; text goes in 'single quotes'",
                )
        return kind


@dataclass(frozen=True)
class RowFilter(RowExpression):
    """A condition over the columns of a schema.

    Raises:
        InvalidOption: The types in the condition do not fit each other, or it is not true or false.
    """

    def __post_init__(self) -> None:
        self._check_types()
        self.mask(self._no_rows)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true."""
        return batch.filter(self.mask(batch))

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return per row whether the condition is true. Raises InvalidOption for values that DuckDB refuses."""
        if len(batch) > 1 and not self.condition.columns:
            return values_array(np.full(len(batch), self._is_always))
        try:
            rows = self._run(f"{_WHERE}{self._sql}\n", batch).fetchnumpy()[_ROW]
        except UnheldMoment as error:
            if len(batch) < 2:
                raise InvalidOption(error.message, advice=error.advice) from error
            # Nanoseconds and years that are far away: each has a type, but both have none.
            middle = len(batch) // 2
            return pa.concat_arrays([self.mask(batch.slice(0, middle)), self.mask(batch.slice(middle))])
        kept = np.zeros(len(batch), dtype=np.bool_)
        kept[np.ma.getdata(rows)] = True
        return values_array(kept)

    @cached_property
    def _is_always(self) -> bool:
        """Whether a condition that reads no column is true."""
        return bool(self.mask(_ONE_ROW)[0].as_py())

    def _check_types(self) -> str:
        kind = super()._check_types()
        if kind != "BOOLEAN" and not is_null(self.condition.tree):
            raise self.condition.error(
                self.condition.tree, f"{kind} is not a boolean", "compare it with something, as in value.total >= 10"
            )
        return kind


def _compares(node: Node) -> bool:
    return node["class"] in ("COMPARISON", "BETWEEN") or node.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN")


def _operands(node: Node) -> list[Node]:
    return list(children(node))
