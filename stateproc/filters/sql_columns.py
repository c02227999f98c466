"""Convert columns for DuckDB: ISO text of dates and times to its types, names to ones that it distinguishes.

DuckDB does not distinguish names by case. Where columns or fields differ by it alone, all names are numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption
from stateproc.filters.condition import Node, constant, matching_name, resolved_path, type_of

_FRACTION = r"\.\d{6}\d*[1-9]"
_ISO = r"^(?P<year>[+-]?\d{4,10})-(?P<rest>.*)$"
_DAY_MICROSECONDS = 86_400 * 10**6
_CYCLE_DAYS = 146_097
"""Days of 400 years."""


class UnheldMoment(InvalidOption):
    """Internal: a column's dates or times have no common type of SQL that holds all of them."""


def sql_column(array: pa.Array, temporal: pa.DataType, name: str, *, numbered: bool) -> pa.Array:
    """Return a column in types of DuckDB.

    Args:
        array: The values; dates and times may be ISO text.
        temporal: Their type with dates and times as Arrow's types.
        name: The column, for errors.
        numbered: Whether fields are called ``f0``, ``f1``, ….

    Raises:
        InvalidOption: A date or time has more digits, or is further away, than SQL's types hold.
    """
    if pa.types.is_dictionary(array.type):
        array, temporal = array.dictionary_decode(), _value_type(temporal)
    if array.type.equals(temporal) and not (numbered and array.type.num_fields):
        return array
    if pa.types.is_string(array.type) and pa.types.is_temporal(temporal):
        return _moments(array, temporal, name)

    def column(values: pa.Array, type_: pa.DataType) -> pa.Array:
        return sql_column(values, type_, name, numbered=numbered)

    if pa.types.is_struct(array.type):
        fields = [column(array.field(i), temporal.field(i).type) for i in range(array.type.num_fields)]
        names = [f"f{i}" if numbered else field.name for i, field in enumerate(array.type)]
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
    offsets = array.offsets.to_numpy()
    return pa.array(offsets, pa.int32(), mask=np.append(array.is_null().to_numpy(zero_copy_only=False), False))


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
    """The names that columns and fields have in DuckDB.

    Attributes:
        schema: The columns.
        renames: Whether they are numbered, because some differ by case alone.
    """

    schema: pa.Schema
    renames: bool

    def column(self, name: str) -> str:
        """Return the name of a column in DuckDB."""
        return f"c{self.schema.names.index(name)}" if self.renames else name

    def renamed(self, node: Node) -> Node:
        """Return an expression with names as DuckDB has them."""
        return _renamed(node, self) if self.renames else node


def unambiguous(schema: pa.Schema, columns: Sequence[str]) -> SqlNames:
    """Return names that differ by more than case for the columns of a condition and their fields."""
    lowered = [name.lower() for name in columns]
    same = len(set(lowered)) < len(lowered)
    return SqlNames(schema, same or any(_has_same(schema.field(name).type) for name in columns))


def _has_same(type_: pa.DataType) -> bool:
    names = [field.name.lower() for field in type_] if pa.types.is_struct(type_) else []
    return len(set(names)) < len(names) or any(_has_same(type_.field(i).type) for i in range(type_.num_fields))


def _renamed(node: Any, names: SqlNames) -> Any:
    if isinstance(node, list):
        return [_renamed(item, names) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("class") == "COLUMN_REF":
        path = resolved_path(node, names.schema) or []
        type_, parts = names.schema.field(path[0]).type, [names.column(path[0])]
        for name in path[1:]:
            index = [field.name for field in type_].index(name)
            parts.append(f"f{index}")
            type_ = type_.field(index).type
        return node | {"column_names": parts}
    if node.get("type") in ("STRUCT_EXTRACT", "ARRAY_EXTRACT"):
        base, key = node["children"]
        outer = type_of(base, names.schema)
        if outer is not None and pa.types.is_struct(outer):
            fields = [field.name for field in outer]
            index = fields.index(str(matching_name(fields, str(constant(key)))))
            return node | {"children": [_renamed(base, names), _text_constant(key, f"f{index}")]}
        if outer is None and node["type"] == "STRUCT_EXTRACT":
            raise InvalidOption(
                "where: a field of a computed value, where names of fields differ by case alone",
                advice="take fields of columns, as in value.name",
            )
    return {name: _renamed(item, names) for name, item in node.items()}


def _text_constant(node: Node, text: str) -> Node:
    if "literal" in node:
        return node | {"literal": node["literal"] | {"kind": "STRING", "text": text}}
    return node | {"value": node["value"] | {"value": text}}
