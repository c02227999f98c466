"""Create temporary views of all states and metadata tables of a snapshot."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.errors import AnalysisException

from stateproc.errors import AmbiguousNamesWarning, InvalidOption, SnapshotError
from stateproc.model.null_values import warn_of_nulls
from stateproc.model.operator import Operator
from stateproc.model.operator_state import opened_state
from stateproc.model.rocksdb_tables import has_databases
from stateproc.model.state import State
from stateproc.options import BY_NAME, FEED_OPTIONS, PATH, SELECT_OPTIONS
from stateproc.options.definition import option_texts
from stateproc.row_formats.case_collisions import colliding_names, distinct_names, java_fold
from stateproc.snapshot.metadata_tables import METADATA_TABLES
from stateproc.snapshot.opening import metadata_bytes, open
from stateproc.snapshot.selection import state_option
from stateproc.snapshot.snapshot import Snapshot
from stateproc.spark.options import source_options
from stateproc.spark.types import spark_schema
from stateproc.spark.view_cache import ViewCache, cache_directory
from stateproc.spark.workers import check_executors, check_worker_python
from stateproc.storage.uris import store_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Register the data source in Python, which Spark has since 4.0.

_ALREADY_THERE = "DATA_SOURCE_ALREADY_EXISTS"


def register_source(spark: SparkSession) -> None:
    """Register the data source, which Spark finds itself in an installed package, but not in an editable installation.

    Raises:
        InvalidOption: The release of Spark has no data sources in Python.
    """
    check_python_sources()
    from pyspark_savepoint import DefaultSource  # Lazy: not before Spark 4.0.

    try:
        spark.dataSource.register(DefaultSource)
    except AnalysisException as error:
        # Spark 4.0 found it itself, and registers nothing twice.
        if _ALREADY_THERE not in str(error):
            raise


def check_python_sources() -> None:
    """Raise InvalidOption before Spark 4.0, which brought data sources in Python."""
    if find_spec("pyspark.sql.datasource") is None:
        raise InvalidOption(
            f"PySpark {pyspark.__version__} has no data sources in Python",
            advice="install pyspark>=4.1; or read one state after another: stateproc.load(spark, path, uid=…, state=…)",
        )


# Name the views of a snapshot so that SQL needs no quotes and no name is another's, whatever Spark says of case.

_SHORT_HASH = 8
_MAX_NAME_LENGTH = 120


def view_names(operators: Sequence[Operator], reserved: Collection[str]) -> list[tuple[str, list[str]]]:
    """Return the name of each operator's wide table, and the names of its states' views.

    Names that are alike but for case, or but for signs that SQL needs quotes for, all get a number, in the order of
    their code points: no view has the name that two could have.

    Args:
        reserved: The names of further views.
    """
    prefixes = numbered_names([of.uid or of.name or of.operator_id[:_SHORT_HASH] for of in operators])
    wanted = []
    for operator, prefix in zip(operators, prefixes, strict=True):
        states = numbered_names([state.name for state in operator.states])
        wanted.append([prefix, *(plain_name(f"{prefix}__{state}") for state in states)])
    # A state `c` of `a__b` and a state `b__c` of `a` are alike only now.
    chosen = iter(
        distinct_names([name for names in wanted for name in names], java_fold, set(map(java_fold, reserved)))
    )
    return [(next(chosen), [next(chosen) for _ in names[1:]]) for names in wanted]


def view_name(operator: str, state: str | None) -> str:
    """Return the name of a view that nothing else is like."""
    prefix = plain_name(operator)
    return prefix if state is None else plain_name(f"{prefix}__{plain_name(state)}")


def numbered_names(names: Sequence[str]) -> list[str]:
    """Return plain names, numbered where they are alike."""
    order = sorted(range(len(names)), key=lambda index: (names[index], index))
    plain = distinct_names([plain_name(names[index]) for index in order], java_fold)
    by_index = dict(zip(order, plain, strict=True))
    return [by_index[index] for index in range(len(names))]


def plain_name(wanted: str) -> str:
    """Return a name with everything but letters, digits and _ replaced by _."""
    plain = re.sub(r"[^0-9A-Za-z_]+", "_", wanted).strip("_")[:_MAX_NAME_LENGTH] or "state"
    # A name of digits alone, or like 25e3, would be read as a number.
    return f"op_{plain}" if plain[0].isdigit() else plain


_CASE_SENSITIVE = "spark.sql.caseSensitive"
_MOST_NAMES = 8
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_SELECTING = frozenset(
    spelling.lower()
    for option in (PATH, *SELECT_OPTIONS, *FEED_OPTIONS, BY_NAME["columns"], BY_NAME["keys"])
    for spelling in (option.name, option.spark_name)
)


@dataclass(frozen=True)
class View:
    """A view: its name, the options that read it, and its columns; or why it cannot be read.

    ``operator`` and ``state``: what it shows, the state's name where it is a view of a single one.
    """

    name: str
    options: Mapping[str, str] = field(repr=False)
    schema: pa.Schema | None = None
    problem: SnapshotError | None = None
    operator: str | None = None
    state: str | None = None

    @property
    def unclear_names(self) -> list[str]:
        """Columns and fields that Spark distinguishes only with ``spark.sql.caseSensitive``."""
        return [] if self.schema is None else colliding_names(self.schema, java_fold)

    @property
    def shown(self) -> str:
        """The columns, and what the name does not say: the operator or state under its own name."""
        columns = ", ".join((self.schema or pa.schema([])).names)
        return f"{columns}  ({self.source})" if self.source else columns

    @property
    def source(self) -> str | None:
        """The operator and state if the view's name has a number; None otherwise."""
        if self.operator is None or self.name == view_name(self.operator, self.state):
            return None
        return f"operator {self.operator!r}" + ("" if self.state is None else f", state {self.state!r}")


