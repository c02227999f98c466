"""Draw the report of a job's run."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stateproc.cli.render.bars import human_bytes
from stateproc.cli.render.plan_view import plan_view
from stateproc.cli.render.report_view import report_view
from stateproc.jobs.run_report import RunReport
from stateproc.writers.plan.savepoint_plan import SavepointPlan
from stateproc.writers.write_result import WriteReport

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
    """Return the result of a run: inputs, plan or what was written, checks, warnings.

    Args:
        report: The report.
        plan: The plan of the savepoint.
        written: What was written; None if nothing was.
    """
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
    table = _table("input", "format", "version", "path")
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
    table = _table("check", "result", "found")
    for check in report.checks:
        result = {True: Text("holds", "green"), False: Text("fails", "red"), None: Text("–")}[check.passed]
        table.add_row(Text(check.name), result, Text(check.found))
    return table


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, overflow="fold")
    return table
