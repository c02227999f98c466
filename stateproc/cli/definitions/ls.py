"""The arguments of ``stateproc ls``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.options import BY_NAME


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "roots",
        nargs="*",
        metavar="ROOT",
        help="a directory above savepoints or checkpoints; default: the directories of --conf",
    )
    parser.add_argument(
        "--conf", metavar="FILE", help="Flink's config.yaml or flink-conf.yaml, or the directory that contains it"
    )
    parser.add_argument("--orphans", action="store_true", help="list files that no complete snapshot needs")
    parser.add_argument(
        "--min-age",
        metavar="AGE",
        help="with --orphans: younger files may belong to a checkpoint in progress, e.g. 90min, 12h; default 1d",
    )
    add_options(parser, (BY_NAME["storage_options"],))
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


LS = CommandDefinition(
    "ls",
    "list the savepoints and checkpoints below a directory",
    _add_arguments,
    examples=(
        "stateproc ls s3://bucket/flink",
        "stateproc ls --conf /opt/flink/conf",
        "stateproc ls --orphans --min-age 7d /checkpoints",
    ),
)