class Views(Sequence[View]):
    """The views that :func:`attach` created.

    Attributes:
        path: The snapshot.
        problems: View names of states that cannot be read → why.
    """

    def __init__(self, path: str, views: Sequence[View]) -> None:
        self.path = path
        self._views = [view for view in views if view.problem is None]
        self.problems = {view.name: view.problem for view in views if view.problem is not None}

    @property
    def names(self) -> list[str]:
        return [view.name for view in self._views]

    def __getitem__(self, index: Any) -> Any:
        return self._views[index]

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        width = max(len(name) for name in [*self.names, *self.problems])
        lines = [f"{len(self)} views of {self.path}"]
        lines += [f"  {view.name:{width}}  {view.shown}" for view in self]
        lines += [f"  {name:{width}}  not readable: {error.message}" for name, error in self.problems.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        rows = [(view.name, view.shown) for view in self]
        rows += [(name, f"not readable: {error.message}") for name, error in self.problems.items()]
        cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in rows)
        return f"<table><tr><th>view</th><th>columns</th></tr>{cells}</table>"


def attach(spark: SparkSession, path: str, *, cache: str | os.PathLike[str] | None = None, **options: Any) -> Views:
    """Create a temporary view for every state and operator of a snapshot.

    Views are named ``<operator>__<state>`` for states, ``<operator>`` for all keyed states as one wide table, and
    ``savepoint_<table>`` for the metadata tables. Operators are named by uid, else name, else the first digits of the
    uid hash. Names of operators or states that differ only by case, or by signs that SQL needs quotes for, all get a
    number: ``Orders_1__Count_1``, ``orders_2__count_2``. Printed views say which is which.

    Filters on keys skip the other key groups: where the session has no value for
    ``spark.sql.python.filterPushdown.enabled``, it is set to true.

    Args:
        spark: The session.
        path: The snapshot's directory, its ``_metadata``, or a checkpoint root.
        cache: A directory in which the rows of each state are kept as Parquet files. What is missing there is written
            now; what was kept of another snapshot at the same path is removed. None: views read the snapshot.
        **options: Options of the data source except those that select, as text or Python values.

    Returns:
        The views; printing them lists their columns.

    Raises:
        InvalidOption: An option does not fit, or Spark's Python workers or executors cannot import stateproc.
        SnapshotError: The snapshot cannot be opened.
        PythonException: A state cannot be read that is to be cached (pyspark.errors).
        WriteFailed: The cache cannot be written.
    """
    check_python_sources()
    given = option_texts(options)
    parsed = source_options({**given, "path": path})
    selecting = sorted(name for name in options if name.lower() in _SELECTING)
    if selecting:
        raise InvalidOption(
            f"option {selecting[0]} does not go with attach", advice="every state gets a view of its own"
        )
    check_worker_python(spark)
    check_executors(spark)
    snapshot = open(parsed.path, **parsed.opening)
    register_source(spark)
    if spark.conf.get(_PUSHDOWN, None) is None:
        spark.conf.set(_PUSHDOWN, "true")
    kept = None if cache is None else _cache(os.fspath(cache), path, snapshot, given)
    views = list(_views(snapshot, raw=parsed.raw, flatten=parsed.flatten))
    is_case_sensitive = spark.conf.get(_CASE_SENSITIVE, "false") == "true"
    unclear = {view.name: names for view in views if not is_case_sensitive and (names := view.unclear_names)}
    if unclear:
        _warn_of_names(unclear)
    for view in views:
        if view.problem is None:
            # Spark does not write such columns to Parquet, so their rows are not kept.
            cached = None if view.name in unclear else kept
            _frame(spark, path, view, given, cached).createOrReplaceTempView(view.name)
    if kept is not None:
        kept.remove_others()
    return Views(snapshot.path, views)


