"""The arguments of ``stateproc sql``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options, add_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.options import BY_NAME

FORMATS = ("table", "jsonl", "csv", "json", "parquet", "arrow")


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument(
        "query", metavar="QUERY", nargs="?", help="one statement of DuckDB's SQL; without it an interactive prompt"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format", choices=FORMATS, help="default: by FILE's suffix; else table on a terminal, jsonl in a pipe"
    )
    output.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    output.add_argument("--output", metavar="FILE", help="write to a file")
    output.add_argument("--limit", type=int, metavar="N", help="at most N rows (default: tables 40, others all)")
    parser.add_argument("--memory-limit", metavar="SIZE", help="DuckDB's memory for sorts, joins, groups, such as 2GB")
    parser.add_argument(
        "--no-external-access",
        action="store_true",
        help="the query reads the snapshot only: no files, other databases or extensions",
    )
    add_options(parser, (BY_NAME["threads"], BY_NAME["temporal"]))


SQL = CommandDefinition(
    "sql",
    "query the states of a snapshot with SQL (DuckDB)",
    _add_arguments,
    (
        "stateproc sql /savepoints/savepoint-4f1b 'SELECT count(*) FROM \"orders\".totals'",
        "stateproc sql /savepoints/savepoint-4f1b",
    ),
)
