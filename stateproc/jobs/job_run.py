"""Run a job: prepare, plan, check, write, and report; a run that is finished already is recognized and does nothing."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from stateproc.errors import InvalidOption, SnapshotError, Where, WriteFailed
from stateproc.jobs.checks import check_sources, check_target, first_failure, reads_target
from stateproc.jobs.engines import JobSession, engine_of, opened_tables, with_engine
from stateproc.jobs.job_model import Job
from stateproc.jobs.job_writer import writer_of
from stateproc.jobs.loading import Secrets, load_job
from stateproc.jobs.prepared_run import PreparedRun, prepare, replaced
from stateproc.jobs.run_report import SUCCESS, CheckResult, RunManifest, RunReport, has_snapshot, manifest_of
from stateproc.metadata import SnapshotMetadata
from stateproc.options import open_arguments, parse_options
from stateproc.options.definition import option_texts
from stateproc.readers.read_options import ReadOptions
from stateproc.snapshot.opening import open
from stateproc.snapshot.snapshot import Snapshot
from stateproc.writers.commit.commit import CommitHooks, finish_killed
from stateproc.writers.commit.staging import Staging
from stateproc.writers.savepoint_writer import SavepointWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stateproc.writers.plan.planning import WritePlan
    from stateproc.writers.plan.savepoint_plan import SavepointPlan
    from stateproc.writers.write_result import WriteReport

# Pass the report of a run to commands and Python functions that a job names, if the user allows it.

_SECONDS = 300
_MOST_OUTPUT = 300


def check_allowed(job: Job, allowed: bool) -> None:
    """Raise InvalidOption for a job that runs code of its own, unless the user allows it."""
    if allowed:
        return
    advice = "allow it with --allow-hooks (allow_hooks=True), if you trust the file"
    if job.metrics:
        raise job.document.error(("metrics",), "this job runs commands or functions of its own", advice)
    sections = [("base", job.base.options if job.base else {})]
    sections += [(f"sources.{name}", source.values.get("open", {})) for name, source in job.sources.items()]
    for name, options in sections:
        if options.get("plugins"):
            raise job.document.error(tuple(name.split(".")), "this job imports modules of its own (plugins)", advice)


def call_hooks(job: Job, report: RunReport) -> None:
    """Call the hooks of a job; what fails becomes a warning of the report."""
    outcome = "success" if report.status in SUCCESS else "failure"
    values = report.to_dict()
    for hook in job.metrics:
        if hook.get("on", "always") in ("always", outcome):
            try:
                _call(hook, values)
            except Exception as error:  # a hook's own error must not fail the run
                report.warn(f"the hook {hook.get('command') or hook.get('python')} failed: {str(error)[:_MOST_TEXT]}")


def _call(hook: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    if "python" in hook:
        module, _, name = str(hook["python"]).partition(":")
        getattr(importlib.import_module(module), name)(values)
        return
    done = subprocess.run(
        hook["command"], input=json.dumps(values).encode(), capture_output=True, timeout=_SECONDS, check=False
    )
    if done.returncode != 0:
        shown = done.stderr.decode("utf-8", "replace").strip()[-_MOST_OUTPUT:]
        raise InvalidOption(f"exit status {done.returncode}: {shown}")


# Open a savepoint whose files are complete, before it is committed.

_FIRST_KRYO_5 = 5


def pending_snapshot(run: PreparedRun, metadata: SnapshotMetadata, staging: Staging) -> Snapshot:
    """Return the savepoint as a snapshot, with the base's options of reading and the uids that the job names.

    Raises:
        SnapshotError: The base cannot be opened.
    """
    uids = [operator.uid for operator in run.job.operators]
    if run.base is None:
        return Snapshot(
            staging.location, metadata, ReadOptions(kryo=5 if metadata.version >= _FIRST_KRYO_5 else 2), uids
        )
    given = option_texts(run.read_options)
    arguments = open_arguments(parse_options({**given, "path": run.base}))
    base = open(run.base, **arguments)
    known = {operator.uid for operator in metadata.operators if operator.uid}
    return Snapshot(staging.location, metadata, base.options, [*uids, *known])


_MOST_TEXT = 2000
_LIBRARIES = {
    "pyspark": "Spark",
    "py4j": "Spark",
    "duckdb": "DuckDB",
    "_duckdb": "DuckDB",
    "pyarrow": "Arrow",
    "deltalake": "Delta",
}
"""Libraries whose errors end a run, while those of others are bugs."""
Observe = Callable[[str, PreparedRun, str], AbstractContextManager[None]]
"""Called with a phase, the run and its engine; the context is open while the phase lasts."""


@dataclass(frozen=True)
class JobOutcome:
    """How a run ended: its report, the error if it failed, the plan, and what was written."""

    report: RunReport
    error: SnapshotError | None = None
    plan: SavepointPlan | None = None
    written: WriteReport | None = None


def run_job(
    job: Mapping[str, Any] | str | os.PathLike[str],
    spark: SparkSession | None = None,
    *,
    variables: Mapping[str, Any] | None = None,
    plan: bool = False,
    allow_hooks: bool = False,
    engine: str | None = None,
    master: str | None = None,
) -> RunReport:
    """Run a declarative job; see docs/howto/jobs.md.

    A run whose target exists already, made by the same job from the same versions of its inputs, writes nothing:
    its status is ``unchanged``.

    Args:
        job: The path of a job file (YAML or JSON), or the job as a dict.
        spark: A session. Without one, jobs that need none run in this process, and others start one.
        variables: Values of the job's variables, also of ``date`` and ``run_id``.
        plan: Write nothing; the report contains what a run would do.
        allow_hooks: Whether commands, functions and modules that the job names may run.
        engine: ``local``, ``spark`` or ``auto`` instead of the engine that the job names.
        master: The Spark master URL of a session that the run starts.

    Returns:
        The report.

    Raises:
        InvalidOption: The job is not valid, or asks for something impossible.
        NotFound: The job names something that does not exist.
        CheckFailed: A check does not hold; nothing was committed.
        SnapshotError: An input cannot be read, or the savepoint cannot be written.
    """
    outcome = execute_job(
        job, spark, variables=variables, plan=plan, allow_hooks=allow_hooks, engine=engine, master=master
    )
    if outcome.error is not None:
        raise outcome.error
    return outcome.report


def execute_job(
    job: Mapping[str, Any] | str | os.PathLike[str],
    spark: SparkSession | None = None,
    *,
    variables: Mapping[str, Any] | None = None,
    plan: bool = False,
    allow_hooks: bool = False,
    engine: str | None = None,
    master: str | None = None,
    observe: Observe = lambda phase, run, engine: nullcontext(),
) -> JobOutcome:
    """Run a job as `run_job` does, with its arguments; a failure after the job was loaded is part of the outcome.

    ``observe`` shows the progress of phases.

    Raises:
        InvalidOption: The job is not valid.
        NotFound: A variable does not exist.
    """
    loaded = with_engine(load_job(job, variables), engine, master)
    check_allowed(loaded, allow_hooks)
    secrets, report = Secrets(), RunReport(loaded.name)
    steps = _JobSteps(report, plan, observe)
    error = None
    with _recorded_warnings(report, secrets):
        try:
            report.engine = engine_of(loaded, spark)
            with JobSession(loaded, secrets, report.engine, spark) as session:
                with report.phase("prepare"):
                    run = prepare(loaded, secrets, session.started)
                steps.run(run, session)
        except Exception as failure:  # Spark's errors are its own; a bug passes
            error = _redacted(failure, secrets)
            report.status, report.error = "failed", str(error)
    if not plan:
        call_hooks(loaded, report)
        if steps.prepared is not None:
            _save_report(steps.prepared, report)
    return JobOutcome(report, error, steps.plan, steps.written)


@dataclass
class _JobSteps:
    report: RunReport
    plan_only: bool
    observe: Observe
    prepared: PreparedRun | None = None
    plan: SavepointPlan | None = None
    written: WriteReport | None = None

    def run(self, run: PreparedRun, session: JobSession) -> None:
        """Write the target of a prepared run, unless it is there already. Raises SnapshotError."""
        report, self.prepared = self.report, run
        report.run_id, report.fingerprint, report.target = run.run_id, run.fingerprint, run.target
        report.inputs = run.secrets.redact([item.to_dict() for item in run.inputs.values()])
        for item in run.inputs.values():
            if not item.version:
                report.warn(
                    f"source '{item.name}' has no version: a run does not notice that its rows have changed; "
                    "give version_query, or {date} in the target's path"
                )
        done = manifest_of(run.target_path)
        if done is not None and done.fingerprint == run.fingerprint and run.job.target.overwrite != "always":
            self._keep(run, done)
        elif run.job.target.overwrite == "never" and has_snapshot(run.target_path):
            raise _other_snapshot(run, done)
        else:
            self._write(run, session)

    def _keep(self, run: PreparedRun, done: RunManifest) -> None:
        """Do nothing, but for what a run that was killed after its commit has left undone."""
        report = self.report
        report.status, report.write = "unchanged", done.report.get("write")
        report.latest = done.report.get("latest")
        if not done.finished and not self.plan_only:
            if done.write:
                finish_killed(run.target_path, done.write)
            self._finish(run, done)

    def _write(self, run: PreparedRun, session: JobSession) -> None:
        report, checks = self.report, run.job.checks
        with ExitStack() as stack:
            spark = session.get()
            tables = stack.enter_context(opened_tables(run, spark)) if run.job.sources else None
            with report.phase("plan"):
                writer = writer_of(run, tables, spark)
                plan = writer.planned_write(run.target, _mode(run), verify=run.job.target.verify, count=self.plan_only)
                self.plan, report.plan = plan.savepoint, plan.savepoint.to_dict()
            if self.plan_only:
                report.status = "planned"
                report.checks = [CheckResult(check.name, check.kind, None, "not evaluated") for check in checks]
                return
            of_sources = [check for check in checks if not reads_target(check)]
            if of_sources:
                assert tables is not None  # the model refuses checks of sources without any
                with self._phase("check", run):
                    report.checks += check_sources(of_sources, tables)
                self._stop_at_failures()
            manifest = RunManifest(run.job.name, run.run_id, run.fingerprint, "", report.inputs)
            with self._phase("write", run):
                written = self._written(writer, plan, run, manifest)
        report.status = "written"
        self._finish(run, written)

    def _written(
        self, writer: SavepointWriter, plan: WritePlan, run: PreparedRun, manifest: RunManifest
    ) -> RunManifest:
        """Write the savepoint; its checks are evaluated, and its manifest is written, before it is complete."""
        of_target = [check for check in run.job.checks if reads_target(check)]
        kept = [manifest]

        def check(metadata: SnapshotMetadata, staging: Staging) -> None:
            with self.report.phase("check"):
                self.report.checks += check_target(of_target, pending_snapshot(run, metadata, staging))
            self._stop_at_failures()

        def made(data: bytes, write: str) -> bytes:
            kept[0] = manifest.of_metadata(data, write)
            return kept[0].to_bytes()

        writer.with_commit_hooks(CommitHooks(check if of_target else None, made))
        result = writer.execute(plan)
        self.written, self.report.write = result.report, result.report.to_dict()
        for text in result.report.warnings:
            self.report.warn(text)
        return kept[0]

    def _finish(self, run: PreparedRun, manifest: RunManifest) -> None:
        """Switch the pointer, then complete the manifest: a run that is killed before repeats this."""
        with self.report.phase("finish"):
            if run.latest is not None:
                replaced(run.target_path.at(run.latest), f"{run.target}\n".encode())
                self.report.latest = run.latest
            values = run.secrets.redact(self.report.to_dict())
            done = replace(manifest, finished=True, report=values)
            done.save(run.target_path)

    def _stop_at_failures(self) -> None:
        failure = first_failure(self.report.checks)
        if failure is not None:
            raise failure

    @contextmanager
    def _phase(self, name: str, run: PreparedRun) -> Iterator[None]:
        with self.report.phase(name), self.observe(name, run, self.report.engine):
            yield


def _mode(run: PreparedRun) -> Literal["error", "overwrite"]:
    return "error" if run.job.target.overwrite == "never" else "overwrite"


def _other_snapshot(run: PreparedRun, done: RunManifest | None) -> InvalidOption:
    what = (
        "which no run of a job has written"
        if done is None
        else (f"which job '{done.job}' wrote as run {done.run_id} from other inputs or by another definition")
    )
    return InvalidOption(
        f"there is a snapshot in the target already, {what}",
        where=Where(file=run.target),
        advice="put {run_id} or {date} into the path, or give `overwrite: changed` to replace it",
    )


def _save_report(run: PreparedRun, report: RunReport) -> None:
    """Write the report to the job's file; what fails becomes a warning."""
    if run.report_path is None:
        return
    data = json.dumps(run.secrets.redact(report.to_dict()), indent=1, ensure_ascii=False).encode("utf-8", "replace")
    try:
        replaced(run.target_path.at(run.report_path), data)
    except SnapshotError as error:
        report.warn(f"the report was not written: {run.secrets.redact_text(error.message)}")


def _redacted(error: Exception, secrets: Secrets) -> SnapshotError:
    """Return an error without values of secrets, also in its causes. Raises ``error`` if it is a bug."""
    if isinstance(error, SnapshotError):
        where = secrets.redact(vars(error.where))
        message, advice = secrets.redact_text(error.message), secrets.redact(error.advice)
        if secrets.used:
            return type(error)(message, where=Where(**where), advice=advice)
        return error
    module = type(error).__module__.partition(".")[0]
    if module not in _LIBRARIES and not secrets.used:
        raise error
    text = secrets.redact_text(str(error).strip()).partition("\nStack Trace")[0][:_MOST_TEXT]
    who = _LIBRARIES.get(module, type(error).__name__)
    found = WriteFailed(f"{who} failed: {text}", advice="nothing was committed; correct the cause and run again")
    if not secrets.used:
        found.__cause__ = error
    return found


@contextmanager
def _recorded_warnings(report: RunReport, secrets: Secrets) -> Iterator[None]:
    """Add warnings to the report, and show them as before, without values of secrets."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            text = secrets.redact_text(str(message))
            if issubclass(category, UserWarning):
                report.warn(text)
            shown(text, category, *place, **more)

        warnings.showwarning = show
        yield
