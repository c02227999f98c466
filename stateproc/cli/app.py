"""The program: its commands, and what happens when something goes wrong."""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence

import stateproc
from stateproc.cli.formats import FORMATS
from stateproc.cli.opening import add_opening
from stateproc.errors import SnapshotError

_EXAMPLES = """\
examples:
  stateproc inspect /savepoints/savepoint-4f1b --uids orders,customers
  stateproc offsets /checkpoints/8a1e7c
  stateproc read /savepoints/savepoint-4f1b --uid orders --state totals --where "key = 42"
  stateproc read /savepoints/savepoint-4f1b --uid orders --state totals --output totals.parquet
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 1 for errors told on stderr, 130 for Ctrl-C."""
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.command(parsed)
        sys.stdout.flush()
        return status
    except SnapshotError as error:
        _complain(str(error))
        return 1
    except BrokenPipeError:
        # Whoever read us has had enough; Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _complain(text: str) -> None:
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(stderr=True, highlight=False).print(Text("error: ", style="bold red") + Text(text), soft_wrap=True)
    else:
        print(f"error: {text}", file=sys.stderr)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="stateproc",
        description="Look into Flink savepoints and checkpoints, without Flink.",
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stateproc {stateproc.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, summary, arguments, command in (
        ("inspect", "what is in a snapshot: operators, states, types, sizes", _inspect_arguments, _inspect),
        ("read", "the rows of a state, its timers or an operator state", _read_arguments, _read),
        ("offsets", "the Kafka offsets that a snapshot holds", _offsets_arguments, _offsets),
    ):
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        add_opening(sub)
        arguments(sub)
        sub.set_defaults(command=command)
    return parser


def _inspect_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    parser.add_argument("--rocksdb", action="store_true", help="what the tables of RocksDB databases tell, per state")
    parser.add_argument("--since", metavar="CHECKPOINT", help="with --rocksdb: which files this earlier one lacks")
    parser.add_argument("--scan", action="store_true", help="count entries and bytes of large files too (reads them)")
    parser.add_argument("--json", action="store_true", help="everything, for programs")


def _read_arguments(parser: ArgumentParser) -> None:
    what = parser.add_argument_group("what to read")
    operator = what.add_mutually_exclusive_group()
    operator.add_argument("--uid", help="the operator, by uid or name")
    operator.add_argument("--uid-hash", metavar="H", help="the operator, by uid hash (32 hex digits)")
    state = what.add_mutually_exclusive_group()
    state.add_argument("--state", metavar="S", help="the state, by name")
    state.add_argument("--timers", choices=("event", "processing"), help="the operator's timers")
    state.add_argument("--operator-state", metavar="NAME", help="a list, union or broadcast state")
    rows = parser.add_argument_group("which rows and columns")
    rows.add_argument("--where", metavar="CONDITION", help='e.g. "key = 42" or "value.total >= 10 AND value.vip"')
    rows.add_argument("--columns", metavar="A,B", help="only these, in this order")
    rows.add_argument("--limit", type=_count, metavar="N", help="at most N rows (tables: 20)")
    rows.add_argument("--flatten", action="store_true", help="one row per list element or map entry")
    how = parser.add_argument_group("how to write them")
    how.add_argument("--format", choices=FORMATS, help="default: by FILE's name; a table on terminals, else jsonl")
    how.add_argument("--output", metavar="FILE", help="write to a file")
    how.add_argument("--temporal", choices=("exact", "micros"), help="dates and times: all digits, or Arrow's types")
    how.add_argument("--raw", action="store_true", help="source and sink states as their bytes")


def _offsets_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a line, for programs")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _lazily(module: str, function: str) -> Callable[[Namespace], int]:
    """A command that is imported when it is run: --help should not wait for Arrow."""

    def run(arguments: Namespace) -> int:
        from importlib import import_module

        return int(getattr(import_module(f"stateproc.cli.{module}"), function)(arguments))

    return run


_inspect = _lazily("inspect", "inspect_command")
_read = _lazily("read", "read_command")
_offsets = _lazily("offsets", "offsets_command")
