"""Parse the command line, run a command, and print its error."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import stateproc
from stateproc.cli.arguments import add_open_options, add_options
from stateproc.cli.output_format import FORMATS
from stateproc.errors import SnapshotError, UnreadableStateWarning
from stateproc.options import BY_NAME, ROW_OPTIONS, SELECT_OPTIONS

_EXAMPLES = """\
examples:
  stateproc inspect /savepoints/savepoint-4f1b --uids orders,customers
  stateproc offsets /checkpoints/8a1e7c
  stateproc read /savepoints/savepoint-4f1b --uid orders --state totals --where "key = 42"
  stateproc read /savepoints/savepoint-4f1b --uid orders --state totals --output totals.parquet
"""
_EXCLUSIVE = (("uid", "uid_hash"), ("state", "timers", "operator_state"))
"""Options of which a command takes one at most."""

_OBJECTS_PER_COLLECTION = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The command line without the program's name; default ``sys.argv``.

    Returns:
        The exit status: 0, 1 after an error printed on stderr, 130 after Ctrl-C. Arguments that cannot be parsed
        exit with 2.
    """
    parsed = _parser().parse_args(arguments)
    try:
        with _printed_warnings(), _rare_collections():
            status: int = parsed.command(parsed)
        sys.stdout.flush()
        return status
    except SnapshotError as error:
        _print_line("error", "red", str(error))
        return 1
    except BrokenPipeError:
        # The reader closed the pipe. Python would report it again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: of a large ``_metadata`` there are millions of objects, all of them in use."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


@contextmanager
def _printed_warnings() -> Iterator[None]:
    """Print warnings about states without the line of code that issued them."""
    with warnings.catch_warnings():
        shown = warnings.showwarning
        printed: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, UnreadableStateWarning):
                if str(message) not in printed:
                    _print_line("warning", "yellow", str(message))
                printed.add(str(message))
            else:
                shown(message, category, *place, **more)

        warnings.simplefilter("always", UnreadableStateWarning)
        warnings.showwarning = show
        yield


def _print_line(kind: str, color: str, text: str) -> None:
    """Print an error or a warning on stderr."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(stderr=True, highlight=False).print(
            Text(f"{kind}: ", style=f"bold {color}") + Text(text), soft_wrap=True
        )
    else:
        print(f"{kind}: {text}", file=sys.stderr)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="stateproc",
        description="Inspect and read Flink savepoints and checkpoints, without Flink.",
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stateproc {stateproc.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, summary, add_arguments, module in (
        ("inspect", "show operators, states, types and sizes of a snapshot", _inspect_arguments, "inspect_command"),
        ("read", "print the rows of a state, of timers or of an operator state", _read_arguments, "read_command"),
        ("offsets", "print the Kafka offsets in a snapshot", _offsets_arguments, "offsets_command"),
    ):
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        add_open_options(command)
        add_arguments(command)
        command.set_defaults(command=_imported_when_run(module))
    summary = "compile the kernels ahead of the first read, where there is no library of compiled ones"
    command = commands.add_parser("warmup", help=summary, description=summary[0].upper() + summary[1:] + ".")
    command.set_defaults(command=_imported_when_run("warmup_command"))
    return parser


def _inspect_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    parser.add_argument("--rocksdb", action="store_true", help="statistics of RocksDB's tables, per state")
    parser.add_argument("--since", metavar="CHECKPOINT", help="with --rocksdb: count files that this earlier one lacks")
    parser.add_argument("--scan", action="store_true", help="count entries and bytes of files over 64 MiB, too")
    add_options(parser, (BY_NAME["threads"],))
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def _read_arguments(parser: ArgumentParser) -> None:
    state = parser.add_argument_group("which state")
    for names in _EXCLUSIVE:
        add_options(state.add_mutually_exclusive_group(), (BY_NAME[name] for name in names))
    add_options(state, (option for option in SELECT_OPTIONS if not any(option.name in names for names in _EXCLUSIVE)))
    rows = parser.add_argument_group("which rows and columns")
    rows.add_argument(
        "--where", metavar="CONDITION", help='SQL, e.g. "key = 42" or "value.total >= 10 AND value.name LIKE \'A%%\'"'
    )
    add_options(rows, ROW_OPTIONS)
    rows.add_argument("--limit", type=_row_count, metavar="N", help="at most N rows (default: tables 20, others all)")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format",
        choices=FORMATS,
        help="default: by FILE's suffix; without FILE table on a terminal, jsonl in a pipe. arrow writes Arrow's IPC "
        "file format to FILE and its stream format to a pipe",
    )
    output.add_argument("--output", metavar="FILE", help="write to a file")
    add_options(output, (BY_NAME["temporal"],))


def _offsets_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def _row_count(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text} is not a number of rows: give 0 or more")
    return int(text)


def _imported_when_run(command: str) -> Callable[[Namespace], int]:
    """Return a command whose module, which has its name, is imported when it runs."""

    def run(arguments: Namespace) -> int:
        # Lazy: start-up. --help and --version do not load Arrow.
        from importlib import import_module

        return int(getattr(import_module(f"stateproc.cli.{command}"), command)(arguments))

    return run
