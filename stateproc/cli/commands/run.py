"""``stateproc run``: run a declarative job."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stateproc.cli.exit_status import YES, status_of
from stateproc.cli.progress import counting
from stateproc.cli.terminal import print_json, show, text_table
from stateproc.cli.write_output import plan_view, polled, report_view, write_bar
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.html.units import human_bytes
from stateproc.jobs.engines import LOCAL
from stateproc.jobs.prepared_run import PreparedRun
from stateproc.jobs.run_report import RunReport
from stateproc.writers.plan.savepoint_plan import SavepointPlan
from stateproc.writers.write_result import WriteReport


def run_command(arguments: Namespace) -> int:
    """Run or plan the job that the arguments name; return the exit status, 1 if a check does not hold."""
    # Lazy: start-up. Completion and --help need no Arrow.
    from stateproc.jobs.job_run import execute_job
    from stateproc.jobs.job_schema import job_schema

    if arguments.schema:
        print_json(job_schema())
        return YES
    if arguments.job is None:
        raise InvalidOption("no job is given", advice="give the path of a job file, or --schema")

    outcome = execute_job(
        arguments.job,
        variables=_variables(arguments.set),
        plan=arguments.plan,
        allow_hooks=arguments.allow_hooks,
        engine=arguments.engine,
        master=arguments.master,
        observe=run_progress,
    )
    if arguments.json:
        print_json(outcome.report.to_dict())
    elif outcome.error is None:
        show(run_view(outcome.report, outcome.plan, outcome.written))
    if outcome.error is None:
        return YES
    print(f"error: {outcome.error}", file=sys.stderr)
    return status_of(outcome.error)


def _variables(given: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidOption(f"--set {text}", advice="give NAME=VALUE")
        values[name] = value
    return values


# Show how far a run is: a bar with rate and remaining time in a terminal, elsewhere a line every ten seconds.

LINE_SECONDS = 10.0
_WORDS = {"check": "checking", "write": "writing"}


@contextmanager
def run_progress(phase: str, run: PreparedRun, engine: str) -> Iterator[None]:
    """Show the progress of a phase on stderr while the context is open.

    Args:
        phase: ``check`` or ``write``.
        engine: ``local`` or ``spark``, which shows its own progress in a terminal.
    """
    what = f"{run.job.name}: {_WORDS.get(phase, phase)}"

    def measure() -> int:
        return written_bytes(run) if phase == "write" else 0

    if sys.stderr.isatty():
        shown = write_bar(f"{what} {run.target}") if phase == "write" else counting(what)
        with shown if engine == LOCAL else nullcontext():
            yield
        return
    started = time.monotonic()

    def line() -> None:
        done = measure()
        seconds = time.monotonic() - started
        rate = f", {human_bytes(done)} written, {human_bytes(int(done / seconds))}/s" if done else ""
        print(f"{what}: {seconds:.0f} s{rate}", file=sys.stderr, flush=True)

    with polled(LINE_SECONDS, line):
        yield


def written_bytes(run: PreparedRun) -> int:
    """Return the bytes of the files in the target so far; 0 where it cannot be listed."""
    try:
        found = [entry.status() for entry in run.target_path.entries() if not entry.is_directory]
        return sum(status.size for status in found if status is not None)
    except SnapshotError:
        return 0


# Draw the report of a job's run.

_VERSION_WIDTH = 12
"""Characters of a version that are shown: enough of a hash."""
_HEADLINES = {
    "written": "written",
    "unchanged": "nothing to do: this job has written the target already, from the same inputs",
    "planned": "plan: nothing was written",
    "failed": "failed",
}


def run_view(
    report: RunReport, plan: SavepointPlan | None = None, written: WriteReport | None = None
) -> RenderableType:
    """Return the result of a run: inputs, plan or what was written, checks, warnings."""
    parts: list[RenderableType] = [
        Text(f"{report.job} (run {report.run_id}): {_headline(report)}", style="bold"),
        Text(f"target: {report.target}"),
    ]
    if report.inputs:
        parts.append(_inputs(report))
    if written is not None:
        parts += [report_view(written), Text("")]
    elif plan is not None:
        parts += [plan_view(plan), Text("")]
    if report.checks:
        parts.append(_checks(report))
    if report.latest:
        parts.append(Text(f"pointer: {report.latest}"))
    if report.status == "written":
        parts.append(
            Text(", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.seconds.items()), style="dim")
        )
    parts += [Text(f"warning: {text}", style="yellow") for text in report.warnings]
    return Group(*parts)


def _headline(report: RunReport) -> str:
    if report.status == "unchanged" and not all(item["version"] for item in report.inputs):
        return "nothing to do: this job has written the target already; not all of its inputs have a version"
    return _HEADLINES[report.status]


def _inputs(report: RunReport) -> Table:
    table = text_table("input", "format", "version", "path")
    for item in report.inputs:
        table.add_row(Text(item["name"]), Text(item["format"]), Text(_version(item)), Text(str(item["path"] or "–")))
    return table


def _version(item: dict[str, Any]) -> str:
    version = item["version"]
    parts = [f"version {version['delta_version']}"] if "delta_version" in version else []
    parts += [f"snapshot {version['snapshot_id'] or 'none'}"] if "snapshot_id" in version else []
    if "files" in item:
        parts += [f"{item['files']} file{'' if item['files'] == 1 else 's'}", human_bytes(item["bytes"])]
    if "rows" in item:
        parts.append(f"{item['rows']:,} rows")
    if parts:
        return ", ".join(parts)
    return str(next(iter(version.values()), "unknown"))[:_VERSION_WIDTH]


def _checks(report: RunReport) -> Table:
    table = text_table("check", "result", "found")
    for check in report.checks:
        result = {True: Text("holds", "green"), False: Text("fails", "red"), None: Text("–")}[check.passed]
        table.add_row(Text(check.name), result, Text(check.found))
    return table
