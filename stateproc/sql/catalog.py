"""Name the tables of a snapshot: ``"operator"."state"``, states by their name alone, and tables about the snapshot.

Names in a query mean the operator or state that is written exactly so. Another case is fine where only one name differs
from it by case. DuckDB itself does not distinguish such names: its views have numbers then (`case_collisions`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from stateproc.errors import InvalidOption, SnapshotError, not_found
from stateproc.model.operator import Operator
from stateproc.model.operator_state import opened_state
from stateproc.model.state import State
from stateproc.row_formats.case_collisions import ascii_lower, distinct_names, distinct_reader, distinct_schema
from stateproc.sql.pushdown import ScanRequest

_RESERVED_SCHEMAS = frozenset({"main", "temp", "system", "information_schema", "pg_catalog"})
"""DuckDB's own schemas and catalogs."""


@dataclass(frozen=True)
class SqlTable:
    """A state, or a small table about the snapshot.

    Attributes:
        schema_name: The operator's uid or id; None for tables about the snapshot.
        state: The state; None for tables about the snapshot.
    """

    name: str
    schema_name: str | None
    state: State | None = None
    make: Callable[[], pa.Table] | None = field(default=None, repr=False)

    @property
    def qualified_name(self) -> str:
        """The name as a query writes it."""
        return ".".join(quoted(name) for name in (self.schema_name, self.name) if name is not None)

    @cached_property
    def opened(self) -> State:
        """The state, with the columns of a well-known source or sink. Raises SnapshotError."""
        assert self.state is not None
        return opened_state(self.state)

    @cached_property
    def _table(self) -> pa.Table:
        assert self.make is not None
        return self.make()

    @cached_property
    def state_schema(self) -> pa.Schema:
        """The columns under the names that the state has for them. Raises SnapshotError."""
        return self._table.schema if self.state is None else self.opened.schema()

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns under names that DuckDB distinguishes. Raises SnapshotError."""
        return distinct_schema(self.state_schema, ascii_lower)

    def reader(self, request: ScanRequest, threads: int | None) -> pa.RecordBatchReader:
        """Return a new stream of what a query needs of the rows. Raises SnapshotError."""
        if self.state is None:
            table = self._table if request.columns is None else self._table.select(list(request.columns))
            return table.to_reader()
        columns = None
        if request.columns is not None:
            own_names = dict(zip(self.schema.names, self.state_schema.names, strict=True))
            columns = tuple(own_names[name] for name in request.columns)
        rows = self.opened.to_reader(columns=columns, key_groups=request.key_groups, keys=request.keys, threads=threads)
        return distinct_reader(rows, ascii_lower)


@dataclass(frozen=True)
class SqlView:
    """A view for DuckDB: of a table, or of a name that may mean several.

    Attributes:
        schema_name: The schema; None for DuckDB's default one.
        name: The view's name in it.
        table: The table; None for a name that may mean several.
        problem: Which tables the name may mean, and what they are called.
    """

    schema_name: str | None
    name: str
    table: SqlTable | None = None
    problem: str | None = None


class SqlCatalog:
    """All tables of a snapshot.

    Args:
        find: Finds an operator by uid, uid hash, the beginning of it, or name.
        tables: Tables about the snapshot, by name.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        find: Callable[[str], Operator],
        tables: Mapping[str, Callable[[], pa.Table]],
    ) -> None:
        self._operators, self._find = operators, find
        self.snapshot_tables = tuple(SqlTable(name, None, None, make) for name, make in tables.items())

    @cached_property
    def states(self) -> tuple[SqlTable, ...]:
        """The states; of two states of an operator with one name the first."""
        found: dict[tuple[str, str], SqlTable] = {}
        for operator in self._operators:
            for state in operator.states:
                found.setdefault((operator.display, state.name), SqlTable(state.name, operator.display, state))
        return tuple(found.values())

    @property
    def views(self) -> Iterator[SqlView]:
        """Views of all tables, under names that DuckDB distinguishes; and of names that may mean several tables."""
        by_operator: dict[str, list[SqlTable]] = defaultdict(list)
        for table in self.states:
            by_operator[table.schema_name or ""].append(table)
        schemas = dict(zip(by_operator, distinct_names(list(by_operator), ascii_lower, _RESERVED_SCHEMAS), strict=True))
        unclear: dict[tuple[str, str], list[SqlView]] = defaultdict(list)
        for operator, tables in by_operator.items():
            names = distinct_names([table.name for table in tables], ascii_lower)
            for table, name in zip(tables, names, strict=True):
                view = SqlView(schemas[operator], name, table)
                yield view
                is_renamed = (schemas[operator], name) != (operator, table.name)
                if is_renamed and ascii_lower(operator) not in _RESERVED_SCHEMAS:
                    unclear[ascii_lower(operator), ascii_lower(table.name)].append(view)
        yield from map(_unclear_view, unclear.values())
        counts = Counter(ascii_lower(table.name) for table in (*self.states, *self.snapshot_tables))
        for table in self.states:
            if counts[ascii_lower(table.name)] == 1:
                yield SqlView(None, table.name, table)
        for table in self.snapshot_tables:
            yield SqlView(None, table.name, table)

    def view_of(self, table: SqlTable) -> SqlView:
        """Return the view of a state in its operator's schema, or of a table about the snapshot."""
        return next(view for view in self.views if view.table is table)

    @cached_property
    def _numbered(self) -> dict[tuple[str, str], SqlTable]:
        """The tables by the names of their views, which have numbers where names differ by case only."""
        return {
            (ascii_lower(view.schema_name), ascii_lower(view.name)): view.table
            for view in self.views
            if view.table is not None and view.schema_name is not None
        }

    def find(self, schema_name: str | None, name: str) -> SqlTable | None:
        """Find a table by its name in a query.

        Raises:
            InvalidOption: Several operators have a state of that name, or several names differ from it by case only.
            NotFound: The operator has no such state.
            SnapshotError: It may have one, in a file whose header cannot be read.
        """
        if schema_name is None:
            for table in self.snapshot_tables:
                if table.name == name:
                    return table
            return _only(name, [*self.states, *self.snapshot_tables])
        display = self._display(schema_name)
        if display is None:
            return self._numbered.get((ascii_lower(schema_name), ascii_lower(name)))
        found = _only(name, [table for table in self.states if table.schema_name == display])
        if found is not None:
            return found
        numbered = self._numbered.get((ascii_lower(schema_name), ascii_lower(name)))
        if numbered is not None:
            return numbered
        problems = [
            problem for operator in self._operators if operator.display == display for problem in operator.problems
        ]
        if problems:
            raise problems[0]
        names_of = (table.name for table in self.states if table.schema_name == display)
        raise not_found("state", name, names_of, f"operator '{display}'")

    def _display(self, schema_name: str) -> str | None:
        """Return the name of the operator that a schema's name means; None if it means none. Raises InvalidOption."""
        displays = [operator.display for operator in self._operators]
        if schema_name in displays:
            return schema_name
        try:
            wanted = self._find(schema_name).operator_id
        except SnapshotError:
            alike = [display for display in displays if display.lower() == schema_name.lower()]
            if len(alike) > 1:
                raise _unclear(schema_name, map(quoted, alike)) from None
            return alike[0] if alike else None
        return next(operator.display for operator in self._operators if operator.operator_id == wanted)


