"""Derive from a condition the keys and key groups that rows can have, so that only these key groups are read."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from stateproc.errors import InvalidOption
from stateproc.filters.blobs import parse_base64, parse_blob
from stateproc.filters.evaluator import Evaluator
from stateproc.filters.moments import MICRO_DIGITS, parse_moment
from stateproc.filters.parser import WhereCondition
from stateproc.filters.sql_value import matching_name
from stateproc.keygroups.key_group_pruning import keys_of_fields

KEY, KEY_GROUP = "key", "key_group"
_NO_KEY = object()
_BASE64 = "base64"
_EXACT_DOUBLES = 2.0**53
"""Below this, doubles represent each integer."""


@dataclass(frozen=True)
class _TypedText:
    """A literal such as DATE '2024-02-29': its text, and the type that it is cast to."""

    text: str
    type_name: str


def keys_in(where: WhereCondition, key_type: pa.DataType) -> list[Any] | None:
    """Return the keys that rows can have.

    Args:
        where: The condition.
        key_type: The Arrow type of the column ``key``.

    Returns:
        Keys, with dates, times and bytes as text; None if the condition allows others. Of a struct the condition has
        to determine every field.
    """

    def values(path: tuple[str, ...], field: pa.DataType) -> list[Any] | None:
        literals = _values_of(where.tree, path, key_type)
        keys = None if literals is None else [_key(literal, field) for literal in literals]
        return None if keys is None or _NO_KEY in keys else keys

    return keys_of_fields(key_type, values)


def key_groups_in(where: WhereCondition, max_parallelism: int) -> set[int] | None:
    """Return the key groups that rows can be in; None if the condition allows all."""
    groups = np.arange(max_parallelism, dtype=np.int32)
    batch = pa.RecordBatch.from_arrays([pa.array(groups)], names=[KEY_GROUP])
    possible = _possible(where.tree, Evaluator(where, batch, batch.schema))
    return None if possible is None or possible.all() else set(groups[possible].tolist())


def _possible(node: exp.Expr, evaluator: Evaluator) -> Any:
    """Return per key group whether the condition can be true in it; None if nothing is known."""
    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        masks = [_possible(part, evaluator) for part in node.flatten()]
        if isinstance(node, exp.Or):
            return None if any(mask is None for mask in masks) else np.logical_or.reduce(masks)
        known = [mask for mask in masks if mask is not None]
        return np.logical_and.reduce(known) if known else None
    columns = {_written_path(column) for column in node.find_all(exp.Column)}
    if any(path is None or len(path) != 1 or path[0].lower() != KEY_GROUP for path in columns) or not columns:
        return None
    try:
        mask = evaluator.truth_values(node)
    except InvalidOption:
        return None  # RowFilter reports it
    return None if isinstance(mask, pa.Scalar) else mask.fill_null(False).to_numpy(zero_copy_only=False)


def _values_of(node: exp.Expr, path: tuple[str, ...], key_type: pa.DataType) -> list[Any] | None:
    """Return the literals one of which a column must equal, None for null; None if it may have any value."""
    node = node.unnest()
    if isinstance(node, exp.EQ):
        for column, literal in ((node.this, node.expression), (node.expression, node.this)):
            if _path(column, key_type) == path:
                return _literals([literal])
    if isinstance(node, exp.In) and _path(node.this, key_type) == path and node.expressions:
        return _literals(node.expressions)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        # A key is never null; a field of a key can be.
        return [None] if _path(node.this, key_type) == path and len(path) > 1 else None
    if isinstance(node, exp.And):
        known = [values for part in node.flatten() if (values := _values_of(part, path, key_type)) is not None]
        return min(known, key=len) if known else None
    if isinstance(node, exp.Or):
        parts = [_values_of(part, path, key_type) for part in node.flatten()]
        return None if None in parts else [value for part in parts if part for value in part]
    return None


def _path(node: exp.Expr, key_type: pa.DataType) -> tuple[str, ...] | None:
    """Return the names of the column ``key``, or of a field in it, as the type has them; None for other expressions."""
    written = _written_path(node)
    if written is None or written[0].lower() != KEY:
        return None
    path, type_ = [KEY], key_type
    for name in written[1:]:
        names = [field.name for field in type_] if pa.types.is_struct(type_) else []
        found = matching_name(names, name)
        if found is None or names.count(found) > 1:
            return None
        path.append(found)
        type_ = type_.field(found).type
    return tuple(path)


def _written_path(node: exp.Expr) -> tuple[str, ...] | None:
    """Return the names of a column, or of a field in it, from outside in; None for other expressions."""
    if isinstance(node, exp.Column):
        return tuple(part.name for part in node.parts)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        outer = _written_path(node.this)
        return None if outer is None else (*outer, node.expression.name)
    return None


def _literals(nodes: list[exp.Expr]) -> list[Any] | None:
    values = [_literal(node.unnest()) for node in nodes]
    if any(isinstance(value, float) for value in values):
        # One double in a list makes doubles of all numbers in it.
        values = [float(value) if isinstance(value, Decimal) else value for value in values]
    return None if _NO_KEY in values else values


def _literal(node: exp.Expr) -> Any:
    """Return a literal as bool, Decimal, str, float (with an exponent) or _TypedText; _NO_KEY for other expressions."""
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        return _TypedText(node.this.this, node.to.this.name)
    if isinstance(node, exp.FromBase64) and isinstance(node.this, exp.Literal) and node.this.is_string:
        return _TypedText(node.this.this, _BASE64)
    if isinstance(node, exp.Neg):
        value = _literal(node.this)
        return -value if isinstance(value, Decimal | float) else _NO_KEY
    if not isinstance(node, exp.Literal):
        return _NO_KEY
    if node.is_string:
        return node.this
    try:
        number = Decimal(node.this)
    except DecimalException:
        return _NO_KEY
    return float(number) if "e" in node.this.lower() else number


def _key(literal: Any, type_: pa.DataType) -> Any:
    """Return the literal as a value of the type; _NO_KEY where equal values can have different hashes."""
    if literal is None:
        return None
    if isinstance(literal, bool):
        return literal if pa.types.is_boolean(type_) else _NO_KEY
    if isinstance(literal, str | _TypedText):
        try:
            return _text_key(literal, type_)
        except InvalidOption:
            return _NO_KEY  # RowFilter reports it
    if isinstance(literal, float) and not pa.types.is_floating(type_):
        # Compared as doubles, several integers and decimals equal a large double.
        if abs(literal) >= _EXACT_DOUBLES or not pa.types.is_integer(type_):
            return _NO_KEY
        literal = Decimal(literal)
    if pa.types.is_integer(type_) and abs(literal) < 2**64 and literal == int(literal):
        return int(literal)
    if pa.types.is_floating(type_):
        return float(literal)
    return literal if pa.types.is_decimal(type_) else _NO_KEY


def _text_key(literal: str | _TypedText, type_: pa.DataType) -> Any:
    """Return the key that a text means for a type: bytes as base64, dates and times as ISO text."""
    text = literal.text if isinstance(literal, _TypedText) else literal
    if pa.types.is_binary(type_):
        if isinstance(literal, _TypedText) and literal.type_name not in (_BASE64, "VARBINARY"):
            return _NO_KEY
        is_base64 = isinstance(literal, _TypedText) and literal.type_name == _BASE64
        return base64.b64encode(parse_base64(text) if is_base64 else parse_blob(text)).decode()
    if pa.types.is_temporal(type_):
        if isinstance(literal, _TypedText) and literal.type_name not in _type_names(type_):
            return _NO_KEY
        # Of more digits the rows may have only these.
        iso = parse_moment(text, type_)
        return iso if iso == parse_moment(text, type_, MICRO_DIGITS) else _NO_KEY
    return text if isinstance(literal, str) and pa.types.is_string(type_) else _NO_KEY


def _type_names(type_: pa.DataType) -> tuple[str, ...]:
    """Return the names of the types as which the literal of a key of a type can be written."""
    if pa.types.is_timestamp(type_):
        return ("TIMESTAMP", "TIMESTAMPNTZ") if type_.tz is None else ("TIMESTAMPTZ",)
    return ("DATE",) if pa.types.is_date(type_) else ("TIME",)
