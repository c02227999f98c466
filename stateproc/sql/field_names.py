"""Give columns and fields in a statement the names that they have in DuckDB, where some differ by case only.

``value.id`` of a value with the fields ``ID`` and ``id`` becomes ``value.id_2``. A name means what is written exactly
so; one that is written in another case and may mean several is an error. Fields of what a subquery computes keep the
names that they are written with: DuckDB reports those that do not exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from stateproc.errors import InvalidOption
from stateproc.row_formats.case_collisions import ascii_lower, is_list, matching_names
from stateproc.sql.catalog import SqlTable

_MAX_RENAMED = 20


@dataclass(frozen=True)
class StatementNames:
    """What the names of a statement became.

    Attributes:
        renamed: The renamed columns and fields of its tables, as ``value.id: id_2``.
        columns: The names of the result's columns in the snapshot; None if they are not known, or what DuckDB says.
    """

    renamed: tuple[str, ...]
    columns: tuple[str | None, ...] | None

    def results(self, names: Sequence[str]) -> list[str]:
        """Return the names of the result's columns."""
        if self.columns is None or len(self.columns) != len(names):
            return list(names)
        return [own or name for own, name in zip(self.columns, names, strict=True)]


def resolve_names(tree: exp.Query, tables: Mapping[int, SqlTable]) -> StatementNames:
    """Replace names in a statement in place.

    Args:
        tables: Its tables of the snapshot, by the ``id`` of their node.

    Raises:
        InvalidOption: A name may mean several columns or fields.
        SnapshotError: The columns of a table cannot be determined.
    """
    changed = {key: table for key, table in tables.items() if not table.schema.equals(table.state_schema)}
    if not changed:
        return StatementNames((), None)
    renames = _Renames(tables)
    for scope in traverse_scope(tree):
        renames.resolve(scope)
    for select in list(tree.find_all(exp.Select)):
        renames.name_results(select)
    listed = tuple(text for table in changed.values() for text in _renamed(table.state_schema, table.schema, ""))
    return StatementNames(tuple(dict.fromkeys(listed))[:_MAX_RENAMED], renames.columns(tree))


class _Renames:
    """The identifiers of one statement that were replaced."""

    def __init__(self, tables: Mapping[int, SqlTable]) -> None:
        self._tables = tables
        self._seen: set[int] = set()
        self._own_names: dict[int, str] = {}

    def resolve(self, scope: Scope) -> None:
        """Replace the names of columns and fields of a scope's tables, inner scopes first."""
        sources = {ascii_lower(name): source for name, source in scope.sources.items()}
        ours = {
            name: self._tables[id(source)]
            for name, source in sources.items()
            if isinstance(source, exp.Table) and id(source) in self._tables
        }
        for column in scope.columns:
            if id(column) in self._seen:
                continue
            parts = [part for part in column.parts if isinstance(part, exp.Identifier)]
            table, path = _table_of(parts, ours, set(sources))
            if table is not None:
                self._seen.add(id(column))
                self._resolve_path(column, path, table)

    def _resolve_path(self, column: exp.Expr, parts: Sequence[exp.Identifier], table: SqlTable) -> None:
        type_: pa.DataType = pa.struct(list(table.state_schema))
        renamed: pa.DataType = pa.struct(list(table.schema))
        for part in [*parts, *_steps(column)]:
            if part is None:
                if not is_list(type_) and not pa.types.is_map(type_):
                    return
                is_map = pa.types.is_map(type_)
                type_, renamed = (of.item_type if is_map else of.value_type for of in (type_, renamed))
                continue
            if not pa.types.is_struct(type_):
                return
            index = _index_of([field.name for field in type_], part.name)
            if index is None:
                return
            if renamed.field(index).name != part.name and type_.field(index).name != renamed.field(index).name:
                self._own_names[id(part)] = part.name
                part.set("this", renamed.field(index).name)
                if isinstance(part, exp.Identifier):
                    part.set("quoted", True)
            type_, renamed = type_.field(index).type, renamed.field(index).type

    def own_name(self, projection: exp.Expr) -> str | None:
        """Return the name of a field that was replaced and that a result has its name of."""
        node: exp.Expr | None = projection
        if isinstance(node, exp.Column):
            node = node.this
        elif isinstance(node, exp.Dot):
            node = node.expression
        return self._own_names.get(id(node))

    def name_results(self, select: exp.Select) -> None:
        """Give results of a SELECT the names of their fields, except where these differ by case only."""
        names = [self.own_name(item) or item.alias_or_name for item in select.expressions]
        counts = Counter(map(ascii_lower, names))
        for item, name in zip(list(select.expressions), names, strict=True):
            own = self.own_name(item)
            if own is not None and counts[ascii_lower(name)] == 1:
                alias = exp.alias_(item.copy(), own, quoted=True)
                item.replace(alias)

    def columns(self, tree: exp.Query) -> tuple[str | None, ...] | None:
        """Return the names in the snapshot of the results of the whole statement."""
        if any(item.is_star or isinstance(item, exp.Columns) for item in tree.selects):
            return None
        return tuple(self.own_name(item) for item in tree.selects)


