"""The arguments of ``stateproc offsets``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options
from stateproc.cli.command_definition import CommandDefinition


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


OFFSETS = CommandDefinition("offsets", "print the Kafka offsets in a snapshot", _add_arguments)
