"""The sources of a job in this process: DuckDB reads files, deltalake Delta tables, stateproc snapshots.

Queries of the job see the sources and nothing else: no other files, no extensions, no variables of this program.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from stateproc.errors import InvalidOption, NotFound, SnapshotError, package_for
from stateproc.jobs.input_versions import InputVersion, delta_table
from stateproc.jobs.job_model import SNAPSHOT, SQL, SourceSpec
from stateproc.jobs.prepared_run import PreparedRun
from stateproc.jobs.source_tables import SQL_ADVICE, checked_query, in_order, snapshot_state
from stateproc.model.row_access import RereadableStream
from stateproc.row_formats.case_collisions import ascii_lower, colliding_words
from stateproc.sql.database import imported_duckdb
from stateproc.storage.store import StorePath
from stateproc.storage.uris import scheme_of

with package_for("a job", extra="jobs"):
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BATCH_ROWS = 16 << 10
_MEMORY_LIMIT = "512MB"
"""DuckDB's memory for sorting, joining and grouping; what needs more waits in temporary files."""
_Step: TypeAlias = "Callable[[DuckDBPyConnection], object]"
_READERS = {"parquet": "read_parquet", "csv": "read_csv", "json": "read_json"}
_NESTED = (SNAPSHOT, "delta", "parquet", "arrow", "json")
"""Formats whose rows can contain structs."""
SPARK_ONLY = ("jdbc", "iceberg")
"""Formats that only Spark reads."""


@dataclass(frozen=True)
class SourceRows(RereadableStream):
    """The rows of a source; ``columns`` are known without running its query."""

    columns: pa.Schema

    def __arrow_c_schema__(self) -> object:
        """Export the columns as an Arrow C schema."""
        return self.columns.__arrow_c_schema__()


