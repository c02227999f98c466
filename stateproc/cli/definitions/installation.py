"""The arguments of commands about the installation: demo, notebook, completion, warmup."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.command_definition import CommandDefinition


def _demo_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--path", action="store_true", help="print the path of the snapshot only, for other commands")
    parser.add_argument("--json", action="store_true", help="print one JSON object: commands, outputs, exit statuses")


DEMO = CommandDefinition("demo", "run the commands on a small snapshot that comes with the package", _demo_arguments)


def _notebook_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="where to; made if it does not exist")
    parser.add_argument("--overwrite", action="store_true", help="replace notebooks that exist in DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


NOTEBOOK = CommandDefinition(
    "notebook",
    "copy notebooks for snapshots of your own, and snapshots to try them on, into a folder",
    _notebook_arguments,
    ("stateproc notebook look", "stateproc notebook look --overwrite"),
)


SHELLS = ("bash", "zsh", "fish")


def _completion_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="for which shell")


COMPLETION = CommandDefinition(
    "completion",
    "print what makes a shell complete commands, options, uids and states",
    _completion_arguments,
    ('eval "$(stateproc completion bash)"', "stateproc completion fish | source"),
)


def _warmup_arguments(parser: ArgumentParser) -> None:
    pass


WARMUP = CommandDefinition(
    "warmup",
    "compile the kernels ahead of the first read, where there is no library of compiled ones",
    _warmup_arguments,
)
