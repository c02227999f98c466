"""Run SQL over the states of a snapshot: DuckDB reads them as Arrow streams, one for each time a query names them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from stateproc.errors import InvalidOption, NotFound, SnapshotError, package_for
from stateproc.filters.condition import arrow_reader
from stateproc.model.parallel_scan import thread_count
from stateproc.model.row_access import RereadableStream
from stateproc.row_formats.case_collisions import unique_names
from stateproc.sql.catalog import SqlCatalog, SqlTable, quoted
from stateproc.sql.field_names import StatementNames, resolve_names
from stateproc.sql.pushdown import ScanRequest, key_request, needed_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BATCH_ROWS = 64 << 10


@dataclass(frozen=True)
class SqlResult:
    """The result of a statement: its columns and batches, which are computed while they are consumed."""

    schema: pa.Schema
    batches: Generator[pa.RecordBatch, None, None]

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches)


class SqlDatabase:
    """A connection to DuckDB that knows the tables of a snapshot.

    Args:
        threads: The number of threads; default the cores that this process may use.
        memory_limit: DuckDB's limit for sorting, joining and grouping, such as ``2GB``; None for its own default.
        external_access: Whether statements may read and write files, attach databases and load extensions.

    Raises:
        MissingPackage: duckdb is not installed.
        InvalidOption: The limit cannot be parsed.
    """

    def __init__(
        self,
        catalog: SqlCatalog,
        threads: int | None = None,
        memory_limit: str | None = None,
        *,
        external_access: bool = True,
    ) -> None:
        self.catalog = catalog
        self._threads = thread_count(threads)
        self._numbers = itertools.count()
        self._error: SnapshotError | None = None
        self._names: StatementNames | None = None
        # Names in a query mean states, never variables of this program.
        config: dict[str, Any] = {"threads": self._threads, "python_enable_replacements": False}
        if memory_limit is not None:
            config["memory_limit"] = memory_limit
        duckdb = imported_duckdb()
        try:
            self._connection: DuckDBPyConnection = duckdb.connect(config=config)
            # Instants in text are in UTC, as for conditions of `read` and in what is printed.
            self._connection.execute("SET TimeZone = 'UTC'")
            keep_conditions(self._connection)
            if not external_access:
                self._connection.execute("SET enable_external_access = false")
                self._connection.execute("SET lock_configuration = true")
        except duckdb.Error as error:
            raise InvalidOption(f"DuckDB does not start: {error}") from error
        self._errors = duckdb.Error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def interrupt(self) -> None:
        """Stop the statement that is running."""
        self._connection.interrupt()

    def run(self, query: str) -> SqlResult:
        """Run a statement.

        Raises:
            InvalidOption: The statement cannot be run.
            NotFound: It names a state that does not exist.
            SnapshotError: A state cannot be read; also raised while the result is consumed.
        """
        self._error, self._names = None, None
        statement, registered = self._prepared(query)
        try:
            with self._explained():
                relation = self._connection.sql(statement)
                if relation is None:
                    return SqlResult(pa.schema([]), _no_batches())
                reader = arrow_reader(relation, _BATCH_ROWS)
            names = reader.schema.names if self._names is None else self._names.results(reader.schema.names)
            fields = zip(reader.schema, unique_names(names), strict=True)
            schema = pa.schema([field.with_name(name) for field, name in fields])
            return SqlResult(schema, self._batches(reader, schema, registered))
        except BaseException:
            self._unregister(registered)
            raise

    def _batches(
        self, reader: pa.RecordBatchReader, schema: pa.Schema, registered: list[str]
    ) -> Generator[pa.RecordBatch, None, None]:
        try:
            with self._explained():
                for batch in reader:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        finally:
            del reader
            self._unregister(registered)

    def _unregister(self, names: list[str]) -> None:
        for name in names:
            with suppress(self._errors):
                self._connection.unregister(name)

    def _explained(self) -> _Explained:
        return _Explained(self)

    def explained(self, error: BaseException) -> SnapshotError | None:
        """Return the error of a state that ended a statement, or a typed one for DuckDB's; None for others."""
        if self._error is not None and isinstance(error, (self._errors, pa.ArrowException, OSError, RuntimeError)):
            return self._error
        if isinstance(error, (self._errors, pa.ArrowException)):
            return InvalidOption(str(error).partition("\nStack Trace")[0].strip(), advice=self._advice(str(error)))
        return None

    def _advice(self, message: str) -> str:
        if "uplicate alias" in message:
            return 'give each table a name of its own, as in: FROM "operator"."state" AS a'
        if self._names is not None and self._names.renamed and "not find key" in message:
            return f"DuckDB does not distinguish names by case; there are: {', '.join(self._names.renamed)}"
        return 'tables are "operator"."state"; names with hyphens, dots and blanks need the quotes'

    def _prepared(self, query: str) -> tuple[str, list[str]]:
        """Replace the tables of a statement by streams of what it needs of them; return these streams' names, too."""
        try:
            with _without_warnings():
                statements = [item for item in sqlglot.parse(query, dialect="duckdb") if item is not None]
        except (SqlglotError, RecursionError):
            return query, self._register_views()
        if len(statements) != 1:
            raise InvalidOption("give one statement" if statements else "the query is empty")
        (tree,) = statements
        if not isinstance(tree, exp.Query):
            return self._with_view_names(tree, query), self._register_views()
        try:
            tables = list(self._references(tree))
            self._names = resolve_names(tree, {id(node): table for node, table in tables})
            found = [(node, table, self._request(tree, node, table)) for node, table in tables]
        except (SqlglotError, RecursionError, AttributeError):
            return query, self._register_views()
        registered = []
        for node, table, request in found:
            name = f"__scan_{next(self._numbers)}"
            self._register(name, table, request)
            registered.append(name)
            alias = node.alias or table.name
            replacement = exp.to_table(name)
            for key, value in node.args.items():
                if key not in ("this", "db", "catalog", "alias") and value:
                    replacement.set(key, value)
            columns = node.args["alias"].args.get("columns") if node.args.get("alias") else None
            replacement.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=columns))
            node.replace(replacement)
        return (_text(tree) if registered else query), registered

    def _with_view_names(self, tree: exp.Expr, query: str) -> str:
        """Return a statement that is not analysed with the names of views that differ from those of the tables."""
        is_changed = False
        for node in list(tree.find_all(exp.Table)):
            if not isinstance(node.this, exp.Identifier) or not node.db or node.args.get("catalog"):
                continue
            try:
                table = self.catalog.find(node.db, node.name)
            except NotFound:
                continue  # what the statement creates
            view = None if table is None else self.catalog.view_of(table)
            if view is not None and (view.schema_name, view.name) != (node.db, node.name):
                node.set("db", exp.to_identifier(view.schema_name, quoted=True))
                node.set("this", exp.to_identifier(view.name, quoted=True))
                is_changed = True
        return _text(tree) if is_changed else query

    def _references(self, tree: exp.Query) -> Iterator[tuple[exp.Table, SqlTable]]:
        """Yield each place where a statement names a table of the snapshot."""
        # Tables of all scopes; names of common table expressions and subqueries have other sources.
        places = {
            id(source)
            for scope in traverse_scope(tree)
            for source in scope.sources.values()
            if isinstance(source, exp.Table)
        }
        for node in list(tree.find_all(exp.Table)):
            if id(node) in places and isinstance(node.this, exp.Identifier) and not node.args.get("catalog"):
                table = self.catalog.find(node.db or None, node.name)
                if table is not None:
                    yield node, table

    def _request(self, tree: exp.Query, node: exp.Table, table: SqlTable) -> ScanRequest:
        if node.args.get("alias") and node.args["alias"].args.get("columns"):
            return ScanRequest()  # other names for the columns
        schema, alias = table.schema, node.alias_or_name
        columns = needed_columns(tree, schema, [alias, table.name])
        clause = node.parent
        select = clause.parent if isinstance(clause, (exp.From, exp.Join)) else None
        is_plain = not any(node.args.get(name) for name in ("sample", "pivots", "joins", "laterals"))
        if table.state is None or not isinstance(select, exp.Select) or not is_plain:
            return ScanRequest(columns)
        keys = key_request(select, alias, schema, table.state.operator.max_parallelism)
        # Keys have the names of the state.
        has_own_names = "key" not in schema.names or schema.field("key").equals(table.state_schema.field("key"))
        return ScanRequest(columns, keys.keys if has_own_names else None, keys.key_groups)

    def _register(self, name: str, table: SqlTable, request: ScanRequest) -> None:
        self._connection.register(name, RereadableStream(lambda: self._noted(table, request)))

    def _noted(self, table: SqlTable, request: ScanRequest) -> pa.RecordBatchReader:
        """Open a stream that keeps its error: DuckDB reports only a text of it."""
        reader = table.reader(request, self._threads)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from reader
            except SnapshotError as error:
                self._error = error
                raise
            except pa.ArrowException as error:
                cause: BaseException | None = error
                while cause is not None and not isinstance(cause, SnapshotError):
                    cause = cause.__cause__ or cause.__context__
                self._error = cause if isinstance(cause, SnapshotError) else None
                raise

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def _register_views(self) -> list[str]:
        """Create views of all tables, for statements that are not analysed; returns no names: views stay."""
        create_views(self._connection, self.catalog, lambda name, table: self._register(name, table, ScanRequest()))
        return []


