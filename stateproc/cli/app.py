"""Parse the command line, run a command, and print its error."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import warnings
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import stateproc
from stateproc.cli.definitions import COMMANDS
from stateproc.cli.exit_status import status_of
from stateproc.errors import QueryPlanWarning, SnapshotError, UnmatchedUidWarning, UnreadableStateWarning

# Parse the arguments of one command.


class CommandParser(ArgumentParser):
    """A parser that accepts options anywhere, also between positional arguments of which the last may be left out.

    argparse takes an optional positional argument for left out where an option precedes it. It has a way of parsing
    that does not, but not for the parsers of commands.
    """

    _is_intermixed = False

    def parse_known_args(  # type: ignore[override]  # the signature is overloaded
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Any, list[str]]:
        """Parse as ``parse_known_intermixed_args``, which calls this method for its two passes.

        argcomplete, which completes an unfinished line, needs one pass: a snapshot's names are completed from its path.
        """
        if self._is_intermixed or "_ARGCOMPLETE" in os.environ:
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False


_EXAMPLES = """\
examples:
  stateproc ls s3://bucket/checkpoints
  stateproc inspect /savepoints/savepoint-4f1b --uids orders,customers
  stateproc read /savepoints/savepoint-4f1b --uid orders --state totals --where "key = 42"
  stateproc sql /savepoints/savepoint-4f1b 'SELECT count(*) FROM orders.totals WHERE value.vip'
  stateproc diff /checkpoints/8a1e7c/chk-812 /checkpoints/8a1e7c/chk-813 --rows 5
  stateproc verify /savepoints/savepoint-4f1b
  stateproc offsets /checkpoints/8a1e7c
"""
_COMPLETING = "_ARGCOMPLETE"
"""The environment variable that the code printed by ``stateproc completion`` sets."""
_PRINTED = (UnreadableStateWarning, UnmatchedUidWarning, QueryPlanWarning)
_OBJECTS_PER_COLLECTION = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The command line without the program's name; default ``sys.argv``.

    Returns:
        A status of ``stateproc.cli.exit_status``; 130 after Ctrl-C. Arguments that cannot be parsed exit with 2.
    """
    _print_unicode()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = command_parser(arguments[0] if arguments else None)
    if _COMPLETING in os.environ:
        from stateproc.cli.commands.completion import complete  # Lazy: start-up.

        complete(parser)
    parsed = parser.parse_args(arguments)
    try:
        with _printed_warnings(), _rare_collections():
            status: int = parsed.command(parsed)
        sys.stdout.flush()
        return status
    except SnapshotError as error:
        _print_line("error", "red", str(error))
        return status_of(error)
    except BrokenPipeError:
        # The reader closed the pipe. Python would report it again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _print_unicode() -> None:
    """Print UTF-8 to files and pipes on Windows, too, whose code pages lack marks and lines of tables."""
    if sys.platform == "win32":
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8")


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
    """Print warnings about snapshots without the line of code that issued them."""
    with warnings.catch_warnings():
        shown = warnings.showwarning
        printed: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, _PRINTED):
                if str(message) not in printed:
                    _print_line("warning", "yellow", str(message))
                printed.add(str(message))
            else:
                shown(message, category, *place, **more)

        for category in _PRINTED:
            warnings.simplefilter("always", category)
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


def command_parser(named: str | None = None) -> ArgumentParser:
    """Return the parser of the command line; of all commands, which takes 11 ms, only if none is ``named``."""
    parser = ArgumentParser(
        prog="stateproc",
        description="Inspect and read Flink savepoints and checkpoints, without Flink.",
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stateproc {stateproc.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    for definition in [item for item in COMMANDS if item.name == named] or COMMANDS:
        command = commands.add_parser(
            definition.name,
            help=definition.summary,
            description=definition.summary[0].upper() + definition.summary[1:] + ".",
            epilog="\n  ".join(("examples:", *definition.examples)) if definition.examples else None,
            formatter_class=RawDescriptionHelpFormatter,
        )
        definition.add_arguments(command)
        command.set_defaults(command=definition.run)
    return parser
