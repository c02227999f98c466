"""The sections of a validated job as frozen dataclasses; texts may contain references to secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stateproc.jobs.job_document import JobDocument, Path
from stateproc.writers.changes import SnapshotChange, change_from_dict

SNAPSHOT, SQL = "snapshot", "sql"


@dataclass(frozen=True)
class SourceSpec:
    """A source: files or tables (``format``), a query over other sources, or a state of another snapshot.

    Attributes:
        name: The name in queries, states and checks.
        format: ``sql``, ``snapshot``, or a format of files and tables.
        values: The section as it is given.
    """

    name: str
    format: str
    values: Mapping[str, Any]

    @property
    def path(self) -> str | None:
        """The path of files, a table or a snapshot."""
        found = self.values.get("snapshot") or self.values.get("path")
        return None if found is None else str(found)


@dataclass(frozen=True)
class BaseSpec:
    """The snapshot that is changed: how it is found (path, newest_checkpoint …), where, and options of reading."""

    how: str
    where: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class StateSpec:
    """A state, timers or offsets of a new operator; ``arguments`` of the method of its kind."""

    kind: str
    source: str
    name: str | None
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class PlanSpec:
    """A compiled plan that names and types an operator's states, and the sources that fill them.

    Attributes:
        path: The path or URI of the plan.
        rows: A source, or one by the name of each state.
        ttl: Whether states have a time to live; None: as the plan says.
    """

    path: str
    rows: str | Mapping[str, str]
    ttl: bool | None


@dataclass(frozen=True)
class OperatorSpec:
    """An operator whose states come from sources, by ``states`` or ``plan``; ``extend``: they are added to those of the
    base's operator."""

    uid: str
    states: tuple[StateSpec, ...]
    extend: bool
    parallelism: int | None
    max_parallelism: int | None
    bootstrap: Mapping[str, Any]
    plan: PlanSpec | None = None


