"""The arguments that commands which print rows have in common."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, _ArgumentGroup

from stateproc.cli.arguments import add_options
from stateproc.cli.output_format import FORMATS
from stateproc.options import BY_NAME, SELECT_OPTIONS

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
