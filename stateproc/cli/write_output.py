"""Print the plan of a writer, or write and print the report; the same for all verbs."""

from __future__ import annotations

import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Group, RenderableType
from rich.text import Text

from stateproc.cli.operator_tables import operator_cells, operator_table, restore_notes, state_cells
from stateproc.cli.progress import logged
from stateproc.cli.terminal import print_json, show
from stateproc.errors import InvalidOption, package_for
from stateproc.html.units import human_bytes
from stateproc.options import BY_NAME, Interface
from stateproc.writers.local.progress import LOGGER, WriteProgress, progress_shown_by
from stateproc.writers.plan.savepoint_plan import OperatorPlan, SavepointPlan
from stateproc.writers.savepoint_writer import SavepointWriter
from stateproc.writers.write_result import WriteReport
from stateproc.writers.write_task import reporting_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Show a bar for each step of a local write on stderr if it is a terminal: what the engine says it has done.

BAR_SECONDS = 0.5
"""The time between two updates of a bar."""


@contextmanager
def write_bar(what: str) -> Iterator[None]:
    """Show local writes as bars while the context is open; nothing where there is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with progress_shown_by(lambda progress: _bar(what, progress)):
        yield


def polled(seconds: float, function: Callable[[], None]) -> AbstractContextManager[None]:
    """Call a function regularly in a thread while the context is open."""

    def poll(ended: threading.Event) -> None:
        while not ended.wait(seconds):
            function()

    return reporting_thread(poll)


@contextmanager
def _bar(what: str, progress: WriteProgress) -> Iterator[None]:
    from rich.console import Console  # Lazy: start-up.
    from rich.progress import BarColumn, Progress, TextColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}")]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, done="")

        def update() -> None:
            state = progress.state()
            left = state.remaining_seconds
            done = state.text if left is None else f"{state.text}, about {left:,.0f} s left"
            # Without a total the bar moves to and fro.
            bar.update(task, total=None if state.part is None else 1.0, completed=state.part or 0.0, done=done)

        try:
            with polled(BAR_SECONDS, update):
                yield
        finally:
            update()


def print_plan_or_report(writer: SavepointWriter, arguments: Namespace) -> None:
    """Print the plan, with ``--plan``; else write the target and print what was written.

    Raises:
        SnapshotError: The change is refused, or the write fails.
    """
    mode: Literal["error", "overwrite"] = "overwrite" if arguments.overwrite else "error"
    if arguments.only_plan:
        plan = writer.plan(arguments.target, mode)
        _print(arguments, plan.to_dict(), lambda: plan_view(plan))
        return
    with write_bar(f"writing {arguments.target}"), logged(LOGGER):
        report = writer.write(arguments.target, mode).report

    _print(arguments, report.to_dict(), lambda: report_view(report))


def storage_settings(given: list[str]) -> dict[str, Any]:
    """Parse repeated NAME=VALUE settings of a file system. Raises InvalidOption."""
    option = BY_NAME["storage_options"]
    return {name: value for text in given for name, value in option.value(text, Interface.CLI).items()}


def _print(arguments: Namespace, values: dict[str, Any], view: Callable[[], RenderableType]) -> None:
    if arguments.json:
        print_json(values)
        return
    show(view())


# Choose where a write runs: in this process, or in Spark's tasks.


@contextmanager
def chosen_engine(arguments: Namespace, name: str) -> Iterator[SparkSession | None]:
    """Yield the session of ``--engine spark``, or None for the local engine; a session that was started is stopped.

    Raises:
        InvalidOption: ``--master`` for the local engine.
        MissingPackage: PySpark is not installed.
    """
    if arguments.engine != "spark":
        if arguments.master is not None:
            raise InvalidOption(f"--master {arguments.master} for the local engine", advice="add --engine spark")
        yield None
        return
    with package_for("--engine spark"):
        from pyspark.sql import SparkSession  # Lazy: the local engine needs no Spark.
    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName(name)
    if arguments.master is not None:
        builder = builder.master(arguments.master)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        if running is None:
            session.stop()


# Draw the plan of a write.

_NUMBERS = ("subtasks", "copied", "written from")


def plan_view(plan: SavepointPlan) -> RenderableType:
    """Return a table of operators and their states, the totals, and what restoring needs."""
    rows = (row for operator in plan.operators for row in _rows(operator))
    totals = Text(f"{plan.totals_text}; nothing is written yet", "bold")
    return Group(*_heads(plan), operator_table("plan", _NUMBERS, rows), totals, *restore_notes(plan.notes))


def _heads(plan: SavepointPlan) -> Iterator[Text]:
    before = "a new savepoint" if plan.source is None else plan.source
    after = "" if plan.target is None else f" → {plan.target}"
    yield Text(f"{before}{after}, for Flink {plan.flink_version}")
    if plan.replaces_target:
        yield Text("replaces the snapshot in the target", "yellow")


def _rows(operator: OperatorPlan) -> Iterator[list[Text]]:
    """Yield the row of an operator, then those of its states."""
    yield [
        *operator_cells(operator.display, operator.action, operator.reasons),
        Text(operator.subtasks_text),
        Text(human_bytes(operator.bytes_copied) if operator.files_copied else "–"),
        Text(human_bytes(operator.bytes_read) if operator.bytes_read else "–"),
    ]
    for state in operator.states:
        cells = state_cells(state.name, state.kind, state.action, state.reasons, operator.reasons)
        yield [*cells, Text(""), Text(""), Text("")]


# Draw the report of a write.

_REPORT_NUMBERS = ("subtasks", "entries written", "bytes")


def report_view(report: WriteReport) -> RenderableType:
    """Return a table of operators and their states, the totals, and what restoring needs."""
    head = Text(f"{report.source or 'a new savepoint'} → {report.target}, for Flink {report.flink_version}")
    table = operator_table(
        "action", _REPORT_NUMBERS, (row for operator in report.operators for row in _report_rows(operator))
    )
    warnings = (Text(f"warning: {warning}", "yellow") for warning in report.warnings)
    return Group(head, table, Text(_totals(report), "bold"), *restore_notes(report.notes), *warnings)


def _report_rows(operator: OperatorPlan) -> Iterator[list[Text]]:
    """Yield the row of an operator, then those of its states."""
    subtasks = "–" if operator.parallelism is None else f"{operator.parallelism} of {operator.max_parallelism}"
    yield [
        *operator_cells(operator.display, operator.action, operator.reasons),
        Text(subtasks),
        _count(operator.entries),
        Text(human_bytes(operator.bytes)),
    ]
    for state in operator.states:
        cells = state_cells(state.name, state.kind, state.action, state.reasons, operator.reasons)
        yield [*cells, Text(""), _count(state.entries), Text("")]


def _count(entries: int | None) -> Text:
    return Text("–" if entries is None else f"{entries:,}")


def _totals(report: WriteReport) -> str:
    seconds = report.seconds["total"]
    rate = f", {report.entries / seconds:,.0f} a second" if report.entries and seconds >= 1 else ""
    size = human_bytes(report.bytes)
    return f"{size} of state, {report.entries:,} entries written in {seconds:.1f} s{rate} by the {report.engine} engine"
