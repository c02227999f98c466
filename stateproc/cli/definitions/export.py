"""The arguments of ``stateproc export``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options, add_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.options import BY_NAME

FORMATS = ("parquet", "arrow", "csv", "jsonl", "delta")
COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    chosen = parser.add_argument_group("which states (default: all, with timers, operator states, Kafka offsets)")
    chosen.add_argument(
        "--uid", action="append", metavar="UID", help="only this operator (uid, uid hash or name); repeatable"
    )
    chosen.add_argument("--state", action="append", metavar="S", help="only states of this name; repeatable")
    add_options(chosen, (BY_NAME["flatten"], BY_NAME["raw"]))
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="DIR", required=True, help="a directory, local or any fsspec URI")
    output.add_argument("--format", choices=FORMATS, default="parquet", help="default: parquet")
    output.add_argument(
        "--compression",
        choices=COMPRESSIONS,
        help="default: snappy for parquet and delta, lz4 for arrow, gzip for jsonl, none for csv",
    )
    output.add_argument(
        "--partition-by-key-groups",
        type=int,
        metavar="N",
        dest="key_group_ranges",
        help="divide keyed states into N hive-style folders by ranges of key groups",
    )
    add_options(output, (BY_NAME["temporal"],))
    output.add_argument("--overwrite", action="store_true", help="remove the files of another export in DIR")
    output.add_argument(
        "--output-storage-options",
        action="append",
        metavar="NAME=VALUE",
        help="settings of the file system of DIR; default those of the snapshot; repeatable",
    )
    add_options(output, (BY_NAME["threads"],))
    output.add_argument("--json", action="store_true", help="print the manifest as JSON")


EXPORT = CommandDefinition(
    "export",
    "write all states of a snapshot, or some, as Parquet, Arrow, CSV, JSON lines or Delta",
    _add_arguments,
    (
        "stateproc export /savepoints/savepoint-4f1b -o /data/states",
        "stateproc export /savepoints/savepoint-4f1b -o s3://lake/states --uid orders --state totals --format delta",
    ),
)
