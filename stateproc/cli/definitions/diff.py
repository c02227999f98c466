"""The arguments of ``stateproc diff``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options, add_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.cli.definitions.row_arguments import row_count
from stateproc.options import BY_NAME


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument("other", metavar="OTHER", help="the later snapshot; what it adds counts as inserted")
    which = parser.add_argument_group("what is compared")
    which.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    which.add_argument("--state", action="append", default=[], help="only states of this name; repeatable")
    which.add_argument("--last-access", action="store_true", help="times of last access (TTL) count, too")
    add_options(which, (BY_NAME["threads"],))
    output = parser.add_argument_group("output")
    output.add_argument("--rows", type=row_count, default=0, metavar="N", help="show N changed rows of each state")
    output.add_argument("--summary", action="store_true", help="one line per operator")
    output.add_argument(
        "--output", metavar="FILE", help="write all changed rows to FILE.jsonl, .parquet, .csv or .arrow"
    )
    output.add_argument("--json", action="store_true", help="print everything as JSON")


DIFF = CommandDefinition(
    "diff",
    "compare two snapshots: operators, states, and their contents key by key",
    _add_arguments,
    (
        "stateproc diff chk-41 chk-42 --uids orders",
        "stateproc diff chk-41 chk-42 --uid orders --state totals --rows 10",
        "stateproc diff savepoint-heap savepoint-rocksdb --summary",
        "stateproc diff chk-41 chk-42 --output changes.parquet",
    ),
)
