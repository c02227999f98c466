"""The arguments of ``stateproc describe``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options, add_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.options import BY_NAME

_EXCLUSIVE = (("uid", "uid_hash"), ("state", "timers", "operator_state"))


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    state = parser.add_argument_group("which state (default: all states of the operator)")
    for names in _EXCLUSIVE:
        add_options(state.add_mutually_exclusive_group(), (BY_NAME[name] for name in names))
    output = parser.add_argument_group("output")
    add_options(output, (BY_NAME["temporal"],))
    output.add_argument("--json", action="store_true", help="print the descriptions as JSON")


DESCRIBE = CommandDefinition(
    "describe",
    "show the types of states in Flink, Arrow and Spark, and what conversion loses",
    _add_arguments,
    ("stateproc describe /savepoints/savepoint-4f1b --uid orders --state totals",),
)
