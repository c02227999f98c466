"""The sources of a job as DataFrames of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stateproc.errors import InvalidOption, SnapshotError
from stateproc.jobs.input_versions import has_glob, iceberg_reader, jdbc_reader, source_error, spark_text
from stateproc.jobs.job_model import SNAPSHOT, SQL, SourceSpec
from stateproc.jobs.prepared_run import PreparedRun
from stateproc.jobs.source_tables import SQL_ADVICE, checked_query, in_order
from stateproc.options import OPEN_OPTIONS, STORAGE_PREFIX, Interface
from stateproc.spark.workers import described_jobs
from stateproc.storage.uris import absolute
from stateproc.writers.rewrite.transform import exact_open_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_DESCRIBED = 100
_SELECTION = {"uid": "uid", "state": "state", "operator_state": "operatorState", "timers": "timers"}


class SparkTables:
    """The sources of a run as temporary views of the session while the context is open; see `SourceTables`."""

    def __init__(self, run: PreparedRun, spark: SparkSession) -> None:
        """Create the views. Raises SnapshotError."""
        self._run, self._spark = run, spark
        self._frames: dict[str, DataFrame] = {}
        try:
            for source in in_order(run.job, "spark"):
                self._check_free(source.name)
                frame = self._explained(source, lambda source=source: self._frame(source))
                frame.createOrReplaceTempView(source.name)
                self._frames[source.name] = frame
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> SparkTables:
        return self

    def __exit__(self, *error: object) -> None:
        for name in self._frames:
            self._spark.catalog.dropTempView(name)

    def frame(self, name: str) -> DataFrame:
        """Return the rows of a source."""
        return self._frames[name]

    def rows(self, query: str, most: int = 2) -> list[tuple[Any, ...]]:
        """Return the first rows of a query over the sources. Raises InvalidOption."""
        checked_query(query, "spark")
        try:
            with described_jobs(self._spark, f"stateproc run {self._run.job.name}: check {query[:_MOST_DESCRIBED]}"):
                return [tuple(row) for row in self._spark.sql(query).take(most)]
        except Exception as error:  # Spark's errors, of Py4J or of its own
            raise InvalidOption(spark_text(error), advice=SQL_ADVICE) from error

    def quoted(self, name: str) -> str:
        """Return a name in backquotes."""
        return "`" + name.replace("`", "``") + "`"

    def _check_free(self, name: str) -> None:
        views = {table.name.lower() for table in self._spark.catalog.listTables() if table.isTemporary}
        if name.lower() in views:
            raise InvalidOption(
                f"the session has a temporary view '{name}' already", advice="drop it, or give the source another name"
            )

    def _explained(self, source: SourceSpec, make: Any) -> DataFrame:
        try:
            frame: DataFrame = make()
            return frame
        except SnapshotError as error:
            raise type(error)(
                f"source '{source.name}': {error.message}", where=error.where, advice=error.advice
            ) from error
        except Exception as error:  # Spark's errors, of Py4J or of its own
            raise source_error(source.name, source.format, error) from error

    def _frame(self, source: SourceSpec) -> DataFrame:
        values, version = self._run.secrets.reveal(dict(source.values)), self._run.inputs.get(source.name)
        if source.format == SQL:
            return self._spark.sql(checked_query(values["sql"], "spark").sql(dialect="spark"))
        reader = self._spark.read.options(**{name: _text(item) for name, item in values.get("options", {}).items()})
        if "schema" in values:
            reader = reader.schema(values["schema"])
        if source.format == SNAPSHOT:
            return reader.format("savepoint").options(**_snapshot_options(values)).load(absolute(values["snapshot"]))
        if source.format == "delta" and version is not None:
            chosen = str(version.version["delta_version"])
            return reader.format("delta").option("versionAsOf", chosen).load(absolute(values["path"]))
        if source.format == "jdbc":
            return jdbc_reader(reader, values).load()
        if source.format == "iceberg":
            return iceberg_reader(reader, version).load(values["path"])
        files = list(version.files) if version is not None and has_glob(values["path"]) else absolute(values["path"])
        return reader.format(source.format).load(files)


def _snapshot_options(values: Any) -> dict[str, str]:
    """Return the options of ``spark.read.format("savepoint")``."""
    chosen = {spark: _text(values[name]) for name, spark in _SELECTION.items() if name in values}
    if values.get("flatten"):
        chosen["flatten"] = "true"
    opened = exact_open_options(values.get("open", {}))
    for option in OPEN_OPTIONS:
        if option.name not in opened:
            continue
        if option.name == "storage_options":
            settings = option.value(opened[option.name]) or {}
            chosen.update({f"{STORAGE_PREFIX}{name}": _text(item) for name, item in settings.items()})
        elif Interface.SPARK in option.interfaces:
            chosen[option.spark_name] = _text(opened[option.name])
    return chosen


def _text(value: Any) -> str:
    import json  # Lazy: few options are no text.

    return value if isinstance(value, str) else json.dumps(value)
