"""What both engines do with the sources of a job: rows to fill states with, and queries for checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from stateproc.errors import InvalidOption, package_for
from stateproc.jobs.job_model import SQL, Job, SourceSpec
from stateproc.options import OPEN_OPTIONS
from stateproc.row_formats.case_collisions import java_fold
from stateproc.snapshot.opening import open
from stateproc.writers.rewrite.transform import exact_open_options

with package_for("a job", extra="jobs"):
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

if TYPE_CHECKING:
    from stateproc.model.state import State

SQL_ADVICE = "the tables are the sources of the job, by their names"


class SourceTables(Protocol):
    """The sources of a run as tables. Used as a context: left, it releases what it holds."""

    def frame(self, name: str) -> Any:
        """Return the rows of a source as OperatorBootstrap accepts them. Raises SnapshotError."""

    def rows(self, query: str, most: int = 2) -> list[tuple[Any, ...]]:
        """Return the first rows of a query over the sources. Raises InvalidOption."""

    def quoted(self, name: str) -> str:
        """Return a name as queries write it."""

    def __enter__(self) -> SourceTables: ...

    def __exit__(self, *error: object) -> None: ...


def in_order(job: Job, dialect: str) -> list[SourceSpec]:
    """Return the sources, each after those that its query reads.

    Raises:
        InvalidOption: A query is not one SELECT, queries read each other in a circle, or names differ by case only.
    """
    alike = defaultdict(list)
    for name in job.sources:
        alike[java_fold(name)].append(name)
    for names in alike.values():
        if len(names) > 1:
            raise InvalidOption(
                f"the sources {' and '.join(map(repr, names))} differ by case only, which queries do not distinguish",
                advice="rename one",
            )
    needs = {name: _tables_of(job, source, dialect) for name, source in job.sources.items()}
    ordered: list[SourceSpec] = []
    done: set[str] = set()
    while len(done) < len(needs):
        ready = [name for name, others in needs.items() if name not in done and others <= done]
        if not ready:
            left = ", ".join(name for name in needs if name not in done)
            raise InvalidOption(f"the queries of these sources read each other in a circle: {left}")
        ordered += [job.sources[name] for name in ready]
        done.update(ready)
    return ordered


def checked_query(query: str, dialect: str) -> exp.Query:
    """Return the parsed query. Raises InvalidOption unless the text is one query."""
    try:
        found = [item for item in sqlglot.parse(query, dialect=dialect) if item is not None]
    except (SqlglotError, RecursionError) as error:
        raise InvalidOption(f"the query cannot be parsed: {str(error)[:300]}", advice=SQL_ADVICE) from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise InvalidOption("a query of a job is one SELECT", advice=SQL_ADVICE)
    return found[0]


def _tables_of(job: Job, source: SourceSpec, dialect: str) -> set[str]:
    if source.format != SQL:
        return set()
    try:
        tree = checked_query(source.values["sql"], dialect)
    except InvalidOption as error:
        raise job.document.error(("sources", source.name, "sql"), error.message, error.advice) from error
    own = {item.alias for item in tree.find_all(exp.CTE)}
    names = {table.name for table in tree.find_all(exp.Table) if not table.db} - own
    return {name for name in job.sources if name in names}


def snapshot_state(values: Mapping[str, Any]) -> State:
    """Open the state that a source names. Raises SnapshotError."""
    known = {option.name for option in OPEN_OPTIONS}
    options = {name: value for name, value in values.get("open", {}).items() if name in known}
    snapshot = open(values["snapshot"], **exact_open_options(options))
    operator = snapshot.operator(values["uid"])
    if "timers" in values:
        return operator.timers(values["timers"])
    if "operator_state" in values:
        return operator.operator_state(values["operator_state"])
    if "state" not in values:
        raise InvalidOption("a source of a snapshot names no state", advice="give state, operator_state or timers")
    return operator.state(values["state"])
