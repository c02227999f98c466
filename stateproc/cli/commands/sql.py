"""``stateproc sql``: run a statement over the states of a snapshot, or an interactive prompt."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from stateproc.cli.arguments import choose_format, open_snapshot, option_values
from stateproc.cli.exit_status import YES
from stateproc.cli.row_output import BINARY_FORMATS, output_stream, row_writer, write_rows
from stateproc.errors import InvalidOption, SnapshotError
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


# The prompt of ``stateproc sql``: statements until ``;``, commands that begin with a dot, a history.

_ROWS = 40
_HELP = """\
statements end with ;   Ctrl-C stops one, Ctrl-D leaves
.tables           the tables: states by operator, and tables about the snapshot
.schema TABLE     the columns of a table
.help             this
.quit             leave"""


class SqlPrompt:
    """Reads statements from a terminal and shows their rows.

    Args:
        database: Runs the statements.
        limit: At most so many rows; None for 40 of a table, all of other formats.
        path: The snapshot, for the greeting.
    """

    def __init__(self, database: SqlDatabase, format_name: str, limit: int | None, path: str) -> None:
        self._database, self._format, self._path = database, format_name, path
        self._limit = _ROWS if limit is None and format_name == "table" else limit
        self._lines: list[str] = []

    def run(self) -> int:
        """Read lines until the end of the input; return the exit status."""
        history = _loaded_history()
        print(f"{self._path}\n.tables lists the states, .help the commands; statements end with ;")
        try:
            while True:
                try:
                    line = input("     … " if self._lines else "sql> ")
                except EOFError:
                    print()
                    return YES
                except KeyboardInterrupt:
                    self._lines = []
                    print()
                    continue
                if not self.accept(line):
                    return YES
        finally:
            _save_history(history)

    def accept(self, line: str) -> bool:
        """Process a line; return False if it ends the prompt."""
        stripped = line.strip()
        if not self._lines and stripped.startswith("."):
            return self._command(*stripped.split(maxsplit=1))
        if stripped or self._lines:
            self._lines.append(line)
        if stripped.endswith(";"):
            query, self._lines = "\n".join(self._lines), []
            self._guarded(lambda: self._show(query))
        return True

    def _command(self, name: str, argument: str = "") -> bool:
        if name in (".quit", ".exit"):
            return False
        if name == ".tables":
            self._guarded(self._tables)
        elif name == ".schema" and argument:
            self._guarded(lambda: self._show(f"DESCRIBE SELECT * FROM {argument.rstrip(';')}"))
        else:
            print(_HELP)
        return True

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run an action; print its error, or stop at Ctrl-C."""
        try:
            action()
        except KeyboardInterrupt:
            self._database.interrupt()
            print("stopped", file=sys.stderr)
        except SnapshotError as error:
            print(f"error: {error}", file=sys.stderr)

    def _tables(self) -> None:
        for table in self._database.catalog.states:
            print(f'"{table.schema_name}"."{table.name}"')
        print(", ".join(table.name for table in self._database.catalog.snapshot_tables))

    def _show(self, query: str) -> None:
        result = self._database.run(query)
        with row_writer(self._format, sys.stdout.buffer, result.schema) as writer:
            written, is_cut = write_rows(result.batches, writer, self._limit)
        sys.stdout.flush()
        counted = f"{written:,} row{'' if written == 1 else 's'}"
        print(f"the first {counted}; LIMIT or --limit N for more" if is_cut else counted, file=sys.stderr)


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "stateproc" / "sql_history"


def _loaded_history() -> bool:
    """Load the lines of earlier prompts; return whether there is a readline that has them."""
    try:
        import readline
    except ImportError:
        return False
    with suppress(OSError):
        readline.read_history_file(_history_file())
    return True


def _save_history(is_loaded: bool) -> None:
    if not is_loaded:
        return
    import readline

    with suppress(OSError):
        _history_file().parent.mkdir(parents=True, exist_ok=True)
        readline.set_history_length(1000)
        readline.write_history_file(_history_file())
