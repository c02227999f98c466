"""Derive from a condition the keys and key groups that rows can have, so that only these key groups are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import booleans_of, values_array
from stateproc.errors import InvalidOption
from stateproc.filters.condition import (
    Node,
    WhereCondition,
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
from stateproc.filters.row_filter import RowFilter
from stateproc.keygroups.key_group_pruning import in_both, keys_of_fields
from stateproc.row_formats.json_values import json_values

KEY, KEY_GROUP = "key", "key_group"
KeyGroupsOf = Callable[[Sequence[Any]], "set[int] | None"]
_NO_KEY = object()
_EXACT_DOUBLES = 2.0**53
"""Below this, doubles represent each integer."""
_CASTS = {"TIMESTAMPTZ": "CAST(CAST(? AS TIMESTAMPTZ) AS TIMESTAMP)"}
"""An instant is read as a timestamp in UTC: DuckDB 1 needs pytz to return an instant."""
_NANOSECONDS = re.compile(r"\.\d{7}")
_SQL_TYPES = (
    (pa.types.is_date, "DATE"),
    (pa.types.is_time, "TIME"),
    (lambda type_: pa.types.is_timestamp(type_) and type_.tz is not None, "TIMESTAMPTZ"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_binary, "BLOB"),
)


def keys_in(where: WhereCondition, key_type: pa.DataType) -> list[Any] | None:
    """Return the keys that rows can have.

    Returns:
        Keys, with dates, times and bytes as text; None if the condition allows others. Of a struct the condition has
        to determine every field.
    """
    schema = pa.schema([(KEY, key_type)])

    def values(path: tuple[str, ...], field: pa.DataType) -> list[Any] | None:
        literals = _values_of(where.tree, path, schema)
        keys = None if literals is None else [_key(literal, field) for literal in _evaluated(literals)]
        return None if keys is None or any(key is _NO_KEY for key in keys) else keys

    return keys_of_fields(key_type, values)


def allowed_by(
    where: WhereCondition, schema: pa.Schema, max_parallelism: int, key_groups_of: KeyGroupsOf
) -> tuple[list[Any] | None, set[int] | None]:
    """Return the keys and the key groups that rows can have; None where the condition allows all.

    Args:
        schema: The columns of the rows, with dates and times as Arrow's types.
        max_parallelism: The number of key groups.
        key_groups_of: Returns the key groups of keys; None where these are not known.
    """
    groups = key_groups_in(where, max_parallelism) if KEY_GROUP in schema.names else None
    keys = keys_in(where, schema.field(KEY).type) if KEY in schema.names else None
    return keys, groups if keys is None else in_both(groups, key_groups_of(keys))


def key_groups_in(where: WhereCondition, max_parallelism: int) -> set[int] | None:
    """Return the key groups that rows can be in; None if the condition allows all."""
    groups = np.arange(max_parallelism, dtype=np.int32)
    possible = _possible(where, where.tree, pa.RecordBatch.from_arrays([values_array(groups)], names=[KEY_GROUP]))
    return None if possible is None or possible.all() else set(groups[possible].tolist())


def _possible(where: WhereCondition, node: Node, groups: pa.RecordBatch) -> Any:
    """Return per key group whether the condition can be true in it; None if nothing is known."""
    if node["class"] == "CONJUNCTION":
        masks = [_possible(where, part, groups) for part in node["children"]]
        if node["type"] == "CONJUNCTION_OR":
            return None if any(mask is None for mask in masks) else np.logical_or.reduce(masks)
        known = [mask for mask in masks if mask is not None]
        return np.logical_and.reduce(known) if known else None
    columns = [item for item in walk(node) if item["class"] == "COLUMN_REF"]
    if not columns or any([name.lower() for name in item["column_names"]] != [KEY_GROUP] for item in columns):
        return None
    part = WhereCondition(where.text, sql_of(node).removeprefix("SELECT "), node, (KEY_GROUP,), where.offsets)
    try:
        mask = RowFilter(part, groups.schema, groups.schema).mask(groups)
    except InvalidOption:
        return None  # the filter of rows reports it
    return booleans_of(mask).view(np.bool_)


def _values_of(node: Node, path: tuple[str, ...], schema: pa.Schema) -> list[Node] | None:
    """Return the literals one of which a column must equal; None if it may have any value."""
    kind = node.get("type")
    if kind == "COMPARE_EQUAL":
        for column, literal in ((node["left"], node["right"]), (node["right"], node["left"])):
            if _path(column, schema) == path:
                return _literals([literal])
    if kind == "COMPARE_IN":
        column, *literals = node["children"]
        return _literals(literals) if _path(column, schema) == path and literals else None
    if kind == "OPERATOR_IS_NULL" and len(path) > 1 and _path(node["children"][0], schema) == path:
        return [_NULL]  # a key is never null; a field of a key can be
    if kind == "CONJUNCTION_AND":
        known = [values for part in node["children"] if (values := _values_of(part, path, schema)) is not None]
        return min(known, key=len) if known else None
    if kind == "CONJUNCTION_OR":
        parts = [_values_of(part, path, schema) for part in node["children"]]
        return None if None in parts else [value for part in parts if part for value in part]
    return None


_NULL: Node = {"class": "CONSTANT", "of_field": True}
"""Stands for a field of a key that is null."""


def _path(node: Node, schema: pa.Schema) -> tuple[str, ...] | None:
    """Return the names of the column ``key``, or of a field in it, as the type has them; None for other expressions."""
    if node["class"] == "COLUMN_REF":
        found = resolved_path(node, schema)
        return None if found is None else tuple(found)
    if node.get("type") in ("STRUCT_EXTRACT", "ARRAY_EXTRACT"):
        base, key = node["children"]
        outer, type_ = _path(base, schema), type_of(base, schema)
        if outer is None or type_ is None or not pa.types.is_struct(type_):
            return None
        name = matching_name([field.name for field in type_], str(constant(key)))
        return None if name is None else (*outer, name)
    return None


def _literals(nodes: list[Node]) -> list[Node] | None:
    if any(is_null(node) or any(item["class"] == "COLUMN_REF" for item in walk(node)) for node in nodes):
        return None
    return nodes


def _evaluated(literals: list[Node]) -> list[Any]:
    """Return the values of literals: None for the field that is null, _NO_KEY for those that cannot be calculated."""
    nodes = [node for node in literals if node is not _NULL]
    if not nodes:
        return [None] * len(literals)
    try:
        row = connection().execute(sql_of(*nodes)).fetchall()[0]
    except duckdb_errors():
        return [_NO_KEY]  # the filter of rows reports it
    values = iter(_as_one_type([_double(node, value) for node, value in zip(nodes, row, strict=True)]))
    return [None if node is _NULL else next(values) for node in literals]


def _double(node: Node, value: Any) -> Any:
    """Return a constant's value, which DuckDB 1 writes as a decimal where it is a double."""
    is_double = "value" in node and node["value"]["type"]["id"] == "DOUBLE"
    return float(value) if is_double and value is not None else value


