"""``stateproc warmup`` takes no arguments."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.command_definition import CommandDefinition


def _add_arguments(parser: ArgumentParser) -> None:
    pass


WARMUP = CommandDefinition(
    "warmup",
    "compile the kernels ahead of the first read, where there is no library of compiled ones",
    _add_arguments,
)
