"""``stateproc changes``: print or write what changed in a state between snapshots."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from rich.table import Table
from rich.text import Text

from stateproc.catalog.entries import iso_time
from stateproc.cli.arguments import configured_path, opening_values, option_values
from stateproc.cli.exit_status import YES
from stateproc.cli.progress import progress
from stateproc.cli.row_output import chosen_format, temporal_of, write_scan
from stateproc.cli.terminal import print_json, show, text_table
from stateproc.errors import InvalidOption
from stateproc.feed.changes import open_feed
from stateproc.feed.feed_rows import FeedQuery
from stateproc.feed.state_feed import CommitChanges, StateFeed
from stateproc.model.state import FilteredScan
from stateproc.options import BY_NAME, FEED_OPTIONS, SELECT_OPTIONS, Interface
from stateproc.snapshot.selection import StateSelection
from stateproc.storage.uris import basename

_ROW_OPTIONS = (*FEED_OPTIONS, BY_NAME["raw"], BY_NAME["columns"], BY_NAME["threads"])


def changes_command(arguments: Namespace) -> int:
    """Print or write the changes that the arguments ask for, or count them; return the exit status."""
    if arguments.summary or arguments.json:
        if arguments.output is not None or arguments.format is not None:
            raise InvalidOption("--summary and --json count changes", advice="leave --format and --output away")
        _print_summary(_feed(arguments, "micros"), arguments)
        return YES
    format_name = chosen_format(arguments)
    feed = _feed(arguments, temporal_of(arguments, format_name))
    values = option_values(arguments, _ROW_OPTIONS)
    scan = FilteredScan(feed, arguments.where, values["columns"], threads=values["threads"])
    write_scan(scan, format_name, arguments)
    return YES


def _feed(arguments: Namespace, temporal: str) -> StateFeed:
    selection = StateSelection.of(option_values(arguments, SELECT_OPTIONS), Interface.CLI)
    old = configured_path(arguments, arguments.path)
    new = None if arguments.other is None else configured_path(arguments, arguments.other)
    query = FeedQuery.of(option_values(arguments, _ROW_OPTIONS))
    return open_feed(old, new, selection, query, opening_values(arguments, temporal))


def _print_summary(feed: StateFeed, arguments: Namespace) -> None:
    threads = option_values(arguments, (BY_NAME["threads"],))["threads"]
    with ExitStack() as stack:
        counted = feed.counts(
            where=arguments.where,
            threads=threads,
            planned=lambda total: stack.enter_context(progress("comparing", total)),
        )
    if arguments.json:
        print_json(_report(feed, counted))
        return
    show(changes_view(counted))


def _report(feed: StateFeed, counted: tuple[CommitChanges, ...]) -> dict[str, Any]:
    return {
        "operator": feed.operator.display,
        "state": feed.name,
        "commits": [
            {
                "version": item.commit.version,
                "timestamp": iso_time(item.commit.timestamp),
                "path": item.commit.path,
                "inserted": item.inserted,
                "updated": item.updated,
                "deleted": item.deleted,
            }
            for item in counted
        ],
    }


# Show how many rows each checkpoint changed.


def changes_view(counted: Sequence[CommitChanges]) -> Table:
    """Return the counts as something that rich can print: one line per checkpoint, and their sum."""
    table = text_table(show_footer=len(counted) > 1)
    sums = [sum(numbers) for numbers in zip(*map(_numbers, counted), strict=True)] or [0, 0, 0]
    table.add_column("checkpoint", footer="in all")
    table.add_column("snapshot", overflow="fold")
    table.add_column("completed (UTC)", no_wrap=True)
    for name, sign, total in zip(("inserted", "updated", "deleted"), "+~-", sums, strict=True):
        table.add_column(name, justify="right", no_wrap=True, footer=_count(sign, total))
    for item in counted:
        time = item.commit.timestamp
        cells = [_count(sign, number) for sign, number in zip("+~-", _numbers(item), strict=True)]
        table.add_row(
            str(item.commit.version),
            basename(item.commit.path),
            "–" if time is None else time.strftime("%Y-%m-%d %H:%M:%S"),
            *cells,
        )
    return table


def _numbers(item: CommitChanges) -> tuple[int, int, int]:
    return item.inserted, item.updated, item.deleted


def _count(sign: str, number: int) -> Text:
    style = {"+": "green", "~": "yellow", "-": "red"}[sign]
    return Text(f"{sign}{number:,}", style) if number else Text("0", "dim")
