"""The arguments of ``stateproc inspect``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options, add_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.options import BY_NAME


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    parser.add_argument("--summary", action="store_true", help="one line per operator")
    parser.add_argument("--min-bytes", metavar="N", help="only states and operators of this size or more, such as 10MB")
    parser.add_argument("--rocksdb", action="store_true", help="statistics of RocksDB's tables, per state")
    parser.add_argument("--since", metavar="CHECKPOINT", help="with --rocksdb: count files that this earlier one lacks")
    parser.add_argument("--scan", action="store_true", help="count entries and bytes of files over 64 MiB, too")
    add_options(parser, (BY_NAME["threads"],))
    parser.add_argument("--html", metavar="FILE", help="write one self-contained page; - is stdout")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


INSPECT = CommandDefinition("inspect", "show operators, states, types and sizes of a snapshot", _add_arguments)
