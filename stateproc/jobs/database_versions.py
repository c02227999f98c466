"""Find out which version of a table a run reads where only Spark can ask: Iceberg's snapshots, JDBC by a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stateproc.errors import InvalidOption
from stateproc.jobs.input_versions import InputVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, Row, SparkSession

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
