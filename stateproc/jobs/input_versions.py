"""Find out which version of each input a run reads: Delta versions, files with size and time, hashes of snapshots."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from stateproc.errors import InvalidOption, MissingFile, NotFound, StoreUnavailable, Where, package_for
from stateproc.storage.paths import SnapshotLocation
from stateproc.storage.store import FileStatus, StorePath
from stateproc.storage.uris import absolute, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, Row, SparkSession

_GLOB = frozenset("*?[")
_MOST_FOOTERS = 100
"""Footers of more files are not read to count rows."""


@dataclass(frozen=True)
class InputVersion:
    """An input of a run and its version.

    Attributes:
        name: The source's name; ``base`` for the snapshot that is changed.
        format: How it is stored.
        path: Where it is; None where the input has no path.
        version: What identifies its contents; empty if nothing does.
        facts: What the report shows besides.
        files: Paths of the data files, where they are listed.
    """

    name: str
    format: str
    path: str | None
    version: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the report."""
        return {
            "name": self.name,
            "format": self.format,
            "path": self.path,
            "version": dict(self.version),
            **self.facts,
        }


def snapshot_version(name: str, location: SnapshotLocation) -> InputVersion:
    """Return the version of a snapshot: the hash of its ``_metadata``. Raises MissingFile."""
    return InputVersion(name, "snapshot", location.directory_uri, {"metadata_sha256": file_hash(location.metadata)})


def file_hash(path: StorePath) -> str:
    """Return the SHA-256 of a file. Raises MissingFile."""
    found = path.file_status(fresh=True)
    if found is None:
        raise MissingFile("no such file", where=Where(file=path.uri)) from FileNotFoundError(path.uri)
    return hashlib.sha256(path.read_range(0, found.size)).hexdigest()


def files_version(name: str, format_: str, path: str, options: Mapping[str, Any]) -> InputVersion:
    """Return the version of files: their names, sizes and times of change.

    Args:
        name: The source's name.
        format_: parquet, csv or json.
        path: A file, a directory (with all files below it, but those that begin with ``_`` or ``.``), or a glob.
        options: Keyword arguments of the fsspec file system.

    Raises:
        MissingFile: There is no such file.
    """
    given = StorePath.of(path, options)
    uri = given.uri
    digest, total, names = hashlib.sha256(), 0, []
    for file, status in sorted(_listed(given), key=lambda item: item[0]):
        digest.update(f"{file}\0{status.size}\0{status.modified}\n".encode())
        total += status.size
        names.append(file)
    if not names:
        raise MissingFile(f"source '{name}' has no files", where=Where(file=uri), advice="check the path, or the glob")
    version = {"files_sha256": digest.hexdigest()}
    known = {"files": len(names), "bytes": total, **(_parquet_rows(names) if format_ == "parquet" else {})}
    return InputVersion(name, format_, uri, version, known, tuple(names))


def has_glob(path: str) -> bool:
    """Return whether a path has the special characters of a glob."""
    return bool(_GLOB & set(path))


def _listed(path: StorePath) -> list[tuple[str, FileStatus]]:
    if has_glob(path.uri):
        fs, pattern = path.filesystem()
        with path.explained():
            found = [str(item) if path.is_local else fs.unstrip_protocol(item) for item in fs.glob(pattern)]
        return [pair for item in found for pair in _of_glob(path.at(item))]
    one = path.file_status()
    if one is not None:
        return [(path.uri, one)]
    below = (entry for entry in path.files_below() if not _is_hidden(entry.path.uri[len(path.uri) :]))
    return [(entry.path.uri, entry.status() or FileStatus(0)) for entry in below]


def _of_glob(path: StorePath) -> list[tuple[str, FileStatus]]:
    status = path.file_status()
    if status is None:
        return [] if has_glob(path.uri) else _listed(path)
    return [(path.uri, status)]


def _is_hidden(relative: str) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in relative.split("/") if part)


