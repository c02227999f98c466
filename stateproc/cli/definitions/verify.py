"""The arguments of ``stateproc verify``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options, add_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.options import BY_NAME


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    what = parser.add_argument_group("what to verify")
    what.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    what.add_argument("--state", action="append", default=[], metavar="S", help="only states of this name; repeatable")
    what.add_argument("--deep", action="store_true", help="let RocksDB open native databases, too (needs rocksdict)")
    what.add_argument(
        "--hash-function",
        action="append",
        metavar="UID=NAME",
        help="how an operator's keys of a class of its own are hashed, as for rescale: checks key groups; repeatable",
    )
    add_options(what, (BY_NAME["threads"],))
    output = parser.add_argument_group("output")
    output.add_argument(
        "--classes-skeleton", metavar="FILE", help="write the classes that need a description to FILE, for --classes"
    )
    output.add_argument("--json", action="store_true", help="print everything as JSON")


VERIFY = CommandDefinition(
    "verify",
    "read all files and states of a snapshot and report every problem",
    _add_arguments,
    (
        "stateproc verify /savepoints/savepoint-4f1b",
        "stateproc verify /checkpoints/8a1e7c --deep --json",
        "stateproc verify /savepoints/savepoint-4f1b --classes-skeleton classes.json",
    ),
)