@dataclass(frozen=True)
class TargetSpec:
    """The savepoint to be written. ``path`` is a template in which the run's id may be missing."""

    path: str
    overwrite: str = "never"
    checkpoint_id: int | None = None
    format: str | None = None
    flink_version: str | None = None
    compressed: bool | None = None
    max_parallelism: int | None = None
    parallelism: Mapping[str, int] = field(default_factory=dict)
    verify: bool = True
    rocksdb_options: Mapping[str, Any] = field(default_factory=dict)
    storage_options: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CheckSpec:
    """A condition that must hold before the savepoint is committed.

    Attributes:
        kind: ``rows``, ``unique``, ``state``, ``restores`` or ``sql``.
        subject: The source, the state, the Flink version, or the query.
        values: The section as it is given.
    """

    kind: str
    subject: str
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name, else what it checks."""
        given = self.values.get("name")
        if given:
            return str(given)
        if self.kind == "unique":
            return f"unique {', '.join(self.values['columns'])} of {self.subject}"
        restores = f"restores in Flink {self.subject}"
        return {"rows": f"rows of {self.subject}", "sql": self.subject, "restores": restores}.get(
            self.kind, f"rows of {self.values.get('uid')}.{self.subject}"
        )


@dataclass(frozen=True)
class Job:
    """A job: validated, its variables replaced, its secrets not."""

    name: str
    document: JobDocument = field(repr=False)
    engine: str
    spark: Mapping[str, Any]
    sources: Mapping[str, SourceSpec]
    base: BaseSpec | None
    operators: tuple[OperatorSpec, ...]
    changes: tuple[SnapshotChange, ...]
    target: TargetSpec
    checks: tuple[CheckSpec, ...]
    latest: str | None
    report: str | None
    metrics: tuple[Mapping[str, Any], ...]
    run_id: str | None = None


def job_of(document: JobDocument, run_id: str | None = None) -> Job:
    """Build the job of a valid document.

    Raises:
        InvalidOption: A change does not fit, a name is not defined, or sections contradict each other.
    """
    value = document.value
    job = Job(
        name=value["job"],
        document=document,
        engine=value.get("engine", "auto"),
        spark=value.get("spark", {}),
        sources={name: _source(name, values) for name, values in value.get("sources", {}).items()},
        base=_base(value.get("base")),
        operators=tuple(_operator(item) for item in value.get("operators", ())),
        changes=tuple(_change(document, n, item) for n, item in enumerate(value.get("changes", ()))),
        target=TargetSpec(**value["target"]),
        checks=tuple(_check(item) for item in value.get("checks", ())),
        latest=value.get("latest"),
        report=value.get("report"),
        metrics=tuple(value.get("metrics", ())),
        run_id=run_id,
    )
    _check_references(job)
    return job


def _source(name: str, values: Mapping[str, Any]) -> SourceSpec:
    format_ = SQL if "sql" in values else SNAPSHOT if "snapshot" in values else str(values["format"])
    return SourceSpec(name, format_, values)


def _base(values: Mapping[str, Any] | None) -> BaseSpec | None:
    if values is None:
        return None
    ((how, where),) = ((key, item) for key, item in values.items() if key != "open")
    return BaseSpec(how, where, values.get("open", {}))


def _operator(values: Mapping[str, Any]) -> OperatorSpec:
    own = ("uid", "states", "extend", "parallelism", "max_parallelism", "plan", "rows", "ttl")
    plan = PlanSpec(values["plan"], values["rows"], values.get("ttl")) if "plan" in values else None
    return OperatorSpec(
        values["uid"],
        tuple(_state(item) for item in values.get("states", ())),
        values.get("extend", False),
        values.get("parallelism"),
        values.get("max_parallelism"),
        {key: item for key, item in values.items() if key not in own},
        plan,
    )


def _state(values: Mapping[str, Any]) -> StateSpec:
    own = ("kind", "source", "name")
    arguments = {key: item for key, item in values.items() if key not in own}
    return StateSpec(values["kind"], values["source"], values.get("name"), arguments)


def _check(values: Mapping[str, Any]) -> CheckSpec:
    kind = next(name for name in ("rows", "unique", "state", "restores", "sql") if name in values)
    return CheckSpec(kind, values[kind], values)


def _change(document: JobDocument, number: int, values: Mapping[str, Any]) -> SnapshotChange:
    from stateproc.errors import InvalidOption

    try:
        return change_from_dict(values)
    except InvalidOption as error:
        raise document.error(("changes", number), error.message, error.advice) from error


def _check_references(job: Job) -> None:
    """Raise InvalidOption where a name is not defined, or a section needs another."""
    document, names = job.document, ", ".join(job.sources) or "none"

    def check_source(name: str, path: Path) -> None:
        if name not in job.sources:
            raise document.error(path, f"there is no source '{name}'", f"there are: {names}")

    for n, operator in enumerate(job.operators):
        for m, state in enumerate(operator.states):
            check_source(state.source, ("operators", n, "states", m, "source"))
        rows = {} if operator.plan is None else operator.plan.rows
        if isinstance(rows, str):
            check_source(rows, ("operators", n, "rows"))
        else:
            for name, source in rows.items():
                check_source(source, ("operators", n, "rows", name))
        if operator.extend and job.base is None:
            raise document.error(("operators", n, "extend"), "there is no base to extend", "give `base:`, or remove it")
    for n, check in enumerate(job.checks):
        if check.kind in ("rows", "unique"):
            check_source(check.subject, ("checks", n, check.kind))
        elif check.kind == "sql" and check.values.get("on") != "target" and not job.sources:
            raise document.error(
                ("checks", n),
                "the query reads sources, and the job has none",
                "add `on: target` to query the savepoint",
            )
    for path, text in ((("target", "path"), job.target.path), (("latest",), job.latest), (("report",), job.report)):
        if text is not None and "${secret:" in text:
            raise document.error(path, "a path that a run prints contains a secret", "use a variable, or ${env:NAME}")
    if job.base is None and not job.operators:
        raise document.error((), "a job without `base` and `operators` writes nothing", "give one of them, or both")
    if job.base is None and job.changes:
        raise document.error(("changes",), "changes need a snapshot", "give `base:`")