class LocalTables:
    """The sources of a run as views of a DuckDB connection of their own; see `SourceTables`."""

    def __init__(self, run: PreparedRun, memory_limit: str = _MEMORY_LIMIT) -> None:
        """Create the views; nothing is read but schemas. Raises SnapshotError."""
        self._run = run
        self._steps: list[_Step] = []
        self._frames: dict[str, SourceRows] = {}
        self._duckdb = imported_duckdb()
        self._spill = tempfile.TemporaryDirectory(prefix="stateproc-run-")
        config: dict[str, Any] = {
            "python_enable_replacements": False,
            "memory_limit": memory_limit,
            "temp_directory": self._spill.name,
        }
        self._connection: DuckDBPyConnection = self._duckdb.connect(config=config)
        self._connection.execute("SET TimeZone = 'UTC'")
        ordered = in_order(run.job, "duckdb")
        self._lock(ordered)
        self._unclear: set[str] = set()
        for source in ordered:
            self._add(source)

    def __enter__(self) -> LocalTables:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()
        self._spill.cleanup()

    def frame(self, name: str) -> SourceRows:
        """Return the rows of a source as a stream that each consumer reads anew, one object for each source.

        States from one object are encoded while its rows are read once.
        """
        if name not in self._frames:
            query = f"SELECT * FROM {self.quoted(name)}"
            columns = self._reader(f"{query} LIMIT 0").schema
            self._frames[name] = SourceRows(lambda: self._reader(query), columns)
        return self._frames[name]

    def rows(self, query: str, most: int = 2) -> list[tuple[Any, ...]]:
        """Return the first rows of a query over the sources. Raises InvalidOption."""
        self._checked(query)
        try:
            return list(self._cursor().execute(query).fetchmany(most))
        except (self._duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
            raise _explained(error) from error

    def quoted(self, name: str) -> str:
        """Return a name in double quotes."""
        return '"' + name.replace('"', '""') + '"'

    def _cursor(self) -> DuckDBPyConnection:
        """Return a connection with all views, of which each stream needs one: what is registered belongs to one."""
        cursor = self._connection.cursor()
        for step in self._steps:
            step(cursor)
        return cursor

    def _reader(self, query: str) -> pa.RecordBatchReader:
        relation = self._cursor().sql(query)
        for method in ("to_arrow_reader", "fetch_arrow_reader"):
            if hasattr(relation, method):
                reader: pa.RecordBatchReader = getattr(relation, method)(_BATCH_ROWS)
                return reader
        raise InvalidOption(
            "this release of duckdb does not return Arrow streams", advice="install duckdb 1.2 or later"
        )

    def _add(self, source: SourceSpec) -> None:
        """Create the view of a source; an error names the source."""
        try:
            step = self._step(source)
            step(self._connection)
            self._steps.append(step)
            if source.format in _NESTED:
                rows = self._reader(f"SELECT * FROM {self.quoted(source.name)} LIMIT 0")
                self._unclear |= colliding_words(rows.schema, ascii_lower)
        except SnapshotError as error:
            message = f"source '{source.name}': {error.message}"
            raise type(error)(message, where=error.where, advice=error.advice) from error
        except (self._duckdb.Error, pa.ArrowException, OSError) as error:
            found = _explained(error)
            raise InvalidOption(f"source '{source.name}': {found.message}", advice=found.advice) from error

    def _checked(self, query: str) -> exp.Query:
        """Parse a query. Raises InvalidOption if it names one of the fields that DuckDB does not distinguish."""
        tree = checked_query(query, "duckdb")
        for node in tree.find_all(exp.Identifier, exp.Literal):
            if ascii_lower(node.name) in self._unclear:
                raise InvalidOption(
                    f"fields of the sources differ from {node.name!r} by case only, which DuckDB does not distinguish",
                    advice="pass the struct that contains them on as a whole, or give `engine: spark` and set "
                    "spark.sql.caseSensitive to true",
                )
        return tree

    def _step(self, source: SourceSpec) -> _Step:
        if source.format == SQL:
            return self._view(source.name, self._checked(source.values["sql"]).sql(dialect="duckdb"))
        values, version = self._run.secrets.reveal(dict(source.values)), self._run.inputs[source.name]
        if source.format == SNAPSHOT:
            state = snapshot_state(values)
            return _registered(
                source.name, RereadableStream(lambda: state.to_reader(flatten=values.get("flatten", False)))
            )
        if source.format == "delta":
            return _registered(source.name, _delta_rows(values, version))
        if source.format in SPARK_ONLY:
            raise InvalidOption(f"{source.format} is read by Spark only", advice="give `engine: spark`")
        if source.format == "arrow" or scheme_of(version.files[0]) != "file":
            return _registered(source.name, _remote_rows(source.format, values, version))
        return self._view(source.name, _files_query(source, values, version))

    def _view(self, name: str, query: str) -> _Step:
        statement = f"CREATE OR REPLACE TEMP VIEW {self.quoted(name)} AS {query}"
        return lambda connection: connection.execute(statement)

    def _lock(self, ordered: list[SourceSpec]) -> None:
        """Let queries open the files of the sources only."""
        files = [
            file for item in ordered if item.name in self._run.inputs for file in self._run.inputs[item.name].files
        ]
        paths = ", ".join(_literal(file) for file in files if scheme_of(file) == "file")
        self._connection.execute(f"SET allowed_paths = [{paths}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")


def _registered(name: str, rows: Any) -> _Step:
    return lambda connection: connection.register(name, rows)


def _files_query(source: SourceSpec, values: Mapping[str, Any], version: InputVersion) -> str:
    files = ", ".join(_literal(file) for file in version.files)
    options = "".join(f", {_option_name(name)} = {_literal(item)}" for name, item in values.get("options", {}).items())
    if "schema" in values:
        options += f", columns = {{{_columns(source, values['schema'])}}}"
    return f"SELECT * FROM {_READERS[source.format]}([{files}]{options})"


def _columns(source: SourceSpec, schema: str) -> str:
    """Return columns and types as DuckDB's readers of text expect them, from the form of Spark."""
    if source.format == "parquet":
        raise InvalidOption("Parquet files have their own schema", advice="remove `schema`")
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({schema})", dialect="spark").find(exp.Schema)
    except (SqlglotError, RecursionError) as error:
        raise InvalidOption(
            f"the schema {schema!r} cannot be parsed", advice="write: id BIGINT, name STRING"
        ) from error
    columns = [] if table is None else [item for item in table.expressions if isinstance(item, exp.ColumnDef)]
    if not columns or any(item.kind is None for item in columns):
        raise InvalidOption(f"the schema {schema!r} names no columns and types", advice="write: id BIGINT, name STRING")
    return ", ".join(f"{_literal(item.name)}: {_literal(item.args['kind'].sql(dialect='duckdb'))}" for item in columns)


def _option_name(name: str) -> str:
    if not name.isidentifier():
        raise InvalidOption(f"'{name}' is no name of an option of DuckDB's readers")
    return name


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def _delta_rows(values: Mapping[str, Any], version: InputVersion) -> Any:
    """Return the rows of one version of a Delta table.

    Arrow's datasets, of which DuckDB reads only the columns and row groups that a query needs, know neither deletion
    vectors nor mapped columns, whose values they return as null. Tables with such features are read by DataFusion.
    """
    table = delta_table(values["path"], values.get("storage_options") or {})
    table.load_as_version(version.version["delta_version"])
    if table.protocol().min_reader_version == 1:
        return table.to_pyarrow_dataset()
    return RereadableStream(lambda: _queried(table))


def _queried(table: Any) -> pa.RecordBatchReader:
    from deltalake import QueryBuilder  # Lazy: optional dependency.

    return pa.RecordBatchReader.from_stream(QueryBuilder().register("source", table).execute("SELECT * FROM source"))


def _remote_rows(format_: str, values: Mapping[str, Any], version: InputVersion) -> Any:
    import pyarrow.dataset as ds  # Lazy: only for such sources.

    if values.get("options"):
        raise InvalidOption("options of files in a store need Spark", advice="give `engine: spark`")
    options = values.get("storage_options") or {}
    found = [StorePath(file, options).filesystem() for file in version.files]
    return ds.dataset([path for _, path in found], filesystem=found[0][0], format=format_)


def _explained(error: BaseException) -> SnapshotError:
    text = str(error).partition("\nStack Trace")[0].strip()
    kind = NotFound if "does not exist" in text else InvalidOption
    return kind(text[:500], advice=SQL_ADVICE)
