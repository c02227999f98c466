"""Show how many rows each checkpoint changed."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from stateproc.feed.state_feed import CommitChanges
from stateproc.storage.filesystem import basename


def changes_view(counted: Sequence[CommitChanges]) -> Table:
    """Return the counts as something that rich can print: one line per checkpoint, and their sum."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", show_footer=len(counted) > 1)
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
