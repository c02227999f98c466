"""The arguments of ``stateproc classes``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options
from stateproc.cli.command_definition import CommandDefinition


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--skeleton", action="store_true", help="print the classes to describe as JSON for --classes")
    output.add_argument("--json", action="store_true", help="print everything as JSON")


CLASSES = CommandDefinition(
    "classes",
    "list the user classes that a snapshot mentions, and which need a description",
    _add_arguments,
    (
        "stateproc classes /savepoints/savepoint-4f1b",
        "stateproc classes /savepoints/savepoint-4f1b --skeleton > classes.json",
    ),
)