@dataclass(frozen=True)
class _Explained:
    """A context that converts what DuckDB raises."""

    database: SqlDatabase

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        found = None if error is None else self.database.explained(error)
        if found is not None:
            raise found from error


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Disable sqlglot's log, which warns of statements that it does not know: these are for DuckDB to judge."""
    logger = logging.getLogger("sqlglot")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def create_views(
    connection: DuckDBPyConnection, catalog: SqlCatalog, register: Callable[[str, SqlTable], None]
) -> None:
    """Create a schema per operator and a view per table that can be read; existing ones are replaced."""
    streams: dict[int, str | None] = {}
    for view in catalog.views:
        if view.table is None:
            text = (view.problem or "").replace("'", "''")
            # The condition makes it an error of queries that read no column, too.
            query = f"SELECT NULL AS {quoted(view.problem or '')} WHERE CAST(error('{text}') AS BOOLEAN)"
        else:
            if id(view.table) not in streams:
                streams[id(view.table)] = _registered(view.table, f"__table_{len(streams)}", register)
            stream = streams[id(view.table)]
            if stream is None:
                continue  # it would be an error of each statement, also of those that do not read it
            query = f"FROM {stream}"
        name = quoted(view.name)
        if view.schema_name is not None:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(view.schema_name)}")
            name = f"{quoted(view.schema_name)}.{name}"
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")


