"""Find out which columns, keys and key groups a query needs of each of its tables.

Only what is certain is pushed down: a column that no name in the query can mean is left out, and a condition on the key
limits what is read where it is a conjunct of the WHERE clause that belongs to this table. DuckDB evaluates the whole
query again, so that a scan that returns more rows than needed does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from stateproc.errors import InvalidOption
from stateproc.filters import key_groups_in, keys_in, parse

_SIMPLE: tuple[type[exp.Expr], ...] = (
    exp.And,
    exp.Or,
    exp.Paren,
    exp.EQ,
    exp.In,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Between,
    exp.Column,
    exp.Dot,
    exp.Identifier,
    exp.Literal,
    exp.Neg,
    exp.Boolean,
)
"""The nodes of conditions that DuckDB and the filters of this package evaluate alike."""

_ALL_COLUMNS: tuple[type[exp.Expr], ...] = (exp.Pivot, exp.Columns, exp.TableSample, exp.Command)
"""Nodes that may use columns without naming them."""

_EXACT_KEYS = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean)
"""Types of keys whose equal values have one hash code, and that DuckDB compares as this package does."""


@dataclass(frozen=True)
class ScanRequest:
    """What a query needs of a table; None is everything.

    Attributes:
        columns: The columns, at least one.
        keys: The only keys that rows can have.
        key_groups: The only key groups that rows can have.
    """

    columns: tuple[str, ...] | None = None
    keys: tuple[Any, ...] | None = None
    key_groups: frozenset[int] | None = None


def needed_columns(query: exp.Expr, schema: pa.Schema, aliases: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns of a table that a query may use; None for all.

    Args:
        query: The whole statement.
        schema: The table's columns.
        aliases: The table's names in the query: one of them as a column means all columns.
    """
    if any(query.find_all(*_ALL_COLUMNS)) or not isinstance(query, exp.Query):
        return None
    if any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)):
        return None
    if any(join.args.get("method") for join in query.find_all(exp.Join)):
        return None  # NATURAL joins by the columns that both tables have
    whole = {alias.casefold() for alias in aliases}
    if any(_names_row(column, whole) for column in query.find_all(exp.Column)):
        return None
    used = {node.name.casefold() for node in query.find_all(exp.Identifier, exp.Var)}
    columns = tuple(name for name in schema.names if name.casefold() in used)
    return columns or (schema.names[0],)


def _names_row(column: exp.Column, aliases: set[str]) -> bool:
    """Return whether a column may be a table's name, which stands for a struct of all of its columns."""
    return column.parts[0].name.casefold() in aliases and len(column.parts) == 1


def key_request(select: exp.Select, alias: str, schema: pa.Schema, max_parallelism: int) -> ScanRequest:
    """Return the keys and key groups to which the WHERE clause of a SELECT limits one of its tables.

    Args:
        select: The SELECT in whose FROM clause the table is.
        alias: The table's name in it.
        schema: The table's columns.
        max_parallelism: The number of key groups.
    """
    where = select.args.get("where")
    if where is None or not _only_filters(select, alias):
        return ScanRequest()
    is_only = not select.args.get("joins")
    conjuncts = [
        text
        for node in _conjuncts(where.this)
        if (text := _own_condition(node, alias, schema, may_be_unqualified=is_only)) is not None
    ]
    if not conjuncts:
        return ScanRequest()
    try:
        condition = parse(" AND ".join(f"({text})" for text in conjuncts), schema)
    except InvalidOption:
        return ScanRequest()
    keys = keys_in(condition, schema.field("key").type) if "key" in schema.names else None
    groups = key_groups_in(condition, max_parallelism) if "key_group" in schema.names else None
    if keys is not None and not _is_exact(schema.field("key").type):
        keys = None
    return ScanRequest(None, None if keys is None else tuple(keys), None if groups is None else frozenset(groups))


def _is_exact(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return all(_is_exact(field.type) for field in type_)
    return any(matches(type_) for matches in _EXACT_KEYS)


def _only_filters(select: exp.Select, alias: str) -> bool:
    """Return whether rows of a table that the WHERE clause excludes cannot change the result otherwise."""
    joins = select.args.get("joins") or []
    if any(not _is_inner(join) for join in joins):
        # Of outer joins, the table before all of them keeps its rows.
        source = select.args.get("from_") or select.args.get("from")
        first = source is not None and source.this.alias_or_name.casefold() == alias.casefold()
        return first and all(_is_inner(join) or _is_left(join) for join in joins)
    return not any(lateral for lateral in select.args.get("laterals") or [])


def _is_inner(join: exp.Expr) -> bool:
    plain = not join.args.get("side") and not join.args.get("method")
    return plain and str(join.args.get("kind") or "").upper() in ("", "INNER", "CROSS")


def _is_left(join: exp.Expr) -> bool:
    plain = not join.args.get("method") and str(join.args.get("kind") or "").upper() in ("", "OUTER")
    return plain and str(join.args.get("side") or "").upper() == "LEFT"


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        for part in node.flatten():
            yield from _conjuncts(part)
    else:
        yield node


def _own_condition(node: exp.Expr, alias: str, schema: pa.Schema, *, may_be_unqualified: bool) -> str | None:
    """Return a conjunct as text for the filters if it is a simple one on the table's key or key group, else None."""
    if any(not isinstance(item, _SIMPLE) or item.args.get("query") for item in node.walk()):
        return None
    node = node.copy()
    for column in list(node.find_all(exp.Column)):
        parts = [part.name for part in column.parts]
        if len(parts) > 1 and parts[0].casefold() == alias.casefold():
            parts = parts[1:]
        elif not may_be_unqualified:
            return None
        name = next((name for name in ("key", "key_group") if name == parts[0].casefold()), None)
        if name is None or name not in schema.names:
            return None
        identifiers = [exp.to_identifier(part, quoted=True) for part in [name, *parts[1:]]]
        plain: exp.Expr = exp.Column(this=identifiers[0])
        for identifier in identifiers[1:]:
            plain = exp.Dot(this=plain, expression=identifier)
        if column is node:
            return None
        column.replace(plain)
    return str(node.sql())
