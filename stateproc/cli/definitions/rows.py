"""The arguments of commands that return rows: read, sql, export, changes, offsets."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, _ArgumentGroup

from stateproc.cli.arguments import FORMATS, CommandDefinition, add_open_options, add_options
from stateproc.options import BY_NAME, FEED_OPTIONS, ROW_OPTIONS, SELECT_OPTIONS

_EXCLUSIVE = (("uid", "uid_hash"), ("state", "timers", "operator_state"))
"""Options of which a command takes one at most."""


def add_state_options(parser: ArgumentParser) -> None:
    """Add the options that select a state."""
    state = parser.add_argument_group("which state")
    for names in _EXCLUSIVE:
        add_options(state.add_mutually_exclusive_group(), (BY_NAME[name] for name in names))
    add_options(state, (option for option in SELECT_OPTIONS if not any(option.name in names for names in _EXCLUSIVE)))


def add_row_output(parser: ArgumentParser) -> _ArgumentGroup:
    """Add which rows are printed and how; return the group of arguments about rows and columns."""
    rows = parser.add_argument_group("which rows and columns")
    rows.add_argument(
        "--where", metavar="CONDITION", help='SQL, e.g. "key = 42" or "value.total >= 10 AND value.name LIKE \'A%%\'"'
    )
    rows.add_argument("--limit", type=row_count, metavar="N", help="at most N rows (default: tables 20, others all)")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format",
        choices=FORMATS,
        help="default: by FILE's suffix; without FILE table on a terminal, jsonl in a pipe. arrow writes Arrow's IPC "
        "file format to FILE and its stream format to a pipe",
    )
    output.add_argument("--output", metavar="FILE", help="write to a file")
    add_options(output, (BY_NAME["temporal"],))
    return rows


def row_count(text: str) -> int:
    """Parse a number of rows. Raises ArgumentTypeError."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text} is not a number of rows: give 0 or more")
    return int(text)


def _read_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    add_state_options(parser)
    add_options(add_row_output(parser), ROW_OPTIONS)


READ = CommandDefinition("read", "print the rows of a state, of timers or of an operator state", _read_arguments)


SQL_FORMATS = ("table", "jsonl", "csv", "json", "parquet", "arrow")


def _sql_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument(
        "query", metavar="QUERY", nargs="?", help="one statement of DuckDB's SQL; without it an interactive prompt"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format", choices=SQL_FORMATS, help="default: by FILE's suffix; else table on a terminal, jsonl in a pipe"
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
    _sql_arguments,
    (
        "stateproc sql /savepoints/savepoint-4f1b 'SELECT count(*) FROM \"orders\".totals'",
        "stateproc sql /savepoints/savepoint-4f1b",
    ),
)


EXPORT_FORMATS = ("parquet", "arrow", "csv", "jsonl", "delta")
COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")


def _export_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    chosen = parser.add_argument_group("which states (default: all, with timers, operator states, offsets)")
    chosen.add_argument(
        "--uid", action="append", metavar="UID", help="only this operator (uid, uid hash or name); repeatable"
    )
    chosen.add_argument("--state", action="append", metavar="S", help="only states of this name; repeatable")
    add_options(chosen, (BY_NAME["flatten"], BY_NAME["raw"]))
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="DIR", required=True, help="a directory, local or any fsspec URI")
    output.add_argument("--format", choices=EXPORT_FORMATS, default="parquet", help="default: parquet")
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
    _export_arguments,
    (
        "stateproc export /savepoints/savepoint-4f1b -o /data/states",
        "stateproc export /savepoints/savepoint-4f1b -o s3://lake/states --uid orders --state totals --format delta",
    ),
)


def _changes_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser, "the earlier snapshot; or a checkpoint root, without NEW")
    parser.add_argument("other", metavar="NEW", nargs="?", help="the later snapshot")
    add_state_options(parser)
    feed = parser.add_argument_group("which changes")
    add_options(feed, FEED_OPTIONS)
    rows = add_row_output(parser)
    add_options(rows, (BY_NAME[name] for name in ("raw", "columns", "threads")))
    rows.add_argument("--summary", action="store_true", help="count the changes of each checkpoint instead")
    rows.add_argument("--json", action="store_true", help="print these counts as JSON")


CHANGES = CommandDefinition(
    "changes",
    "print what changed in a state between two snapshots, or checkpoint after checkpoint",
    _changes_arguments,
    (
        "stateproc changes chk-812 chk-813 --uid orders --state totals --where 'key = 42'",
        "stateproc changes s3://bucket/checkpoints/8a1e7c --from 800 --to 813 --uid orders --state totals",
        "stateproc changes /checkpoints/8a1e7c --from 800 --mode net --uid orders --timers event",
        "stateproc changes /checkpoints/8a1e7c --uid orders --state totals --output changes.parquet",
    ),
)


def _offsets_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


OFFSETS = CommandDefinition(
    "offsets",
    "print where the sources of a snapshot continue: offsets of Kafka, positions of CDC, shards, files",
    _offsets_arguments,
)
PENDING = CommandDefinition(
    "pending",
    "print what sinks have written and not committed: files, manifests, transactions, records to send",
    _offsets_arguments,
)
