"""The arguments of ``stateproc read``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options, add_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.cli.definitions.row_arguments import add_row_output, add_state_options
from stateproc.options import ROW_OPTIONS


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    add_state_options(parser)
    add_options(add_row_output(parser), ROW_OPTIONS)


READ = CommandDefinition("read", "print the rows of a state, of timers or of an operator state", _add_arguments)