def delta_version(
    name: str, path: str, options: Mapping[str, Any], version: int | None, timestamp: str | None
) -> InputVersion:
    """Return the version of a Delta table: the given one, the one of a time, or the newest.

    Raises:
        MissingPackage: deltalake is not installed.
        InvalidOption: The version does not exist.
        MissingFile: There is no Delta table.
    """
    if version is not None and timestamp is not None:
        raise InvalidOption(f"source '{name}': version and timestamp are both given", advice="give one of them")
    table = delta_table(path, options)
    try:
        if timestamp is not None:
            table.load_as_version(_moment(name, timestamp))
        elif version is not None:
            table.load_as_version(version)
    except InvalidOption:
        raise
    except Exception as error:  # deltalake's errors
        raise NotFound(
            f"the Delta table has no version {timestamp if version is None else version}: {error}",
            where=Where(file=path),
            advice="Delta's history shows the versions that are left",
        ) from error
    identity = {"delta_version": table.version(), "table_id": str(table.metadata().id)}
    return InputVersion(name, "delta", absolute(path), identity, _delta_facts(table))


def _delta_facts(table: Any) -> dict[str, int]:
    """Return what Delta's log says about files, bytes and rows; rows only where it counts them and none are deleted."""
    actions = pa.table(table.get_add_actions(flatten=True))
    facts = {"files": actions.num_rows, "bytes": sum(actions["size_bytes"].to_pylist())}
    counted = "num_records" in actions.column_names and actions["num_records"].null_count == 0
    if counted and "deletionVectors" not in (table.protocol().reader_features or ()):
        facts["rows"] = sum(actions["num_records"].to_pylist())
    return facts


def _parquet_rows(files: Sequence[str]) -> dict[str, int]:
    """Return the number of rows that the footers of a few local Parquet files contain; nothing for others."""
    if len(files) > _MOST_FOOTERS or any(scheme_of(file) != "file" for file in files):
        return {}
    try:
        return {"rows": sum(pq.read_metadata(file).num_rows for file in files)}
    except (pa.ArrowException, OSError):
        return {}  # whoever reads the rows reports the file


def delta_table(path: str, options: Mapping[str, Any]) -> Any:
    """Open the newest version of a Delta table with deltalake. Raises MissingPackage, MissingFile, StoreUnavailable."""
    with package_for("a Delta table"):
        from deltalake import DeltaTable  # Lazy: optional dependency.
        from deltalake.exceptions import TableNotFoundError
    uri = absolute(path)
    try:
        return DeltaTable(uri, storage_options={key: str(value) for key, value in options.items()} or None)
    except TableNotFoundError as error:
        raise MissingFile("this is no Delta table", where=Where(file=uri)) from error
    except Exception as error:  # deltalake's errors, and those of its object stores
        raise StoreUnavailable(f"the Delta table cannot be read: {error}", where=Where(file=uri)) from error