def _registered(table: SqlTable, stream: str, register: Callable[[str, SqlTable], None]) -> str | None:
    """Register a table as a stream; return the stream's name, None if the table cannot be read."""
    try:
        if table.state is not None:
            _ = table.schema
        register(stream, table)
    except SnapshotError:
        return None
    return stream


def views_in(connection: DuckDBPyConnection | None, catalog: SqlCatalog) -> DuckDBPyConnection:
    """Create views of all tables in a connection, default a new one; return it. Raises InvalidOption."""
    duckdb = imported_duckdb()
    chosen: DuckDBPyConnection = duckdb.connect() if connection is None else connection
    if connection is None:
        keep_conditions(chosen)

    def register(name: str, table: SqlTable) -> None:
        chosen.register(name, RereadableStream(lambda: table.reader(ScanRequest(), None)))

    create_views(chosen, catalog, register)
    return chosen


def keep_conditions(connection: DuckDBPyConnection) -> None:
    """Make a connection evaluate all conditions itself.

    DuckDB 1 lets Arrow evaluate conditions on Arrow data, with other results: NaN is not the greatest number there, and
    a field of a struct has to be spelled in its own case. DuckDB 2 is right, but needs Python 3.11.
    """
    if int(imported_duckdb().__version__.partition(".")[0]) < 2:
        connection.execute("SET disabled_optimizers = 'filter_pushdown'")


def imported_duckdb() -> Any:
    """Import duckdb. Raises MissingPackage if it is not installed."""
    with package_for("SQL"):
        import duckdb
    return duckdb


def _text(tree: exp.Expr) -> str:
    """Return a statement as text with all names in quotes: which words DuckDB reserves differs between its releases."""
    return tree.sql(dialect="duckdb", identify=True)


def _no_batches() -> Generator[pa.RecordBatch, None, None]:
    yield from ()