def _cache(cache: str, path: str, snapshot: Snapshot, given: Mapping[str, str]) -> ViewCache:
    location = snapshot.location
    options = location.directory.options if store_kind(cache) == store_kind(snapshot.path) else {}
    return ViewCache.of(cache_directory(cache, options), path, metadata_bytes(location), given)


def _frame(spark: SparkSession, path: str, view: View, given: Mapping[str, str], kept: ViewCache | None) -> DataFrame:
    """Return the rows of a view, from the cache if it is one of a state."""
    schema = spark_schema(view.schema)
    rows = spark.read.format("savepoint").options(**{**given, **view.options}).schema(schema).load(path)
    if kept is None or view.state is None:
        return rows
    found = kept.frame(spark, view.name, schema)
    if found is None:
        kept.store(view.name, rows)
        found = kept.frame(spark, view.name, schema)
    return rows if found is None else found


def _views(snapshot: Snapshot, raw: bool, flatten: bool) -> Iterator[View]:
    tables = {f"savepoint_{table}": table for table in METADATA_TABLES}
    for name, table in tables.items():
        if table == "rocksdb" and not any(has_databases(operator) for operator in snapshot.operators):
            continue
        yield View(name, {"table": table}, METADATA_TABLES[table].schema)
    for operator, (wide_name, names) in zip(snapshot.operators, view_names(snapshot.operators, tables), strict=True):
        selected = {"uidHash": operator.operator_id}
        _warn_of_nulls(operator)
        if operator.keyed_states:
            view = _view(wide_name, selected | {"flatten": "false"}, lambda of=operator: _wide(of))
            yield replace(view, operator=operator.display)
        for state, name in zip(operator.states, names, strict=True):
            view = _view(name, selected | _selecting(state), lambda of=state: _columns(of, raw, flatten))
            yield replace(view, operator=operator.display, state=state.name)


def _warn_of_nulls(operator: Operator) -> None:
    """Warn of states that queries read as null: what they report themselves is in the driver's log."""
    if operator.options.on_error == "null":
        problems = ((state.name, state.problem) for state in operator.states)
        errors = {name: problem for name, problem in problems if problem is not None}
        if errors:
            warn_of_nulls(operator.display, errors)


def _warn_of_names(unclear: Mapping[str, Sequence[str]]) -> None:
    """Warn of columns and fields that Spark reports as ambiguous."""
    shown = "; ".join(
        f"{view}: {', '.join(names[:_MOST_NAMES])}" for view, names in list(unclear.items())[:_MOST_NAMES]
    )
    warnings.warn(
        f"these columns or fields differ by case only: {shown}; Spark distinguishes them after "
        f'spark.conf.set("{_CASE_SENSITIVE}", "true"), and does not cache them otherwise',
        AmbiguousNamesWarning,
        stacklevel=3,
    )


def _wide(operator: Operator) -> pa.Schema:
    """Return the columns that queries can read: Spark asks for all columns of a view, whichever a query selects."""
    wide = operator.wide()
    return wide.schema() if operator.options.on_error == "null" else wide.readable_schema()


def _columns(state: State, raw: bool, flatten: bool) -> pa.Schema:
    return (state if raw else opened_state(state)).schema(flatten=flatten)


def _view(name: str, options: Mapping[str, str], schema: Any) -> View:
    try:
        return View(name, options, schema())
    except SnapshotError as error:
        return View(name, options, problem=error)


def _selecting(state: State) -> dict[str, str]:
    name, value = state_option(state)
    return {BY_NAME[name].spark_name: value}
