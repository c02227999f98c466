"""``stateproc run``: run a declarative job."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from stateproc.cli.exit_status import YES, status_of
from stateproc.errors import InvalidOption


def run_command(arguments: Namespace) -> int:
    """Run or plan the job that the arguments name; return the exit status, 1 if a check does not hold."""
    # Lazy: start-up. Completion and --help need no Arrow.
    from stateproc.jobs.job_run import execute_job
    from stateproc.jobs.job_schema import job_schema

    if arguments.schema:
        print(json.dumps(job_schema(), indent=2, ensure_ascii=False))
        return YES
    if arguments.job is None:
        raise InvalidOption("no job is given", advice="give the path of a job file, or --schema")
    from stateproc.cli.run_progress import run_progress

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
        print(json.dumps(outcome.report.to_dict(), indent=2, ensure_ascii=False))
    elif outcome.error is None:
        from stateproc.cli.render.run_view import run_view
        from stateproc.cli.render.terminal import show

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
