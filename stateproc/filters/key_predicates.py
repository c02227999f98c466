"""Derive from a condition the keys and key groups that rows can have, so that only these key groups are read."""

from __future__ import annotations

from decimal import Decimal, DecimalException
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from stateproc.errors import InvalidOption
from stateproc.filters.evaluator import Evaluator
from stateproc.filters.parser import WhereCondition
from stateproc.keygroups.key_group_pruning import keys_of_fields

KEY_GROUP = "key_group"
_NO_KEY = object()
_TEXT_TYPES = (pa.types.is_string, pa.types.is_temporal, pa.types.is_binary)


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
        literals = _values_of(where.tree, path)
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
    columns = {_path(column) for column in node.find_all(exp.Column)}
    if columns != {(KEY_GROUP,)}:
        return None
    try:
        mask = evaluator.truth_values(node)
    except InvalidOption:
        return None  # RowFilter reports it
    return None if isinstance(mask, pa.Scalar) else mask.fill_null(False).to_numpy(zero_copy_only=False)


def _values_of(node: exp.Expr, path: tuple[str, ...]) -> list[Any] | None:
    """Return the literals one of which a column must equal, None for null; None if it may have any value."""
    node = node.unnest()
    if isinstance(node, exp.EQ):
        for column, literal in ((node.this, node.expression), (node.expression, node.this)):
            if _path(column) == path:
                return _literals([literal])
    if isinstance(node, exp.In) and _path(node.this) == path and node.expressions:
        return _literals(node.expressions)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        # A key is never null; a field of a key can be.
        return [None] if _path(node.this) == path and len(path) > 1 else None
    if isinstance(node, exp.And):
        known = [values for part in node.flatten() if (values := _values_of(part, path)) is not None]
        return min(known, key=len) if known else None
    if isinstance(node, exp.Or):
        parts = [_values_of(part, path) for part in node.flatten()]
        return None if None in parts else [value for part in parts if part for value in part]
    return None


def _path(node: exp.Expr) -> tuple[str, ...] | None:
    """Return the names of a column, or of a field in it, from outside in; None for other expressions."""
    if isinstance(node, exp.Column):
        return tuple(part.name for part in node.parts)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        outer = _path(node.this)
        return None if outer is None else (*outer, node.expression.name)
    return None


def _literals(nodes: list[exp.Expr]) -> list[Any] | None:
    values = [_literal(node.unnest()) for node in nodes]
    return None if _NO_KEY in values else values


def _literal(node: exp.Expr) -> Any:
    """Return a literal as bool, Decimal or str; _NO_KEY for other expressions."""
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        is_time = node.to.sql().upper() in ("DATE", "TIME", "TIMESTAMP")
        return node.this.this if is_time else _NO_KEY
    if isinstance(node, exp.Neg):
        value = _literal(node.this)
        return -value if isinstance(value, Decimal) else _NO_KEY
    if not isinstance(node, exp.Literal):
        return _NO_KEY
    try:
        return node.this if node.is_string else Decimal(node.this)
    except DecimalException:
        return _NO_KEY


def _key(literal: Any, type_: pa.DataType) -> Any:
    """Return the literal as a value of the type; _NO_KEY where equal values can have different hashes."""
    if literal is None:
        return None
    if isinstance(literal, bool):
        return literal if pa.types.is_boolean(type_) else _NO_KEY
    if isinstance(literal, str):
        return literal if any(matches(type_) for matches in _TEXT_TYPES) else _NO_KEY
    if pa.types.is_integer(type_) and abs(literal) < 2**64 and literal == int(literal):
        return int(literal)
    if pa.types.is_floating(type_):
        return float(literal)
    return literal if pa.types.is_decimal(type_) else _NO_KEY
