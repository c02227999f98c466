"""The arguments of ``stateproc run``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.command_definition import CommandDefinition
from stateproc.cli.definitions.verbs import ENGINES


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help="the job: a YAML or JSON file, local or any fsspec URI")
    parser.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        default=[],
        help="the value of a variable of the job, also of date and run_id; repeatable",
    )
    parser.add_argument(
        "--engine", choices=ENGINES, help="write in this process (local) or in Spark; default as the job names it"
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="Spark master URL, for a job that runs on Spark (default: that of the job, else spark.master)",
    )
    parser.add_argument("--plan", action="store_true", help="show what a run would do; write nothing")
    parser.add_argument(
        "--allow-hooks",
        action="store_true",
        help="run the commands, functions and modules that the job names (metrics, plugins)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of job files")


RUN = CommandDefinition(
    "run",
    "run a declarative job: plan, check, write and report a savepoint",
    _add_arguments,
    (
        "stateproc run nightly.yaml --plan",
        "stateproc run nightly.yaml --set date=2026-01-31 --json",
        "stateproc run nightly.yaml --engine spark --master spark://host:7077",
    ),
)