def _moment(name: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidOption(
            f"source '{name}': '{text}' is no time", advice="give one such as 2026-01-31T12:00:00Z"
        ) from error
    if found.tzinfo is None:
        raise InvalidOption(f"source '{name}': the time '{text}' has no time zone", advice="append Z for UTC")
    return found


# Find out which version of a table a run reads where only Spark can ask: Iceberg's snapshots, JDBC by a query.

_MOST_TEXT = 500
_CALL_FAILED = "An error occurred while calling"
_COUNTS = {"total-data-files": "files", "total-files-size": "bytes", "total-records": "rows"}
"""What an Iceberg snapshot counts, and the report's names for it."""
_DELETES = ("total-position-deletes", "total-equality-deletes")
_ADVICE = {
    "iceberg": "the session needs the jar org.apache.iceberg:iceberg-spark-runtime for its release: "
    "`spark: {conf: {spark.jars.packages: …}}`",
    "delta": "the session needs the jar io.delta:delta-spark: `spark: {conf: {spark.jars.packages: …}}`",
    "jdbc": "check the query, and that the session has the database's driver; columns of queries need names",
}


def source_error(name: str, format_: str, error: BaseException) -> InvalidOption:
    """Return the error about a source that Spark refuses: Spark's own words, and what the session needs."""
    return InvalidOption(f"source '{name}': {spark_text(error)}", advice=_ADVICE.get(format_))


def spark_text(error: BaseException) -> str:
    """Return the line of an error of Spark that says what is wrong, shortened."""
    first, _, rest = str(error).strip().partition("\n")
    # Py4J says which call failed, and in the next line why.
    said = rest.partition("\n")[0].removeprefix(": ") if first.startswith(_CALL_FAILED) and rest else first
    return said[:_MOST_TEXT] or type(error).__name__


def iceberg_version(name: str, values: Mapping[str, Any], session: Callable[[], SparkSession]) -> InputVersion:
    """Return the version of an Iceberg table: the given snapshot, else the newest of the branch ``main``.

    Args:
        name: The source's name.
        values: ``path``, the table's name or directory, and ``snapshot_id`` if one is chosen.
        session: Returns the session of the run.

    Raises:
        InvalidOption: Spark cannot read the table.
    """
    path = values["path"]
    if "snapshot_id" in values:
        return InputVersion(name, "iceberg", path, {"snapshot_id": values["snapshot_id"]})

    def newest(spark: SparkSession) -> InputVersion:
        refs = spark.read.format("iceberg").load(_metadata_table(path, "refs"))
        found = refs.where("name = 'main'").select("snapshot_id").first()
        if found is None:  # nothing was written into the table yet
            return InputVersion(name, "iceberg", path, {"snapshot_id": None})
        snapshots = spark.read.format("iceberg").load(_metadata_table(path, "snapshots"))
        row = snapshots.where(snapshots["snapshot_id"] == found.snapshot_id).select("summary").first()
        counts = {} if row is None else _counts(row.summary or {})
        return InputVersion(name, "iceberg", path, {"snapshot_id": found.snapshot_id}, counts)

    return _asked(name, "iceberg", newest, session)


def jdbc_version(name: str, values: Mapping[str, Any], session: Callable[[], SparkSession]) -> InputVersion:
    """Return the version of a table of a database: the row of its ``version_query``; empty without one.

    Args:
        name: The source's name.
        values: The source's fields, secrets revealed.
        session: Returns the session of the run.

    Raises:
        InvalidOption: Spark cannot run the query, or it does not return one row.
    """
    query = values.get("version_query")
    if query is None:
        return InputVersion(name, "jdbc", None, {})

    def asked(spark: SparkSession) -> InputVersion:
        rows: list[Row] = jdbc_reader(spark.read, {**values, "query": query, "table": None}).load().take(2)
        if len(rows) != 1:
            raise InvalidOption(
                f"source '{name}': the version query returns {'no row' if not rows else 'more than one row'}",
                advice="write a query of one row: SELECT max(changed_at) AS changed, count(*) AS n FROM …",
            )
        return InputVersion(name, "jdbc", None, {"version_query": ", ".join(str(item) for item in rows[0])})

    return _asked(name, "jdbc", asked, session)


def jdbc_reader(reader: DataFrameReader, values: Mapping[str, Any]) -> DataFrameReader:
    """Return the reader of a table or query of a database."""
    options = {"url": "url", "table": "dbtable", "query": "query"}
    named = {spark: values[key] for key, spark in options.items() if values.get(key) is not None}
    given = {name: str(item) for name, item in values.get("options", {}).items()}
    return reader.format("jdbc").options(**given, **named)


def iceberg_reader(reader: DataFrameReader, version: InputVersion | None) -> DataFrameReader:
    """Return the reader of the snapshot that the run has found."""
    chosen = None if version is None else version.version.get("snapshot_id")
    reader = reader.format("iceberg")
    return reader if chosen is None else reader.option("versionAsOf", str(chosen))


def _metadata_table(path: str, name: str) -> str:
    """Return the path of a metadata table: of a table in a directory it follows ``#``, of one in a catalog a dot."""
    return f"{path}#{name}" if "/" in path else f"{path}.{name}"


def _counts(summary: Mapping[str, str]) -> dict[str, int]:
    deleted = any(summary.get(item, "0") != "0" for item in _DELETES)
    return {
        own: int(summary[item])
        for item, own in _COUNTS.items()
        if summary.get(item, "").isdecimal() and not (own == "rows" and deleted)
    }


def _asked(
    name: str, format_: str, ask: Callable[[SparkSession], InputVersion], session: Callable[[], SparkSession]
) -> InputVersion:
    spark = session()
    try:
        return ask(spark)
    except InvalidOption:
        raise
    except Exception as error:  # Spark's errors, of Py4J or of its own
        raise source_error(name, format_, error) from error