def _table_of(
    parts: Sequence[exp.Identifier], ours: Mapping[str, SqlTable], sources: set[str]
) -> tuple[SqlTable | None, Sequence[exp.Identifier]]:
    """Return the table that a column belongs to, and its parts without the table's name; None if it is not certain."""
    if not parts:
        return None, parts
    first = ascii_lower(parts[0].name)
    if len(parts) > 1 and first in sources:
        return ours.get(first), parts[1:]
    having = [table for table in ours.values() if first in map(ascii_lower, table.state_schema.names)]
    return (having[0] if len(having) == 1 else None), parts


def _steps(column: exp.Expr) -> Iterator[exp.Expr | None]:
    """Yield the names of fields that are taken of a column, from inside out; None for an element of a list or map."""
    node = column
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.Paren):
            node = parent
            continue
        if isinstance(parent, exp.Dot) and parent.this is node and isinstance(parent.expression, exp.Identifier):
            yield parent.expression
        elif isinstance(parent, exp.Bracket) and parent.this is node and len(parent.expressions) == 1:
            index = parent.expressions[0]
            if isinstance(index, exp.Slice):
                node = parent
                continue
            yield index if isinstance(index, exp.Literal) and index.is_string else None
        elif isinstance(parent, exp.StructExtract) and parent.this is node:
            if not (isinstance(parent.expression, exp.Literal) and parent.expression.is_string):
                return
            yield parent.expression
        else:
            return
        node = parent


def _index_of(names: Sequence[str], wanted: str) -> int | None:
    """Return which name is meant; None if it is none, which DuckDB reports. Raises InvalidOption."""
    alike = matching_names(names, wanted)
    if len(alike) > 1:
        meant = " or ".join(sorted(f'"{name}"' for name in alike))
        raise InvalidOption(
            f"{wanted!r} may mean {meant}, which differ by case only", advice=f"write it exactly: {meant}"
        )
    return names.index(alike[0]) if alike else None


def _renamed(own: pa.Schema | pa.DataType, renamed: pa.Schema | pa.DataType, prefix: str) -> Iterator[str]:
    """Yield what columns and fields are called instead of their own names."""
    for left, right in zip(own, renamed, strict=True):
        path = f"{prefix}{left.name}"
        if left.name != right.name:
            yield f"{path}: {right.name}"
        yield from _renamed_within(left.type, right.type, path)


def _renamed_within(own: pa.DataType, renamed: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_struct(own):
        yield from _renamed(own, renamed, f"{path}.")
    elif pa.types.is_map(own):
        yield from _renamed_within(own.key_type, renamed.key_type, f"{path}.key")
        yield from _renamed_within(own.item_type, renamed.item_type, f"{path}.value")
    elif is_list(own):
        yield from _renamed_within(own.value_type, renamed.value_type, f"{path}[]")
