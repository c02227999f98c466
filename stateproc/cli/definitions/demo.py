"""The arguments of ``stateproc demo``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.command_definition import CommandDefinition


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--path", action="store_true", help="print the path of the snapshot only, for other commands")
    parser.add_argument("--json", action="store_true", help="print one JSON object: commands, outputs, exit statuses")


DEMO = CommandDefinition("demo", "run the commands on a small snapshot that comes with the package", _add_arguments)
