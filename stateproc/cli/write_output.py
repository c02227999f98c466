"""Print the plan of a writer, or write and print what was written; the same for all verbs."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from typing import Any, Literal

from stateproc.cli.progress import elapsing
from stateproc.writers.savepoint_writer import SavepointWriter


def print_plan_or_write(writer: SavepointWriter, arguments: Namespace) -> None:
    """Print the plan, with ``--plan``; else write the target and print what was written.

    Args:
        writer: The writer.
        arguments: Parsed by a parser with ``add_write_arguments``.

    Raises:
        SnapshotError: The change is refused, or the write fails.
    """
    mode: Literal["error", "overwrite"] = "overwrite" if arguments.overwrite else "error"
    plan = writer.plan(arguments.target, mode)
    values: dict[str, Any] = plan.to_dict()
    seconds = None
    if not arguments.only_plan:
        start = time.monotonic()
        with elapsing(f"writing {arguments.target}", shown=arguments.engine == "local"):
            writer.write(arguments.target, mode)
        seconds = time.monotonic() - start
        values = {"target": plan.target, "engine": arguments.engine, "seconds": round(seconds, 3), "plan": values}
    if arguments.json:
        print(json.dumps(values, indent=2, ensure_ascii=False))
        return
    # Lazy: only tables need rich.
    from stateproc.cli.render.plan_view import plan_view
    from stateproc.cli.render.terminal import show

    show(plan_view(plan, seconds))
