"""Print the plan of a writer, or write and print the report; the same for all verbs."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from stateproc.cli.progress import logged
from stateproc.cli.write_bar import write_bar
from stateproc.options import BY_NAME, Interface
from stateproc.writers.local.progress import LOGGER
from stateproc.writers.savepoint_writer import SavepointWriter

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_plan_or_report(writer: SavepointWriter, arguments: Namespace) -> None:
    """Print the plan, with ``--plan``; else write the target and print what was written.

    Args:
        writer: The writer.
        arguments: Parsed by a parser with ``add_write_arguments``.

    Raises:
        SnapshotError: The change is refused, or the write fails.
    """
    mode: Literal["error", "overwrite"] = "overwrite" if arguments.overwrite else "error"
    # Also before a write: what is refused is refused before the target is touched.
    plan = writer.plan(arguments.target, mode)
    if arguments.only_plan:
        from stateproc.cli.render.plan_view import plan_view  # Lazy: only tables need rich.

        _print(arguments, plan.to_dict(), lambda: plan_view(plan))
        return
    with write_bar(f"writing {arguments.target}"), logged(LOGGER):
        report = writer.write(arguments.target, mode).report
    from stateproc.cli.render.report_view import report_view  # Lazy: only tables need rich.

    _print(arguments, report.to_dict(), lambda: report_view(report))


def storage_settings(given: list[str]) -> dict[str, Any]:
    """Parse repeated NAME=VALUE settings of a file system. Raises InvalidOption."""
    option = BY_NAME["storage_options"]
    return {name: value for text in given for name, value in option.value(text, Interface.CLI).items()}


def _print(arguments: Namespace, values: dict[str, Any], view: Callable[[], RenderableType]) -> None:
    if arguments.json:
        print(json.dumps(values, indent=2, ensure_ascii=False))
        return
    from stateproc.cli.render.terminal import show  # Lazy: only tables need rich.

    show(view())