def _only(name: str, tables: Sequence[SqlTable]) -> SqlTable | None:
    """Return the table that is called ``name``, else the only one whose name differs by case. Raises InvalidOption."""
    exact = [table for table in tables if table.name == name]
    alike = exact or [table for table in tables if table.name.lower() == name.lower()]
    if len(alike) < 2:
        return alike[0] if alike else None
    names = [table.qualified_name for table in alike]
    if exact or len({table.name for table in alike}) == 1:
        raise InvalidOption(f"{len(alike)} operators have a state {name!r}", advice=f"name one: {', '.join(names)}")
    raise _unclear(name, names)


def _unclear(name: str, meant: Iterable[str]) -> InvalidOption:
    names = " or ".join(meant)
    return InvalidOption(f"{name!r} may mean {names}, which differ by case only", advice=f"write it exactly: {names}")


def _unclear_view(views: Sequence[SqlView]) -> SqlView:
    """Return a view, under the name that renamed tables have in the snapshot, that says what they are called."""
    tables = [view.table for view in views if view.table is not None]
    places = ", ".join(
        f"{table.qualified_name} is {quoted(view.schema_name or '')}.{quoted(view.name)}"
        for view, table in zip(views, tables, strict=True)
    )
    problem = f"DuckDB does not distinguish names by case: {places}"
    return SqlView(tables[0].schema_name, tables[0].name, problem=problem)


def quoted(name: str) -> str:
    """Return a name in double quotes, as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