def _as_one_type(values: list[Any]) -> list[Any]:
    """One double in a list makes doubles of all numbers in it."""
    if not any(isinstance(value, float) for value in values):
        return values
    return [float(value) if _is_number(value) else value for value in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _key(literal: Any, type_: pa.DataType) -> Any:
    """Return the literal as a value of the type; _NO_KEY where equal values can have different hashes."""
    if literal is None or literal is _NO_KEY:
        return literal
    if isinstance(literal, bool):
        return literal if pa.types.is_boolean(type_) else _NO_KEY
    if not _is_number(literal):
        return _text_key(literal, type_)
    if isinstance(literal, float) and not pa.types.is_floating(type_):
        # Compared as doubles, several integers and decimals equal a large double.
        if not abs(literal) < _EXACT_DOUBLES or not pa.types.is_integer(type_):
            return _NO_KEY
        literal = Decimal(literal)
    if pa.types.is_integer(type_) and abs(literal) < 2**64 and literal == int(literal):
        return int(literal)
    if pa.types.is_floating(type_):
        return float(literal)
    return Decimal(literal) if pa.types.is_decimal(type_) else _NO_KEY


def _text_key(literal: Any, type_: pa.DataType) -> Any:
    """Return the key that a text, bytes, a date or a time means for a type: bytes as base64, the others as ISO text."""
    name = next((name for matches, name in _SQL_TYPES if matches(type_)), None)
    if name is None:
        return literal if isinstance(literal, str) and pa.types.is_string(type_) else _NO_KEY
    if isinstance(literal, str):
        if _NANOSECONDS.search(literal) and name != "BLOB":
            return _NO_KEY  # rows may have only microseconds
        try:
            literal = (
                connection().execute(f"SELECT {_CASTS.get(name, f'CAST(? AS {name})')}", [literal]).fetchall()[0][0]
            )
        except duckdb_errors():
            return _NO_KEY  # the filter of rows reports it
    if name == "DATE" and isinstance(literal, datetime):
        return _NO_KEY
    try:
        return json_values(pa.array([literal], type_))[0]
    except (pa.ArrowException, TypeError, ValueError):
        return _NO_KEY
