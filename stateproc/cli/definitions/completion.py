"""The arguments of ``stateproc completion``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.command_definition import CommandDefinition

SHELLS = ("bash", "zsh", "fish")


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="for which shell")


COMPLETION = CommandDefinition(
    "completion",
    "print what makes a shell complete commands, options, uids and states",
    _add_arguments,
    ('eval "$(stateproc completion bash)"', "stateproc completion fish | source"),
)
