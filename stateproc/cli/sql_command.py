"""``stateproc sql``: run a statement over the states of a snapshot, or an interactive prompt."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import closing

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.exit_status import YES
from stateproc.cli.output_format import choose_format
from stateproc.cli.row_output import BINARY_FORMATS, output_stream, row_writer, write_rows
from stateproc.errors import InvalidOption
from stateproc.options import BY_NAME
from stateproc.sql import SqlDatabase

TABLE_ROWS = 40
"""Rows of a table without ``--limit``."""


def sql_command(arguments: Namespace) -> int:
    """Run the statement of the arguments, or a prompt without one; return the exit status."""
    is_prompt = arguments.query is None and sys.stdin.isatty()
    query = arguments.query if arguments.query is not None or is_prompt else sys.stdin.read()
    format_name = choose_format(arguments.format, arguments.output, terminal=is_prompt or sys.stdout.isatty())
    if format_name in BINARY_FORMATS and arguments.output is None and sys.stdout.isatty():
        raise InvalidOption(f"{format_name} cannot be shown on a terminal", advice="give --output FILE, or use a pipe")
    snapshot = open_snapshot(arguments, arguments.temporal or "micros")
    threads = option_values(arguments, (BY_NAME["threads"],))["threads"]
    settings = {"memory_limit": arguments.memory_limit, "external_access": not arguments.no_external_access}
    with closing(snapshot.sql_database(threads=threads, **settings)) as database:
        if query is None:
            # Lazy: start-up. Only the prompt needs readline.
            from stateproc.cli.sql_prompt import SqlPrompt

            return SqlPrompt(database, format_name, arguments.limit, snapshot.path).run()
        _write(database, query, format_name, arguments)
    return YES


def _write(database: SqlDatabase, query: str, format_name: str, arguments: Namespace) -> None:
    result = database.run(query)
    limit = TABLE_ROWS if arguments.limit is None and format_name == "table" else arguments.limit
    with output_stream(arguments.output) as stream, row_writer(format_name, stream, result.schema) as writer:
        written, is_cut = write_rows(result.batches, writer, limit)
    if is_cut and format_name == "table":
        print(f"the first {written:,} rows; --limit N for more, --format jsonl for all", file=sys.stderr)
