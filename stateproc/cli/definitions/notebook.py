"""The arguments of ``stateproc notebook``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.command_definition import CommandDefinition


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="where to; made if it does not exist")
    parser.add_argument("--overwrite", action="store_true", help="replace notebooks that exist in DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


NOTEBOOK = CommandDefinition(
    "notebook",
    "copy notebooks for snapshots of your own, and snapshots to try them on, into a folder",
    _add_arguments,
    ("stateproc notebook look", "stateproc notebook look --overwrite"),
)
